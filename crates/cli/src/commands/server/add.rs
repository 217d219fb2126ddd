//! `server add`: registers a server with its secrets, connects to it and pins its tools.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use connectors::server_login::{Discovered, ServerProbe};
use gateway::upstream::can_be_masked;
use serde_json::json;
use store::logins::LoginKey;
use store::registry::{
    Credential, EnvValue, NewServer, Server, ServerOptions, Target, TargetError, stateless_package,
};

use crate::context::{Context, Stores};
use crate::credential::SecretArg;
use crate::failure::Ending;
use crate::masking;
use crate::output::{Out, count, visible};
use crate::program::{find_program, resolved};
use crate::running::{self, GateFacts};
use crate::server_login::text::Found;

#[derive(Args, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct AddArgs {
    /// Its name, which becomes part of addresses and tool names; the file of a bundle (`.mcpb`); or a server that `server known` lists with its address
    pub(super) name: String,
    /// The command that speaks MCP on stdin and stdout, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["url", "builtin"])]
    pub(super) command: Vec<String>,
    /// The address of a server that speaks streamable HTTP
    #[arg(long, conflicts_with_all = ["builtin", "env", "secret_env", "cwd"])]
    pub(super) url: Option<String>,
    /// A server that comes with tollgate (`whoop`, `demo`)
    #[arg(long, value_name = "SERVICE")]
    pub(super) builtin: Option<String>,
    /// Which tools of it are shown, such as main,classic; sets, tools, or all
    #[arg(long, value_name = "SETS", value_delimiter = ',', requires = "builtin")]
    tools: Vec<String>,
    /// A header for the server: NAME to be prompted, NAME=@FILE, or NAME=env:VARIABLE; kept sealed
    #[arg(long, value_name = "NAME[=SOURCE]")]
    header: Vec<String>,
    /// A plain environment variable of the command
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A secret environment variable: NAME to be prompted, NAME=@FILE, or NAME=env:VARIABLE; kept sealed
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
    /// Each session has its own process, even if the server is known to keep nothing
    #[arg(long, conflicts_with_all = ["url", "builtin"])]
    no_share: bool,
    /// Its own address lists tool names that every client accepts; `server tools` shows them
    #[arg(long)]
    map_names: bool,
    /// Each grant signs in on its own, instead of sharing one login
    #[arg(long, conflicts_with = "builtin")]
    per_grant: bool,
    /// Keep the arguments of its calls, sealed, for auditors
    #[arg(long)]
    capture: bool,
    /// Do not connect now; the tools are pinned when the server is first used
    #[arg(long)]
    no_connect: bool,
    /// The name of a server that is added from a bundle [default: the bundle's]
    #[arg(long = "name", value_name = "NAME")]
    pub(super) bundle_name: Option<String>,
    /// A setting of a bundle: KEY=VALUE; a sensitive one as KEY to be prompted, KEY=@FILE, or KEY=env:VARIABLE
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Add a bundle without asking
    #[arg(long)]
    pub(super) yes: bool,
}

impl AddArgs {
    /// The same for a server of another name.
    pub(super) fn renamed(&self, name: String) -> AddArgs {
        AddArgs { name, ..self.clone() }
    }
}

pub(super) fn run(args: &AddArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    if super::add_bundle::is_bundle(&args.name) {
        return super::add_bundle::run(args, context, out);
    }
    if args.bundle_name.is_some() || !args.set.is_empty() {
        bail!("`--name` and `--set` are for a bundle\nhint: `tollgate server add FILE.mcpb`");
    }
    let args = &super::known::with_address(args, out);
    // Before a prompt for a secret that would then be discarded.
    check_sources(args)?;
    let stores = context.open()?;
    check_free(args, &stores)?;
    let written = target(args)?;
    register(args, &written, &stores, context, out)
}

pub(super) fn check_free(args: &AddArgs, stores: &Stores) -> Result<()> {
    if stores.servers()?.iter().any(|server| server.name == args.name) {
        bail!(
            "server `{0}` exists already\nhint: choose another name, or `tollgate server remove {0}` first",
            args.name
        );
    }
    Ok(())
}

/// Registers a server that runs or is at `written`, and pins its tools.
pub(super) fn register(
    args: &AddArgs,
    written: &Target,
    stores: &Stores,
    context: &Context,
    out: &mut Out,
) -> Result<Ending> {
    written.check()?;
    check_other_than_gate(written, stores)?;
    let target = resolved(written.clone());
    let options = ServerOptions {
        tools: args.tools.clone(),
        share: (args.share || args.no_share).then_some(args.share),
        map_names: args.map_names,
        per_grant: args.per_grant,
        capture: args.capture,
        ..ServerOptions::default()
    };
    let new = NewServer { name: args.name.clone(), target, options };
    if !args.no_connect {
        check_program(&args.name, &new.target)?;
    }
    for name in short_secrets(&new.target) {
        out.warn(format_args!(
            "the secret `{name}` is too short or too common, so it is not masked if the server repeats it"
        ));
    }
    stores.ready_to_note()?;
    stores.registry.add_server(&new, &stores.file_names, stores.now_us())?;
    stores.record()?;
    if !args.no_connect
        && let Some(found) = pin_or_remove(&args.name, stores, context)?
    {
        return report_sign_in(args, &found, stores, out);
    }
    report(args, stores, out)?;
    if out.wants_json() {
        return Ok(Ending::Yes);
    }
    report_program(written, stores, args, out)?;
    out.say(next_step(args));
    Ok(Ending::Yes)
}

/// A gate with another `PATH` must start the same program, so the full path is stored and shown.
fn report_program(written: &Target, stores: &Stores, args: &AddArgs, out: &Out) -> Result<()> {
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

/// The secrets that cannot be masked in the server's messages.
fn short_secrets(target: &Target) -> Vec<&str> {
    let is_short = |credential: &Credential| matches!(credential, Credential::Held(secret) if !can_be_masked(secret.expose()));
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

/// A server at the gate's own address would make every call loop.
fn check_other_than_gate(target: &Target, stores: &Stores) -> Result<()> {
    let listen = stores.settings.listen;
    if target.leads_to(listen) {
        bail!(
            "the address is this gate's own: tollgate listens on {listen}, so calls would loop\nhint: give the address of the server itself"
        );
    }
    Ok(())
}

/// The most common mistake gets a short message.
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

/// Only a registered server can be connected; one that does not answer is removed again. A server that wants a
/// sign-in stays; what it accepts is returned.
fn pin_or_remove(
    name: &str,
    stores: &Stores,
    context: &Context,
) -> Result<Option<Box<Discovered>>> {
    let Err(error) = crate::probe::update_pins_until_signal(name, stores, context) else {
        return Ok(None);
    };
    let refusal = error.downcast_ref::<gateway::RunError>();
    let error = if refusal.is_some_and(gateway::RunError::needs_sign_in) {
        match discover(name, stores) {
            Ok(found) => return Ok(Some(found)),
            Err(why) => why.context("it requires a sign-in, but tollgate found no way to sign in\nhint: if the service gives out tokens, `--header Authorization=@FILE` with `Bearer TOKEN` in the file sends one"),
        }
    } else {
        error
    };
    stores.registry.remove_server(name, stores.now_us())?;
    stores.record()?;
    Err(error.context(format!("server `{name}` was not added: listing its tools failed")))
}

/// Finds the authorization server, and records that a sign-in is needed.
fn discover(name: &str, stores: &Stores) -> Result<Box<Discovered>> {
    let server = super::find(name, stores)?;
    let url = crate::server_login::address(&server)?;
    let logins = stores.logins();
    crate::account::runtime()?.block_on(async {
        let ServerProbe::NeedsSignIn(found) = logins.probe(&url).await? else {
            bail!("it requires a sign-in for one request but not for the next");
        };
        let mode = Found::of(name, &found, "", has_document(stores)).mode;
        logins.note_needed(&LoginKey::shared(name), &found, mode).await?;
        Ok(found)
    })
}

/// Whether a gate with a public address serves a client metadata document.
fn has_document(stores: &Stores) -> bool {
    let is_public = |gate: &GateFacts| gate.public_url.is_some();
    stores.settings.public_url.is_some() || running::all(stores.home.path()).iter().any(is_public)
}

fn report_sign_in(
    args: &AddArgs,
    found: &Discovered,
    stores: &Stores,
    out: &mut Out,
) -> Result<Ending> {
    let port = stores.settings.listen.port();
    let callback = format!("http://127.0.0.1:{port}{}", gateway::CALLBACK);
    let accepts = Found::of(&args.name, found, &callback, has_document(stores));
    if out.wants_json() {
        let server = super::find(&args.name, stores)?;
        out.json(&json!({
            "added": super::server_json(&server, &[]),
            "sign_in": { "issuer": found.issuer.issuer, "mode": accepts.mode, "next": accepts.next },
        }))?;
        return Ok(Ending::Yes);
    }
    out.line(format_args!("server `{}` added; it requires a sign-in", args.name))?;
    out.line(format_args!("issuer  {}", visible(&found.issuer.issuer)))?;
    out.line(format_args!("client  {}", accepts.mode))?;
    let known = found.server.host_str().and_then(catalog::known_servers::at_host);
    // The advice about a client of the owner contains it.
    let note = known.filter(|known| known.make_client.is_none()).map(|known| known.note);
    if let Some(note) = note.filter(|note| !note.is_empty()) {
        out.say(format_args!("note: {note}"));
    }
    out.say(format_args!("next: {}", accepts.next));
    Ok(Ending::Yes)
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
    if let Some(message) = sharing(&server) {
        out.say(message);
    }
    Ok(())
}

/// Whether all clients share one process, and why.
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
    let service = args.builtin.as_deref().and_then(connectors::connector);
    if let Some(connector) = service.filter(|one| gateway::own_policy(one).is_some()) {
        // It has a built-in policy; a grant is all it needs.
        let mark = if connector.needs_operator { " --operator" } else { "" };
        return format!(
            "next: `tollgate grant create LABEL{mark} --server {name}` (its built-in policy), or `--server {name}=POLICY`"
        );
    }
    format!(
        "next: `tollgate policy recommend {name} --out {name}.json`, `tollgate policy set {name} {name}.json`, then `tollgate grant create LABEL --server {name}={name}`"
    )
}

fn check_sources(args: &AddArgs) -> Result<()> {
    for header in &args.header {
        SecretArg::parse("header", header)?;
    }
    for variable in &args.secret_env {
        SecretArg::parse("secret-env", variable)?;
    }
    Ok(())
}

fn target(args: &AddArgs) -> Result<Target> {
    if !args.header.is_empty() && args.url.is_none() {
        bail!(
            "`--header` is for a server with `--url`\nhint: a command gets its secrets with `--secret-env`"
        );
    }
    if args.per_grant && args.url.is_none() {
        bail!("`--per-grant` is for a server with `--url`\nhint: a command has no sign-in");
    }
    if let Some(url) = &args.url {
        let target = Target::from_url(url, headers(&args.header)?, args.allow_plain_http);
        return target.map_err(|error| match error {
            TargetError::PlainHttp(_) => anyhow!("{error}\nhint: `--allow-plain-http` allows it"),
            error => error.into(),
        });
    }
    if let Some(service) = &args.builtin {
        let Some(known) = connectors::connector(service) else {
            let known: Vec<&str> =
                connectors::ALL.iter().map(|connector| connector.name()).collect();
            bail!("unknown built-in server `{service}`\nhint: known are: {}", known.join(", "));
        };
        gateway::check_sets(known, &args.tools).map_err(|message| anyhow!(message))?;
        return Ok(Target::Builtin { service: service.clone() });
    }
    if args.command.is_empty() {
        bail!(
            "name a command or an address for server `{0}`\nhint: `tollgate server add {0} -- COMMAND`, `--url URL`, or `--builtin whoop`",
            args.name
        );
    }
    Ok(Target::Command {
        argv: args.command.clone(),
        env: environment(args)?,
        cwd: folder(args)?,
        secret_args: Vec::new(),
    })
}

fn headers(wanted: &[String]) -> Result<Vec<(String, Credential)>> {
    wanted
        .iter()
        .map(|text| {
            let wanted = SecretArg::parse("header", text)?;
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
        let wanted = SecretArg::parse("secret-env", text)?;
        let value = wanted.fetch()?;
        environment.push((wanted.name, EnvValue::Hidden(Credential::Held(value))));
    }
    Ok(environment)
}

/// The absolute folder; the gate may run in another one.
fn folder(args: &AddArgs) -> Result<Option<PathBuf>> {
    let Some(folder) = &args.cwd else { return Ok(None) };
    let shown = folder.display();
    let real = folder.canonicalize().with_context(|| format!("cannot use folder `{shown}`"))?;
    Ok(Some(real))
}
