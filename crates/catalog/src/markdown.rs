//! Renders catalogue pages as Markdown from the templates in `crates/catalog/templates`, for a terminal or
//! a file. Text of a server cannot become markup, and no hidden character survives.

use askama::Template;
use serde_json::Value;

use crate::html::{policy_text, rendered};
use crate::pins::visible;
use crate::view::{ServerPage, ToolPage};

#[derive(Template)]
#[template(path = "server.md", escape = "none")]
struct ServerTemplate<'a> {
    page: &'a ServerPage,
}

#[derive(Template)]
#[template(path = "tool.md", escape = "none")]
struct ToolTemplate<'a> {
    page: &'a ToolPage,
}

pub fn server(page: &ServerPage) -> String {
    rendered(&ServerTemplate { page })
}

pub fn tool(page: &ToolPage) -> String {
    rendered(&ToolTemplate { page })
}

/// A text on one line, with all Markdown syntax escaped.
fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len() + 8);
    let line: Vec<&str> = raw.split_whitespace().collect();
    let line = visible(&line.join(" "));
    for (at, c) in line.chars().enumerate() {
        let starts = at == 0 && "#>+-=~".contains(c);
        if starts || "\\`*_[]<>|&!{}".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A code span, with more backticks around it than inside it.
fn code(raw: &str) -> String {
    let shown = visible(raw).replace('|', "\\|");
    let most = shown.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(most + 1);
    let pad =
        if shown.starts_with('`') || shown.ends_with('`') || shown.is_empty() { " " } else { "" };
    format!("{fence}{pad}{shown}{pad}{fence}")
}

fn block(policy: &Value) -> String {
    format!("```json\n{}\n```", policy_text(policy))
}
