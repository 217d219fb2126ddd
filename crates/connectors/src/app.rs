//! MCP Apps: a page that chat clients show inside a conversation. The page is fixed; what it shows is drawn
//! for each result and sent next to it.

use serde_json::{Map, Value};

use crate::ConnectorContext;

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
    pub draw: fn(&ConnectorContext, &Map<String, Value>) -> Option<String>,
}
