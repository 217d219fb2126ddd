//! The one strict JSON reader: every message, policy and result passes through it, and what has two
//! readings is refused. A document is its source text plus one flat list of nodes, so nothing is copied.

mod bounds;
mod canonical;
mod doc;
mod fold;
mod keys;
mod number;
mod reader;
mod refusal;
mod text;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tables;

pub use bounds::{Bounds, Keys, Numbers};
pub use canonical::{canonical, is_surely_canonical};
pub use doc::{Doc, Entries, Items, Key, Kind, Value};
pub use fold::fold;
pub use refusal::{Refusal, RefusalKind};
pub use text::write_string;
