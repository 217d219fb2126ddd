//! Renders catalogue pages as HTML from the templates in `crates/catalog/templates`: one stylesheet, one
//! small script for the search, no request to another host, and a content policy that would refuse one.
//! The templates escape every text.

use askama::Template;
use serde_json::Value;

use crate::pins::visible;
use crate::view::{ServerPage, ToolPage};

mod list;

pub use list::{Entry, Shards, index, letter, letter_of};

/// The files that every page uses.
pub const STYLE: &str = include_str!("html/style.css");
pub const SCRIPT: &str = include_str!("html/search.js");

/// No script and no style but ours, nothing from another host, no frames, no forms.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'none'; base-uri 'none'; form-action 'none'";

#[derive(Template)]
#[template(path = "server.html")]
struct ServerTemplate<'a> {
    page: &'a ServerPage,
}

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolTemplate<'a> {
    page: &'a ToolPage,
}

/// `servers/SLUG/index.html`
pub fn server(page: &ServerPage) -> String {
    rendered(&ServerTemplate { page })
}

/// `servers/SLUG/tools/SLUG.html`
pub fn tool(page: &ToolPage) -> String {
    rendered(&ToolTemplate { page })
}

/// Rendering fails only if writing fails, and writing to a string does not.
pub(crate) fn rendered(template: &impl Template) -> String {
    template.render().unwrap_or_default()
}

/// A text on one line, with hidden characters escaped.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    visible(&words.join(" "))
}

/// The text in parts; the parts between backticks are code.
fn segments(text: &str) -> Vec<(bool, String)> {
    text.split('`').enumerate().map(|(at, part)| (at % 2 == 1, visible(part))).collect()
}

/// A policy as indented JSON, with hidden characters escaped.
pub(crate) fn policy_text(policy: &Value) -> String {
    let text = format!("{policy:#}");
    let lines: Vec<String> = text.lines().map(visible).collect();
    lines.join("\n")
}
