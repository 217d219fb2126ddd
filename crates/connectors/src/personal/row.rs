//! A row of a service's table, with what is the same in every row left out.

use crate::{Effect, MAIN_SET, Reach, Run, Tool};

/// What differs from row to row.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) input: &'static str,
    pub(crate) output: &'static str,
    pub(crate) scopes: &'static [&'static str],
    pub(crate) run: Run,
}

pub(crate) const fn tool(effect: Effect, row: Row) -> Tool {
    Tool {
        name: row.name,
        title: row.title,
        description: row.description,
        input_schema: row.input,
        output_schema: row.output,
        effect,
        set: MAIN_SET,
        reach: Reach::Outside,
        scopes: row.scopes,
        run: row.run,
    }
}

pub(crate) const fn reads(row: Row) -> Tool {
    tool(Effect::Reads, row)
}

/// A row that is answered from what is kept here; no service is asked.
pub(crate) const fn here(tool: Tool) -> Tool {
    Tool { reach: Reach::Here, ..tool }
}
