//! `server add`: where the server is, the secrets it needs, and a first look at what it offers.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use gateway::upstream::SECRET_BYTES_MIN;
use serde_json::json;
use store::registry::{
    Credential, EnvValue, NewServer, Server, ServerOptions, Target, TargetError, stateless_package,
};

use crate::context::{Context, Stores};
use crate::credential::Wanted;
use crate::failure::Ending;
use crate::masking;
use crate::output::{Out, count, visible};
use crate::program::{find_program, resolved};

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct AddArgs {
    /// What you call it; it becomes part of addresses and tool names
    name: String,
    /// The command that speaks MCP on stdin and stdout, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["url", "builtin"])]
    command: Vec<String>,
    /// The address of a server that speaks streamable HTTP
    #[arg(long, conflicts_with_all = ["builtin", "env", "secret_env", "cwd"])]
    url: Option<String>,
    /// A server that comes with tollgate (`whoop`, `demo`)
    #[arg(long, value_name = "SERVICE")]
    builtin: Option<String>,
    /// Which tools of it are shown, such as main,classic; sets, tools, or all
    #[arg(long, value_name = "SETS", value_delimiter = ',', requires = "builtin")]
    tools: Vec<String>,
    /// A header for the server: NAME to be asked, NAME=@FILE, or NAME=env:VARIABLE; kept sealed
    #[arg(long, value_name = "NAME[=SOURCE]")]
    header: Vec<String>,
    /// A plain environment variable of the command
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A secret environment variable: NAME to be asked, NAME=@FILE, or NAME=env:VARIABLE; kept sealed
    #[arg(long, value_name = "NAME[=SOURCE]")]
    secret_env: Vec<String>,
    /// The folder the command runs in
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Allow an address that is neither https nor on this machine
    #[arg(long, requires = "url")]
    allow_plain_http: bool,
    /// All clients share one process of the command; for servers that keep nothing between sessions
    #[arg(long, conflicts_with_all = ["url", "builtin", "no_share"])]
    share: bool,
    /// Each session has a process of its own, also where the server is known to keep nothing
    #[arg(long, conflicts_with_all = ["url", "builtin"])]
    no_share: bool,
    /// Do not connect now; the tools are pinned when the server is first used
    #[arg(long)]
    no_connect: bool,
}

pub(super) fn run(args: &AddArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    // Before anybody is asked for a password that would then be thrown away.
    check_sources(args)?;
    let stores = context.open()?;
    if stores.servers()?.iter().any(|server| server.name == args.name) {
        bail!(
            "there is a server `{0}` already\nhint: choose another name, or `tollgate server remove {0}` first",
            args.name
        );
    }
    let written = target(args)?;
    written.check()?;
    check_other_than_gate(&written, &stores)?;
    let target = resolved(written.clone());
    let options = ServerOptions {
        tools: args.tools.clone(),
        share: (args.share || args.no_share).then_some(args.share),
        ..ServerOptions::default()
    };
    let new = NewServer { name: args.name.clone(), target, options };
    if !args.no_connect {
        check_program(&args.name, &new.target)?;
    }
    for name in short_secrets(&new.target) {
        out.warn(format_args!(
            "the secret `{name}` has fewer than {SECRET_BYTES_MIN} bytes, so it is not masked if the server repeats it"
        ));
    }
    stores.ready_to_note()?;
    stores.registry.add_server(&new, &stores.file_names, stores.now_us())?;
    stores.record()?;
    if !args.no_connect {
        look_or_take_back(&args.name, &stores, context)?;
    }
    report(args, &stores, out)?;
    if out.wants_json() {
        return Ok(Ending::Yes);
    }
    say_program(&written, &stores, args, out)?;
    out.say(next_step(args));
    Ok(Ending::Yes)
}

/// A gate with another `PATH` must start the same program, so the owner hears which one it is.
fn say_program(written: &Target, stores: &Stores, args: &AddArgs, out: &Out) -> Result<()> {
    let kept = super::find(&args.name, stores)?.target;
    let (Target::Command { argv: written, .. }, Target::Command { argv: kept, .. }) =
        (written, &kept)
    else {
        return Ok(());
    };
    let (Some(written), Some(kept)) = (written.first(), kept.first()) else { return Ok(()) };
    if written != kept {
        let (written, kept) = (visible(written), visible(kept));
        out.say(format_args!("the gate runs `{kept}`, which is `{written}` here"));
    } else if !written.starts_with('/') {
        out.warn(format_args!(
            "`{}` is not on this PATH; the gate looks for it on its own\nhint: give the full path",
            visible(written)
        ));
    }
    Ok(())
}

/// The secrets that are too short to be found in what the server says.
fn short_secrets(target: &Target) -> Vec<&str> {
    let is_short = |credential: &Credential| matches!(credential, Credential::Held(secret) if secret.expose().trim().len() < SECRET_BYTES_MIN);
    match target {
        Target::Command { env, .. } => {
            let short = env.iter().filter(
                |(_, value)| matches!(value, EnvValue::Hidden(credential) if is_short(credential)),
            );
            short.map(|(name, _)| name.as_str()).collect()
        }
        Target::Url { headers, .. } => {
            let short = headers.iter().filter(|(_, value)| is_short(value));
            short.map(|(name, _)| name.as_str()).collect()
        }
        Target::Builtin { .. } => Vec::new(),
    }
}

/// A server at the gate's own address would have every call come back to the gate.
fn check_other_than_gate(target: &Target, stores: &Stores) -> Result<()> {
    let listen = stores.settings.listen;
    if target.leads_to(listen) {
        bail!(
            "the address is this gate's own: tollgate listens on {listen}, so its calls would come back to it\nhint: name the address of the server itself"
        );
    }
    Ok(())
}

/// For a server that wants OAuth, which tollgate does not speak towards servers yet.
const SIGN_IN_HINT: &str = "\nhint: sign in at that service and get a token there; `--header Authorization=@FILE` with `Bearer TOKEN` in the file sends it (tollgate cannot sign in to servers yet)";

/// The most common trouble, said in the fewest words.
fn check_program(name: &str, target: &Target) -> Result<()> {
    let Target::Command { argv, cwd, .. } = target else { return Ok(()) };
    let program = argv.first().map(String::as_str).unwrap_or_default();
    if find_program(program, cwd.as_deref()).is_some() {
        return Ok(());
    }
    bail!(
        "server `{name}` was not added: there is no program `{program}` here\nhint: install it, or give its full path"
    )
}

/// The gate can only look at what is registered; a server that does not answer is not kept.
fn look_or_take_back(name: &str, stores: &Stores, context: &Context) -> Result<()> {
    let Err(error) = crate::probe::first_look(name, stores, context) else { return Ok(()) };
    stores.registry.remove_server(name, stores.now_us())?;
    stores.record()?;
    let hint = if error.to_string().contains("status 401") { SIGN_IN_HINT } else { "" };
    Err(error.context(format!(
        "server `{name}` was not added: it could not be asked for its tools{hint}"
    )))
}

fn report(args: &AddArgs, stores: &Stores, out: &mut Out) -> Result<()> {
    let pins = stores.registry.pins(&args.name)?;
    if out.wants_json() {
        let server = super::find(&args.name, stores)?;
        return out.json(&json!({ "added": super::server_json(&server, &pins) }));
    }
    if args.no_connect {
        out.line(format_args!(
            "server `{}` added; its tools are pinned when it is first used",
            args.name
        ))?;
    } else {
        out.line(format_args!(
            "server `{}` added, {} pinned",
            args.name,
            count(pins.len(), "tool")
        ))?;
        super::show_tools(&args.name, &pins, out)?;
    }
    let server = super::find(&args.name, stores)?;
    if let Some(advice) = masking::advice(&server.name, &server.target) {
        out.warn(advice);
    }
    if let Some(words) = sharing(&server) {
        out.say(words);
    }
    Ok(())
}

/// Says when all clients share one process, and why.
fn sharing(server: &Server) -> Option<String> {
    if !server.is_shared() {
        return None;
    }
    let Target::Command { argv, .. } = &server.target else { return None };
    Some(match stateless_package(argv).filter(|_| server.options.share.is_none()) {
        Some(package) => format!(
            "all clients share one process, because `{package}` keeps nothing between sessions; `--no-share` gives each session its own"
        ),
        None => "all clients share one process (`--share`)".to_owned(),
    })
}

fn next_step(args: &AddArgs) -> String {
    let name = &args.name;
    let service = args.builtin.as_deref().and_then(connectors::service);
    if service.and_then(gateway::own_policy).is_some() {
        // It brings rules along; a grant is all it needs.
        return format!(
            "next: `tollgate grant create LABEL --server {name}` (its built-in rules), or `--server {name}=POLICY`"
        );
    }
    format!(
        "next: `tollgate policy set NAME FILE`, then `tollgate grant create LABEL --server {name}=NAME`"
    )
}

fn check_sources(args: &AddArgs) -> Result<()> {
    for header in &args.header {
        Wanted::parse("header", header)?;
    }
    for variable in &args.secret_env {
        Wanted::parse("secret-env", variable)?;
    }
    Ok(())
}

fn target(args: &AddArgs) -> Result<Target> {
    if !args.header.is_empty() && args.url.is_none() {
        bail!(
            "`--header` is for a server with `--url`\nhint: a command gets its secrets with `--secret-env`"
        );
    }
    if let Some(url) = &args.url {
        let target = Target::from_url(url, headers(&args.header)?, args.allow_plain_http);
        return target.map_err(|error| match error {
            TargetError::PlainHttp(_) => anyhow!("{error}\nhint: `--allow-plain-http` allows it"),
            error => error.into(),
        });
    }
    if let Some(service) = &args.builtin {
        let Some(known) = connectors::service(service) else {
            let known: Vec<&str> = connectors::ALL.iter().map(|service| service.name).collect();
            bail!("there is no built-in server `{service}`\nhint: there are: {}", known.join(", "));
        };
        gateway::check_sets(known, &args.tools).map_err(|words| anyhow!(words))?;
        return Ok(Target::Builtin { service: service.clone() });
    }
    if args.command.is_empty() {
        bail!(
            "where is the server?\nhint: `tollgate server add {0} -- COMMAND`, `--url URL`, or `--builtin whoop`",
            args.name
        );
    }
    Ok(Target::Command { argv: args.command.clone(), env: environment(args)?, cwd: folder(args)? })
}

fn headers(wanted: &[String]) -> Result<Vec<(String, Credential)>> {
    wanted
        .iter()
        .map(|text| {
            let wanted = Wanted::parse("header", text)?;
            let value = wanted.fetch()?;
            Ok((wanted.name, Credential::Held(value)))
        })
        .collect()
}

fn environment(args: &AddArgs) -> Result<Vec<(String, EnvValue)>> {
    let mut environment = Vec::new();
    for text in &args.env {
        let Some((name, value)) = text.split_once('=') else {
            bail!(
                "`--env {text}` has no value\nhint: `--env NAME=VALUE`; secrets go with `--secret-env NAME`"
            );
        };
        environment.push((name.to_owned(), EnvValue::Plain(value.to_owned())));
    }
    for text in &args.secret_env {
        let wanted = Wanted::parse("secret-env", text)?;
        let value = wanted.fetch()?;
        environment.push((wanted.name, EnvValue::Hidden(Credential::Held(value))));
    }
    Ok(environment)
}

/// The folder as it is now; a relative one would mean something else to a gate started elsewhere.
fn folder(args: &AddArgs) -> Result<Option<PathBuf>> {
    let Some(folder) = &args.cwd else { return Ok(None) };
    let shown = folder.display();
    let real = folder.canonicalize().with_context(|| format!("cannot use folder `{shown}`"))?;
    Ok(Some(real))
}
