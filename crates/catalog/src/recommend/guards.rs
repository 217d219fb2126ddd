//! Parameter rules for recommended policies: what a path, a URL, a command or a query may not contain.
//! They deny single values, so the tool stays usable without approval.

use serde_json::{Map, Value, json};

use crate::classify::{Category, Classification, Risk, SignalKind};
use crate::patterns::{Exposure, pattern};

/// Patterns whose rule refuses a value, and the kind of parameter it is about.
const CARRIED: &[(&str, SignalKind)] = &[
    ("ssrf", SignalKind::Url),
    ("path-traversal", SignalKind::Path),
    ("configuration-takeover", SignalKind::Path),
    ("read-only-bypass", SignalKind::Sql),
    ("command-injection", SignalKind::Command),
];
/// Patterns whose rule means the same for every tool with such a parameter.
const FOR_EVERY_TOOL: &[&str] = &["ssrf", "path-traversal"];
/// Parameters of one tool that get rules.
const PARAMETERS_MAX: usize = 8;

/// Rules for one tool, with tests.
#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    deny_if: Vec<Value>,
    approve_if: Vec<Value>,
    pub(super) tests: Vec<Value>,
    /// Rules that may move to `all_tools`.
    shared: Vec<Value>,
}

impl Guards {
    pub(super) fn is_empty(&self) -> bool {
        self.deny_if.is_empty() && self.approve_if.is_empty()
    }

    /// Adds the rules to the entry of the tool.
    pub(super) fn add_to(&self, entry: &mut Value) {
        let Some(members) = entry.as_object_mut() else { return };
        put(members, "deny_if", &self.deny_if);
        put(members, "approve_if", &self.approve_if);
    }
}

fn put(members: &mut Map<String, Value>, key: &str, rules: &[Value]) {
    if !rules.is_empty() {
        members.insert(key.to_owned(), Value::Array(rules.to_vec()));
    }
}

/// The shared rules of many tools for `all_tools`, each once.
pub(super) fn for_all_tools<'a>(guards: impl Iterator<Item = &'a Guards>) -> Value {
    let mut deny_if: Vec<Value> = Vec::new();
    for rule in guards.flat_map(|g| &g.shared) {
        if !deny_if.contains(rule) {
            deny_if.push(rule.clone());
        }
    }
    json!({ "deny_if": deny_if })
}

pub(super) fn guards(name: &str, class: &Classification, shown: &[Exposure]) -> Guards {
    let mut out = Guards::default();
    for (id, kind) in CARRIED {
        let Some(pattern) = pattern(id).filter(|_| shown.iter().any(|e| e.id == *id)) else {
            continue;
        };
        for parameter in parameters(class, *kind) {
            let rule = pattern.rule_for(name, Some(parameter));
            let rules = rule.pointer("/tools").and_then(|t| t.get(name)?.get("deny_if"));
            let rules = rules.and_then(Value::as_array).cloned().unwrap_or_default();
            if FOR_EVERY_TOOL.contains(id) {
                out.shared.extend(rules.iter().cloned());
            }
            out.deny_if.extend(rules);
            out.tests.extend(refusals(name, parameter, &rule));
        }
    }
    scripts(name, class, &mut out);
    out
}

fn parameters(class: &Classification, kind: SignalKind) -> impl Iterator<Item = &str> {
    let of_kind = class.reach.iter().filter(move |r| r.kind == kind);
    of_kind.map(|r| r.parameter.as_str()).take(PARAMETERS_MAX)
}

/// The tests of a pattern's rule that expect a refusal, named after the tool and the parameter.
fn refusals(name: &str, parameter: &str, rule: &Value) -> Vec<Value> {
    let tests = rule.get("tests").and_then(Value::as_array).cloned().unwrap_or_default();
    let refused = tests.into_iter().filter(|t| t.get("expect") == Some(&json!("deny")));
    let named = refused.map(|mut test| {
        let words = test.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(members) = test.as_object_mut() {
            members.insert("name".to_owned(), format!("{name} {parameter}: {words}").into());
        }
        test
    });
    named.collect()
}

/// An optional script parameter: the call needs approval only if it has a script.
fn scripts(name: &str, class: &Classification, out: &mut Guards) {
    if class.category != Category::Execute || class.risk == Risk::Critical {
        return;
    }
    for parameter in parameters(class, SignalKind::Command).filter(|p| !p.contains("[]")) {
        let path = crate::patterns::policy_path(parameter);
        let mut args = Map::new();
        crate::patterns::nest(parameter, "1 + 1".into(), &mut args);
        out.approve_if.push(json!({
            "conditions": [{ "path": path, "op": "exists", "value": true }],
            "on_deny": "a person reads the script first",
        }));
        out.tests.push(json!({
            "name": format!("{name} {parameter}: a script asks"),
            "tool": name, "args": args, "expect": "ask",
        }));
    }
}
