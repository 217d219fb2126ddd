//! Explanations come from the walk itself and never repeat what the arguments hold.

use policy::json::{Bounds, Doc};
use policy::{Call, Caller, LocalTime, Subject, ToolFacts, Weekday};

use crate::verdicts::load;

const POLICY: &str = r#"{"version":"1","default":"deny","hide":["secret"],
    "all_tools":{"deny_if":[{"conditions":[{"path":"caller.client","op":"eq","value":"bad"}]}],"limits":[{"window":"day","max":9}]},
    "tools":{"pay":{
        "require":[{"conditions":[{"path":"args.currency","op":"in","value":["EUR","USD"]}]}],
        "deny_if":[{"conditions":[{"path":"args.items[*].price","op":"gt","value":100},{"path":"args.note","op":"contains","value":"x"}]}],
        "approve_if":[{"conditions":[{"path":"args.total","op":"gte","value":50}]}]}}}"#;

fn steps(tool: &str, args: &str) -> Vec<String> {
    let doc = Doc::read(args.as_bytes(), &Bounds::MESSAGE).unwrap();
    let call = Call {
        subject: Subject::Tool(tool),
        args: Some(doc.root()),
        params: None,
        caller: Caller { grant: "ann", session: None, client: Some("good") },
        tool: ToolFacts::default(),
        time: LocalTime { hour: 1, weekday: Weekday::Monday },
    };
    let (_, steps) = load(POLICY).explain(&call);
    steps.iter().map(ToString::to_string).collect()
}

#[test]
fn every_step_is_explained_until_the_decision() {
    assert_eq!(
        steps(
            "pay",
            r#"{"currency":"EUR","items":[{"price":5},{"price":"5"},{}],"note":"none","total":70}"#
        ),
        [
            "/tools/pay: the name: matches",
            "/tools/pay/require/0/conditions/0: `args.currency` in a list of 2; found text: holds",
            "/tools/pay/require/0: 1 condition: holds",
            "/all_tools/deny_if/0/conditions/0: `caller.client` eq a text of the policy; found text: does not hold",
            "/all_tools/deny_if/0: 1 condition: does not hold",
            "/tools/pay/deny_if/0/conditions/0: `args.items[*].price` gt 100; found a number, text, nothing: is indeterminate",
            "/tools/pay/deny_if/0/conditions/1: `args.note` contains a text of the policy; found text: does not hold",
            "/tools/pay/deny_if/0: 2 conditions: does not hold",
            "/tools/pay/approve_if/0/conditions/0: `args.total` gte 50; found a number: holds",
            "/tools/pay/approve_if/0: 1 condition: holds",
            "/tools/pay/approve_if/0: what a human decides: asks a human",
            "/all_tools/limits/0: what the call counts: is held",
        ]
    );
    assert_eq!(
        steps("pay", r#"{"currency":5}"#),
        [
            "/tools/pay: the name: matches",
            "/tools/pay/require/0/conditions/0: `args.currency` in a list of 2; found a number: is indeterminate",
            "/tools/pay/require/0: 1 condition: is indeterminate",
            "/tools/pay/require/0: what is required: denies",
        ]
    );
    assert_eq!(steps("secret", "{}"), ["/hide/0: the name: hides"]);
    assert_eq!(
        steps("other", "{}"),
        ["/default: the name; no entry matches: no match", "/default: the default: denies",]
    );
}

#[test]
fn no_step_holds_an_argument_value() {
    let secret = "hunter2-4711";
    let args = format!(
        r#"{{"currency":"{secret}","items":[{{"price":"{secret}"}}],"note":"x{secret}","total":"{secret}"}}"#
    );
    let told = steps("pay", &args).join("\n");
    assert!(!told.contains(secret), "{told}");
}
