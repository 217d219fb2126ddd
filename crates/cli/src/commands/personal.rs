//! `tollgate personal`: the tools of the personal server without an agent. Calls go through the gate like any
//! other: judged by its policy and recorded.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand, ValueEnum};
use connectors::Connector;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;
use crate::stdio;
use service::ToolCommand;

mod call;
mod service;
mod setup;
mod show;

/// A command about all services, or one of a service's own.
pub(crate) enum PersonalCommand {
    Common(CommonCommand),
    Service(ToolCommand),
}

#[derive(Subcommand)]
pub(crate) enum CommonCommand {
    /// List the profiles and the number of their tools
    Profiles,
    /// Show which services are connected, and the next step for the others
    Status,
    /// Connect services one after another; shows what is missing and the next step
    #[command(visible_alias = "onboarding")]
    Setup(SetupArgs),
    /// Serve MCP on stdin and stdout, like `tollgate stdio personal` with fewer tools
    Serve(ServeArgs),
    /// Call any of the personal tools
    Call(CallArgs),
}

#[derive(Args)]
pub(crate) struct SetupArgs {
    /// Which services, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    platform: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "platform")]
    all: bool,
    /// A value by the name of its variable; a secret as NAME=@FILE, NAME=env:VARIABLE, or NAME alone
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Show what would be done and what is missing, and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The profile
    #[arg(long, value_enum, default_value_t = ProfileArg::Safe)]
    profile: ProfileArg,
    /// A further tool; may be given several times
    #[arg(long, value_name = "TOOL")]
    allow_tool: Vec<String>,
    /// Use this policy file
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// The profiles on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum ProfileArg {
    Full,
    Safe,
    Minimal,
}

#[derive(Args)]
pub(crate) struct CallArgs {
    /// The name of the tool
    tool: String,
    /// Its arguments as a JSON object
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
}

impl PersonalCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            PersonalCommand::Common(command) => command.run(context, out),
            PersonalCommand::Service(command) => command.run(context, out),
        }
    }
}

impl Subcommand for PersonalCommand {
    fn augment_subcommands(command: Command) -> Command {
        CommonCommand::augment_subcommands(command).subcommands(service::commands())
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        PersonalCommand::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        CommonCommand::has_subcommand(name) || service::is_service(name)
    }
}

impl FromArgMatches for PersonalCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<PersonalCommand, clap::Error> {
        match ToolCommand::from_matches(matches) {
            Some(command) => Ok(PersonalCommand::Service(command)),
            None => Ok(PersonalCommand::Common(CommonCommand::from_arg_matches(matches)?)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = PersonalCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

impl CommonCommand {
    fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        let (tool, arguments) = match self {
            CommonCommand::Profiles => return show::profiles(out),
            CommonCommand::Status => ("get_personalization_status", json!({})),
            CommonCommand::Setup(args) => return setup::setup(&args, context, out),
            CommonCommand::Serve(args) => return serve(&args, context, out),
            CommonCommand::Call(args) => {
                let tool = find(&args.tool)?;
                let arguments: Map<String, Value> =
                    serde_json::from_str(&args.arguments).map_err(|_| {
                        anyhow!(
                            "the arguments are not a JSON object\nhint: such as '{{\"limit\": 5}}'"
                        )
                    })?;
                return call::show(tool, &Value::Object(arguments), context, out);
            }
        };
        call::show(tool, &arguments, context, out)
    }
}

/// The personal server.
fn connector() -> Result<&'static Connector> {
    connectors::connector(connectors::personal_server::NAME)
        .ok_or_else(|| anyhow!("there is no such server"))
}

fn find(name: &str) -> Result<&'static str> {
    connector()?.tool(name).map(|tool| tool.name).ok_or_else(|| {
        anyhow!(
            "unknown personal tool `{name}`\nhint: `tollgate server tools`, or the guide's page on personal data, lists them"
        )
    })
}

fn serve(args: &ServeArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let profile = match args.profile {
        ProfileArg::Full => "full",
        ProfileArg::Safe => "safe",
        ProfileArg::Minimal => "minimal",
    };
    if out.wants_json() {
        bail!("`serve` speaks MCP and prints nothing else\nhint: leave `--json` out");
    }
    let mut tools = vec![profile.to_owned()];
    for name in &args.allow_tool {
        tools.push(find(name)?.to_owned());
    }
    let args = stdio::StdioArgs::of(connectors::personal_server::NAME, tools, args.policy.clone());
    stdio::stdio(&args, context, out)
}
