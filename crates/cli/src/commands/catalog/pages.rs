//! The pages of a server, from the catalogue or from what is pinned in the gate.

use anyhow::{Result, anyhow};
use catalog::view::{About, Pages};
use policy::json::{Bounds, Doc, Value};
use store::index::{Index, ServerRow, ToolRow};

use crate::context::Stores;

/// A server and its tools as stored. The tools are one JSON list.
pub(super) struct StoredServer {
    server: Option<ServerRow>,
    name: String,
    tools: String,
}

impl StoredServer {
    pub(super) fn of(server: ServerRow, tools: &[ToolRow]) -> StoredServer {
        let tools: Vec<&str> = tools.iter().map(|tool| tool.definition.as_str()).collect();
        StoredServer { name: server.name.clone(), server: Some(server), tools: list(&tools) }
    }

    pub(super) fn from_index(index: &Index, slug: &str) -> Result<StoredServer> {
        let server = index.server(slug)?;
        let tools = index.tools(&server)?;
        Ok(StoredServer::of(server, &tools))
    }

    /// A server behind the gate, with the definitions that were last seen.
    pub(super) fn from_gate(stores: &Stores, name: &str) -> Result<Option<StoredServer>> {
        if !stores.servers()?.iter().any(|server| server.name == name) {
            return Ok(None);
        }
        let pins = stores.registry.pins(name)?;
        let seen = pins.iter().filter_map(|pin| pin.seen.as_ref().or(pin.accepted.as_ref()));
        let tools: Vec<&str> = seen.map(|pinned| pinned.definition.as_str()).collect();
        Ok(Some(StoredServer { server: None, name: name.to_owned(), tools: list(&tools) }))
    }

    pub(super) fn named(self, name: &str) -> StoredServer {
        StoredServer { name: name.to_owned(), ..self }
    }

    /// Passes the pages to `show`; they borrow from the parsed text.
    pub(super) fn pages<T>(&self, show: impl FnOnce(&Pages<'_>) -> Result<T>) -> Result<T> {
        let doc = Doc::read(self.tools.as_bytes(), &Bounds::ANSWER).map_err(|refusal| {
            anyhow!("the tools of `{}` cannot be read: {}", self.name, refusal.message)
        })?;
        let tools: Vec<Value<'_>> = doc.root().items().collect();
        show(&Pages::new(self.about(), tools.into_iter()))
    }

    fn about(&self) -> About<'_> {
        let unknown = || About { name: &self.name, ..About::default() };
        self.server.as_ref().map_or_else(unknown, ServerRow::about)
    }
}

fn list(definitions: &[&str]) -> String {
    format!("[{}]", definitions.join(","))
}
