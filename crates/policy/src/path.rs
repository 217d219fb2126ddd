//! Paths into a call, such as `args.items[*].price` or `caller.grant`: read once when the policy is
//! loaded, walked without copying at each call.

use std::borrow::Cow;
use std::ops::ControlFlow;

use crate::call::Call;
use crate::json::{Kind, Value, fold};
use crate::problem::{Complaint, suggest};

pub(crate) use steps::{PathStep, read_steps};

mod steps;

/// Where a path begins. Everything but the arguments and the params is one plain value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Args,
    Params,
    Grant,
    Session,
    Client,
    Category,
    Risk,
    Hour,
    Weekday,
}

/// The roots besides `args`, by name.
const FACTS: [(&str, Root); 7] = [
    ("caller.grant", Root::Grant),
    ("caller.session", Root::Session),
    ("caller.client", Root::Client),
    ("tool.category", Root::Category),
    ("tool.risk", Root::Risk),
    ("time.hour", Root::Hour),
    ("time.weekday", Root::Weekday),
];

const HOURS: [&str; 24] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19", "20", "21", "22", "23",
];

#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) text: Box<str>,
    pub(crate) root: Root,
    steps: Box<[PathStep]>,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Leaf<'a> {
    Missing,
    /// The path goes through a value that has no such parts, such as a member of a number, or the member
    /// is there in another spelling only, which some readers take for it.
    Misfit,
    Present(Seen<'a>),
}

/// A present value, as operators see it.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    Null,
    Bool(bool),
    /// The text of a JSON number.
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Value<'a>),
    Object,
}

/// Two spellings of one path are the same path.
impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.root == other.root && self.steps == other.steps
    }
}

impl Eq for Path {}

impl Root {
    /// Whether it is part of the message, which a replay of old rows does not know.
    pub(crate) const fn is_in_message(self) -> bool {
        matches!(self, Root::Args | Root::Params)
    }
}

/// The roots that steps may follow.
const TREES: [(&str, Root); 2] = [("args", Root::Args), ("params", Root::Params)];

impl Path {
    pub(crate) fn parse(text: &str) -> Result<Path, Complaint> {
        if let Some((_, root)) = FACTS.iter().find(|(name, _)| *name == text) {
            return Ok(Path { text: text.into(), root: *root, steps: Box::default() });
        }
        let steps = TREES.into_iter().find_map(|(name, root)| {
            let rest = text.strip_prefix(name)?;
            let ends = rest.is_empty() || rest.starts_with('.') || rest.starts_with('[');
            ends.then_some((root, rest))
        });
        match steps {
            Some((root, steps)) => {
                let steps = read_steps(steps)?.into();
                Ok(Path { text: text.into(), root, steps })
            }
            None => Err(unknown_root(text)),
        }
    }

    /// Calls `visit` for every value that the path leads to: one, unless it has `[*]`. An empty list
    /// counts as one missing value.
    pub(crate) fn each<'a>(
        &self,
        call: &Call<'a>,
        visit: &mut impl FnMut(Leaf<'a>) -> ControlFlow<()>,
    ) {
        let fact = match self.root {
            Root::Args | Root::Params => {
                let tree = if self.root == Root::Args { call.args } else { call.params };
                let _ = match tree {
                    Some(tree) => walk(tree, &self.steps, visit),
                    None => visit(Leaf::Missing),
                };
                return;
            }
            Root::Grant => Some(call.caller.grant),
            Root::Session => call.caller.session,
            Root::Client => call.caller.client,
            Root::Category => call.tool.category,
            Root::Risk => call.tool.risk,
            Root::Weekday => Some(call.time.weekday.as_str()),
            Root::Hour => {
                let hour = HOURS.get(usize::from(call.time.hour)).copied();
                let _ = visit(hour.map_or(Leaf::Misfit, |hour| Leaf::Present(Seen::Number(hour))));
                return;
            }
        };
        let leaf = fact.map_or(Leaf::Missing, |text| Leaf::Present(Seen::Text(text.into())));
        let _ = visit(leaf);
    }
}

fn unknown_root(text: &str) -> Complaint {
    let known = FACTS.iter().map(|(name, _)| *name).chain(TREES.map(|(name, _)| name));
    Complaint::new(format!("unknown path `{text}`")).hint(suggest(text, known))
}

fn walk<'a>(
    value: Value<'a>,
    steps: &[PathStep],
    visit: &mut impl FnMut(Leaf<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some((step, rest)) = steps.split_first() else {
        return visit(Leaf::Present(Seen::of(value)));
    };
    let next = match (step, value.kind()) {
        (PathStep::Member(name), Kind::Object) => match value.get(name) {
            None if has_lookalike(value, name) => return visit(Leaf::Misfit),
            found => found,
        },
        (PathStep::Index(index), Kind::Array) => value.items().nth(*index),
        (PathStep::Every, Kind::Array) if !value.is_empty() => {
            return value.items().try_for_each(|item| walk(item, rest, visit));
        }
        (PathStep::Every, Kind::Array) => None,
        _ => return visit(Leaf::Misfit),
    };
    match next {
        Some(next) => walk(next, rest, visit),
        None => visit(Leaf::Missing),
    }
}

/// Whether a member exists that a lenient reader may take for this one, such as `Amount` for `amount`.
fn has_lookalike(object: Value<'_>, name: &str) -> bool {
    let name = fold(name);
    object.entries().any(|(key, _)| fold(&key.text()) == name)
}

impl<'a> Seen<'a> {
    pub(crate) fn of(value: Value<'a>) -> Seen<'a> {
        match value.kind() {
            Kind::Null => Seen::Null,
            Kind::Bool => Seen::Bool(value.as_bool() == Some(true)),
            Kind::Number => Seen::Number(value.raw()),
            Kind::String => Seen::Text(value.as_str().unwrap_or_default()),
            Kind::Array => Seen::List(value),
            Kind::Object => Seen::Object,
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Seen::Null => "null",
            Seen::Bool(_) => "true or false",
            Seen::Number(_) => "a number",
            Seen::Text(_) => "text",
            Seen::List(_) => "a list",
            Seen::Object => "an object",
        }
    }
}

#[cfg(test)]
mod tests;
