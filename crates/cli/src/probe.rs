//! Lists the tools of a registered server through a gate and updates its pins.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use store::registry::Server;
use tokio::task::JoinSet;

use crate::context::{Context, Stores};
use crate::gate::{self, signals};
use crate::output::Progress;

/// A server that is still starting after this long is not reported as failing.
pub(crate) const START_WAIT: Duration = Duration::from_secs(5);
const STOP_WAIT: Duration = Duration::from_millis(500);

/// Lists the tools of a registered server and updates its pins. Returns the number of tools.
pub(crate) fn update_pins(server: &str, stores: &Stores, context: &Context) -> Result<usize> {
    gate::runtime()?.block_on(probe(server, stores, context))
}

/// The same with the `PATH` of the gate that will run it.
pub(crate) fn update_pins_on_path(
    path: &str,
    server: &str,
    stores: &Stores,
    context: &Context,
) -> Result<usize> {
    gate::runtime()?.block_on(async {
        let gate = gate::gate_on_path(path, stores, context)?;
        Ok(gate.probe(server).await?.len())
    })
}

/// Why a server is not known to work, or not wholly.
#[derive(Debug)]
pub(crate) enum NotStarted {
    Failed(anyhow::Error),
    /// It works, except for these lists.
    Unread(Vec<String>),
    /// It has not answered within [`START_WAIT`]. A package may have to be downloaded first.
    Slow,
}

/// Starts commands concurrently for a short time and stores nothing. Returns those that did not answer.
pub(crate) fn not_started(
    servers: &[Server],
    path: &str,
    stores: &Stores,
    context: &Context,
) -> Result<BTreeMap<String, NotStarted>> {
    let runtime = gate::runtime()?;
    let failing = runtime.block_on(async {
        let gate = gate::gate_on_path(path, stores, context)?;
        let mut starts = JoinSet::new();
        for server in servers.iter().cloned() {
            let gate = std::sync::Arc::clone(&gate);
            starts.spawn(async move {
                let listed = tokio::time::timeout(START_WAIT, gate.look(&server)).await;
                let why = match listed {
                    Ok(Err(error)) => NotStarted::Failed(anyhow::Error::new(error)),
                    Ok(Ok(offered)) if offered.unread.is_empty() => return None,
                    Ok(Ok(offered)) => NotStarted::Unread(offered.unread),
                    Err(_) => NotStarted::Slow,
                };
                Some((server.name, why))
            });
        }
        let mut failing = BTreeMap::new();
        while let Some(started) = starts.join_next().await {
            failing.extend(started.ok().flatten());
        }
        Ok(failing)
    });
    runtime.shutdown_timeout(STOP_WAIT);
    failing
}

/// The same for a caller with cleanup to do: a signal ends the wait and not the process.
pub(crate) fn update_pins_until_signal(
    server: &str,
    stores: &Stores,
    context: &Context,
) -> Result<usize> {
    let runtime = gate::runtime()?;
    Progress::during("listing tools", || {
        runtime.block_on(async {
            let mut stop = signals::stop()?;
            tokio::select! {
                tools = probe(server, stores, context) => tools,
                _ = stop.wait_for(|stop| *stop) => bail!("stopped by a signal"),
            }
        })
    })
}

async fn probe(server: &str, stores: &Stores, context: &Context) -> Result<usize> {
    let gate = gate::gate(stores, context)?;
    Ok(gate.probe(server).await?.len())
}
