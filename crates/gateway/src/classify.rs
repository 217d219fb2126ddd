//! The catalogue's view of a pinned tool, for conditions on `tool.category` and `tool.risk`.

use policy::json::{Bounds, Doc};

/// Category and risk of a tool, by its definition.
pub(crate) fn of(server: &str, definition: &str) -> Option<(&'static str, &'static str)> {
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let classed = catalog::classify::classify(server, doc.root());
    Some((classed.category.as_str(), classed.risk.as_str()))
}
