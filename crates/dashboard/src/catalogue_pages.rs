//! The catalogue pages of servers, kept: assessing hundreds of tools takes longer than a page may take. A server
//! with the same definitions has the same pages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::view::{About, Pages, ServerPage, ToolPage};
use policy::json::{Bounds, Doc, Value};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// Servers whose pages are kept; the one that was not asked for longest goes first.
const SERVERS_MAX: usize = 16;

/// All pages of one server.
pub(crate) struct ServerPages {
    pub(crate) server: ServerPage,
    tools: Vec<ToolPage>,
}

impl ServerPages {
    /// The page of one tool by its slug or its name.
    pub(crate) fn tool(&self, wanted: &str) -> Option<&ToolPage> {
        self.tools.iter().find(|tool| tool.slug == wanted || tool.name == wanted)
    }
}

/// The pages that were made before, by a hash of what they are made from.
#[derive(Default)]
pub(crate) struct CataloguePages {
    known: Mutex<VecDeque<([u8; 32], Arc<ServerPages>)>>,
}

impl CataloguePages {
    pub(crate) fn of(
        &self,
        about: About<'_>,
        definitions: &[&str],
    ) -> Result<Arc<ServerPages>, Problem> {
        let text = format!("[{}]", definitions.join(","));
        let key = key(&about, &text);
        if let Some(found) = self.find(&key) {
            return Ok(found);
        }
        let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).map_err(|refusal| {
            Problem::internal(format!("the tools cannot be read: {}", refusal.message))
        })?;
        let tools: Vec<Value<'_>> = doc.root().items().collect();
        let pages = Pages::new(about, tools.into_iter());
        let made = Arc::new(ServerPages { server: pages.server(), tools: pages.tools().collect() });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.truncate(SERVERS_MAX - 1);
        known.push_front((key, Arc::clone(&made)));
        Ok(made)
    }

    fn find(&self, key: &[u8; 32]) -> Option<Arc<ServerPages>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(other, _)| other == key)?;
        let found = known.remove(at)?;
        let pages = Arc::clone(&found.1);
        known.push_front(found);
        Some(pages)
    }
}

fn key(about: &About<'_>, definitions: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    let About { name, title, description, version, website, repository, updated, source } = about;
    for part in [name, title, description, version, website, repository, updated, source] {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(definitions.as_bytes());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const TOOL: &str = r#"{"name":"wipe","description":"Deletes all.","inputSchema":{}}"#;

    #[test]
    fn pages_are_kept_until_a_definition_changes() {
        let pages = CataloguePages::default();
        let about = About { name: "s", ..About::default() };
        let first = pages.of(about, &[TOOL]).unwrap();
        assert!(first.tool("wipe").is_some() && first.tool("other").is_none());
        assert!(Arc::ptr_eq(&first, &pages.of(about, &[TOOL]).unwrap()));
        let changed = TOOL.replace("Deletes", "Lists");
        assert!(!Arc::ptr_eq(&first, &pages.of(about, &[&changed]).unwrap()));
        let other = About { name: "t", ..About::default() };
        assert!(!Arc::ptr_eq(&first, &pages.of(other, &[TOOL]).unwrap()));
        for n in 0..SERVERS_MAX * 2 {
            pages.of(about, &[&TOOL.replace("all", &n.to_string())]).unwrap();
        }
        assert_eq!(pages.known.lock().unwrap().len(), SERVERS_MAX);
    }
}
