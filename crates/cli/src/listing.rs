//! The lists of a server (tools, resources, prompts, skills), requested through a gate or read from a saved file.

use std::sync::Arc;

use anyhow::{Result, bail};
use gateway::SkillText;
use policy::json::{Bounds, Doc};
use store::registry::{Origin, Pin, Server, ServerOptions, Target};

use crate::context::{Context, Stores};
use crate::gate;
use crate::output::Progress;

pub(crate) mod saved;
mod server_json;

/// The lists of a server as JSON texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    pub(crate) tools: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) prompts: Vec<String>,
    pub(crate) skills: Vec<String>,
    /// The texts of the skills' files that were read.
    pub(crate) skill_texts: Vec<SkillText>,
    pub(crate) instructions: Option<String>,
    /// Only tools are known, as in a saved list.
    pub(crate) is_partial: bool,
    /// Why lists besides the tools could not be read.
    pub(crate) unread: Vec<String>,
}

impl Offer {
    /// The names of its skills, as policies use them.
    pub(crate) fn skill_names(&self) -> Vec<String> {
        let docs =
            self.skills.iter().filter_map(|text| Doc::read(text.as_bytes(), &Bounds::ANSWER).ok());
        let uris = docs.filter_map(|doc| Some(doc.root().get("uri")?.as_str()?.into_owned()));
        uris.filter_map(|uri| catalog::skills::name_of(&uri).map(str::to_owned)).collect()
    }
}

/// A scanned server.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    pub(crate) name: String,
    /// A description of where it was found.
    pub(crate) origin: String,
    pub(crate) offer: Offer,
    /// The accepted definitions, if it is registered.
    pub(crate) pins: Option<Vec<Pin>>,
}

/// Requests all lists of a server through a gate.
pub(crate) fn request(server: &Server, stores: &Stores, context: &Context) -> Result<Offer> {
    let runtime = gate::runtime()?;
    let listed = Progress::during("listing tools", || {
        runtime.block_on(async {
            let gate = gate::gate(stores, context)?;
            let offered = Arc::clone(&gate).look(server).await;
            anyhow::Ok(offered?)
        })
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    let offered = listed?;
    let mut resources = offered.resources;
    resources.extend(offered.templates);
    Ok(Offer {
        tools: offered.tools,
        resources,
        prompts: offered.prompts,
        skills: offered.skills,
        skill_texts: offered.skill_texts,
        instructions: offered.instructions,
        is_partial: false,
        unread: offered.unread,
    })
}

/// An unregistered server, under a name for this scan.
pub(crate) fn unregistered(name: &str, target: Target, now_us: i64) -> Result<Server> {
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

/// A registered server, with its accepted definitions.
pub(crate) fn registered(name: &str, stores: &Stores, context: &Context) -> Result<Scanned> {
    let found = stores.servers()?.into_iter().find(|server| server.name == name);
    let Some(server) = found else {
        bail!(
            "`{name}` is neither a file, an address, nor a registered server\nhint: `tollgate server list` shows the servers; a command goes after `--`"
        );
    };
    let offer = request(&server, stores, context)?;
    let pins = stores.registry.pins(name)?;
    let origin = format!("registered server, {}", server.target.kind());
    Ok(Scanned { name: name.to_owned(), origin, offer, pins: Some(pins) })
}

/// The lists in a saved file; none if it names servers instead.
pub(crate) fn saved_list(text: &str, stem: &str) -> Result<Option<Offer>> {
    Ok(match saved::read(text, stem)? {
        saved::Saved::Lists(offer) => Some(offer),
        saved::Saved::Servers(_) => None,
    })
}
