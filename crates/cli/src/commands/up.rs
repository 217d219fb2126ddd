//! `tollgate up`: runs a gate for many clients over HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use gateway::{ReadSettings, Tls};
use oauth::server::Issuer;
use serde_json::{Value, json};
use store::registry::OWNER;
use store::settings::Settings;

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::gate::{END_WAIT_MAX, facts, gate_with, open_files, runtime, signals};
use crate::hints::word;
use crate::output::{Out, visible};
use crate::running::{RunningFile, StatusChannel};
use crate::settings_file::{EMPTY_HINT, is_empty, open_to_others};
use crate::stdio::builtin;
use crate::variables::STORE_VARIABLE;

use demo_agent::{DemoAgent, DemoParts};

mod approval_alerts;
#[cfg(feature = "demo")]
mod demo;
mod demo_agent;
mod login_upkeep;
mod metric_notices;
mod notifier;
mod pages;
mod reload;
mod sync;

#[derive(Args)]
pub(crate) struct UpArgs {
    /// Start with demo servers and accounts, a grant, and calls to try; in a separate home
    #[arg(long)]
    demo: bool,
    /// Where to listen [default: 127.0.0.1:4180, or `listen` of the settings file]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// The https origin under which clients elsewhere reach this gate [default: `public_url` of the settings file]
    #[arg(long, value_name = "URL", value_parser = public_url)]
    public_url: Option<Issuer>,
}

fn public_url(text: &str) -> Result<Issuer> {
    Issuer::parse(text)
        .map_err(|why| anyhow!("{why}; write an origin such as https://gate.example"))
}

/// An address with its port; the error shows what is missing.
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
    if args.demo && context.store()?.is_some() {
        bail!(
            "the demo keeps its data in a home of its own: leave out `--store` and `{STORE_VARIABLE}`"
        );
    }
    if args.demo {
        return up_with_demo(args, context, out);
    }
    let reader = reload::reader(context)?;
    let look = |name: &str| std::env::var(name).ok();
    let stores = context.open_with(builtin::with_profile(context.settings()?, &look))?;
    builtin::check_profile(&stores, &look)?;
    if let Some(path) = context.settings_path()?.filter(|path| is_empty(path)) {
        out.warn(visible(&format!(
            "`{}` is empty, was it truncated? {EMPTY_HINT}",
            path.display()
        )));
    }
    serve(args, context, &stores, reader, None, out)
}

#[cfg(feature = "demo")]
fn up_with_demo(args: &UpArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let demo_home = demo::open_home(context, out)?;
    let reader = reload::reader(&demo_home.context)?;
    let stores = demo_home.context.open()?;
    let demo = demo::prepare(&demo_home, &stores)?;
    serve(args, &demo_home.context, &stores, reader, Some(&demo), out)
}

#[cfg(not(feature = "demo"))]
fn up_with_demo(_: &UpArgs, _: &Context, _: &mut Out) -> Result<Ending> {
    Err(anyhow!(
        "this build has no demo data: it was built without the feature `demo`\nhint: `cargo install --locked --path crates/cli` builds a tollgate with it"
    ))
}

fn serve(
    args: &UpArgs,
    context: &Context,
    stores: &Stores,
    reader: ReadSettings,
    demo: Option<&dyn DemoParts>,
    out: &mut Out,
) -> Result<Ending> {
    for notice in stores.home.notices() {
        out.warn(visible(&notice.to_string()));
    }
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let stop = signals::stop()?;
        let ledger = stores.gate_ledger()?;
        let settings = &with_possible_connections(&stores.settings, out);
        let gate = gate_with(settings, None, stores, context)?;
        let tls = tls(settings, context, out)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = args.listen.unwrap_or(settings.listen);
        let listening =
            gate.listen(address, &settings.hostnames, tls, connection_threads()).await?;
        let url = format!("{scheme}://{}/mcp", listening.address());
        let agent = demo.map(|demo| DemoAgent::of(demo, &url));
        let public_url = args.public_url.clone().or_else(|| settings.public_url.clone());
        let public_pages = public_url.as_ref().filter(|_| settings.public_dashboard);
        let local_pages = url.trim_end_matches("/mcp");
        stores.logins().set_pages(public_pages.map_or(local_pages, Issuer::as_str));
        let issuer = match &public_url {
            Some(public_url) => public_url.clone(),
            None => local_issuer(scheme, listening.address())?,
        };
        let pages = pages::pages(&gate, &url, &issuer, stores, context, agent, out)?;
        let listening = listening.with_pages(pages).with_issuer(issuer, public_url.is_some());
        let mut facts = facts("up", Some(url.clone()), stores);
        facts.public_url = public_url.map(|url| url.as_str().to_owned());
        let running_file = RunningFile::create(stores.home.path(), &facts)?;
        let status_socket = StatusChannel::start(stores.home.path(), &facts, &gate);
        stores.note("start", "gate", &url)?;
        welcome(&url, stores, demo, out)?;
        sync::start(stores, context, &gate, &stop)?;
        approval_alerts::start(ledger, context, stop.clone());
        notifier::start(&url, settings, stores, stop.clone())?;
        login_upkeep::start(&gate, stores, stop.clone())?;
        if let Some(demo) = demo {
            demo_agent::fill(demo, &url, &gate, stop.clone());
        }
        listening.serve(Some(reader), stop).await;
        stores.note("stop", "gate", "")?;
        ledger.flush()?;
        drop((running_file, status_socket));
        anyhow::Ok(Ending::Yes)
    });
    // Tasks that still wait for a client or a child are dropped after a short time; dropping them writes
    // their rows.
    runtime.shutdown_timeout(END_WAIT_MAX);
    ended
}

/// Clients on this machine sign in at the listening address.
fn local_issuer(scheme: &str, address: SocketAddr) -> Result<Issuer> {
    let address = if address.ip().is_unspecified() {
        SocketAddr::from(([127, 0, 0, 1], address.port()))
    } else {
        address
    };
    let origin = format!("{scheme}://{address}");
    Issuer::parse(&origin).map_err(|why| anyhow!("clients cannot sign in at {origin}: {why}"))
}

/// The settings with as many connections as the limit on open files allows.
fn with_possible_connections(settings: &Arc<Settings>, out: &mut Out) -> Arc<Settings> {
    let wanted = settings.limits.connections_max;
    let possible = open_files::connections_max(wanted);
    if possible == wanted {
        return Arc::clone(settings);
    }
    out.warn(format!(
        "{possible} connections at once, not {wanted} (`connections_max`), because the limit on open files is low\nhint: {}",
        open_files::fix(possible, wanted)
    ));
    let mut settings = Settings::clone(settings);
    settings.limits.connections_max = possible;
    Arc::new(settings)
}

fn welcome(url: &str, stores: &Stores, demo: Option<&dyn DemoParts>, out: &mut Out) -> Result<()> {
    let secret = stores.registry.create_sign_in_link(OWNER, stores.now_us())?;
    let link = dashboard::sign_in_link(url, &secret);
    if out.wants_json() {
        let mut fact = json!({
            "url": url,
            "dashboard": link,
            "home": stores.home.path(),
            "pid": std::process::id(),
        });
        if let (Some(demo), Value::Object(fields)) = (demo, &mut fact) {
            fields.extend(demo.introduce(url).0);
        }
        out.json_line(&fact)?;
    } else {
        out.line(format_args!("tollgate listens at {url}"))?;
        out.line(format_args!(
            "sign in to the dashboard (this link works once, within 15 minutes): {link}"
        ))?;
        match demo {
            Some(demo) => out.raw(demo.introduce(url).1.as_bytes())?,
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
        out.say("no grants yet: add the address to a client, which asks for access in your browser, or `tollgate grant create LABEL --server SERVER=POLICY`");
    }
    Ok(())
}

/// Half the cores serve connections: clients and servers run on the same machine, and on two cores a
/// second thread made the slowest calls 50 % slower without more throughput.
fn connection_threads() -> usize {
    const THREADS_MAX: usize = 8;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / 2).clamp(1, THREADS_MAX)
}

fn tls(settings: &Settings, context: &Context, out: &Out) -> Result<Option<Tls>> {
    let Some(files) = &settings.tls else { return Ok(None) };
    let folder = context.settings_path()?.and_then(|path| path.parent().map(PathBuf::from));
    let folder = folder.unwrap_or_default();
    let key_file = folder.join(&files.key_file);
    let tls = Tls::from_files(&folder.join(&files.cert_file), &key_file)?;
    if let Some(access) = open_to_others(&key_file) {
        let shown = key_file.display();
        out.warn(visible(&format!(
            "others can access the key `{shown}` ({access})\nhint: `chmod go= {}`",
            word(&key_file)
        )));
    }
    Ok(Some(tls))
}
