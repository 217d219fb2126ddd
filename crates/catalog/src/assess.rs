//! The assessment of a server: for each tool its category, risk, attack patterns, poisoned text and
//! recommended rule. Commands, pages and the index show this value and compute nothing themselves.

use std::collections::BTreeMap;

use policy::json::{Kind, Value};
use serde::Serialize;

use crate::classify::{
    CLASSIFIER_VERSION, Category, Classification, Evidence, Risk, classify_with_traits,
};
use crate::drift::{Drift, DriftKind};
use crate::patterns::{Exposure, Facts, PATTERNS_VERSION, exposures};
use crate::pins::{Fingerprint, Oddity, fingerprint, oddities};
use crate::poison::{LookAlike, Poison, Suspicion, inspect_with, look_alikes};
use crate::recommend::{Preset, Recommendation, for_tool};

/// The assessment of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AssessedTool {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    pub description: String,
    pub fingerprint: Fingerprint,
    /// Category, risk, evidence, signals and contradicted hints.
    #[serde(flatten)]
    pub classification: Classification,
    pub patterns: Vec<Exposure>,
    pub poison: Poison,
    /// Misleading characters and names.
    pub oddities: Vec<Oddity>,
    pub recommended: Recommendation,
}

/// The assessment of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assessment {
    pub server: String,
    pub classifier_version: u32,
    pub patterns_version: u32,
    pub tools: Vec<AssessedTool>,
    pub findings: Vec<ServerFinding>,
}

/// A finding about the server as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ServerFinding {
    /// Tools whose names are easily confused.
    LookAlikes { tools: Vec<String> },
    /// One name listed more than once; only the server knows which one a call reaches.
    RepeatedName { tool: String },
    /// A list item that is not a tool.
    NotATool { at: usize },
    /// Names that some clients reject, together with the whole list.
    RejectedByClients { tools: Vec<String> },
}

/// What an assessment may use besides the tool list of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssessmentContext<'a> {
    /// Names that look alike across the servers of a stack.
    pub look_alikes: &'a [LookAlike],
    /// Differences from the accepted definitions.
    pub drift: &'a [Drift],
    /// Tools of other servers that the same agent can call.
    pub other_tools: &'a [&'a str],
}

impl ServerFinding {
    /// The finding as a sentence.
    pub fn describe(&self) -> String {
        match self {
            Self::LookAlikes { tools } => {
                format!("{} are easily confused", quoted(tools))
            }
            Self::RepeatedName { tool } => {
                format!("`{}` is offered more than once", crate::pins::visible(tool))
            }
            Self::NotATool { at } => format!("item {at} of the list has no name"),
            Self::RejectedByClients { tools } => format!(
                "some clients reject a whole list for {} (not 1 to 64 of A-Z a-z 0-9 _ -); \
                 `/mcp` has short forms, `--map-names` has them at the server's own address",
                quoted(tools)
            ),
        }
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> =
        names.iter().map(|name| format!("`{}`", crate::pins::visible(name))).collect();
    names.join(" and ")
}

impl Assessment {
    /// The highest risk of any tool.
    pub fn worst(&self) -> Option<Risk> {
        self.tools.iter().map(|tool| tool.classification.risk).max()
    }

    /// Tools per category, in the order of the categories.
    pub fn by_category(&self) -> BTreeMap<Category, usize> {
        let mut counts = BTreeMap::new();
        for tool in &self.tools {
            *counts.entry(tool.classification.category).or_default() += 1;
        }
        counts
    }

    pub fn tool(&self, name: &str) -> Option<&AssessedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Assesses the tool objects of one server, as `tools/list` gives them.
pub fn assess(server: &str, tools: &[Value<'_>]) -> Assessment {
    assess_with(server, tools, AssessmentContext::default())
}

/// Like `assess`, with knowledge about other servers and accepted definitions.
pub fn assess_with(
    server: &str,
    tools: &[Value<'_>],
    context: AssessmentContext<'_>,
) -> Assessment {
    let names: Vec<String> = tools.iter().map(|tool| text(*tool, "name")).collect();
    let siblings: Vec<&str> = names.iter().map(String::as_str).collect();
    let own = look_alikes(siblings.iter().map(|name| (server, *name)));
    let look_alikes: Vec<LookAlike> = context.look_alikes.iter().chain(&own).cloned().collect();
    let context = AssessmentContext { look_alikes: &look_alikes, ..context };
    let assessed = tools.iter().zip(&siblings).filter(|(_, name)| !name.is_empty());
    Assessment {
        server: server.to_owned(),
        classifier_version: CLASSIFIER_VERSION,
        patterns_version: PATTERNS_VERSION,
        tools: assessed.map(|(tool, _)| assess_tool(server, *tool, &siblings, context)).collect(),
        findings: findings(&siblings, &own),
    }
}

/// Assesses one tool. `siblings` are all names of its server.
pub fn assess_tool(
    server: &str,
    tool: Value<'_>,
    siblings: &[&str],
    context: AssessmentContext<'_>,
) -> AssessedTool {
    let name = text(tool, "name");
    let (mut classification, traits) = classify_with_traits(server, tool);
    let poison = inspect_with(tool, siblings, context.other_tools);
    raise_risk(&mut classification, &poison);
    let mut facts = Facts::of(&classification, &traits, &poison);
    if let Some(message) = context.drift.iter().find_map(|drift| drifted(&name, drift)) {
        facts.add_drift(message);
    }
    for look_alike in context.look_alikes {
        if let Some(message) = confused_with(server, &name, look_alike) {
            facts.add_look_alike(message);
        }
    }
    let patterns = exposures(&name, &facts);
    AssessedTool {
        title: title(tool),
        description: text(tool, "description"),
        fingerprint: fingerprint(tool),
        oddities: oddities(tool),
        recommended: for_tool(&name, &classification, &patterns, &poison, Preset::Recommended),
        patterns,
        classification,
        poison,
        name,
    }
}

/// A definition that gives the model instructions can misuse every other tool of the model.
fn raise_risk(class: &mut Classification, poison: &Poison) {
    let floor = match poison.suspicion {
        Suspicion::None => return,
        Suspicion::Suspicious => Risk::High,
        Suspicion::Poisoned => Risk::Critical,
    };
    class.risk = class.risk.max(floor);
    if let Some(finding) = poison.findings.first() {
        class.evidence.push(Evidence {
            location: finding.location.clone(),
            text: finding.quote.clone(),
            meaning: format!("it {}", finding.kind.describe()),
        });
    }
}

/// How a tool changed since it was accepted, and the effect on its risk.
fn drifted(name: &str, drift: &Drift) -> Option<String> {
    let what = match drift.kind {
        _ if drift.tool != name => return None,
        DriftKind::Changed => "changed since it was accepted",
        DriftKind::New => "was added after the server was accepted",
        DriftKind::Gone => return None,
    };
    Some(format!("{what}: {}", drift.effect.join("; ")))
}

fn confused_with(server: &str, name: &str, look_alike: &LookAlike) -> Option<String> {
    let is_this = |o: &&crate::poison::OfferedTool| o.server == server && o.tool == name;
    look_alike.tools.iter().find(is_this)?;
    let other = look_alike.tools.iter().find(|o| !is_this(o))?;
    let (tool, server) = (crate::pins::visible(&other.tool), crate::pins::visible(&other.server));
    Some(format!("is easily confused with `{tool}` of `{server}`"))
}

fn findings(names: &[&str], look_alikes: &[LookAlike]) -> Vec<ServerFinding> {
    let mut out = Vec::new();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() {
            out.push(ServerFinding::NotATool { at });
        } else {
            *times.entry(name).or_default() += 1;
        }
    }
    for (name, _) in times.into_iter().filter(|(_, times)| *times > 1) {
        out.push(ServerFinding::RepeatedName { tool: name.to_owned() });
    }
    for look_alike in look_alikes {
        let tools = look_alike.tools.iter().map(|o| o.tool.clone()).collect();
        out.push(ServerFinding::LookAlikes { tools });
    }
    out
}

fn title(tool: Value<'_>) -> String {
    let own = text(tool, "title");
    if !own.is_empty() {
        return own;
    }
    tool.get("annotations").map(|annotations| text(annotations, "title")).unwrap_or_default()
}

fn text(object: Value<'_>, key: &str) -> String {
    if object.kind() != Kind::Object {
        return String::new();
    }
    object.get(key).and_then(Value::as_str).unwrap_or_default().into_owned()
}
