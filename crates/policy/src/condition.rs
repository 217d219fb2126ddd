//! Conditions and rules. A rule holds when all its conditions hold; the list it is in decides whether
//! `[*]` means any element or every element.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::call::{Call, Weekday};
use crate::duration::timeout_seconds;
use crate::explain::{Finding, Recorder, Step};
use crate::loader::Loader;
use crate::operator::{Operator, Takes, Test};
use crate::path::{Leaf, Path, Root, Seen};
use crate::pointer;
use crate::problem::{Complaint, suggest};
use crate::tree::{Node, NodeValue};
use crate::truth_value::TruthValue;
use crate::verdict::Via;

/// The default timeout of an approval.
pub(crate) const APPROVAL_SECONDS: u64 = 30 * 60;

/// What `[*]` means: any element in `deny_if` and `approve_if`, every element in `require`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    Every,
}

impl Quantifier {
    const fn start(self) -> TruthValue {
        match self {
            Quantifier::Any => TruthValue::Fails,
            Quantifier::Every => TruthValue::Holds,
        }
    }

    const fn join(self, left: TruthValue, right: TruthValue) -> TruthValue {
        match self {
            Quantifier::Any => left.or(right),
            Quantifier::Every => left.and(right),
        }
    }

    /// The result that no further element can change.
    const fn settled(self) -> TruthValue {
        self.start().not()
    }
}

pub(crate) struct Condition {
    path: Path,
    test: Test,
    when_missing: TruthValue,
    /// The condition as shown to the agent.
    reason: Box<str>,
}

impl Condition {
    /// None when it needs arguments that are unknown.
    fn truth<R: Recorder>(&self, call: &Call<'_>, quantifier: Quantifier) -> Option<TruthValue> {
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

    fn leaf_truth(&self, leaf: &Leaf<'_>) -> TruthValue {
        match leaf {
            Leaf::Missing => self.when_missing,
            Leaf::Misfit => TruthValue::Indeterminate,
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
                Leaf::Misfit => "an incompatible value",
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
        format!("{}; found {}", self.reason, kinds.join(", "))
    }
}

pub(crate) struct Rule {
    pub(crate) pointer: Arc<str>,
    conditions: Box<[Condition]>,
    pub(crate) on_deny: Option<Box<str>>,
    pub(crate) timeout_seconds: u64,
    pub(crate) via: Via,
}

impl Rule {
    /// Whether all conditions hold; one that fails decides, and an empty list holds. None when the
    /// result depends on arguments that are unknown.
    pub(crate) fn truth<R: Recorder>(
        &self,
        call: &Call<'_>,
        quantifier: Quantifier,
        recorder: &mut R,
    ) -> Option<TruthValue> {
        let mut truth = TruthValue::Holds;
        let mut is_known = true;
        for (index, condition) in self.conditions.iter().enumerate() {
            let Some(here) = condition.truth::<R>(call, quantifier) else {
                is_known = false;
                continue;
            };
            recorder.note(|| Step {
                pointer: pointer::item(&format!("{}/conditions", self.pointer), index),
                looked_at: condition.looked_at(call),
                finding: Finding::TruthValue(here),
            });
            truth = truth.and(here);
            if truth == TruthValue::Fails {
                break;
            }
        }
        recorder.note(|| Step {
            pointer: self.pointer.to_string(),
            looked_at: match self.conditions.len() {
                1 => "1 condition".to_owned(),
                more => format!("{more} conditions"),
            },
            finding: Finding::TruthValue(truth),
        });
        (is_known || truth == TruthValue::Fails).then_some(truth)
    }

    /// The conditions in words, for a rule without a message of its own.
    pub(crate) fn reason(&self) -> String {
        let mut reason = String::new();
        for condition in &self.conditions {
            let and = if reason.is_empty() { "" } else { " and " };
            let _ = write!(reason, "{and}{}", condition.reason);
        }
        reason
    }
}

/// Compiles the rules of one list and reports problems to the loader.
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
        via: if node.text_of("via") == Some("client") { Via::Client } else { Via::Owner },
        pointer: pointer.into(),
    }
}

fn compile_condition(node: &Node, pointer: &str, loader: &mut Loader) -> Option<Condition> {
    let path_node = node.get("path")?;
    let path = Path::parse(path_node.as_text()?);
    let path = loader.take(path_node, &pointer::member(pointer, "path"), path);
    let operator = Operator::named(node.text_of("op")?)?;

    let written = node.get("value");
    let default = Node { position: node.position, value: NodeValue::Bool(true) };
    let value = match written {
        Some(value) => value,
        None if operator.takes == Takes::Flag => &default,
        None => {
            let reason =
                format!("`{}` needs a `value`: {}", operator.name, operator.takes.describe());
            loader.problems.add(node.position, pointer, Complaint::new(reason));
            return None;
        }
    };
    let at_value = pointer::member(pointer, "value");
    let compiled = operator.compile(value, &mut loader.pattern_budget);
    let test = loader.take(value, &at_value, compiled)?;
    if operator.name == "path_under" {
        loader.warn_of_links(node, pointer);
    }
    let path = path?;
    let sensible = check_fact(&path, operator, &test, value);
    loader.take(value, &at_value, sensible)?;
    let when_missing = loader.take(node, pointer, when_missing(node, operator, written))?;
    let reason = describe(&path, operator, value);
    Some(Condition { path, test, when_missing, reason })
}

fn when_missing(
    node: &Node,
    operator: &Operator,
    value: Option<&Node>,
) -> Result<TruthValue, Complaint> {
    match (node.get("missing"), operator.takes) {
        (None, _) => Ok(operator.when_missing(value)),
        (Some(_), Takes::Flag) => {
            let reason = format!("`{}` already defines what a missing value means", operator.name);
            Err(Complaint::new(reason).hint("leave `missing` out"))
        }
        (Some(_), _) => Ok(TruthValue::Holds),
    }
}

/// A fact of the call has one type, so a comparison that can never be evaluated is a mistake.
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
    if test.run(&sample) == TruthValue::Indeterminate {
        let reason =
            format!("`{}` is {}, which this operator cannot compare", path.text, sample.kind());
        return Err(Complaint::new(reason));
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
            return Err(
                Complaint::new(format!("`{day}` is not a weekday")).hint(suggest(day, known))
            );
        }
    }
    Ok(())
}

/// Numbers and booleans are shown; text of the policy may be confidential.
fn describe(path: &Path, operator: &Operator, value: &Node) -> Box<str> {
    let value = match &value.value {
        NodeValue::Number(number) => number.clone(),
        NodeValue::Bool(flag) => flag.to_string(),
        NodeValue::List(items) => format!("a list of {}", items.len()),
        _ => "a text of the policy".to_owned(),
    };
    format!("`{}` {} {value}", path.text, operator.name).into()
}
