//! Drift: how a server's tools differ from the accepted definitions, and the effect on their risk.

use std::collections::BTreeMap;

use policy::json::{Bounds, Doc, Value};
use serde::Serialize;

use crate::assess::{AssessedTool, AssessmentContext, assess_tool};
use crate::classify::{Category, Risk};
use crate::pins::{Change, canonical_definition, difference};
use crate::poison::Suspicion;

/// How a tool differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    Changed,
    New,
    Gone,
}

/// Category, risk and suspicion of one definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rating {
    pub category: Category,
    pub risk: Risk,
    pub suspicion: Suspicion,
}

/// One tool that differs from its accepted definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    pub tool: String,
    pub kind: DriftKind,
    pub before: Option<Rating>,
    pub after: Option<Rating>,
    /// The differences; empty for new and removed tools.
    pub changes: Vec<Change>,
    /// The effect on the risk, ready to print.
    pub effect: Vec<String>,
    /// The change raises the risk.
    pub is_worse: bool,
}

/// Compares accepted definitions (name and canonical text) with the current tools of a server.
pub fn drift(server: &str, accepted: &[(&str, &str)], now: &[Value<'_>]) -> Vec<Drift> {
    let name = |tool: &Value<'_>| {
        tool.get("name").and_then(Value::as_str).unwrap_or_default().into_owned()
    };
    let offered: BTreeMap<String, Value<'_>> = now.iter().map(|tool| (name(tool), *tool)).collect();
    let siblings: Vec<&str> = offered.keys().map(String::as_str).collect();
    let known: BTreeMap<&str, &str> = accepted.iter().copied().collect();
    let mut out = Vec::new();
    for (tool, definition) in &known {
        match offered.get(*tool) {
            None => out.push(gone(server, tool, definition)),
            Some(now) => out.extend(changed(server, tool, definition, *now, &siblings)),
        }
    }
    for (tool, now) in offered.iter().filter(|(tool, _)| !known.contains_key(tool.as_str())) {
        out.push(new(server, tool, *now, &siblings));
    }
    out.sort_by(|a, b| b.is_worse.cmp(&a.is_worse).then_with(|| a.tool.cmp(&b.tool)));
    out
}

fn changed(
    server: &str,
    tool: &str,
    accepted: &str,
    now: Value<'_>,
    siblings: &[&str],
) -> Option<Drift> {
    let canonical = canonical_definition(now);
    if canonical == accepted {
        return None;
    }
    let before = assessed(server, accepted, siblings);
    let after = assess_tool(server, now, siblings, AssessmentContext::default());
    let (effect, is_worse) = effect(before.as_ref(), &after);
    Some(Drift {
        tool: tool.to_owned(),
        kind: DriftKind::Changed,
        before: before.as_ref().map(rating),
        after: Some(rating(&after)),
        changes: difference(accepted, &canonical),
        effect,
        is_worse,
    })
}

fn new(server: &str, tool: &str, now: Value<'_>, siblings: &[&str]) -> Drift {
    let after = assess_tool(server, now, siblings, AssessmentContext::default());
    let class = &after.classification;
    let mut effect = vec![format!("a new tool: {}, {} risk", class.category, class.risk)];
    if after.poison.is_reported() {
        effect.push("its definition gives the model instructions".to_owned());
    }
    Drift {
        tool: tool.to_owned(),
        kind: DriftKind::New,
        before: None,
        is_worse: class.risk > Risk::Low || after.poison.is_reported(),
        after: Some(rating(&after)),
        changes: Vec::new(),
        effect,
    }
}

fn gone(server: &str, tool: &str, accepted: &str) -> Drift {
    let before = assessed(server, accepted, &[]);
    Drift {
        tool: tool.to_owned(),
        kind: DriftKind::Gone,
        before: before.as_ref().map(rating),
        after: None,
        changes: Vec::new(),
        effect: vec!["no longer offered".to_owned()],
        is_worse: false,
    }
}

fn assessed(server: &str, definition: &str, siblings: &[&str]) -> Option<AssessedTool> {
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER).ok()?;
    Some(assess_tool(server, doc.root(), siblings, AssessmentContext::default()))
}

fn rating(tool: &AssessedTool) -> Rating {
    let class = &tool.classification;
    Rating { category: class.category, risk: class.risk, suspicion: tool.poison.suspicion }
}

/// The effect of a change, worst first.
fn effect(before: Option<&AssessedTool>, after: &AssessedTool) -> (Vec<String>, bool) {
    let Some(before) = before else {
        return (vec!["the accepted definition cannot be read".to_owned()], true);
    };
    let (was, is) = (&before.classification, &after.classification);
    let mut out = Vec::new();
    let mut worse = false;
    if after.poison.suspicion > before.poison.suspicion {
        out.push("its definition now gives the model instructions".to_owned());
        worse = true;
    }
    if was.risk != is.risk {
        let direction = if is.risk > was.risk { "rises" } else { "falls" };
        out.push(format!("risk {direction} from {} to {}", was.risk, is.risk));
        worse |= is.risk > was.risk;
    }
    if was.category != is.category {
        out.push(format!("category changes from {} to {}", was.category, is.category));
        worse |= is.category > was.category;
    }
    for signal in &is.signals {
        if !was.signals.iter().any(|s| s.kind == signal.kind) {
            out.push(format!("it now {} ({})", signal.kind.describe(), signal.location));
            worse = true;
        }
    }
    let is_new = |id: &str| !before.patterns.iter().any(|p| p.id == id);
    let exposed: Vec<&str> =
        after.patterns.iter().filter(|p| is_new(p.id)).map(|p| p.title).collect();
    if !exposed.is_empty() {
        out.push(format!("it is now exposed to: {}", exposed.join(", ")));
    }
    if out.is_empty() {
        out.push("the risk is unchanged".to_owned());
    }
    (out, worse)
}
