//! The operators, one row each: name, meaning, what it is compared with, the function, and its cases.
//! The loader, the JSON Schema, the reference and the tests all read this table.

use crate::path::Seen;
use crate::problem::Complaint;
use crate::tree::{Node, NodeValue};
use crate::truth_value::TruthValue;

mod compare;
mod host;
mod network;
mod text;
mod under;

pub(crate) use text::{PATTERN_BYTES_MAX, PatternBudget};

/// A comparison that is ready to run.
pub(crate) struct Test {
    check: Box<dyn Fn(&Seen<'_>) -> TruthValue + Send + Sync>,
}

impl Test {
    fn new(check: impl Fn(&Seen<'_>) -> TruthValue + Send + Sync + 'static) -> Test {
        Test { check: Box::new(check) }
    }

    /// A comparison of text; everything else is indeterminate.
    fn on_text(check: impl Fn(&str) -> TruthValue + Send + Sync + 'static) -> Test {
        Test::new(move |seen| match seen {
            Seen::Text(text) => check(text),
            _ => TruthValue::Indeterminate,
        })
    }

    pub(crate) fn run(&self, seen: &Seen<'_>) -> TruthValue {
        (self.check)(seen)
    }
}

/// One operator. Adding one is adding a row to [`operators`].
pub struct Operator {
    pub name: &'static str,
    pub description: &'static str,
    pub takes: Takes,
    /// Examples that are also tests.
    pub cases: &'static [Case],
    pub(crate) compile: Compile,
}

/// All patterns of a document share one budget.
#[derive(Clone, Copy)]
pub(crate) enum Compile {
    Plain(fn(&Node) -> Result<Test, Complaint>),
    Pattern(fn(&Node, &mut PatternBudget) -> Result<Test, Complaint>),
}

/// What an operator is compared with: the `value` of its condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Text, a number, or true or false.
    Scalar,
    Scalars,
    Number,
    /// `true` unless given.
    Flag,
    Text,
    /// One text or a list of them.
    Texts,
    /// A whole number.
    Count,
}

impl Takes {
    pub const fn describe(self) -> &'static str {
        match self {
            Takes::Scalar => "text, a number, or true or false",
            Takes::Scalars => "a list of text, numbers, true or false",
            Takes::Number => "a number",
            Takes::Flag => "true or false; true by default",
            Takes::Text => "text",
            Takes::Texts => "text, or a list of texts",
            Takes::Count => "a whole number",
        }
    }

    fn fits(self, node: &Node) -> bool {
        match self {
            Takes::Scalar => is_scalar(node),
            Takes::Scalars => {
                matches!(node.value, NodeValue::List(_)) && node.items().iter().all(is_scalar)
            }
            Takes::Number => node.as_number().is_some(),
            Takes::Flag => node.as_bool().is_some(),
            Takes::Text => node.as_text().is_some(),
            Takes::Texts => {
                let texts = node.items_or_self();
                !texts.is_empty() && texts.iter().all(|text| text.as_text().is_some())
            }
            Takes::Count => crate::shape::whole(node).is_some(),
        }
    }
}

fn is_scalar(node: &Node) -> bool {
    matches!(node.value, NodeValue::Text(_) | NodeValue::Number(_) | NodeValue::Bool(_))
}

/// An example: a condition's `value`, an argument, both as JSON, and the expected result.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub value: &'static str,
    pub given: &'static str,
    pub truth: TruthValue,
}

impl Operator {
    pub(crate) fn named(name: &str) -> Option<&'static Operator> {
        operators().iter().find(|row| row.name == name)
    }

    /// Makes the comparison with the `value` of a condition.
    pub(crate) fn compile(
        &self,
        value: &Node,
        budget: &mut PatternBudget,
    ) -> Result<Test, Complaint> {
        if !self.takes.fits(value) {
            let description = format!("`{}` takes {}", self.name, self.takes.describe());
            return Err(Complaint::new(description));
        }
        match self.compile {
            Compile::Plain(compile) => compile(value),
            Compile::Pattern(compile) => compile(value, budget),
        }
    }

    /// The result for a missing value without `missing`: only `exists` has one.
    pub(crate) fn when_missing(&self, value: Option<&Node>) -> TruthValue {
        match self.takes {
            Takes::Flag => TruthValue::of(value.and_then(Node::as_bool) == Some(false)),
            _ => TruthValue::Fails,
        }
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operator({})", self.name)
    }
}

/// Every operator, in the order of the reference.
pub fn operators() -> &'static [Operator] {
    ROWS
}

const fn holds(value: &'static str, given: &'static str) -> Case {
    Case { value, given, truth: TruthValue::Holds }
}

const fn fails(value: &'static str, given: &'static str) -> Case {
    Case { value, given, truth: TruthValue::Fails }
}

/// The value is present but cannot be compared.
const fn unclear(value: &'static str, given: &'static str) -> Case {
    Case { value, given, truth: TruthValue::Indeterminate }
}

static ROWS: &[Operator] = &[
    Operator {
        name: "eq",
        description: "equals the value; numbers by value, text byte for byte",
        takes: Takes::Scalar,
        compile: Compile::Plain(compare::eq),
        cases: compare::EQ,
    },
    Operator {
        name: "neq",
        description: "is of the same type and does not equal the value",
        takes: Takes::Scalar,
        compile: Compile::Plain(|value| negated(compare::eq(value))),
        cases: compare::NEQ,
    },
    Operator {
        name: "lt",
        description: "is less than the value",
        takes: Takes::Number,
        compile: Compile::Plain(compare::lt),
        cases: compare::LT,
    },
    Operator {
        name: "lte",
        description: "is at most the value",
        takes: Takes::Number,
        compile: Compile::Plain(|value| negated(compare::gt(value))),
        cases: compare::LTE,
    },
    Operator {
        name: "gt",
        description: "is greater than the value",
        takes: Takes::Number,
        compile: Compile::Plain(compare::gt),
        cases: compare::GT,
    },
    Operator {
        name: "gte",
        description: "is at least the value",
        takes: Takes::Number,
        compile: Compile::Plain(|value| negated(compare::lt(value))),
        cases: compare::GTE,
    },
    Operator {
        name: "in",
        description: "equals one of the values",
        takes: Takes::Scalars,
        compile: Compile::Plain(compare::one_of),
        cases: compare::IN,
    },
    Operator {
        name: "not_in",
        description: "is of a type in the list and equals none of the values",
        takes: Takes::Scalars,
        compile: Compile::Plain(|value| negated(compare::one_of(value))),
        cases: compare::NOT_IN,
    },
    Operator {
        name: "exists",
        description: "is present, whatever its value; with `false`, is missing",
        takes: Takes::Flag,
        compile: Compile::Plain(compare::exists),
        cases: compare::EXISTS,
    },
    Operator {
        name: "regex",
        description: "is text in which the regular expression matches somewhere; `^` and `$` anchor it to the ends",
        takes: Takes::Text,
        compile: Compile::Pattern(text::regex),
        cases: text::REGEX,
    },
    Operator {
        name: "contains",
        description: "is text with the value in it, or a list with an element equal to the value",
        takes: Takes::Scalar,
        compile: Compile::Plain(text::contains),
        cases: text::CONTAINS,
    },
    Operator {
        name: "starts_with",
        description: "is text that begins with the value",
        takes: Takes::Text,
        compile: Compile::Plain(text::starts_with),
        cases: text::STARTS_WITH,
    },
    Operator {
        name: "ends_with",
        description: "is text that ends with the value",
        takes: Takes::Text,
        compile: Compile::Plain(text::ends_with),
        cases: text::ENDS_WITH,
    },
    Operator {
        name: "glob",
        description: "is text that the whole pattern matches: `*` any characters, `?` one, `\\` before a literal one",
        takes: Takes::Text,
        compile: Compile::Pattern(text::glob),
        cases: text::GLOB,
    },
    Operator {
        name: "length_lte",
        description: "is text of at most so many characters, or a list of at most so many elements",
        takes: Takes::Count,
        compile: Compile::Plain(text::length_lte),
        cases: text::LENGTH_LTE,
    },
    Operator {
        name: "length_gte",
        description: "is text of at least so many characters, or a list of at least so many elements",
        takes: Takes::Count,
        compile: Compile::Plain(text::length_gte),
        cases: text::LENGTH_GTE,
    },
    Operator {
        name: "path_under",
        description: "is a path at or below one of the folders, whichever way its text is read; links on the disk are not followed",
        takes: Takes::Texts,
        compile: Compile::Plain(under::path_under),
        cases: under::PATH_UNDER,
    },
    Operator {
        name: "url_host_in",
        description: "is a URL whose host, as browsers read it, is one of the hosts; `*.example.com` is every host below, `10.0.0.0/8` every address of a network",
        takes: Takes::Texts,
        compile: Compile::Plain(host::url_host_in),
        cases: host::URL_HOST_IN,
    },
    Operator {
        name: "cidr_in",
        description: "is an IP address or network inside one of the networks",
        takes: Takes::Texts,
        compile: Compile::Plain(network::cidr_in),
        cases: network::CIDR_IN,
    },
];

fn negated(test: Result<Test, Complaint>) -> Result<Test, Complaint> {
    test.map(|test| Test::new(move |seen| test.run(seen).not()))
}

#[cfg(test)]
mod tests;
