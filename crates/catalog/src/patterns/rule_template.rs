//! Fills the rule template of a pattern with a tool and a parameter.

use serde_json::{Map, Value, json};

use crate::recommend::{can_be_named, rate_counter};

/// The rule with its placeholders filled.
pub(super) fn rule(template: &str, tool: &str, parameter: Option<&str>) -> Value {
    if !can_be_named(tool) {
        return deny_all();
    }
    let needs_parameter = template.contains("PARAM");
    let template = match parameter {
        None if needs_parameter => ask(),
        _ => serde_json::from_str(template).unwrap_or_else(|_| ask()),
    };
    fill(template, tool, parameter.unwrap_or_default())
}

/// Whether the name says that the parameter holds a URL; a `uri` or `webhook` may hold something else.
pub(super) fn is_url(parameter: &str) -> bool {
    let last = parameter.rsplit('.').next().unwrap_or(parameter).to_ascii_lowercase();
    last.contains("url") || last.contains("href")
}

/// For a tool whose name cannot be written in a policy.
fn deny_all() -> Value {
    json!({
        "version": "1",
        "default": "deny",
        "tests": [{ "name": "nothing is open", "tool": "anything", "args": {}, "expect": "deny" }],
    })
}

fn ask() -> Value {
    json!({
        "version": "1",
        "default": "deny",
        "tools": { "TOOL": { "action": "require_approval", "reason": "a person decides about this call" } },
        "tests": [{ "name": "a person is asked", "tool": "TOOL", "args": {}, "expect": "ask" }],
    })
}

fn fill(value: Value, tool: &str, parameter: &str) -> Value {
    match value {
        Value::String(text) if text == "TOOL" => tool.into(),
        Value::String(text) if text == "args.PARAM" => policy_path(parameter).into(),
        Value::Array(items) => items.into_iter().map(|item| fill(item, tool, parameter)).collect(),
        Value::Object(members) => {
            let mut out = Map::new();
            for (key, member) in members {
                if member == "TOOL_rate" {
                    out.extend(rate_counter(tool).map(|counter| (key, counter.into())));
                    continue;
                }
                let member = fill(member, tool, parameter);
                match key.as_str() {
                    "TOOL" => drop(out.insert(tool.to_owned(), member)),
                    "PARAM" => nest(parameter, member, &mut out),
                    _ => drop(out.insert(key, member)),
                }
            }
            Value::Object(out)
        }
        other => other,
    }
}

/// `to[].address` as policies write it: `args.to[*].address`.
pub(crate) fn policy_path(parameter: &str) -> String {
    let mut path = String::from("args");
    for part in parameter.split('.') {
        let name = part.trim_end_matches("[]");
        let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if plain {
            path.push('.');
            path.push_str(name);
        } else {
            path.push('[');
            path.push_str(&Value::from(name).to_string());
            path.push(']');
        }
        if part.ends_with("[]") {
            path.push_str("[*]");
        }
    }
    path
}

/// Inserts the value at the path of the parameter, for the arguments of a test.
pub(crate) fn nest(parameter: &str, value: Value, out: &mut Map<String, Value>) {
    let mut value = value;
    for part in parameter.split('.').rev() {
        let name = part.trim_end_matches("[]");
        if part.ends_with("[]") {
            value = json!([value]);
        }
        value = json!({ name: value });
    }
    if let Value::Object(members) = value {
        out.extend(members);
    }
}

#[cfg(test)]
mod tests {
    use super::{policy_path, rule};
    use serde_json::json;

    #[test]
    fn parameters_are_written_as_policies_write_them() {
        for (parameter, path) in [
            ("path", "args.path"),
            ("to[].address", "args.to[*].address"),
            ("file-name", "args[\"file-name\"]"),
            ("a.b c", "args.a[\"b c\"]"),
        ] {
            assert_eq!(policy_path(parameter), path);
        }
    }

    #[test]
    fn arguments_of_tests_are_nested_like_the_parameter() {
        let filled = rule(r#"{"args":{"PARAM":"x"}}"#, "t", Some("list[].url"));
        assert_eq!(filled, json!({"args": {"list": [{"url": "x"}]}}));
    }
}
