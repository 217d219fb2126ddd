//! Asks a registered server for its tools on the gate's own path, so that a first look and a later one
//! see the same.

use anyhow::{Result, bail};

use crate::context::{Context, Stores};
use crate::output::Progress;
use crate::run;

/// Lets the gate read the list of a registered server; the pins are up to date afterwards.
pub(crate) fn look(server: &str, stores: &Stores, context: &Context) -> Result<usize> {
    run::runtime()?.block_on(ask(server, stores, context))
}

/// The same with the `PATH` of the gate that will run it.
pub(crate) fn look_on_path(
    path: &str,
    server: &str,
    stores: &Stores,
    context: &Context,
) -> Result<usize> {
    run::runtime()?.block_on(async {
        let gate = run::gate_on_path(path, stores, context)?;
        Ok(gate.probe(server).await?.len())
    })
}

/// The same for one who has something to take back: a signal ends the wait and not the command.
pub(crate) fn first_look(server: &str, stores: &Stores, context: &Context) -> Result<usize> {
    let runtime = run::runtime()?;
    Progress::during("asking the server", || {
        runtime.block_on(async {
            let mut stop = run::stop()?;
            tokio::select! {
                tools = ask(server, stores, context) => tools,
                _ = stop.wait_for(|stop| *stop) => bail!("stopped while it was asked"),
            }
        })
    })
}

async fn ask(server: &str, stores: &Stores, context: &Context) -> Result<usize> {
    let gate = run::gate(stores, context)?;
    Ok(gate.probe(server).await?.len())
}
