//! Recommends a policy for a tool or a server. Every recommended policy loads and carries its own tests.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::classify::{Category, Classification, Risk, SignalKind};
use crate::patterns::Exposure;
use crate::poison::Poison;

mod document;
mod guards;
mod own_folders;

pub(crate) use document::can_be_named;
pub use document::{Offer, PolicyNote, ServerPolicy, for_server};

/// How strict a recommended policy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Reads are allowed, reversible changes are limited, dangerous calls need approval.
    #[default]
    Recommended,
    /// Only plain reads are allowed; dangerous tools are hidden.
    Strict,
    /// Only the most dangerous calls need approval.
    Permissive,
}

impl Preset {
    pub const ALL: [Self; 3] = [Self::Recommended, Self::Strict, Self::Permissive];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recommended => "recommended",
            Self::Strict => "strict",
            Self::Permissive => "permissive",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.as_str() == text)
    }
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Treatment {
    Allow,
    Limit { max_a_minute: u32 },
    Ask,
    AskAndLimit { max_a_minute: u32 },
    Hide,
}

impl Treatment {
    /// What a test of the policy expects.
    pub fn expect(self) -> &'static str {
        match self {
            Self::Allow | Self::Limit { .. } => "allow",
            Self::Ask | Self::AskAndLimit { .. } => "ask",
            Self::Hide => "hide",
        }
    }

    /// The effect in one line.
    pub fn describe(self) -> String {
        match self {
            Self::Allow => "allowed".to_owned(),
            Self::Limit { max_a_minute } => format!("allowed, {max_a_minute} a minute per grant"),
            Self::Ask => "a person is asked each time".to_owned(),
            Self::AskAndLimit { max_a_minute } => {
                format!("a person is asked each time, at most {max_a_minute} a minute per grant")
            }
            Self::Hide => "hidden: the agent can neither see nor call it".to_owned(),
        }
    }

    /// The policy entry of a tool; `None` if the tool is hidden.
    pub fn entry(self, tool: &str, reason: &str) -> Option<Value> {
        let limit = |max: u32| {
            let mut limit = json!({ "window": "minute", "max": max, "scope": "grant" });
            if let (Some(counter), Some(members)) = (rate_counter(tool), limit.as_object_mut()) {
                members.shift_insert(0, "counter".to_owned(), counter.into());
            }
            json!([limit])
        };
        Some(match self {
            Self::Allow => json!({}),
            Self::Limit { max_a_minute } => json!({ "limits": limit(max_a_minute) }),
            Self::Ask => json!({ "action": "require_approval", "reason": reason }),
            Self::AskAndLimit { max_a_minute } => {
                json!({ "action": "require_approval", "reason": reason, "limits": limit(max_a_minute) })
            }
            Self::Hide => return None,
        })
    }
}

/// The counter of a tool's limit. `None` if the name cannot be a counter: the limit then has its own.
pub(crate) fn rate_counter(tool: &str) -> Option<String> {
    (!tool.starts_with('/')).then(|| format!("{tool}_rate"))
}

/// The recommendation for one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recommendation {
    pub treatment: Treatment,
    pub effect: String,
    pub reason: String,
    /// A whole policy for this tool alone; everything else of the server is denied.
    pub policy: Value,
}

/// The recommendation for one tool.
pub fn for_tool(
    name: &str,
    class: &Classification,
    patterns: &[Exposure],
    poison: &Poison,
    preset: Preset,
) -> Recommendation {
    let (treatment, reason) = treatment(class, patterns, poison, preset);
    let guards = guards::guards(name, class, patterns);
    Recommendation {
        treatment,
        effect: treatment.describe(),
        policy: single_tool_policy(name, treatment, reason, &guards),
        reason: reason.to_owned(),
    }
}

const WRITES_A_MINUTE: u32 = 30;
const RUNS_A_MINUTE: u32 = 10;
/// Clicks, keys and pages: one task takes many steps.
const STEPS_A_MINUTE: u32 = 60;

/// The table: category, credentials and risk to treatment.
pub(crate) fn treatment(
    class: &Classification,
    patterns: &[Exposure],
    poison: &Poison,
    preset: Preset,
) -> (Treatment, &'static str) {
    use Preset::{Permissive, Recommended, Strict};
    if poison.is_reported() {
        return (Treatment::Hide, "its definition gives the model instructions");
    }
    let limit = |max_a_minute| Treatment::Limit { max_a_minute };
    let ask_and_limit = |max_a_minute| Treatment::AskAndLimit { max_a_minute };
    let credentials = class.signals.iter().any(|s| s.kind == SignalKind::Credentials);
    let critical = class.risk == Risk::Critical;
    let shows = |id: &str| patterns.iter().any(|p| p.id == id);
    let steps = if shows("browser-hijack") { STEPS_A_MINUTE } else { RUNS_A_MINUTE };
    match (class.category, preset) {
        (_, Recommended | Permissive) if shows("file-upload") => {
            (Treatment::Ask, "a local file leaves the machine")
        }
        (Category::Financial, Strict) => (Treatment::Hide, "it moves money"),
        (Category::Financial, _) => (Treatment::Ask, "it moves money"),
        (Category::Execute, Strict) => (Treatment::Hide, "it runs or starts something"),
        (Category::Execute, Permissive) if !critical && !credentials => {
            (limit(steps), "it runs or starts something")
        }
        (Category::Execute, Recommended) if class.is_reversible && !credentials => {
            (limit(steps), "it runs or starts something reversible")
        }
        (Category::Execute, _) => (ask_and_limit(RUNS_A_MINUTE), "it runs or starts something"),
        (Category::Destructive, Strict) => (Treatment::Hide, "it deletes or ends something"),
        (Category::Destructive, Recommended) if critical => {
            (Treatment::Hide, "it deletes a lot, or permanently")
        }
        (Category::Destructive, _) => (Treatment::Ask, "it deletes or ends something"),
        (_, Strict) if credentials => (Treatment::Hide, "it handles credentials"),
        (_, _) if credentials => (Treatment::Ask, "it handles credentials"),
        (Category::Write, Strict) => (ask_and_limit(RUNS_A_MINUTE), "it changes something"),
        (Category::Write, Recommended) => (limit(WRITES_A_MINUTE), "it changes something"),
        (Category::Write, Permissive) => (limit(2 * WRITES_A_MINUTE), "it changes something"),
        (Category::Read, Strict) if class.risk > Risk::Low => {
            (Treatment::Ask, "it reads, and takes a path, an address or a query")
        }
        (Category::Read, Strict) => (limit(2 * WRITES_A_MINUTE), "it reads"),
        (Category::Read, _) => (Treatment::Allow, "it reads"),
    }
}

/// A policy for one tool.
fn single_tool_policy(
    name: &str,
    treatment: Treatment,
    reason: &str,
    guards: &guards::Guards,
) -> Value {
    let mut policy = Map::new();
    policy.insert("version".to_owned(), "1".into());
    policy.insert("default".to_owned(), "deny".into());
    if !document::can_be_named(name) {
        return Value::Object(policy);
    }
    let mut tests = vec![document::test(name, treatment)];
    match treatment.entry(name, reason) {
        Some(mut entry) => {
            guards.add_to(&mut entry);
            tests.extend(guards.tests.iter().cloned());
            policy.insert("tools".to_owned(), json!({ name: entry }))
        }
        None => policy.insert("hide".to_owned(), json!([name])),
    };
    tests.push(document::rest_test(&BTreeSet::from([name]), "deny"));
    policy.insert("tests".to_owned(), Value::Array(tests));
    Value::Object(policy)
}
