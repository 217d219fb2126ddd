//! Conditions and the rules they make. A rule is all its conditions; what a list path leads to is
//! quantified by where the rule stands.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::call::{Call, Weekday};
use crate::duration::timeout_seconds;
use crate::explain::{Finding, Recorder, Step};
use crate::load::Loader;
use crate::operator::{Operator, Takes, Test};
use crate::path::{Leaf, Path, Root, Seen};
use crate::pointer;
use crate::problem::{Complaint, suggest};
use crate::tree::{Node, Value};
use crate::truth::Truth;

/// How long a question to a human stays open unless the rule says.
pub(crate) const APPROVAL_SECONDS: u64 = 30 * 60;

/// What `[*]` means: any element in `deny_if` and `approve_if`, every element in `require`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    Every,
}

impl Quantifier {
    const fn start(self) -> Truth {
        match self {
            Quantifier::Any => Truth::Fails,
            Quantifier::Every => Truth::Holds,
        }
    }

    const fn join(self, left: Truth, right: Truth) -> Truth {
        match self {
            Quantifier::Any => left.or(right),
            Quantifier::Every => left.and(right),
        }
    }

    /// The answer that no further element can change.
    const fn settled(self) -> Truth {
        self.start().not()
    }
}

pub(crate) struct Condition {
    path: Path,
    test: Test,
    when_missing: Truth,
    /// The condition as the agent may read it.
    words: Box<str>,
}

impl Condition {
    /// Nothing when it asks for arguments that nobody knows.
    fn truth<R: Recorder>(&self, call: &Call<'_>, quantifier: Quantifier) -> Option<Truth> {
        if !R::KNOWS_ARGUMENTS && self.path.root.is_in_message() {
            return None;
        }
        let mut truth = quantifier.start();
        self.path.each(call, &mut |leaf| {
            truth = quantifier.join(truth, self.leaf_truth(&leaf));
            if truth == quantifier.settled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        Some(truth)
    }

    fn leaf_truth(&self, leaf: &Leaf<'_>) -> Truth {
        match leaf {
            Leaf::Missing => self.when_missing,
            Leaf::Misfit => Truth::Indeterminate,
            Leaf::Present(seen) => self.test.run(seen),
        }
    }

    /// The condition and the types that were found, without any value.
    fn looked_at(&self, call: &Call<'_>) -> String {
        const LISTED_MAX: usize = 8;
        let mut kinds: Vec<&str> = Vec::new();
        self.path.each(call, &mut |leaf| {
            let kind = match leaf {
                Leaf::Missing => "nothing",
                Leaf::Misfit => "no way there",
                Leaf::Present(seen) => seen.kind(),
            };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
            if kinds.len() < LISTED_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        format!("{}; found {}", self.words, kinds.join(", "))
    }
}

pub(crate) struct Rule {
    pub(crate) pointer: Arc<str>,
    conditions: Box<[Condition]>,
    pub(crate) on_deny: Option<Box<str>>,
    pub(crate) timeout_seconds: u64,
}

impl Rule {
    /// All conditions together; one that fails settles it, and an empty list holds. Nothing when that
    /// hangs on arguments that nobody knows.
    pub(crate) fn truth<R: Recorder>(
        &self,
        call: &Call<'_>,
        quantifier: Quantifier,
        recorder: &mut R,
    ) -> Option<Truth> {
        let mut truth = Truth::Holds;
        let mut is_known = true;
        for (index, condition) in self.conditions.iter().enumerate() {
            let Some(here) = condition.truth::<R>(call, quantifier) else {
                is_known = false;
                continue;
            };
            recorder.note(|| Step {
                pointer: pointer::item(&format!("{}/conditions", self.pointer), index),
                looked_at: condition.looked_at(call),
                finding: Finding::Truth(here),
            });
            truth = truth.and(here);
            if truth == Truth::Fails {
                break;
            }
        }
        recorder.note(|| Step {
            pointer: self.pointer.to_string(),
            looked_at: match self.conditions.len() {
                1 => "1 condition".to_owned(),
                more => format!("{more} conditions"),
            },
            finding: Finding::Truth(truth),
        });
        (is_known || truth == Truth::Fails).then_some(truth)
    }

    /// The conditions in words, for a rule without words of its own.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for condition in &self.conditions {
            let and = if words.is_empty() { "" } else { " and " };
            let _ = write!(words, "{and}{}", condition.words);
        }
        words
    }
}

/// Compiles the rules of one list; what is wrong goes to the loader.
pub(crate) fn compile_rules(
    list: Option<&Node>,
    pointer: &str,
    loader: &mut Loader,
) -> Box<[Rule]> {
    let rules = list.map(Node::items).unwrap_or_default().iter().enumerate();
    rules.map(|(index, node)| compile_rule(node, pointer::item(pointer, index), loader)).collect()
}

fn compile_rule(node: &Node, pointer: String, loader: &mut Loader) -> Rule {
    let list = pointer::member(&pointer, "conditions");
    let conditions = node.get("conditions").map(Node::items).unwrap_or_default();
    let conditions = conditions.iter().enumerate().filter_map(|(index, condition)| {
        compile_condition(condition, &pointer::item(&list, index), loader)
    });
    let conditions = conditions.collect();
    let timeout = node.get("timeout").map(|timeout| {
        let seconds = timeout_seconds(timeout);
        loader.take(timeout, &pointer::member(&pointer, "timeout"), seconds)
    });
    Rule {
        conditions,
        on_deny: node.text_of("on_deny").map(Into::into),
        timeout_seconds: timeout.flatten().unwrap_or(APPROVAL_SECONDS),
        pointer: pointer.into(),
    }
}

fn compile_condition(node: &Node, pointer: &str, loader: &mut Loader) -> Option<Condition> {
    let path_node = node.get("path")?;
    let path = Path::parse(path_node.as_text()?);
    let path = loader.take(path_node, &pointer::member(pointer, "path"), path);
    let operator = Operator::named(node.text_of("op")?)?;

    let written = node.get("value");
    let default = Node { place: node.place, value: Value::Bool(true) };
    let value = match written {
        Some(value) => value,
        None if operator.takes == Takes::Flag => &default,
        None => {
            let words =
                format!("`{}` needs a `value`: {}", operator.name, operator.takes.describe());
            loader.problems.add(node.place, pointer, Complaint::new(words));
            return None;
        }
    };
    let at_value = pointer::member(pointer, "value");
    let compiled = operator.compile(value, &mut loader.patterns);
    let test = loader.take(value, &at_value, compiled)?;
    if operator.name == "path_under" {
        loader.warn_of_links(node, pointer);
    }
    let path = path?;
    let sensible = check_fact(&path, operator, &test, value);
    loader.take(value, &at_value, sensible)?;
    let when_missing = loader.take(node, pointer, when_missing(node, operator, written))?;
    let words = describe(&path, operator, value);
    Some(Condition { path, test, when_missing, words })
}

fn when_missing(
    node: &Node,
    operator: &Operator,
    value: Option<&Node>,
) -> Result<Truth, Complaint> {
    match (node.get("missing"), operator.takes) {
        (None, _) => Ok(operator.when_missing(value)),
        (Some(_), Takes::Flag) => {
            let words = format!("`{}` already says what a missing value means", operator.name);
            Err(Complaint::new(words).hint("leave `missing` out"))
        }
        (Some(_), _) => Ok(Truth::Holds),
    }
}

/// A fact of the call has one type, so a comparison that can never be told is a mistake.
fn check_fact(
    path: &Path,
    operator: &Operator,
    test: &Test,
    value: &Node,
) -> Result<(), Complaint> {
    let sample = match path.root {
        Root::Args | Root::Params => return Ok(()),
        Root::Hour => Seen::Number("12"),
        Root::Weekday => {
            check_weekdays(operator, value)?;
            Seen::Text("monday".into())
        }
        _ => Seen::Text("x".into()),
    };
    if test.run(&sample) == Truth::Indeterminate {
        let words = format!("`{}` is {}, which this cannot compare", path.text, sample.kind());
        return Err(Complaint::new(words));
    }
    Ok(())
}

fn check_weekdays(operator: &Operator, value: &Node) -> Result<(), Complaint> {
    if !matches!(operator.takes, Takes::Scalar | Takes::Scalars) || operator.name == "contains" {
        return Ok(());
    }
    for day in value.items_or_self().iter().filter_map(Node::as_text) {
        if Weekday::from_name(day).is_none() {
            let known = Weekday::ALL.iter().map(|day| day.as_str());
            return Err(Complaint::new(format!("`{day}` is no weekday")).hint(suggest(day, known)));
        }
    }
    Ok(())
}

/// Numbers and flags are shown; text of the policy may be nobody else's business.
fn describe(path: &Path, operator: &Operator, value: &Node) -> Box<str> {
    let value = match &value.value {
        Value::Number(number) => number.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::List(items) => format!("a list of {}", items.len()),
        _ => "a text of the policy".to_owned(),
    };
    format!("`{}` {} {value}", path.text, operator.name).into()
}
