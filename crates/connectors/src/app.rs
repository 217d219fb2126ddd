//! MCP Apps: a page that chat clients show inside a conversation. The page is fixed; what it shows is drawn
//! for each result and sent next to it.

use serde_json::{Map, Value};

use crate::{Admitted, ConnectorContext};

/// The media type of a page.
pub const MIME: &str = "text/html;profile=mcp-app";
/// The member of a result's `_meta` with its drawing. Models do not see it.
pub const DRAWING: &str = "tollgate/drawing";
/// The scheme of the pages.
pub const SCHEME: &str = "ui://";

/// The app of one tool.
pub struct App {
    pub tool: &'static str,
    pub uri: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// The same for every result, so that a client may check it once.
    pub page: fn() -> &'static str,
    /// A fragment of HTML for a call with these arguments. None where there is nothing to draw.
    pub(crate) draw: fn(&ConnectorContext, &Map<String, Value>) -> Option<String>,
}

impl App {
    /// The drawing for an admitted call. A drawing shows single days, so a call that only aggregates may answer
    /// has none.
    pub fn drawing(
        &self,
        admitted: &Admitted,
        ctx: &ConnectorContext,
        arguments: &Map<String, Value>,
    ) -> Option<String> {
        if admitted.bound().is_some() {
            return None;
        }
        (self.draw)(ctx, arguments)
    }
}
