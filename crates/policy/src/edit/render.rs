//! Writes new parts of a policy in the style of their surroundings: JSON by indentation, YAML in blocks.

use crate::json::write_string;
use crate::tree::{Member, Node, NodeValue};

/// A collection that fits into this many characters stays on one line.
const INLINE_CHARS_MAX: usize = 72;
pub(super) const STEP: usize = 2;

/// On one line, as JSON, which YAML reads the same way.
pub(super) fn inline(node: &Node) -> String {
    let joined = |open: &str, parts: Vec<String>, close: &str| {
        let gap = if open == "{" { " " } else { "" };
        format!("{open}{gap}{}{gap}{close}", parts.join(", "))
    };
    match &node.value {
        NodeValue::Map(members) if !members.is_empty() => {
            let part =
                |member: &Member| format!("{}: {}", quoted(&member.name), inline(&member.node));
            joined("{", members.iter().map(part).collect(), "}")
        }
        NodeValue::List(items) if !items.is_empty() => {
            joined("[", items.iter().map(inline).collect(), "]")
        }
        _ => node.to_json(),
    }
}

/// As JSON, whose first line begins at this indentation. The outer levels are always written on several lines.
pub(super) fn json(node: &Node, indent: usize, levels: usize) -> String {
    let line = inline(node);
    if levels == 0 && indent + line.chars().count() <= INLINE_CHARS_MAX + 8 || !is_filled(node) {
        return line;
    }
    let levels = levels.saturating_sub(1);
    let (open, close, parts): (char, char, Vec<String>) =
        if let NodeValue::Map(members) = &node.value {
            let part = |member: &Member| {
                format!("{}: {}", quoted(&member.name), json(&member.node, indent + STEP, levels))
            };
            ('{', '}', members.iter().map(part).collect())
        } else {
            let part = |item: &Node| json(item, indent + STEP, levels);
            ('[', ']', node.items().iter().map(part).collect())
        };
    let inner = " ".repeat(indent + STEP);
    let body = parts.join(&format!(",\n{inner}"));
    format!("{open}\n{inner}{body}\n{}{close}", " ".repeat(indent))
}

/// As YAML that begins at this indentation, without the indentation of the first line.
pub(super) fn block(node: &Node, indent: usize) -> String {
    let lines: Vec<String> = match &node.value {
        NodeValue::Map(members) if !members.is_empty() => members
            .iter()
            .map(|member| format!("{}:{}", key(&member.name), after_colon(&member.node, indent)))
            .collect(),
        NodeValue::List(items) if !items.is_empty() => {
            items.iter().map(|item| format!("- {}", block(item, indent + STEP))).collect()
        }
        _ => return scalar(node),
    };
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// What follows `name:` at this indentation.
pub(super) fn after_colon(node: &Node, indent: usize) -> String {
    let inner = indent + STEP;
    if is_filled(node) {
        return format!("\n{}{}", " ".repeat(inner), block(node, inner));
    }
    format!(" {}", scalar(node))
}

pub(super) fn is_filled(node: &Node) -> bool {
    !node.members().is_empty() || !node.items().is_empty()
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(text, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Words of the language need no quotes; everything else is quoted, so that it cannot be read as another type.
fn scalar(node: &Node) -> String {
    match &node.value {
        NodeValue::Text(text) if is_plain_word(text) => text.clone(),
        _ => node.to_json(),
    }
}

pub(super) fn key(name: &str) -> String {
    if is_plain_word(name) { name.to_owned() } else { quoted(name) }
}

fn is_plain_word(text: &str) -> bool {
    const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !RESERVED.contains(&text)
}
