//! Builds the recommended policy document for a server, with its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::guards::{Guards, for_all_tools, guards};
use super::{Preset, Treatment, treatment};
use crate::assess::AssessedTool;

/// Tests in one document; with more tools, only every nth one is tested.
const TESTS_MAX: usize = 400;
/// Tools with parameter rules in their own entries. With more, the rules move to `all_tools`, so that the
/// document stays small.
const GUARDED_TOOLS_MAX: usize = 40;
/// Longest name the language and the protocol agree on.
const NAME_CHARS_MAX: usize = 128;

/// What a server offers besides tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer<'a> {
    pub resources: bool,
    pub prompts: bool,
    /// The names of its skills, as policies use them.
    pub skills: &'a [String],
}

/// A note for the owner about a recommendation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyNote {
    pub tool: String,
    #[serde(rename = "words")]
    pub message: String,
}

/// A policy for a server and its effect on each tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerPolicy {
    pub server: String,
    pub preset: Preset,
    pub policy: Value,
    /// Tool, treatment and reason, in the server's order.
    pub effects: Vec<(String, Treatment, &'static str)>,
    pub notes: Vec<PolicyNote>,
}

impl ServerPolicy {
    /// The document as it is written to a file.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.policy)
    }
}

/// The policy we recommend for a server.
pub fn for_server(
    server: &str,
    tools: &[AssessedTool],
    offer: Offer<'_>,
    preset: Preset,
) -> ServerPolicy {
    let mut plan = Plan::default();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in tools {
        *times.entry(tool.name.as_str()).or_default() += 1;
    }
    for tool in tools {
        plan.take(tool, times.get(tool.name.as_str()).copied().unwrap_or(1), preset);
    }
    let open = preset == Preset::Permissive && !plan.unnameable;
    let policy = plan.document(server, offer, preset, open);
    ServerPolicy {
        server: server.to_owned(),
        preset,
        policy,
        effects: plan.effects,
        notes: plan.notes,
    }
}

#[derive(Default)]
struct Plan {
    hide: Vec<String>,
    entries: Map<String, Value>,
    effects: Vec<(String, Treatment, &'static str)>,
    notes: Vec<PolicyNote>,
    guards: Vec<(String, Guards)>,
    /// A tool name cannot be written in a policy; only `default: deny` excludes it.
    unnameable: bool,
}

impl Plan {
    fn take(&mut self, tool: &AssessedTool, times: usize, preset: Preset) {
        let name = tool.name.as_str();
        if !can_be_named(name) {
            self.unnameable = true;
            self.note(name, "its name cannot be written in a policy, so it stays denied");
            return;
        }
        if self.effects.iter().any(|(known, _, _)| known == name) {
            return;
        }
        let (treatment, reason) = if times > 1 {
            self.note(name, "the server offers this name twice, so it is hidden");
            (Treatment::Hide, "its name is listed twice")
        } else {
            treatment(&tool.classification, &tool.patterns, &tool.poison, preset)
        };
        let guards = guards(name, &tool.classification, &tool.patterns);
        if treatment != Treatment::Hide && !guards.is_empty() {
            self.guards.push((name.to_owned(), guards));
        }
        match treatment.entry(name, reason) {
            Some(entry) => drop(self.entries.insert(name.to_owned(), entry)),
            None => self.hide.push(name.to_owned()),
        }
        if tool.poison.is_reported() {
            self.note(
                name,
                "its definition gives the model instructions; review it before you unhide it",
            );
        }
        self.effects.push((name.to_owned(), treatment, reason));
    }

    fn note(&mut self, tool: &str, message: &str) {
        self.notes.push(PolicyNote { tool: tool.to_owned(), message: message.to_owned() });
    }

    fn document(&self, server: &str, offer: Offer<'_>, preset: Preset, open: bool) -> Value {
        let mut policy = Map::new();
        let default = if open { "allow" } else { "deny" };
        policy.insert("version".to_owned(), "1".into());
        policy
            .insert("description".to_owned(), self.description(server, offer, preset, open).into());
        policy.insert("default".to_owned(), default.into());
        if !self.hide.is_empty() {
            policy.insert("hide".to_owned(), json!(self.hide));
        }
        let mut entries = self.entries.clone();
        if self.guards.len() > GUARDED_TOOLS_MAX {
            let shared = for_all_tools(self.guards.iter().map(|(_, guards)| guards));
            policy.insert("all_tools".to_owned(), shared);
        } else {
            for (name, guards) in &self.guards {
                entries.get_mut(name).into_iter().for_each(|entry| guards.add_to(entry));
            }
        }
        if !entries.is_empty() {
            policy.insert("tools".to_owned(), Value::Object(entries));
        }
        if opens_reading(preset) && !open {
            for (section, offered) in [("resources", offer.resources), ("prompts", offer.prompts)] {
                if offered {
                    policy.insert(section.to_owned(), json!({ "*": {} }));
                }
            }
            // By name: a skill is instructions, so one that is added later is not allowed by itself.
            let skills = offer.skills.iter().filter(|name| can_be_named(name));
            let skills: Map<String, Value> = skills.map(|name| (name.clone(), json!({}))).collect();
            if !skills.is_empty() {
                policy.insert("skills".to_owned(), Value::Object(skills));
            }
        }
        policy.insert("tests".to_owned(), self.tests(default, offer, preset));
        Value::Object(policy)
    }

    fn description(&self, server: &str, offer: Offer<'_>, preset: Preset, open: bool) -> String {
        let count = |wanted: &str| {
            self.effects.iter().filter(|(_, treatment, _)| group(*treatment) == wanted).count()
        };
        let mut text = format!("{} for {}:", title(preset), shown(server));
        for wanted in ["allowed", "limited", "asked for", "hidden"] {
            let _ = match count(wanted) {
                0 => Ok(()),
                n => write!(text, " {n} {wanted},"),
            };
        }
        let rest = if open { "allowed" } else { "denied" };
        let _ = write!(text, " every other tool {rest}.");
        for (name, offered) in [
            ("Resources", offer.resources),
            ("Prompts", offer.prompts),
            ("Skills", !offer.skills.is_empty()),
        ] {
            if offered {
                let how = if open || opens_reading(preset) { "can be read" } else { "are denied" };
                let _ = write!(text, " {name} {how}.");
            }
        }
        text
    }

    fn tests(&self, default: &str, offer: Offer<'_>, preset: Preset) -> Value {
        let mut tests: Vec<Value> = Vec::new();
        let step = self.effects.len().div_ceil(TESTS_MAX).max(1);
        for (name, treatment, _) in self.effects.iter().step_by(step) {
            tests.push(test(name, *treatment));
        }
        if self.guards.len() <= GUARDED_TOOLS_MAX {
            let refused = self.guards.iter().flat_map(|(_, guards)| guards.tests.iter().cloned());
            tests.extend(refused.take(TESTS_MAX));
        }
        let known: BTreeSet<&str> = self.effects.iter().map(|(name, _, _)| name.as_str()).collect();
        tests.push(rest_test(&known, default));
        let reads = default == "allow" || opens_reading(preset);
        for (kind, offered, target) in [
            ("resource", offer.resources, "test://anything"),
            ("prompt", offer.prompts, "anything"),
        ] {
            if offered {
                let expect = if reads { "allow" } else { "deny" };
                tests
                    .push(json!({ "name": format!("any {kind}"), kind: target, "expect": expect }));
            }
        }
        Value::Array(tests)
    }
}

fn opens_reading(preset: Preset) -> bool {
    preset != Preset::Strict
}

fn group(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Allow => "allowed",
        Treatment::Limit { .. } => "limited",
        Treatment::Ask | Treatment::AskAndLimit { .. } => "asked for",
        Treatment::Hide => "hidden",
    }
}

fn title(preset: Preset) -> &'static str {
    match preset {
        Preset::Recommended => "Recommended",
        Preset::Strict => "Strict",
        Preset::Permissive => "Permissive",
    }
}

fn shown(server: &str) -> String {
    let name: String = crate::pins::visible(server).chars().take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "a server".to_owned() } else { format!("`{name}`") }
}

/// Whether a policy can name exactly this tool.
pub(crate) fn can_be_named(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.bytes().all(|b| (b.is_ascii_graphic() || b == b' ') && b != b'*')
        && policy::name_warning(name).is_none()
}

pub(super) fn test(name: &str, treatment: Treatment) -> Value {
    json!({ "name": format!("{name}: {}", group(treatment)), "tool": name, "args": {}, "expect": treatment.expect() })
}

/// A test of the default, with a tool that does not exist.
pub(super) fn rest_test(known: &BTreeSet<&str>, expect: &str) -> Value {
    let mut name = "some_other_tool".to_owned();
    while known.contains(name.as_str()) {
        name.push('x');
    }
    json!({ "name": "every other tool", "tool": name, "args": {}, "expect": expect })
}
