//! Assembles the policy of the `personal` server: its own tools as in `policy.json`, and the tools of
//! each member as in that member's policy. A new member adds no rows here.

use serde_json::{Map, Value};

use super::MEMBERS;

const OWN: &str = include_str!("policy.json");

pub(super) fn assemble() -> String {
    let mut policy = object(OWN);
    for member in MEMBERS.iter() {
        let theirs = object(member.connector.policy);
        add_rows(&mut policy, &theirs);
        add_tests(&mut policy, &theirs);
    }
    serde_json::to_string_pretty(&policy).unwrap_or_default()
}

/// Members share patterns such as `get_*`. A test checks that they agree about them.
fn add_rows(policy: &mut Map<String, Value>, theirs: &Map<String, Value>) {
    let Some(rows) = policy.get_mut("tools").and_then(Value::as_object_mut) else { return };
    for (pattern, row) in theirs.get("tools").and_then(Value::as_object).into_iter().flatten() {
        rows.entry(pattern).or_insert_with(|| row.clone());
    }
}

fn add_tests(policy: &mut Map<String, Value>, theirs: &Map<String, Value>) {
    let Some(tests) = policy.get_mut("tests").and_then(Value::as_array_mut) else { return };
    for test in theirs.get("tests").and_then(Value::as_array).into_iter().flatten() {
        if !tests.contains(test) {
            tests.push(test.clone());
        }
    }
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use policy::{Format, Policy, Subject};

    use super::super::CONNECTOR;
    use super::*;

    #[test]
    fn a_tool_has_the_same_row_as_in_its_own_server() {
        let all = Policy::load(CONNECTOR.policy, Format::Json).unwrap();
        let all_rows = object(CONNECTOR.policy);
        for member in MEMBERS.iter() {
            let own = Policy::load(member.connector.policy, Format::Json).unwrap();
            for tool in member.connector.tools {
                let subject = Subject::Tool(tool.name);
                assert_eq!(all.rule_of(subject), own.rule_of(subject), "{}", tool.name);
            }
            let own_rows = object(member.connector.policy);
            for (pattern, row) in own_rows["tools"].as_object().unwrap() {
                assert_eq!(
                    &all_rows["tools"][pattern],
                    row,
                    "{}: {pattern}",
                    member.connector.name()
                );
            }
            assert_eq!(own_rows["default"], "deny", "{}", member.connector.name());
        }
    }

    #[test]
    fn the_tests_of_all_members_pass() {
        let all = Policy::load(CONNECTOR.policy, Format::Json).unwrap();
        let failed: Vec<_> = all.run_tests().into_iter().filter(|test| !test.passed).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }
}
