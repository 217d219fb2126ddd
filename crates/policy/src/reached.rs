//! The rules that a decision walked, for a call whose arguments are not known any more, such as one of the
//! audit log. It is the same walk that decides; it continues past rules that depend on the arguments.

use std::sync::Arc;

use crate::explain::{May, Recorder, Step};

/// A part of the policy that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachedRule {
    /// JSON pointer of the part of the policy.
    pub pointer: String,
    /// What it finds, if that does not depend on the arguments.
    pub finding: Option<&'static str>,
}

/// Collects the rules in the order of the walk.
#[derive(Default)]
pub(crate) struct ReachedRules {
    pub(crate) rules: Vec<ReachedRule>,
}

impl Recorder for ReachedRules {
    const KNOWS_ARGUMENTS: bool = false;

    fn note(&mut self, step: impl FnOnce() -> Step) {
        let Step { pointer, finding, .. } = step();
        self.rules.push(ReachedRule { pointer, finding: Some(finding.as_str()) });
    }

    fn may(&mut self, _what: May, rule: &Arc<str>) {
        // Its conditions on other facts say nothing about the rule as a whole.
        while self.rules.last().is_some_and(|last| last.pointer.starts_with(&**rule)) {
            self.rules.pop();
        }
        self.rules.push(ReachedRule { pointer: rule.to_string(), finding: None });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crate::{Call, Caller, Format, LocalTime, Policy, Subject, ToolFacts, Weekday};

    #[test]
    fn the_walk_lists_rules_on_unknown_arguments_in_their_order() {
        let text = r#"{"version":"1","default":"deny","tools":{"pay":{
            "deny_if":[{"conditions":[{"path":"args.to","op":"eq","value":"eve"}]}],
            "approve_if":[{"conditions":[{"path":"args.amount","op":"gt","value":20}]}],
            "limits":[{"counter":"pays","window":"1h","max":3}]}}}"#;
        let policy = Policy::load(text, Format::Json).unwrap();
        let call = Call {
            subject: Subject::Tool("pay"),
            args: None,
            params: None,
            caller: Caller { grant: "a", session: None, client: None },
            tool: ToolFacts::default(),
            time: LocalTime { hour: 9, weekday: Weekday::Monday },
        };
        let rules = policy.reached(&call);
        let said: Vec<(&str, Option<&str>)> =
            rules.iter().map(|rule| (rule.pointer.as_str(), rule.finding)).collect();
        assert_eq!(
            said,
            [
                ("/tools/pay", Some("matches")),
                ("/tools/pay/deny_if/0", None),
                ("/tools/pay/approve_if/0", None),
                ("/tools/pay/limits/0", Some("is held")),
                ("/tools/pay", Some("allows")),
            ]
        );
    }
}
