//! Builds a gate over an open home, for every command that needs one, with its runtime, signals and file
//! limits.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use gateway::upstream::GuardProgram;
use gateway::{Gate, GateOptions};
use store::ledger::Durability;
use store::secret::Secret;
use store::settings::Settings;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::context::{Context, Stores};
use crate::running::GateFacts;
use crate::variables::METRICS_VARIABLE;

pub(crate) mod open_files;
pub(crate) mod signals;

/// The first argument of the process that guards a child.
pub(crate) const CHILD_WORD: &str = "__child";
/// How long dropped tasks may take to write their rows.
pub(crate) const END_WAIT_MAX: Duration = Duration::from_millis(200);

/// A gate over opened stores.
pub(crate) fn gate(stores: &Stores, context: &Context) -> Result<Arc<Gate>> {
    gate_with_stderr(None, stores, context)
}

/// A gate that finds programs on this `PATH`.
pub(crate) fn gate_on_path(path: &str, stores: &Stores, context: &Context) -> Result<Arc<Gate>> {
    let own = std::env::vars_os().filter(|(name, _)| name != "PATH");
    let env = own.chain([("PATH".into(), path.into())]).collect();
    gate_in(env, &stores.settings, None, stores, context)
}

/// A gate that sends the stderr of its children to a channel.
pub(crate) fn gate_with_stderr(
    stderr_to: Option<mpsc::Sender<String>>,
    stores: &Stores,
    context: &Context,
) -> Result<Arc<Gate>> {
    gate_with(&stores.settings, stderr_to, stores, context)
}

pub(crate) fn gate_with(
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
        guard_program: guard_program()?,
        env,
        metrics_token: metrics_token.map(Secret::new),
        connectors: stores.lazy_context(),
        logins: stores.logins(),
        stderr_to,
    };
    Ok(Gate::new(options)?)
}

/// Runs everything but connections; `up` has separate threads for those.
pub(crate) fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    builder.build().context("cannot start the threads of the gate")
}

/// Our own binary, as the guard of a child.
fn guard_program() -> Result<GuardProgram> {
    let program = platform::programs::own().context("cannot find our own program")?;
    Ok(GuardProgram {
        method: platform::guard::Method::default(),
        program,
        args: vec![CHILD_WORD.into()],
        files_max: open_files::original_limit(),
    })
}

pub(crate) fn facts(command: &str, url: Option<String>, stores: &Stores) -> GateFacts {
    GateFacts {
        pid: std::process::id(),
        pid_space: platform::programs::pid_space(),
        command: command.to_owned(),
        started_us: stores.now_us(),
        url,
        public_url: None,
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
