//! Turns a tool into named features. A feature is a fact a person can check: which word, where.

use super::lexicon::{Act, Thing};
use super::senses::things_at;
use super::tool::Tool;

mod choices;
mod name;
mod phrases;
mod said;
mod shapes;

pub(super) use shapes::signs_in;

/// Where the words of a feature stand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Name,
    Title,
    Description,
    Parameter(String),
}

/// One fact: its id in the weight table, where it was seen, and the words that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) id: String,
    pub(super) place: Place,
    pub(super) words: String,
}

#[derive(Default)]
pub(super) struct Features {
    list: Vec<Feature>,
}

impl Features {
    fn add(&mut self, id: String, place: Place, words: &str) {
        self.list.push(Feature { id, place, words: words.to_owned() });
    }

    /// Each id once, with the first words that showed it, in the order of the ids.
    fn finish(mut self) -> Vec<Feature> {
        self.list.sort_by(|a, b| a.id.cmp(&b.id));
        self.list.dedup_by(|later, first| later.id == first.id);
        self.list
    }
}

pub(super) fn features(tool: &Tool) -> Vec<Feature> {
    let mut out = Features::default();
    let said = said::description(tool, &mut out);
    let named = name::name(tool, said, &mut out);
    phrases::phrases(tool, &mut out);
    together(named.or(said), &mut out);
    acts(tool, named, said, &mut out);
    parameters(tool, &mut out);
    shapes::shapes(tool, &mut out);
    choices::choices(tool, &mut out);
    out.finish()
}

/// Some cues mean little alone and much beside a verb: "wallet" and "create".
fn together(act: Option<Act>, out: &mut Features) {
    for cue in
        ["on_chain", "sql_write", "sql_read", "read_only", "http_write", "arbitrary", "real_money"]
    {
        let id = format!("cue={cue}");
        let Some(found) = out.list.iter().find(|f| f.id == id) else { continue };
        let (place, words) = (found.place.clone(), found.words.clone());
        out.add(format!("{cue}+{}", act_text(act)), place, &words);
    }
}

/// Name and description together: `kubectl_describe` that says "Run kubectl describe" only looks.
fn acts(tool: &Tool, named: Option<Act>, said: Option<Act>, out: &mut Features) {
    let id = format!("acts={}+{}", act_text(named), act_text(said));
    out.add(id, Place::Name, &tool.name);
}

fn act_text(act: Option<Act>) -> &'static str {
    act.map_or("none", Act::as_str)
}

fn parameters(tool: &Tool, out: &mut Features) {
    if tool.parameters.is_empty() && tool.has_schema {
        out.add("param.none".to_owned(), Place::Name, &tool.name);
    }
    for p in &tool.parameters {
        let place = || Place::Parameter(p.path.clone());
        let joined: Vec<&str> = p.words.iter().map(|w| w.base.as_str()).collect();
        out.add(format!("param={}", joined.join("_")), place(), &p.name);
        for (position, w) in p.words.iter().enumerate() {
            out.add(format!("param.word={}", w.base), place(), &p.name);
            for thing in things_at(&p.words, position).filter(|t| param_things(*t)) {
                let need = if p.required { "needs" } else { "takes" };
                out.add(format!("param.{need}={}", thing.as_str()), place(), &p.name);
            }
        }
    }
}

fn param_things(thing: Thing) -> bool {
    matches!(thing, Thing::Obligation | Thing::Money | Thing::Code | Thing::Credential)
}
