//! The catalogue pages of a server and of a tool, as data. Markdown and HTML render the same page and
//! compute nothing themselves.

use policy::json::{Bounds, Doc, Kind, Value};
use serde::Serialize;

use crate::assess::{AssessedTool, Assessment, ServerFinding, assess};
use crate::classify::{Category, Contradiction, Evidence, Risk, Signal};
use crate::patterns::Exposure;
use crate::poison::Poison;
use crate::recommend::{Offer, Preset, for_server};
use crate::slug;

mod parameters;
mod questions;

pub use parameters::Parameter;
pub use questions::Question;
use questions::capital;

/// Metadata of a server from a registry or the owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    pub name: &'a str,
    pub title: &'a str,
    pub description: &'a str,
    pub version: &'a str,
    pub website: &'a str,
    pub repository: &'a str,
    pub updated: &'a str,
    /// A JSON object with `packages` and `remotes` as in `server.json`; may be empty.
    pub source: &'a str,
}

/// The page of a server.
#[derive(Clone, Debug, Serialize)]
pub struct ServerPage {
    pub slug: String,
    pub name: String,
    pub title: String,
    pub description: String,
    pub version: String,
    pub website: String,
    pub repository: String,
    pub updated: String,
    /// Where it comes from: `npm @scope/name 1.2.3`, `https://…`.
    pub origins: Vec<String>,
    /// Of its most dangerous tool.
    pub risk: Option<Risk>,
    /// Tools per category, without empty categories.
    pub categories: Vec<(Category, usize)>,
    /// Most dangerous first.
    pub tools: Vec<ToolLine>,
    pub findings: Vec<String>,
    /// What the recommended policy does, in one line.
    pub effect: String,
    pub policy: serde_json::Value,
    pub questions: Vec<Question>,
}

impl ServerPage {
    pub(crate) fn heading(&self) -> &str {
        heading(&self.title, &self.name)
    }

    /// `3 (2 read, 1 write)`.
    pub(crate) fn tool_count(&self) -> String {
        let counts: Vec<String> = self.categories.iter().map(|(c, n)| format!("{n} {c}")).collect();
        if counts.is_empty() {
            "0".to_owned()
        } else {
            format!("{} ({})", self.tools.len(), counts.join(", "))
        }
    }
}

fn heading<'a>(title: &'a str, name: &'a str) -> &'a str {
    if title.trim().is_empty() { name } else { title }
}

/// A tool in the list of its server.
#[derive(Clone, Debug, Serialize)]
pub struct ToolLine {
    pub slug: String,
    pub name: String,
    pub does: String,
    pub category: Category,
    pub risk: Risk,
    pub effect: String,
    /// Its definition gives the model instructions.
    pub reported: bool,
}

/// The page of a tool.
#[derive(Clone, Debug, Serialize)]
pub struct ToolPage {
    pub slug: String,
    pub name: String,
    pub title: String,
    pub server_slug: String,
    pub server: String,
    /// What it does, in its author's first sentence.
    pub does: String,
    pub description: String,
    pub category: Category,
    pub risk: Risk,
    pub evidence: Vec<Evidence>,
    pub signals: Vec<Signal>,
    pub contradictions: Vec<Contradiction>,
    pub patterns: Vec<Exposure>,
    pub poison: Poison,
    pub parameters: Vec<Parameter>,
    pub rule: Rule,
    pub questions: Vec<Question>,
    pub fingerprint: String,
}

impl ToolPage {
    pub(crate) fn heading(&self) -> &str {
        heading(&self.title, &self.name)
    }

    pub(crate) fn short_fingerprint(&self) -> &str {
        self.fingerprint.get(..12).unwrap_or_default()
    }

    /// Whether the author says more than the first sentence.
    pub(crate) fn has_more_description(&self) -> bool {
        !self.description.is_empty() && self.description != self.does
    }
}

/// The recommended rule and its effect.
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    pub effect: String,
    pub reason: String,
    pub policy: serde_json::Value,
}

impl Rule {
    pub(crate) fn sentence(&self) -> String {
        format!("{}, because {}.", capital(&self.effect), self.reason)
    }
}

/// The pages of one server. Its tools are assessed once.
pub struct Pages<'t> {
    about: About<'t>,
    tools: Vec<Value<'t>>,
    assessment: Assessment,
    slugs: Vec<String>,
}

impl<'t> Pages<'t> {
    /// Assesses the tool objects of a server; other values are skipped.
    pub fn new(about: About<'t>, tools: impl Iterator<Item = Value<'t>>) -> Pages<'t> {
        let tools: Vec<Value<'t>> = tools.filter(|tool| is_tool(*tool)).collect();
        let assessment = assess(about.name, &tools);
        let slugs = slug::tools(assessment.tools.iter().map(|tool| tool.name.as_str()));
        Pages { about, tools, assessment, slugs }
    }

    pub fn assessment(&self) -> &Assessment {
        &self.assessment
    }

    pub fn server(&self) -> ServerPage {
        let about = self.about;
        let policy =
            for_server(about.name, &self.assessment.tools, Offer::default(), Preset::Recommended);
        let mut tools: Vec<ToolLine> =
            self.assessment.tools.iter().zip(&self.slugs).map(line).collect();
        tools.sort_by(|a, b| b.risk.cmp(&a.risk).then_with(|| a.name.cmp(&b.name)));
        ServerPage {
            slug: slug::server(about.name),
            name: about.name.to_owned(),
            title: about.title.to_owned(),
            description: about.description.to_owned(),
            version: about.version.to_owned(),
            website: address(about.website),
            repository: address(about.repository),
            updated: about.updated.to_owned(),
            origins: origins(about.source),
            risk: self.assessment.worst(),
            categories: self.assessment.by_category().into_iter().collect(),
            findings: self.assessment.findings.iter().map(ServerFinding::describe).collect(),
            effect: effect(&policy.effects),
            questions: questions::of_server(&tools),
            policy: policy.policy,
            tools,
        }
    }

    /// Every tool's page, in the server's order.
    pub fn tools(&self) -> impl Iterator<Item = ToolPage> + '_ {
        let all = self.assessment.tools.iter().zip(&self.slugs).zip(&self.tools);
        all.map(|((tool, slug), value)| self.tool_page(tool, slug, *value))
    }

    /// The page of one tool by its slug or its name.
    pub fn tool(&self, wanted: &str) -> Option<ToolPage> {
        let all = self.assessment.tools.iter().zip(&self.slugs).zip(&self.tools);
        let mut fits = all.filter(|((tool, slug), _)| **slug == wanted || tool.name == wanted);
        fits.next().map(|((tool, slug), value)| self.tool_page(tool, slug, *value))
    }

    fn tool_page(&self, tool: &AssessedTool, slug: &str, value: Value<'_>) -> ToolPage {
        let parameters = parameters::of(value);
        ToolPage {
            slug: slug.to_owned(),
            name: tool.name.clone(),
            title: tool.title.clone(),
            server_slug: slug::server(self.about.name),
            server: self.about.name.to_owned(),
            does: first_sentence(&tool.description),
            description: tool.description.clone(),
            category: tool.classification.category,
            risk: tool.classification.risk,
            evidence: tool.classification.evidence.clone(),
            signals: tool.classification.signals.clone(),
            contradictions: tool.classification.contradictions.clone(),
            patterns: tool.patterns.clone(),
            poison: tool.poison.clone(),
            questions: questions::of_tool(tool, &parameters),
            parameters,
            rule: Rule {
                effect: tool.recommended.effect.clone(),
                reason: tool.recommended.reason.clone(),
                policy: tool.recommended.policy.clone(),
            },
            fingerprint: tool.fingerprint.to_string(),
        }
    }
}

fn is_tool(tool: Value<'_>) -> bool {
    let name = (tool.kind() == Kind::Object).then(|| tool.get("name")).flatten();
    name.and_then(Value::as_str).is_some_and(|name| !name.is_empty())
}

fn line((tool, slug): (&AssessedTool, &String)) -> ToolLine {
    ToolLine {
        slug: slug.clone(),
        name: tool.name.clone(),
        does: first_sentence(&tool.description),
        category: tool.classification.category,
        risk: tool.classification.risk,
        effect: tool.recommended.effect.clone(),
        reported: tool.poison.is_reported(),
    }
}

/// `3 allowed, 2 asked for, 1 hidden`.
fn effect(effects: &[(String, crate::recommend::Treatment, &'static str)]) -> String {
    use crate::recommend::Treatment;
    let count = |fits: fn(&Treatment) -> bool| effects.iter().filter(|(_, t, _)| fits(t)).count();
    let parts = [
        (count(|t| matches!(t, Treatment::Allow)), "allowed"),
        (count(|t| matches!(t, Treatment::Limit { .. })), "limited"),
        (count(|t| matches!(t, Treatment::Ask | Treatment::AskAndLimit { .. })), "asked for"),
        (count(|t| matches!(t, Treatment::Hide)), "hidden"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if parts.is_empty() { "nothing is allowed".to_owned() } else { parts.join(", ") }
}

/// Up to the first full stop, or the end of the line.
fn first_sentence(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    let sentence = line.get(..end).unwrap_or(line);
    if sentence.chars().count() <= CHARS_MAX {
        return sentence.to_owned();
    }
    let cut: String = sentence.chars().take(CHARS_MAX).collect();
    format!("{}…", cut.trim_end())
}

/// Only plain http and https addresses may become links.
fn address(text: &str) -> String {
    let fits = text.starts_with("https://") || text.starts_with("http://");
    let plain = text.chars().all(|c| c.is_ascii_graphic() && !"<>\"'\\`".contains(c));
    if fits && plain { text.to_owned() } else { String::new() }
}

fn origins(source: &str) -> Vec<String> {
    let Ok(doc) = Doc::read(source.as_bytes(), &Bounds::ANSWER) else { return Vec::new() };
    let items = |key: &str| doc.root().get(key).into_iter().flat_map(Value::items);
    let text = |item: Value<'_>, key: &str| {
        item.get(key).and_then(Value::as_str).unwrap_or_default().into_owned()
    };
    let either = |item: Value<'_>, new: &str, old: &str| {
        let found = text(item, new);
        if found.is_empty() { text(item, old) } else { found }
    };
    let packages = items("packages").map(|package| {
        let kind = either(package, "registryType", "registry_type");
        let words = [kind, text(package, "identifier"), text(package, "version")];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    });
    let remotes = items("remotes").map(|remote| text(remote, "url"));
    packages.chain(remotes).filter(|words| !words.is_empty()).collect()
}
