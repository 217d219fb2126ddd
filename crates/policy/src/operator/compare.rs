//! Equality, order and membership of plain values. A value of another type than the policy's is
//! indeterminate, so a rule cannot be evaded by sending `"5000"` for `5000`.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::{Case, Test, fails, holds, unclear};
use crate::amount::compare_numbers;
use crate::path::Seen;
use crate::problem::Complaint;
use crate::tree::{Node, NodeValue};
use crate::truth_value::TruthValue;

/// A plain value of the policy.
pub(super) enum Scalar {
    Text(Box<str>),
    Number(Box<str>),
    Bool(bool),
}

impl Scalar {
    /// The loader has checked the type; anything else would be `false`.
    pub(super) fn of(node: &Node) -> Scalar {
        match &node.value {
            NodeValue::Text(text) => Scalar::Text(text.as_str().into()),
            NodeValue::Number(number) => Scalar::Number(number.as_str().into()),
            other => Scalar::Bool(*other == NodeValue::Bool(true)),
        }
    }

    pub(super) fn equals(&self, seen: &Seen<'_>) -> TruthValue {
        match (self, seen) {
            (Scalar::Text(value), Seen::Text(text)) => TruthValue::of(**value == **text),
            (Scalar::Number(value), Seen::Number(number)) => {
                TruthValue::of(compare_numbers(value, number) == Ordering::Equal)
            }
            (Scalar::Bool(value), Seen::Bool(flag)) => TruthValue::of(value == flag),
            _ => TruthValue::Indeterminate,
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "all compile functions have one signature")]
pub(super) fn eq(value: &Node) -> Result<Test, Complaint> {
    let value = Scalar::of(value);
    Ok(Test::new(move |seen| value.equals(seen)))
}

pub(super) fn lt(value: &Node) -> Result<Test, Complaint> {
    ordered(value, Ordering::Less)
}

pub(super) fn gt(value: &Node) -> Result<Test, Complaint> {
    ordered(value, Ordering::Greater)
}

#[expect(clippy::unnecessary_wraps, reason = "all compile functions have one signature")]
fn ordered(value: &Node, wanted: Ordering) -> Result<Test, Complaint> {
    let value: Box<str> = value.as_number().unwrap_or("0").into();
    Ok(Test::new(move |seen| match seen {
        Seen::Number(number) => TruthValue::of(compare_numbers(number, &value) == wanted),
        _ => TruthValue::Indeterminate,
    }))
}

/// The values of a list, kept so that a long list costs no more than a short one.
#[derive(Default)]
struct Set {
    texts: HashSet<Box<str>>,
    /// In order of value.
    numbers: Vec<Box<str>>,
    bools: HashSet<bool>,
}

impl Set {
    fn of(items: &[Node]) -> Set {
        let mut set = Set::default();
        for item in items {
            match Scalar::of(item) {
                Scalar::Text(text) => drop(set.texts.insert(text)),
                Scalar::Number(number) => set.numbers.push(number),
                Scalar::Bool(value) => drop(set.bools.insert(value)),
            }
        }
        set.numbers.sort_by(|left, right| compare_numbers(left, right));
        set
    }

    /// A type that the list does not have cannot be compared. In an empty list there is nothing to
    /// compare with, so every plain value is simply not in it.
    fn has(&self, seen: &Seen<'_>) -> TruthValue {
        let empty = self.texts.is_empty() && self.numbers.is_empty() && self.bools.is_empty();
        match seen {
            Seen::Text(_) | Seen::Number(_) | Seen::Bool(_) if empty => TruthValue::Fails,
            Seen::Text(text) if !self.texts.is_empty() => {
                TruthValue::of(self.texts.contains(&**text))
            }
            Seen::Number(number) if !self.numbers.is_empty() => {
                let found = self.numbers.binary_search_by(|value| compare_numbers(value, number));
                TruthValue::of(found.is_ok())
            }
            Seen::Bool(flag) if !self.bools.is_empty() => TruthValue::of(self.bools.contains(flag)),
            _ => TruthValue::Indeterminate,
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "all compile functions have one signature")]
pub(super) fn one_of(value: &Node) -> Result<Test, Complaint> {
    let set = Set::of(value.items());
    Ok(Test::new(move |seen| set.has(seen)))
}

/// A present value exists, null included; what is missing is settled by the condition.
#[expect(clippy::unnecessary_wraps, reason = "all compile functions have one signature")]
pub(super) fn exists(value: &Node) -> Result<Test, Complaint> {
    let truth = TruthValue::of(value.as_bool() != Some(false));
    Ok(Test::new(move |_| truth))
}

pub(super) const EQ: &[Case] = &[
    holds("5", "5"),
    holds("5", "5.0"),
    holds("100", "1e2"),
    holds("9007199254740993", "9007199254740993"),
    fails("9007199254740993", "9007199254740992"),
    fails("100", "100.00000000000000000001"),
    holds("0", "-0"),
    holds("\"a\"", "\"a\""),
    holds("\"a\"", "\"\\u0061\""),
    fails("\"a\"", "\"A\""),
    fails("\"a\"", "\"a \""),
    holds("true", "true"),
    fails("true", "false"),
    unclear("5", "\"5\""),
    unclear("\"5\"", "5"),
    unclear("\"a\"", "[\"a\"]"),
    unclear("\"a\"", "{\"a\":1}"),
    unclear("\"a\"", "null"),
    unclear("true", "\"true\""),
    unclear("true", "1"),
];

pub(super) const NEQ: &[Case] = &[
    holds("\"staging\"", "\"prod\""),
    fails("\"staging\"", "\"staging\""),
    holds("5", "5.0000000000000000000001"),
    fails("5", "5.000"),
    unclear("\"staging\"", "[\"prod\"]"),
    unclear("5", "\"6\""),
    unclear("5", "null"),
];

pub(super) const LT: &[Case] = &[
    holds("100", "99.999999999999999999999"),
    fails("100", "100"),
    fails("100", "1e2"),
    holds("0", "-0.1"),
    fails("0", "-0"),
    holds("9007199254740993", "9007199254740992"),
    unclear("100", "\"5\""),
    unclear("100", "[5]"),
    unclear("100", "true"),
    unclear("100", "null"),
];

pub(super) const LTE: &[Case] = &[
    holds("100", "100"),
    holds("100", "100.0"),
    fails("100", "100.00000000000000000001"),
    fails("18446744073709551616", "18446744073709551716"),
    unclear("100", "\"100\""),
    unclear("100", "null"),
];

pub(super) const GT: &[Case] = &[
    holds("100", "100.00000000000000000001"),
    holds("100", "5000"),
    fails("100", "100"),
    holds("9007199254740992", "9007199254740993"),
    holds("1e400", "1.1e400"),
    holds("-5", "-4.5"),
    unclear("100", "\"5000\""),
    unclear("100", "[5000]"),
    unclear("100", "{\"amount\":5000}"),
    unclear("100", "null"),
];

pub(super) const GTE: &[Case] = &[
    holds("100", "100"),
    holds("100", "100.0"),
    fails("100", "99.99999999999999999999"),
    unclear("100", "\"100\""),
    unclear("100", "false"),
];

pub(super) const IN: &[Case] = &[
    holds("[\"a\",\"b\"]", "\"b\""),
    fails("[\"a\",\"b\"]", "\"c\""),
    holds("[1,2.50]", "2.5"),
    fails("[1,3]", "2"),
    holds("[1,\"a\",true]", "\"a\""),
    fails("[1,\"a\"]", "\"1\""),
    holds("[9007199254740993]", "9007199254740993"),
    fails("[9007199254740993]", "9007199254740992"),
    fails("[]", "\"a\""),
    unclear("[\"a\"]", "1"),
    unclear("[\"a\"]", "[\"a\"]"),
    unclear("[1]", "\"1\""),
    unclear("[]", "null"),
];

pub(super) const NOT_IN: &[Case] = &[
    holds("[\"a\",\"b\"]", "\"c\""),
    fails("[\"a\",\"b\"]", "\"a\""),
    holds("[]", "1"),
    unclear("[\"a\"]", "[\"c\"]"),
    unclear("[\"a\"]", "null"),
    unclear("[1]", "\"c\""),
];

pub(super) const EXISTS: &[Case] = &[
    holds("true", "0"),
    holds("true", "\"\""),
    holds("true", "null"),
    holds("true", "[]"),
    fails("false", "0"),
    fails("false", "null"),
];
