//! Exceptions for a server's own folders: a file server below a dot folder stays usable, while dot files
//! elsewhere and inside the folder stay denied.

use serde_json::{Map, Value, json};

use super::ServerPolicy;
use crate::patterns::pattern;

/// The patterns whose rule refuses dot files.
const REFUSE_DOT_FILES: &[&str] = &["path-traversal", "configuration-takeover"];
/// A longer path would exceed the size limit of a rule.
const ROOT_CHARS_MAX: usize = 120;
const ROOTS_MAX: usize = 8;
/// One level of groups compares this many characters. Patterns may nest 64 levels, and a group counts as
/// three of them: a level for each character would allow folders of 20 characters.
const BLOCK_CHARS: usize = 8;

impl ServerPolicy {
    /// Allows ordinary files in the folders that the owner gave the server. Only absolute paths with a dot
    /// folder need an exception.
    #[must_use]
    pub fn with_own_folders(mut self, folders: &[String]) -> ServerPolicy {
        let roots: Vec<&str> = folders.iter().map(|folder| folder.trim_end_matches('/')).collect();
        let roots: Vec<&str> = roots.into_iter().filter(|root| needs_exception(root)).collect();
        let Some(first) = roots.first().filter(|_| roots.len() <= ROOTS_MAX) else { return self };
        let first = (*first).to_owned();
        let mut opened = Vec::new();
        if let Some(tools) = self.policy.pointer_mut("/tools").and_then(Value::as_object_mut) {
            for (name, entry) in tools {
                opened.extend(open(entry, &roots).into_iter().map(|path| (name.clone(), path)));
            }
        }
        if let Some(entry) = self.policy.get_mut("all_tools") {
            open(entry, &roots);
        }
        let tests: Vec<Value> =
            opened.iter().filter_map(|(tool, path)| self.test(tool, path, &first)).collect();
        if let Some(known) = self.policy.get_mut("tests").and_then(Value::as_array_mut) {
            known.extend(tests);
        }
        self
    }

    /// A test that an ordinary file of the folder is allowed.
    fn test(&self, tool: &str, path: &str, root: &str) -> Option<Value> {
        let parameter =
            path.strip_prefix("args.").filter(|rest| !rest.contains(['.', '[', '*']))?;
        let (_, treatment, _) = self.effects.iter().find(|(name, _, _)| name == tool)?;
        let args = Map::from_iter([(parameter.to_owned(), format!("{root}/today.md").into())]);
        Some(json!({
            "name": format!("{tool} {parameter}: the server's own folder"),
            "tool": tool, "args": args, "expect": treatment.expect(),
        }))
    }
}

fn needs_exception(root: &str) -> bool {
    root.starts_with('/') && root.contains("/.") && root.chars().count() <= ROOT_CHARS_MAX
}

/// Adds the exception to the rules of one entry; returns the paths of their parameters.
fn open(entry: &mut Value, roots: &[&str]) -> Vec<String> {
    let Some(rules) = entry.get_mut("deny_if").and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let mut opened = Vec::new();
    let mut out = Vec::new();
    for rule in std::mem::take(rules) {
        match condition(&rule) {
            Some((path, expression)) => {
                out.push(outside(&rule, &path, roots));
                out.push(inside(&rule, &path, &expression, roots));
                if !opened.contains(&path) {
                    opened.push(path);
                }
            }
            None => out.push(rule),
        }
    }
    *rules = out;
    opened
}

/// The path and the expression of a rule that refuses dot files.
fn condition(rule: &Value) -> Option<(String, String)> {
    let conditions = rule.get("conditions")?.as_array()?;
    let [condition] = conditions.as_slice() else { return None };
    let path = condition.get("path")?.as_str()?;
    let expression = condition.get("value")?.as_str()?;
    let refuses = REFUSE_DOT_FILES.iter().filter_map(|id| pattern(id)).any(|pattern| {
        let rule = pattern.rule_for("t", Some("p"));
        rule.pointer("/tools/t/deny_if/0/conditions/0/value").and_then(Value::as_str)
            == Some(expression)
    });
    refuses.then(|| (path.to_owned(), expression.to_owned()))
}

/// The rule for paths that are not in one of the folders.
fn outside(rule: &Value, path: &str, roots: &[&str]) -> Value {
    let mut rule = rule.clone();
    if let Some(conditions) = rule.get_mut("conditions").and_then(Value::as_array_mut) {
        let others =
            roots.iter().map(|root| json!({ "path": path, "op": "regex", "value": not_in(root) }));
        conditions.extend(others);
    }
    rule
}

/// The rule for the part of a path after the folder.
fn inside(rule: &Value, path: &str, expression: &str, roots: &[&str]) -> Value {
    let roots: Vec<String> = roots.iter().map(|root| literal(root)).collect();
    let expression = expression.trim_start_matches("(?i)");
    let value = format!("(?is)^(?-i:{})(?:[/\\\\].*)?(?:{expression})", roots.join("|"));
    let mut rule = rule.clone();
    if let Some(members) = rule.as_object_mut() {
        let conditions = json!([{ "path": path, "op": "regex", "value": value }]);
        members.insert("conditions".to_owned(), conditions);
    }
    rule
}

/// A regex for texts outside the folder: they differ from it at some character. The policy language
/// cannot negate a pattern.
fn not_in(root: &str) -> String {
    let chars: Vec<char> = root.chars().collect();
    let differs = chars.chunks(BLOCK_CHARS).rev().fold("[^/]".to_owned(), |rest, block| {
        let mut same = String::new();
        let mut alternatives = Vec::new();
        for &c in block {
            let class = if "\\]^-[&~".contains(c) { format!("\\{c}") } else { c.to_string() };
            alternatives.push(format!("{same}(?:$|[^{class}])"));
            same.push_str(&literal(c.encode_utf8(&mut [0; 4])));
        }
        alternatives.push(format!("{same}{rest}"));
        format!("(?:{})", alternatives.join("|"))
    });
    format!("(?s)^{differs}")
}

fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && c != '/' && c != '_' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
