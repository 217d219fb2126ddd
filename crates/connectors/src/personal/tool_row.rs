//! A row of a service's tool table, without the fields that all rows share.

use crate::tool::Handler;
use crate::{Effect, MAIN_SET, Reach, Tool};

/// The fields that differ.
#[derive(Clone, Copy)]
pub(crate) struct ToolRow {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) scopes: &'static [&'static str],
    pub(crate) handler: Handler,
}

pub(crate) const fn tool(effect: Effect, row: ToolRow) -> Tool {
    Tool {
        name: row.name,
        title: row.title,
        description: row.description,
        effect,
        set: MAIN_SET,
        reach: Reach::Outside,
        scopes: row.scopes,
        aggregates: false,
        handler: row.handler,
    }
}

pub(crate) const fn reads(row: ToolRow) -> Tool {
    tool(Effect::Reads, row)
}

/// A tool that uses only local data.
pub(crate) const fn here(tool: Tool) -> Tool {
    Tool { reach: Reach::Here, ..tool }
}
