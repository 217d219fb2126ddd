//! Everything the catalogue knows about a server's tools, in one value: what each is, what it is
//! exposed to, what is wrong with its definition, and the rule we recommend. Commands, pages and the
//! index show this and compute nothing of their own.

use std::collections::BTreeMap;

use policy::json::{Kind, Value};
use serde::Serialize;

use crate::classify::{
    CLASSIFIER_VERSION, Category, Classification, Evidence, Risk, classify_closely,
};
use crate::drift::{Drift, DriftKind};
use crate::patterns::{Exposure, Facts, PATTERNS_VERSION, exposures};
use crate::pins::{Fingerprint, Oddity, fingerprint, oddities};
use crate::poison::{LookAlike, Poison, Suspicion, inspect_among, look_alikes};
use crate::recommend::{Preset, Recommendation, for_tool};

/// What is known about one tool.
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
    /// Characters and names that mislead the eye.
    pub oddities: Vec<Oddity>,
    pub recommended: Recommendation,
}

/// What is known about a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assessment {
    pub server: String,
    pub classifier_version: u32,
    pub patterns_version: u32,
    pub tools: Vec<AssessedTool>,
    pub findings: Vec<ServerFinding>,
}

/// Something about the server as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ServerFinding {
    /// Two tools whose names a person or a model takes for each other.
    LookAlikes { tools: Vec<String> },
    /// One name offered twice; which one a call reaches is the server's secret.
    RepeatedName { tool: String },
    /// An item of the list that is no tool.
    NotATool { at: usize },
}

/// What is known of a server besides its own list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around<'a> {
    /// Names that look alike across the servers of a stack.
    pub doubles: &'a [LookAlike],
    /// What is not as the owner accepted it.
    pub drift: &'a [Drift],
    /// Tools of other servers that an agent sees at the same time.
    pub others: &'a [&'a str],
}

impl ServerFinding {
    /// The finding as a sentence.
    pub fn words(&self) -> String {
        match self {
            Self::LookAlikes { tools } => {
                format!("{} are easily taken for each other", quoted(tools))
            }
            Self::RepeatedName { tool } => {
                format!("`{}` is offered more than once", crate::pins::visible(tool))
            }
            Self::NotATool { at } => format!("item {at} of the list has no name"),
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
    assess_among(server, tools, Around::default())
}

/// The same, with what is known of other servers and of earlier times.
pub fn assess_among(server: &str, tools: &[Value<'_>], around: Around<'_>) -> Assessment {
    let names: Vec<String> = tools.iter().map(|tool| text(*tool, "name")).collect();
    let siblings: Vec<&str> = names.iter().map(String::as_str).collect();
    let own = look_alikes(siblings.iter().map(|name| (server, *name)));
    let doubles: Vec<LookAlike> = around.doubles.iter().chain(&own).cloned().collect();
    let around = Around { doubles: &doubles, ..around };
    let assessed = tools.iter().zip(&siblings).filter(|(_, name)| !name.is_empty());
    Assessment {
        server: server.to_owned(),
        classifier_version: CLASSIFIER_VERSION,
        patterns_version: PATTERNS_VERSION,
        tools: assessed.map(|(tool, _)| assess_tool(server, *tool, &siblings, around)).collect(),
        findings: findings(&siblings, &own),
    }
}

/// Assesses one tool. `siblings` are all names of its server.
pub fn assess_tool(
    server: &str,
    tool: Value<'_>,
    siblings: &[&str],
    around: Around<'_>,
) -> AssessedTool {
    let name = text(tool, "name");
    let (mut classification, traits) = classify_closely(server, tool);
    let poison = inspect_among(tool, siblings, around.others);
    raise(&mut classification, &poison);
    let mut facts = Facts::of(&classification, &traits, &poison);
    if let Some(words) = around.drift.iter().find_map(|drift| drifted(&name, drift)) {
        facts.add_drift(words);
    }
    for double in around.doubles {
        if let Some(words) = double_of(server, &name, double) {
            facts.add_look_alike(words);
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

/// A tool whose definition speaks to the model is as dangerous as the rest of what the model can do.
fn raise(class: &mut Classification, poison: &Poison) {
    let floor = match poison.suspicion {
        Suspicion::None => return,
        Suspicion::Suspicious => Risk::High,
        Suspicion::Poisoned => Risk::Critical,
    };
    class.risk = class.risk.max(floor);
    if let Some(finding) = poison.findings.first() {
        class.evidence.push(Evidence {
            place: finding.place.clone(),
            words: finding.quote.clone(),
            meaning: format!("it {}", finding.kind.words()),
        });
    }
}

/// What became of a tool since it was accepted, and what that does to its risk.
fn drifted(name: &str, drift: &Drift) -> Option<String> {
    let what = match drift.kind {
        _ if drift.tool != name => return None,
        DriftKind::Changed => "changed since it was accepted",
        DriftKind::New => "came after the server was accepted",
        DriftKind::Gone => return None,
    };
    Some(format!("{what}: {}", drift.effect.join("; ")))
}

fn double_of(server: &str, name: &str, double: &LookAlike) -> Option<String> {
    let is_this = |o: &&crate::poison::Offered| o.server == server && o.tool == name;
    double.tools.iter().find(is_this)?;
    let other = double.tools.iter().find(|o| !is_this(o))?;
    let (tool, server) = (crate::pins::visible(&other.tool), crate::pins::visible(&other.server));
    Some(format!("is easily taken for `{tool}` of `{server}`"))
}

fn findings(names: &[&str], doubles: &[LookAlike]) -> Vec<ServerFinding> {
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
    for double in doubles {
        let tools = double.tools.iter().map(|o| o.tool.clone()).collect();
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
