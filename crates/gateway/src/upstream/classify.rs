//! Category and risk of a pinned tool, for conditions on `tool.category` and `tool.risk`.

use policy::json::{Bounds, Doc, Kind, Value};

/// Category and risk of a definition. Of several definitions with one name, the highest risk counts.
pub(crate) fn of(server: &str, definition: &str) -> Option<(&'static str, &'static str)> {
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let root = doc.root();
    let all: Vec<Value<'_>> =
        if root.kind() == Kind::Array { root.items().collect() } else { vec![root] };
    let classed = all.into_iter().map(|tool| catalog::classify::classify(server, tool));
    let classed = classed.max_by_key(|classed| classed.risk)?;
    Some((classed.category.as_str(), classed.risk.as_str()))
}
