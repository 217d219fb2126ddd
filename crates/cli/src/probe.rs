//! Asks a registered server for its tools on the gate's own path, so that a first look and a later one
//! see the same.

use anyhow::Result;

use crate::context::{Context, Stores};
use crate::run;

/// Lets the gate read the list of a registered server; the pins are up to date afterwards.
pub(crate) fn look(server: &str, stores: &Stores, context: &Context) -> Result<usize> {
    run::runtime()?.block_on(async {
        let gate = run::gate(stores, context)?;
        Ok(gate.probe(server).await?.len())
    })
}
