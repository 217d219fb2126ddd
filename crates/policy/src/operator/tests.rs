//! Every case of every row of the operator table, and patterns that must not load.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::{Operator, PatternBudget, operators};
use crate::json::Doc;
use crate::path::Seen;
use crate::problem::Complaint;
use crate::tree::{self, BOUNDS, Format, Node};
use crate::truth_value::TruthValue;

fn value(json: &str) -> Node {
    tree::read(json, Format::Json).unwrap()
}

fn truth(row: &Operator, value: &Node, given: &str) -> TruthValue {
    let doc = Doc::read(given.as_bytes(), &BOUNDS).unwrap();
    row.compile(value, &mut PatternBudget::default())
        .map(|test| test.run(&Seen::of(doc.root())))
        .unwrap()
}

#[test]
fn every_case_of_the_table_is_true() {
    for row in operators() {
        for case in row.cases {
            let found = truth(row, &value(case.value), case.given);
            assert_eq!(found, case.truth, "{} {} on {}", row.name, case.value, case.given);
        }
    }
}

#[test]
fn every_row_lists_all_its_fields() {
    for row in operators() {
        for wanted in [TruthValue::Holds, TruthValue::Fails] {
            assert!(row.cases.iter().any(|case| case.truth == wanted), "{}: {wanted}", row.name);
        }
        let never_in_doubt = row.name == "exists";
        let doubt = row.cases.iter().any(|case| case.truth == TruthValue::Indeterminate);
        assert_ne!(never_in_doubt, doubt, "{}", row.name);
        assert!(!row.description.is_empty() && !row.description.ends_with('.'), "{}", row.name);
    }
}

#[test]
fn no_operator_compares_null_a_list_of_lists_or_an_object() {
    for row in operators().iter().filter(|row| row.name != "exists") {
        let case = row.cases.first().unwrap();
        for given in ["null", "{}", "{\"a\":1}"] {
            let found = truth(row, &value(case.value), given);
            assert_eq!(found, TruthValue::Indeterminate, "{} on {given}", row.name);
        }
    }
}

fn complaint(operator: &str, json: &str) -> Complaint {
    let refused =
        Operator::named(operator).unwrap().compile(&value(json), &mut PatternBudget::default());
    refused.map(|_| (operator, json)).unwrap_err()
}

#[test]
fn a_value_that_an_operator_cannot_use_is_refused() {
    let cases = [
        ("eq", "[1]", "takes text, a number, or true or false"),
        ("eq", "{}", "takes text"),
        ("eq", "null", "takes text"),
        ("gt", "\"100\"", "takes a number"),
        ("in", "\"a\"", "takes a list"),
        ("in", "[[1]]", "takes a list"),
        ("in", "[null]", "takes a list"),
        ("exists", "\"yes\"", "takes true or false"),
        ("regex", "5", "takes text"),
        ("regex", "\"(\"", "does not compile: unclosed group"),
        ("regex", "\"(?=a)\"", "does not compile: look-around"),
        ("regex", "\"(a)\\\\1\"", "does not compile: backreferences"),
        ("regex", "\"a{1000}{1000}\"", "too large"),
        ("glob", "\"a\\\\\"", "ends in a single backslash"),
        ("length_lte", "-1", "takes a whole number"),
        ("length_lte", "1.5", "takes a whole number"),
        ("path_under", "[]", "takes text, or a list of texts"),
        ("path_under", "\"\"", "is not a folder"),
        ("path_under", "\"../x\"", "is not a folder"),
        ("path_under", "\"file:///x\"", "is not a folder"),
        ("path_under", "\"C:x\"", "is not a folder"),
        ("url_host_in", "\"https://good.com\"", "is not a host"),
        ("url_host_in", "\"good.com:443\"", "is not a host"),
        ("url_host_in", "\"good.com/x\"", "is not a host"),
        ("url_host_in", "\"*\"", "is not a host"),
        ("url_host_in", "\"*.*.com\"", "is not a host"),
        ("url_host_in", "\"\"", "is not a host"),
        ("url_host_in", "\"*.127.0.0.1\"", "is not a host"),
        ("cidr_in", "\"10.0.0.0/33\"", "is not a network"),
        ("cidr_in", "\"localhost\"", "is not a network"),
    ];
    for (operator, json, description) in cases {
        let found = complaint(operator, json);
        assert!(found.message.contains(description), "{operator} {json}: {}", found.message);
    }
}

/// What is built for patterns is bounded over the whole document, also for those that are refused.
#[test]
fn patterns_share_one_budget() {
    let regex = Operator::named("regex").unwrap();
    let mut budget = PatternBudget::default();
    let huge = value(r#""(\\w{200}){200}""#);
    let complaint = regex.compile(&huge, &mut budget).map(|_| ()).unwrap_err();
    assert_eq!(complaint.message, "the pattern is too large when compiled");
    for _ in 0..10_000 {
        assert!(regex.compile(&huge, &mut budget).is_ok(), "said once, and not tried again");
    }

    let mut budget = PatternBudget::default();
    let large = value(r#""\\w{30}""#);
    let refused = (0..10_000).find_map(|_| regex.compile(&large, &mut budget).err()).unwrap();
    assert!(refused.message.contains("too large in total"), "{}", refused.message);

    let mut budget = PatternBudget::default();
    let classes = value(&format!("\"{}\"", r"\\pL".repeat(10_000)));
    let refused = regex.compile(&classes, &mut budget).map(|_| ()).unwrap_err();
    assert!(refused.message.contains("too large in total"), "{}", refused.message);
}
