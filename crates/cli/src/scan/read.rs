//! What was read of a server, from wherever it came.

use std::sync::Arc;

use anyhow::Result;
use store::registry::{Origin, Pin, Server, ServerOptions, Target};

use crate::context::{Context, Stores};
use crate::output::Progress;
use crate::run;

/// The lists of a server as JSON texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    pub(crate) tools: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) prompts: Vec<String>,
    pub(crate) instructions: Option<String>,
    /// Only tools are known, as in a saved list.
    pub(crate) is_partial: bool,
}

/// A server that was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    pub(crate) name: String,
    /// Where it was found, in words.
    pub(crate) origin: String,
    pub(crate) offer: Offer,
    /// What the owner accepted, when it is registered.
    pub(crate) pins: Option<Vec<Pin>>,
}

/// Asks a server for all its lists over the gate's own links.
pub(crate) fn ask(server: &Server, stores: &Stores, context: &Context) -> Result<Offer> {
    let runtime = run::runtime()?;
    let asked = Progress::during("asking the server", || {
        runtime.block_on(async {
            let gate = run::gate(stores, context)?;
            let offered = Arc::clone(&gate).look(server).await;
            anyhow::Ok(offered?)
        })
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    let offered = asked?;
    let mut resources = offered.resources;
    resources.extend(offered.templates);
    Ok(Offer {
        tools: offered.tools,
        resources,
        prompts: offered.prompts,
        instructions: offered.instructions,
        is_partial: false,
    })
}

/// A server that nobody registered, under a name for this scan.
pub(crate) fn passing(name: &str, target: Target, now_us: i64) -> Result<Server> {
    target.check()?;
    Ok(Server {
        name: name.to_owned(),
        target,
        options: ServerOptions::default(),
        created_at_us: now_us,
        updated_at_us: now_us,
        origin: Origin::File,
    })
}
