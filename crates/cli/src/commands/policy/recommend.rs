//! `policy recommend`: an initial policy for a server, a saved list, or every registered server. It is
//! loaded with its own tests before it is shown.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use catalog::assess::assess;
use catalog::recommend::{Offer, Preset, ServerPolicy, Treatment, for_server};
use clap::Args;
use policy::json::{Bounds, Doc, Value};
use policy::{Format, Policy};
use serde_json::json;

use crate::context::{Context, Stores, read_text};
use crate::failure::Ending;
use crate::listing;
use crate::output::{Out, count, visible};
use crate::program::own_folders;

#[derive(Args)]
pub(crate) struct RecommendArgs {
    /// A registered server
    #[arg(value_name = "SERVER", required_unless_present_any = ["from", "all"])]
    server: Option<String>,
    /// A saved `tools/list` instead of a registered server
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    from: Option<PathBuf>,
    /// One policy for each registered server, written to the folder of `--out`
    #[arg(long, conflicts_with_all = ["server", "from"], requires = "out")]
    all: bool,
    /// How careful: recommended, strict or permissive
    #[arg(long, value_name = "PRESET", default_value = "recommended", value_parser = preset)]
    preset: Preset,
    /// Write the policy here instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// List the server's tools now instead of using what was last seen; also covers resources, prompts and skills
    #[arg(long, conflicts_with = "from")]
    look: bool,
}

fn preset(text: &str) -> Result<Preset, String> {
    Preset::parse(text).ok_or_else(|| "presets are recommended, strict and permissive".to_owned())
}

pub(super) fn run(args: &RecommendArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    if args.all {
        return for_all(args, context, out);
    }
    let made = match (&args.from, &args.server) {
        (Some(file), _) => from_file(file, args.preset)?,
        (None, Some(server)) => from_server(server, args, &context.open()?, context, out)?,
        (None, None) => {
            bail!("name a server\nhint: `tollgate policy recommend SERVER`, or `--from FILE`")
        }
    };
    check(&made)?;
    if let Some(path) = &args.out {
        write(path, &made)?;
    }
    report(args, &made, out)?;
    Ok(Ending::Yes)
}

/// Pins hold tools only; resources, prompts and skills need a request to the server.
fn report_left_out(server: &str, stores: &Stores, out: &Out) -> Result<()> {
    let offers = stores.registry.tool_sets(server)?.offers.unwrap_or_default();
    let is_left_out = |kind: &&str| offers.split(',').any(|offer| offer == *kind);
    let mut kinds: Vec<&str> = ["prompts", "resources"].into_iter().filter(is_left_out).collect();
    kinds.extend(offers.contains("/skills").then_some("skills"));
    if !kinds.is_empty() {
        out.say(format_args!(
            "left out: the {} of `{server}`; `tollgate policy recommend {server} --look` lists and includes them",
            kinds.join(" and ")
        ));
    }
    Ok(())
}

/// Refuses a recommendation that does not load or fails its own tests.
fn check(made: &ServerPolicy) -> Result<()> {
    Policy::load(&made.text(), Format::Json)
        .map(drop)
        .with_context(|| format!("the recommendation for `{}` does not load", made.server))
}

fn from_file(file: &Path, preset: Preset) -> Result<ServerPolicy> {
    let shown = file.display();
    let text = read_text(file).with_context(|| format!("cannot read `{shown}`"))?;
    let stem =
        file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    match listing::saved_list(&text, &stem).with_context(|| format!("cannot use `{shown}`"))? {
        Some(offer) => Ok(recommend(&stem, &offer, preset)),
        None => bail!(
            "`{shown}` names servers and lists no tools\nhint: `tollgate scan {shown}` scans them; `tollgate server add` registers one"
        ),
    }
}

fn from_server(
    server: &str,
    args: &RecommendArgs,
    stores: &Stores,
    context: &Context,
    out: &Out,
) -> Result<ServerPolicy> {
    let folders = own_folders(server, &stores.servers()?);
    if args.look {
        let scanned = listing::registered(server, stores, context)?;
        for why in &scanned.offer.unread {
            out.warn(format_args!("a list of `{server}` is left out: {}", visible(why)));
        }
        return Ok(recommend(server, &scanned.offer, args.preset).with_own_folders(&folders));
    }
    if !stores.servers()?.iter().any(|known| known.name == server) {
        // The registry's error suggests a similar name.
        stores.registry.server(server)?;
    }
    let pins = stores.registry.pins(server)?;
    let seen = pins.iter().filter_map(|pin| pin.seen.as_ref().or(pin.accepted.as_ref()));
    let tools: Vec<String> = seen.map(|pinned| pinned.definition.clone()).collect();
    if tools.is_empty() {
        let scanned = listing::registered(server, stores, context)?;
        return Ok(recommend(server, &scanned.offer, args.preset).with_own_folders(&folders));
    }
    report_left_out(server, stores, out)?;
    let offer = listing::Offer { tools, is_partial: true, ..listing::Offer::default() };
    Ok(recommend(server, &offer, args.preset).with_own_folders(&folders))
}

fn recommend(server: &str, offer: &listing::Offer, preset: Preset) -> ServerPolicy {
    let docs: Vec<Doc<'_>> = offer
        .tools
        .iter()
        .filter_map(|text| Doc::read(text.as_bytes(), &Bounds::ANSWER).ok())
        .collect();
    let tools: Vec<Value<'_>> = docs.iter().map(Doc::root).collect();
    let skills = offer.skill_names();
    let besides = Offer {
        resources: !offer.resources.is_empty(),
        prompts: !offer.prompts.is_empty(),
        skills: &skills,
    };
    for_server(server, &assess(server, &tools).tools, besides, preset)
}

fn for_all(args: &RecommendArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let folder = args.out.clone().unwrap_or_default();
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
    let servers = stores.servers()?;
    if servers.is_empty() {
        bail!("no server is registered\nhint: `tollgate server add NAME -- COMMAND`");
    }
    let mut written = Vec::new();
    for server in &servers {
        let made = match from_server(&server.name, args, &stores, context, out) {
            Ok(made) => made,
            Err(error) => {
                out.warn(format_args!("server `{}` is left out: {error:#}", server.name));
                continue;
            }
        };
        check(&made)?;
        let path = folder.join(format!("{}.json", server.name));
        write(&path, &made)?;
        if !out.wants_json() {
            out.line(format_args!("{}: {}", path.display(), effects(&made)))?;
        }
        written.push(json!({ "server": server.name, "file": path, "effects": effects(&made) }));
    }
    if out.wants_json() {
        out.json(&written)?;
    }
    Ok(Ending::of(written.len() == servers.len()))
}

fn write(path: &Path, made: &ServerPolicy) -> Result<()> {
    std::fs::write(path, made.text()).with_context(|| format!("cannot write `{}`", path.display()))
}

fn report(args: &RecommendArgs, made: &ServerPolicy, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        return out.json(made);
    }
    for note in &made.notes {
        out.warn(format_args!("`{}`: {}", visible(&note.tool), note.message));
    }
    if let Some(path) = &args.out {
        out.line(format_args!("{}: {}", path.display(), effects(made)))?;
        out.say(format_args!("next: `tollgate policy set NAME {}`", path.display()));
    } else {
        out.raw(made.text().as_bytes())?;
        out.say(effects(made));
    }
    Ok(())
}

/// `12 tools: 5 allowed, 3 limited, 2 need approval, 2 hidden`.
fn effects(made: &ServerPolicy) -> String {
    let of =
        |wanted: fn(&Treatment) -> bool| made.effects.iter().filter(|(_, t, _)| wanted(t)).count();
    let parts = [
        (of(|t| matches!(t, Treatment::Allow)), "allowed"),
        (of(|t| matches!(t, Treatment::Limit { .. })), "limited"),
        (of(|t| matches!(t, Treatment::Ask | Treatment::AskAndLimit { .. })), "need approval"),
        (of(|t| matches!(t, Treatment::Hide)), "hidden"),
    ];
    let shown: Vec<String> =
        parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    format!("{}: {}", count(made.effects.len(), "tool"), shown.join(", "))
}
