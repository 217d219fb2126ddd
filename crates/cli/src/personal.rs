//! `tollgate personal`: what the personal server does, without an agent. Reading goes through the
//! gate like any other call: judged by its rules and written down.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use connectors::{Profile, Service};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;
use crate::run;

mod call;
mod setup;
mod show;

#[derive(Subcommand)]
pub(crate) enum PersonalCommand {
    /// The selections of tools there are, and how many tools each shows
    Profiles,
    /// Which services are connected, and what to do for the others
    Status,
    /// Connect services one after another; says what is missing and the next step
    #[command(visible_alias = "onboarding")]
    Setup(SetupArgs),
    /// Speak MCP on stdin and stdout, as `tollgate stdio personal` with fewer tools
    Serve(ServeArgs),
    /// Call any of the personal tools
    Call(CallArgs),
    /// Steam: credentials, library, profile
    #[command(subcommand)]
    Steam(SteamCommand),
    /// YouTube: credentials, search, trending
    #[command(subcommand)]
    Youtube(YoutubeCommand),
    /// Spotify: credentials, token-status, recent
    #[command(subcommand)]
    Spotify(SpotifyCommand),
    /// Reddit: credentials, token-status, subreddits
    #[command(subcommand)]
    Reddit(RedditCommand),
    /// Bilibili: credentials, search, video
    #[command(subcommand)]
    Bilibili(BilibiliCommand),
}

#[derive(Args)]
pub(crate) struct SetupArgs {
    /// Which services, such as steam,spotify
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    platform: Vec<String>,
    /// All five
    #[arg(long, conflicts_with = "platform")]
    all: bool,
    /// A value by the name of its variable; a secret as NAME=@FILE, NAME=env:VARIABLE, or NAME alone
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Say what would be done and what is missing, and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// How much is shown
    #[arg(long, value_enum, default_value_t = Shown::Safe)]
    profile: Shown,
    /// A tool besides; may be given again
    #[arg(long, value_name = "TOOL")]
    allow_tool: Vec<String>,
    /// Decide by this policy file
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// The profiles, as the command line has them.
#[derive(Clone, Copy, ValueEnum)]
enum Shown {
    Full,
    Safe,
    Minimal,
}

#[derive(Args)]
pub(crate) struct CallArgs {
    /// The tool, such as get_steam_library
    tool: String,
    /// Its arguments as a JSON object
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
}

#[derive(Subcommand)]
pub(crate) enum SteamCommand {
    /// Try the key for real
    Credentials,
    /// Games and hours
    Library(SteamId),
    /// Name, status and current game
    Profile(SteamId),
}

#[derive(Args)]
pub(crate) struct SteamId {
    /// Whose: SteamID64, profile address or the name in it [default: yours]
    #[arg(long, value_name = "ID")]
    steamid: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum YoutubeCommand {
    /// Try the login, or else the key, for real
    Credentials,
    /// Search videos; Google allows 100 a day
    Search {
        /// What to look for
        #[arg(short, long)]
        query: String,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 10)]
        max_results: u32,
    },
    /// The most popular videos of a region
    Trending {
        /// Two letters, such as DE
        #[arg(long, value_name = "CODE", default_value = "US")]
        region_code: String,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 10)]
        max_results: u32,
    },
}

#[derive(Subcommand)]
pub(crate) enum SpotifyCommand {
    /// Try the login for real
    Credentials,
    /// How the login stands, and when the consent ends
    TokenStatus,
    /// The latest plays
    Recent(Limit),
}

#[derive(Subcommand)]
pub(crate) enum RedditCommand {
    /// Try the login for real
    Credentials,
    /// How the login stands
    TokenStatus,
    /// What you are subscribed to
    Subreddits(Limit),
}

#[derive(Args)]
pub(crate) struct Limit {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u32,
}

#[derive(Subcommand)]
pub(crate) enum BilibiliCommand {
    /// Try the cookies for real
    Credentials,
    /// Bilibili offers no search to programs; says so
    Search {
        /// What to look for
        #[arg(short, long)]
        keyword: String,
        /// Which page, from 1
        #[arg(long, value_name = "N", default_value_t = 1)]
        page: u32,
        /// totalrank, click, pubdate, dm or stow
        #[arg(long, value_name = "WORD", default_value = "totalrank")]
        order: String,
    },
    /// One video
    Video {
        /// The id of the video, or its address
        #[arg(long, value_name = "ID")]
        bvid: String,
    },
}

/// A tool and what it is given.
type Question = (&'static str, Value);

impl PersonalCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        let (tool, arguments) = match self {
            PersonalCommand::Profiles => return show::profiles(out),
            PersonalCommand::Status => ("get_personalization_status", json!({})),
            PersonalCommand::Setup(args) => return setup::setup(&args, context, out),
            PersonalCommand::Serve(args) => return serve(&args, context, out),
            PersonalCommand::Call(args) => {
                let tool = find(&args.tool)?;
                let arguments: Map<String, Value> =
                    serde_json::from_str(&args.arguments).map_err(|_| {
                        anyhow!(
                            "the arguments are no JSON object\nhint: such as '{{\"limit\": 5}}'"
                        )
                    })?;
                return call::show(tool, &Value::Object(arguments), context, out);
            }
            PersonalCommand::Steam(SteamCommand::Credentials) => {
                return call::credentials("steam", context, out);
            }
            PersonalCommand::Youtube(YoutubeCommand::Credentials) => {
                return call::credentials("youtube", context, out);
            }
            PersonalCommand::Spotify(SpotifyCommand::Credentials) => {
                return call::credentials("spotify", context, out);
            }
            PersonalCommand::Reddit(RedditCommand::Credentials) => {
                return call::credentials("reddit", context, out);
            }
            PersonalCommand::Bilibili(BilibiliCommand::Credentials) => {
                return call::credentials("bilibili", context, out);
            }
            PersonalCommand::Steam(command) => command.question(),
            PersonalCommand::Youtube(command) => command.question(),
            PersonalCommand::Spotify(command) => command.question(),
            PersonalCommand::Reddit(command) => command.question(),
            PersonalCommand::Bilibili(command) => command.question(),
        };
        call::show(tool, &arguments, context, out)
    }
}

impl SteamCommand {
    fn question(self) -> Question {
        match self {
            SteamCommand::Credentials => ("test_steam_credentials", json!({})),
            SteamCommand::Library(id) => ("get_steam_library", json!({ "steamid": id.steamid })),
            SteamCommand::Profile(id) => ("get_steam_profile", json!({ "steamid": id.steamid })),
        }
    }
}

impl YoutubeCommand {
    fn question(self) -> Question {
        match self {
            YoutubeCommand::Credentials => ("test_youtube_credentials", json!({})),
            YoutubeCommand::Search { query, max_results } => {
                ("search_youtube_videos", json!({ "query": query, "max_results": max_results }))
            }
            YoutubeCommand::Trending { region_code, max_results } => (
                "get_trending_videos",
                json!({ "region_code": region_code, "max_results": max_results }),
            ),
        }
    }
}

impl SpotifyCommand {
    fn question(self) -> Question {
        match self {
            SpotifyCommand::Credentials => ("test_spotify_credentials", json!({})),
            SpotifyCommand::TokenStatus => ("get_spotify_token_status", json!({})),
            SpotifyCommand::Recent(few) => {
                ("get_user_recently_played", json!({ "limit": few.limit }))
            }
        }
    }
}

impl RedditCommand {
    fn question(self) -> Question {
        match self {
            RedditCommand::Credentials => ("test_reddit_credentials", json!({})),
            RedditCommand::TokenStatus => ("get_reddit_token_status", json!({})),
            RedditCommand::Subreddits(few) => {
                ("get_user_subreddits", json!({ "limit": few.limit }))
            }
        }
    }
}

impl BilibiliCommand {
    fn question(self) -> Question {
        match self {
            BilibiliCommand::Credentials => ("test_bilibili_credentials", json!({})),
            BilibiliCommand::Search { keyword, page, order } => (
                "search_bilibili_videos",
                json!({ "keyword": keyword, "page": page, "order": order }),
            ),
            BilibiliCommand::Video { bvid } => ("get_bilibili_video_info", json!({ "bvid": bvid })),
        }
    }
}

/// The server whose tools these are.
fn service() -> Result<&'static Service> {
    connectors::service(connectors::personal::NAME)
        .ok_or_else(|| anyhow!("there is no such server"))
}

fn find(name: &str) -> Result<&'static str> {
    let service = service()?;
    service.tool(name).map(|tool| tool.name).ok_or_else(|| {
        anyhow!(
            "there is no tool `{name}` among the personal ones\nhint: `tollgate server tools`, or the guide's page on personal data, lists them"
        )
    })
}

fn serve(args: &ServeArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let profile = match args.profile {
        Shown::Full => Profile::Full,
        Shown::Safe => Profile::Safe,
        Shown::Minimal => Profile::Minimal,
    };
    if out.wants_json() {
        bail!("`serve` speaks MCP and prints nothing else\nhint: leave `--json` out");
    }
    let mut tools = vec![profile.name().to_owned()];
    for name in &args.allow_tool {
        tools.push(find(name)?.to_owned());
    }
    let args = run::StdioArgs::of(connectors::personal::NAME, tools, args.policy.clone());
    run::stdio(&args, context, out)
}
