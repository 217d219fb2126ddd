//! Runs a gate: `up` for many clients over HTTP, `stdio` and `wrap` for one on standard streams.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use gateway::upstream::Shim;
use gateway::{Gate, GateOptions, ReadSettings, Tls};
use serde_json::json;
use store::ledger::Durability;
use store::secret::Secret;
use store::settings::Settings;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::context::{Context, Stores};
use crate::doctor::word;
use crate::failure::Ending;
use crate::output::{Out, visible};
use crate::running::{Facts, Mark, Teller, pid_space};

mod builtin;
mod demo;
mod ends;
pub(crate) mod files;
mod reload;
mod sandbox;
mod signals;
mod streams;
mod sync;
mod waiting;

/// The service whose account is served alone, if that is what was asked for.
pub(crate) fn served(command: &crate::cli::Command) -> Option<&'static str> {
    let crate::cli::Command::Stdio(args) = command else { return None };
    let service = connectors::service(args.server())?;
    service.account.map(|_| service.name)
}

pub(crate) use reload::{EMPTY_HINT, is_empty};
pub(crate) use sandbox::{SandboxArgs, sandbox};
pub(crate) use signals::stop;
pub(crate) use streams::{StdioArgs, WrapArgs, converse, stdio, wrap};

/// The first argument of the process that guards a child.
pub(crate) const CHILD_WORD: &str = "__child";
/// How long tasks that were let go may take to write their rows.
const END_WAIT_MAX: Duration = Duration::from_millis(200);
/// Whoever knows this token may read `/metrics`.
const METRICS_VARIABLE: &str = "TOLLGATE_METRICS_TOKEN";

#[derive(Args)]
pub(crate) struct UpArgs {
    /// Start with a demonstration server, a grant, and two calls to try; in a home of its own
    #[arg(long)]
    demo: bool,
    /// Where to listen [default: 127.0.0.1:4180, or `listen` of the settings file]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
}

/// An address with its port; what is missing in it is said.
fn listen_address(text: &str) -> Result<SocketAddr> {
    text.parse().map_err(|_| {
        let port = text.trim_start_matches(':');
        let host = text.trim_start_matches("localhost:");
        if port.parse::<u16>().is_ok() {
            anyhow!("write 127.0.0.1:{port}")
        } else if host.parse::<u16>().is_ok() {
            anyhow!("write 127.0.0.1:{host}")
        } else if let Ok(host) = text.parse::<std::net::IpAddr>() {
            anyhow!("the port is missing: write {}", SocketAddr::new(host, 4180))
        } else {
            anyhow!("an address is an IP address and a port, such as 127.0.0.1:4180")
        }
    })
}

pub(crate) fn up(args: &UpArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    if args.demo {
        let place = demo::place(context)?;
        let reader = reload::reader(&place.context)?;
        let stores = place.context.open()?;
        let demo = demo::prepare(&place, &stores)?;
        return serve(args, &place.context, &stores, reader, Some(&demo), out);
    }
    let reader = reload::reader(context)?;
    let look = |name: &str| std::env::var(name).ok();
    let stores = context.open_with(builtin::with_profile(context.settings()?, &look))?;
    builtin::check_profile(&stores, &look)?;
    if let Some(path) = context.settings_path()?.filter(|path| is_empty(path)) {
        out.warn(visible(&format!(
            "`{}` is empty, was it cut short? {EMPTY_HINT}",
            path.display()
        )));
    }
    serve(args, context, &stores, reader, None, out)
}

fn serve(
    args: &UpArgs,
    context: &Context,
    stores: &Stores,
    reader: ReadSettings,
    demo: Option<&demo::Demo>,
    out: &mut Out,
) -> Result<Ending> {
    for notice in stores.home.notices() {
        out.warn(visible(&notice.to_string()));
    }
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let stop = signals::stop()?;
        let ledger = stores.gate_ledger()?;
        let settings = &with_places(&stores.settings, out);
        let gate = gate_with(settings, None, stores, context)?;
        let tls = tls(settings, context, out)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = args.listen.unwrap_or(settings.listen);
        let listening = gate.listen(address, &settings.hostnames, tls, lanes()).await?;
        let url = format!("{scheme}://{}/mcp", listening.address());
        let facts = facts("up", Some(url.clone()), stores);
        let mark = Mark::set(stores.home.path(), &facts)?;
        let teller = Teller::start(stores.home.path(), &facts, &gate);
        stores.note("start", "gate", &url)?;
        welcome(&url, stores, demo, out)?;
        sync::start(stores, context, &gate, &stop)?;
        waiting::start(ledger, context, stop.clone());
        listening.serve(Some(reader), stop).await;
        stores.note("stop", "gate", "")?;
        ledger.flush()?;
        drop((mark, teller));
        anyhow::Ok(Ending::Yes)
    });
    // Nothing that still waits for a client or a child may hold up the end for long; what is let go
    // here writes its row on the way.
    runtime.shutdown_timeout(END_WAIT_MAX);
    ended
}

/// The settings with as many connections as there are files for.
fn with_places(settings: &Arc<Settings>, out: &mut Out) -> Arc<Settings> {
    let wanted = settings.limits.connections_max;
    let places = files::connections_max(wanted);
    if places == wanted {
        return Arc::clone(settings);
    }
    out.warn(format!(
        "{places} connections at once, not {wanted} (`connections_max`), because few open files are allowed\nhint: {}",
        files::mend(places, wanted)
    ));
    let mut settings = Settings::clone(settings);
    settings.limits.connections_max = places;
    Arc::new(settings)
}

fn welcome(url: &str, stores: &Stores, demo: Option<&demo::Demo>, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        let mut fact = json!({ "url": url, "home": stores.home.path(), "pid": std::process::id() });
        if let (Some(demo), serde_json::Value::Object(fields)) = (demo, &mut fact) {
            fields.extend(demo.facts(url));
        }
        out.json_line(&fact)?;
    } else {
        out.line(format_args!("tollgate listens at {url}"))?;
        match demo {
            Some(demo) => out.raw(demo.text(url, stores.home.path()).as_bytes())?,
            None => next_step(stores, out)?,
        }
    }
    out.flush()
}

fn next_step(stores: &Stores, out: &Out) -> Result<()> {
    let effective = stores.effective()?;
    if effective.servers.is_empty() {
        out.say(
            "no servers yet: `tollgate server add NAME -- COMMAND`, or try `tollgate up --demo`",
        );
    } else if effective.grants().is_empty() {
        out.say("no grants yet: `tollgate grant create LABEL --server SERVER=POLICY`");
    }
    Ok(())
}

/// A gate over opened stores.
pub(crate) fn gate(stores: &Stores, context: &Context) -> Result<Arc<Gate>> {
    gate_heard_by(None, stores, context)
}

/// A gate that finds programs as one with this `PATH` does.
pub(crate) fn gate_on_path(path: &str, stores: &Stores, context: &Context) -> Result<Arc<Gate>> {
    let own = std::env::vars_os().filter(|(name, _)| name != "PATH");
    let env = own.chain([("PATH".into(), path.into())]).collect();
    gate_in(env, &stores.settings, None, stores, context)
}

/// The same, and somebody hears what its children say on stderr.
fn gate_heard_by(
    stderr_to: Option<mpsc::Sender<String>>,
    stores: &Stores,
    context: &Context,
) -> Result<Arc<Gate>> {
    gate_with(&stores.settings, stderr_to, stores, context)
}

fn gate_with(
    settings: &Arc<Settings>,
    stderr_to: Option<mpsc::Sender<String>>,
    stores: &Stores,
    context: &Context,
) -> Result<Arc<Gate>> {
    gate_in(std::env::vars_os().collect(), settings, stderr_to, stores, context)
}

fn gate_in(
    env: Vec<(OsString, OsString)>,
    settings: &Arc<Settings>,
    stderr_to: Option<mpsc::Sender<String>>,
    stores: &Stores,
    context: &Context,
) -> Result<Arc<Gate>> {
    let metrics_token = std::env::var(METRICS_VARIABLE).ok().filter(|token| !token.is_empty());
    let options = GateOptions {
        registry: Arc::clone(&stores.registry),
        ledger: Arc::clone(stores.ledger()?),
        settings: Arc::clone(settings),
        clock: context.clock.clone(),
        random: context.random.clone(),
        shim: shim()?,
        env,
        metrics_token: metrics_token.map(Secret::new),
        desk: stores.lazy_desk(),
        stderr_to,
    };
    Ok(Gate::new(options)?)
}

/// Half the cores carry connections: clients and servers live on the same machine, and on two cores
/// a second thread of ours made the slowest calls half as slow again and carried no more of them.
fn lanes() -> usize {
    const LANES_MAX: usize = 8;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / 2).clamp(1, LANES_MAX)
}

/// Carries what belongs to no connection; `up` has threads of its own for those.
pub(crate) fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    builder.build().context("cannot start the threads of the gate")
}

/// Our own binary. The kernel's name for it stays right when the file is replaced by an upgrade.
fn shim() -> Result<Shim> {
    let kernel_name = Path::new("/proc/self/exe");
    let program = if kernel_name.exists() {
        kernel_name.to_owned()
    } else {
        std::env::current_exe().context("cannot find our own program")?
    };
    Ok(Shim { program, args: vec![CHILD_WORD.into()], files_max: files::before_we_asked() })
}

fn tls(settings: &Settings, context: &Context, out: &Out) -> Result<Option<Tls>> {
    let Some(files) = &settings.tls else { return Ok(None) };
    let folder = context.settings_path()?.and_then(|path| path.parent().map(PathBuf::from));
    let folder = folder.unwrap_or_default();
    let key_file = folder.join(&files.key_file);
    let tls = Tls::from_files(&folder.join(&files.cert_file), &key_file)?;
    if let Some(mode) = open_to_others(&key_file) {
        let shown = key_file.display();
        out.warn(visible(&format!(
            "others may get at the key `{shown}` (mode {mode:04o})\nhint: `chmod go= {}`",
            word(&key_file)
        )));
    }
    Ok(Some(tls))
}

/// The mode of a key that more than its owner and its group may read, or more than its owner change.
/// A group that may read it is how services share one key.
pub(crate) fn open_to_others(key_file: &Path) -> Option<u32> {
    const TOO_MUCH: u32 = 0o027;
    let mode = std::fs::metadata(key_file).ok()?.mode() & 0o777;
    (mode & TOO_MUCH != 0).then_some(mode)
}

fn facts(command: &str, url: Option<String>, stores: &Stores) -> Facts {
    Facts {
        pid: std::process::id(),
        pid_space: pid_space(),
        command: command.to_owned(),
        started_us: stores.now_us(),
        url,
        durability: durability_word(stores.settings.durability).to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        path: std::env::var("PATH").ok(),
    }
}

pub(crate) fn durability_word(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "process",
        Durability::Power => "power",
        Durability::Unflushed => "unflushed",
    }
}
