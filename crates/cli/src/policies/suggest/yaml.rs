//! A policy as YAML: the same document, block by block. Texts are quoted as JSON quotes them, which YAML
//! reads alike, so none of them can be taken for anything else.

use std::fmt::Write as _;

use serde_json::Value;

pub(super) fn text(policy: &Value) -> String {
    let mut out = String::new();
    block(policy, 0, &mut out);
    out
}

/// Writes the lines of a map or list, each behind so many spaces.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let _ = write!(out, "{:indent$}{}:", "", key(name));
                behind(member, indent, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                // The first line of an item stands behind its dash.
                let mut lines = String::new();
                block(item, indent + 2, &mut lines);
                let _ = write!(out, "{:indent$}- {}", "", lines.trim_start());
            }
        }
        scalar => {
            let _ = writeln!(out, "{:indent$}{scalar}", "");
        }
    }
}

/// What stands behind `name:` or `-`: a scalar on the same line, everything else on lines of its own.
fn behind(value: &Value, indent: usize, out: &mut String) {
    let is_nested = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_nested {
        out.push('\n');
        block(value, indent + 2, out);
    } else {
        let _ = writeln!(out, " {value}");
    }
}

/// A plain word stands as it is; words that YAML takes for something else are quoted like any text.
fn key(name: &str) -> String {
    const TAKEN: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if is_plain && !TAKEN.contains(&name) { name.to_owned() } else { Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::{Format, Policy};
    use serde_json::json;

    use super::text;

    #[test]
    fn names_that_yaml_would_take_for_something_else_stay_names() {
        let names = ["yes", "null", "x_1", "010", "a: b", "- x", "#", "\"q\"", "日本", "~", "&a"];
        let tools: serde_json::Map<_, _> =
            names.iter().map(|n| (n.to_string(), json!({}))).collect();
        let tests: Vec<_> = names
            .iter()
            .map(|name| json!({ "name": name, "tool": name, "expect": "allow" }))
            .collect();
        let policy = json!({ "version": "1", "default": "deny", "hide": [], "tools": tools, "tests": tests });
        let yaml = text(&policy);
        let loaded = Policy::load(&yaml, Format::Yaml).unwrap();
        assert_eq!(loaded.run_tests().len(), names.len(), "{yaml}");
    }
}
