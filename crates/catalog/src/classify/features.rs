//! Extracts named features from a tool. Each names a word and its location, so a person can check it.

use super::lexicon::{Action, Topic};
use super::senses::topics_at;
use super::tool::ParsedTool;

mod choices;
mod description;
mod name;
mod phrases;
mod shapes;

pub(super) use shapes::signs_in;

/// Where the words of a feature were found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Location {
    Name,
    Title,
    Description,
    Parameter(String),
}

/// One feature: its id in the weight table, its location, and the words that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) id: String,
    pub(super) location: Location,
    pub(super) text: String,
}

#[derive(Default)]
pub(super) struct Features {
    list: Vec<Feature>,
}

impl Features {
    fn add(&mut self, id: String, location: Location, text: &str) {
        self.list.push(Feature { id, location, text: text.to_owned() });
    }

    /// Each id once, with its first match, sorted by id.
    fn finish(mut self) -> Vec<Feature> {
        self.list.sort_by(|a, b| a.id.cmp(&b.id));
        self.list.dedup_by(|later, first| later.id == first.id);
        self.list
    }
}

pub(super) fn features(tool: &ParsedTool) -> Vec<Feature> {
    let mut out = Features::default();
    let description_action = description::description(tool, &mut out);
    let named = name::name(tool, description_action, &mut out);
    phrases::phrases(tool, &mut out);
    together(named.or(description_action), &mut out);
    acts(tool, named, description_action, &mut out);
    parameters(tool, &mut out);
    shapes::shapes(tool, &mut out);
    choices::choices(tool, &mut out);
    out.finish()
}

/// Some cues matter only together with a verb: "wallet" and "create".
fn together(act: Option<Action>, out: &mut Features) {
    for cue in
        ["on_chain", "sql_write", "sql_read", "read_only", "http_write", "arbitrary", "real_money"]
    {
        let id = format!("cue={cue}");
        let Some(found) = out.list.iter().find(|f| f.id == id) else { continue };
        let (location, text) = (found.location.clone(), found.text.clone());
        out.add(format!("{cue}+{}", action_text(act)), location, &text);
    }
}

/// Name and description together: `kubectl_describe` that says "Run kubectl describe" only looks.
fn acts(
    tool: &ParsedTool,
    named: Option<Action>,
    description_action: Option<Action>,
    out: &mut Features,
) {
    let id = format!("acts={}+{}", action_text(named), action_text(description_action));
    out.add(id, Location::Name, &tool.name);
}

fn action_text(act: Option<Action>) -> &'static str {
    act.map_or("none", Action::as_str)
}

fn parameters(tool: &ParsedTool, out: &mut Features) {
    if tool.parameters.is_empty() && tool.has_schema {
        out.add("param.none".to_owned(), Location::Name, &tool.name);
    }
    for p in &tool.parameters {
        let location = || Location::Parameter(p.path.clone());
        let joined: Vec<&str> = p.words.iter().map(|w| w.base.as_str()).collect();
        out.add(format!("param={}", joined.join("_")), location(), &p.name);
        for (position, w) in p.words.iter().enumerate() {
            out.add(format!("param.word={}", w.base), location(), &p.name);
            for thing in topics_at(&p.words, position).filter(|t| is_parameter_topic(*t)) {
                let need = if p.required { "needs" } else { "takes" };
                out.add(format!("param.{need}={}", thing.as_str()), location(), &p.name);
            }
        }
    }
}

fn is_parameter_topic(thing: Topic) -> bool {
    matches!(thing, Topic::Obligation | Topic::Money | Topic::Code | Topic::Credential)
}
