//! What a verdict carries besides the decision: reasons, codes, holds, effects, warnings.

use policy::json::{Bounds, Doc};
use policy::{
    Amount, Call, Caller, Code, Decision, Definition, Denial, Format, HiddenAs, LocalTime,
    OnChange, Policy, Scope, ServerRequest, Subject, ToolFacts, Verdict, Weekday,
};

pub(crate) fn load(source: &str) -> Policy {
    Policy::load(source, Format::Json).unwrap_or_else(|error| panic!("{error}\n{source}"))
}

fn call<'a>(subject: Subject<'a>, doc: Option<&'a Doc<'a>>) -> Call<'a> {
    Call {
        subject,
        args: doc.map(Doc::root),
        params: None,
        caller: Caller { grant: "ann", session: Some("s"), client: Some("c") },
        tool: ToolFacts::default(),
        time: LocalTime { hour: 12, weekday: Weekday::Monday },
    }
}

fn decide(policy: &Policy, subject: Subject<'_>, args: &str) -> Verdict {
    let doc = Doc::read(args.as_bytes(), &Bounds::MESSAGE).unwrap();
    policy.decide(&call(subject, Some(&doc)))
}

fn denial(verdict: &Verdict) -> &Denial {
    match verdict.decision() {
        Decision::Deny(denial) => denial,
        Decision::Hidden(told) => told.denial(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reason_comes_from_the_rule_then_the_entry_then_the_conditions() {
    let policy = load(
        r#"{"version":"1","default":"deny","tools":{
        "a":{"action":"deny","reason":"not today"},
        "b":{"action":"deny"},
        "c":{"reason":"ask ann","deny_if":[{"conditions":[],"on_deny":"never"},{"conditions":[]}]},
        "d":{"reason":"ask ann","deny_if":[{"conditions":[]}]},
        "e":{"deny_if":[{"conditions":[]}]},
        "f":{"deny_if":[{"conditions":[{"path":"args.n","op":"gt","value":100},{"path":"args.to","op":"in","value":["x","y"]}]}]},
        "g":{"require":[{"conditions":[{"path":"args.n","op":"lte","value":100}]}]},
        "h":{"require":[{"conditions":[{"path":"args.n","op":"lte","value":100}],"on_deny":"too much"}]}}}"#,
    );
    let cases = [
        ("a", "{}", "not today"),
        ("b", "{}", "tool `b` is denied by the policy"),
        ("c", "{}", "never"),
        ("d", "{}", "ask ann"),
        ("e", "{}", "tool `e` is denied by the policy"),
        (
            "f",
            r#"{"n":101,"to":"x"}"#,
            "tool `f` is denied because `args.n` gt 100 and `args.to` in a list of 2",
        ),
        (
            "f",
            r#"{"n":"101","to":"x"}"#,
            "tool `f` is denied because the policy cannot tell whether `args.n` gt 100 and `args.to` in a list of 2; \
             send plain values of the expected type",
        ),
        ("g", r#"{"n":101}"#, "tool `g` needs `args.n` lte 100"),
        ("h", r#"{"n":101}"#, "too much"),
        ("z", "{}", "no rule allows tool `z`; this policy denies what it does not name"),
    ];
    for (tool, args, reason) in cases {
        let verdict = decide(&policy, Subject::Tool(tool), args);
        assert_eq!(denial(&verdict).reason, reason, "{tool}");
        assert_eq!(denial(&verdict).rule, verdict.rule(), "{tool}");
        let code = if tool == "z" { Code::DeniedByDefault } else { Code::DeniedByRule };
        assert_eq!(denial(&verdict).code, code, "{tool}");
        assert!(verdict.holds().is_empty());
    }
}

#[test]
fn a_hidden_tool_gets_the_error_of_an_unknown_name() {
    let policy = load(
        r#"{"version":"1","default":"deny","hide":["secret_*"],"tools":{"x":{"action":"hide","reason":"r"},"secret_a":{}}}"#,
    );
    for hidden in ["secret_a", "secret_b", "x"] {
        let verdict = decide(&policy, Subject::Tool(hidden), "{}");
        let made_up = decide(&policy, Subject::Tool("made_up"), "{}");
        assert!(matches!(verdict.decision(), Decision::Hidden(_)));
        let mut expected = denial(&made_up).clone();
        expected.reason = expected.reason.replace("made_up", hidden);
        assert_eq!(denial(&verdict), &expected);
        assert_ne!(verdict.rule(), "/default");
    }
    let open = load(r#"{"version":"1","default":"allow","hide":["x"]}"#);
    let verdict = decide(&open, Subject::Tool("x"), "{}");
    assert_eq!(denial(&verdict).reason, "unknown tool `x`");
    assert_eq!(verdict.rule(), "/hide/0");
}

#[test]
fn a_hidden_name_is_judged_like_an_unknown_one() {
    let rule = r#"{"conditions":[{"path":"args.n","op":"eq","value":1}],"on_deny":"no ones"}"#;
    let real = r#"{"conditions":[{"path":"tool.risk","op":"eq","value":"high"}]}"#;
    let cases = [
        (r#""default":"deny","hide":["get_x"],"tools":{"get_*":{}}"#.to_owned(), None),
        (r#""default":"deny","hide":["get_x"],"tools":{"get_x":{"action":"deny"},"*":{}}"#.into(), None),
        (r#""default":"deny","tools":{"get_x":{"action":"hide"},"get_*":{}}"#.into(), None),
        (r#""default":"deny","tools":{"get_*":{"action":"hide"},"*":{"action":"require_approval"}}"#.into(), None),
        (r#""default":"deny","hide":["get_x"],"tools":{"get_x":{}}"#.into(), Some("/default")),
        (r#""default":"allow","hide":["get_x"],"tools":{"get_*":{"action":"deny"}}"#.into(), Some("/tools/get_*/action")),
        (format!(r#""default":"allow","hide":["get_x"],"all_tools":{{"deny_if":[{rule}]}}"#), Some("/all_tools/deny_if/0")),
        (format!(r#""default":"deny","hide":["get_x"],"tools":{{"*":{{"require":[{real}]}}}}"#), Some("/tools/*/require/0")),
        (format!(r#""default":"allow","hide":["get_x"],"all_tools":{{"deny_if":[{real}]}}"#), None),
        (r#""default":"allow","hide":["get_x"],"all_tools":{"limits":[{"window":1,"max":1,"increment":"args.m"}]}"#.into(), None),
    ];
    for (text, stopped_by) in cases {
        let policy = load(&format!(r#"{{"version":"1",{text}}}"#));
        let doc = Doc::read(br#"{"n":1}"#, &Bounds::MESSAGE).unwrap();
        let tool = ToolFacts {
            server: None,
            category: Some("write"),
            risk: Some("high"),
            definition: Definition::Unchanged,
            aggregates: false,
            aggregate_days_of_grant: None,
        };
        let verdict = policy.decide(&Call { tool, ..call(Subject::Tool("get_x"), Some(&doc)) });
        let told = match verdict.decision() {
            Decision::Hidden(HiddenAs::Denied(denial)) => Some(denial.rule.as_str()),
            Decision::Hidden(HiddenAs::Unknown(_)) => None,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(told, stopped_by, "{text}");
    }
}

#[test]
fn limits_become_holds_with_exact_amounts() {
    let policy = load(
        r#"{"version":"1","default":"deny",
        "all_tools":{"limits":[{"window":"hour","max":1000}]},
        "tools":{"pay":{"reason":"slow down","limits":[
            {"counter":"spend","window":"7d","max":99.5,"scope":"everyone","increment":"args.amount","on_deny":"spent"},
            {"counter":"spend","window":60,"max":10,"scope":"everyone","increment":"args.amount"},
            {"window":"15m","max":3,"scope":"server","increment":2.5}],
            "rate_limit":{"max":10,"window":60}},
          "sum":{"limits":[{"window":"day","max":5,"increment":"args.items[*].price"}]}}}"#,
    );
    let verdict = decide(&policy, Subject::Tool("pay"), r#"{"amount":12.345}"#);
    assert_eq!(verdict.decision(), &Decision::Allow);
    let holds: Vec<_> = verdict
        .holds()
        .iter()
        .map(|hold| {
            let (max, amount) = (hold.max.to_string(), hold.amount.to_string());
            (
                &*hold.counter,
                hold.scope,
                hold.window_ms,
                max,
                amount,
                &*hold.rule,
                hold.on_deny.as_deref(),
            )
        })
        .collect();
    let expected = [
        ("/all_tools/limits/0", Scope::Grant, 3_600_000, "1000", "1", "/all_tools/limits/0", None),
        (
            "spend",
            Scope::Everyone,
            604_800_000,
            "99.5",
            "12.345",
            "/tools/pay/limits/0",
            Some("spent"),
        ),
        (
            "spend",
            Scope::Everyone,
            60_000,
            "10",
            "12.345",
            "/tools/pay/limits/1",
            Some("slow down"),
        ),
        (
            "/tools/pay/limits/2",
            Scope::Server,
            900_000,
            "3",
            "2.5",
            "/tools/pay/limits/2",
            Some("slow down"),
        ),
        (
            "/tools/pay/rate_limit",
            Scope::Grant,
            60_000,
            "10",
            "1",
            "/tools/pay/rate_limit",
            Some("slow down"),
        ),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(counter, scope, window, max, amount, rule, message)| {
            (counter, scope, window, max.to_owned(), amount.to_owned(), rule, message)
        })
        .collect();
    assert_eq!(holds, expected);

    let sum = decide(&policy, Subject::Tool("sum"), r#"{"items":[{"price":0.1},{"price":0.2}]}"#);
    assert_eq!(sum.holds().last().unwrap().amount, Amount::parse("0.3").unwrap());
}

#[test]
fn an_amount_that_makes_no_sense_is_denied() {
    let policy = load(
        r#"{"version":"1","default":"deny","tools":{
        "pay":{"limits":[{"window":"day","max":100,"increment":"args.amount","on_deny":"too much today"}]},
        "sum":{"limits":[{"window":"day","max":5,"increment":"args.items[*].price"}]}}}"#,
    );
    let cases = [
        ("pay", "{}", "`args.amount` is missing"),
        ("pay", r#"{"amount":-1}"#, "`args.amount` is negative"),
        ("pay", r#"{"amount":-0.0000001}"#, "`args.amount` is negative"),
        ("pay", r#"{"amount":"5"}"#, "`args.amount` is not a number"),
        ("pay", r#"{"amount":null}"#, "`args.amount` is not a number"),
        ("pay", r#"{"amount":[5]}"#, "`args.amount` is not a number"),
        ("pay", r#"{"amount":1e300}"#, "too large"),
        ("pay", r#"{"amount":1e-19}"#, "too fine"),
        ("sum", r#"{"items":[{"price":1},{}]}"#, "`args.items[*].price` is missing"),
        ("sum", r#"{"items":[]}"#, "`args.items[*].price` is missing"),
        ("sum", r#"{"items":[{"price":1e20},{"price":1e20}]}"#, "adds up to more"),
        ("sum", r#"{"items":[{"price":3},{"price":-2}]}"#, "is negative"),
    ];
    for (tool, args, message) in cases {
        let verdict = decide(&policy, Subject::Tool(tool), args);
        assert!(denial(&verdict).reason.contains(message), "{args}: {}", denial(&verdict).reason);
        assert_eq!(verdict.rule(), format!("/tools/{tool}/limits/0"));
        assert!(verdict.holds().is_empty());
    }
    for args in [r#"{"amount":0}"#, r#"{"amount":-0}"#, r#"{"amount":1e2}"#] {
        assert_eq!(
            decide(&policy, Subject::Tool("pay"), args).decision(),
            &Decision::Allow,
            "{args}"
        );
    }
}

#[test]
fn a_question_has_words_a_time_and_the_holds_of_the_call() {
    let policy = load(
        r#"{"version":"1","default":"deny","tools":{
        "a":{"action":"require_approval","limits":[{"window":"day","max":1}]},
        "b":{"reason":"big","approve_if":[{"conditions":[],"timeout":"2h"}]},
        "c":{"approve_if":[{"conditions":[],"on_deny":"let me look","timeout":90}]}}}"#,
    );
    let cases = [
        ("a", "tool `a` needs the owner's approval", 1_800, "/tools/a/action", 1),
        ("b", "big", 7_200, "/tools/b/approve_if/0", 0),
        ("c", "let me look", 90, "/tools/c/approve_if/0", 0),
    ];
    for (tool, reason, timeout_seconds, rule, holds) in cases {
        let verdict = decide(&policy, Subject::Tool(tool), "{}");
        let Decision::Ask(ask) = verdict.decision() else { panic!("{tool}") };
        assert_eq!(
            (ask.reason.as_str(), ask.timeout_seconds, ask.rule.as_str(), verdict.holds().len()),
            (reason, timeout_seconds, rule, holds)
        );
        assert_eq!(verdict.rule(), rule);
    }
}

#[test]
fn effects_come_with_an_allowed_call() {
    let policy = load(
        r#"{"version":"1","default":"allow","tools":{"x":{"redact":["profile.email","items[*].email"],"result_bytes_max":200000}}}"#,
    );
    let verdict = decide(&policy, Subject::Tool("x"), "{}");
    let paths: Vec<_> = verdict.effects().redact.iter().map(policy::ResultPath::as_str).collect();
    assert_eq!(paths, ["profile.email", "items[*].email"]);
    assert_eq!(verdict.effects().result_bytes_max, Some(200_000));
    let other = decide(&policy, Subject::Tool("y"), "{}");
    assert!(other.effects().redact.is_empty() && other.effects().result_bytes_max.is_none());
}

#[test]
fn a_warning_names_what_is_odd() {
    let policy = load(
        r#"{"version":"1","default":"deny","on_change":"warn","tools":{"d\u0435lete":{},"x":{}}}"#,
    );
    let verdict = decide(&policy, Subject::Tool("d\u{435}lete"), "{}");
    assert_eq!(verdict.decision(), &Decision::Allow);
    assert_eq!(
        verdict.warning(),
        Some("the name of tool `d\u{435}lete` mixes scripts in a confusable way")
    );
    let mut changed = call(Subject::Tool("x"), None);
    changed.tool.definition = Definition::Changed;
    let verdict = policy.decide(&changed);
    assert_eq!(verdict.warning(), Some("tool `x` changed since the owner accepted it"));
    assert_eq!(policy.warnings().len(), 1);
    assert!(policy.warnings()[0].message.contains("mixes scripts"));
}

#[test]
fn a_changed_tool_has_its_own_error_code() {
    let policy = load(r#"{"version":"1","default":"allow"}"#);
    for (definition, message) in [
        (Definition::Changed, "changed since the owner accepted it"),
        (Definition::New, "is new"),
        (Definition::Conflict, "more than once"),
    ] {
        let mut call = call(Subject::Tool("x"), None);
        call.tool.definition = definition;
        let verdict = policy.decide(&call);
        assert_eq!(denial(&verdict).code, Code::ToolChanged);
        assert!(denial(&verdict).reason.contains(message));
    }
    for definition in [Definition::Unchanged, Definition::Unknown] {
        let mut call = call(Subject::Tool("x"), None);
        call.tool.definition = definition;
        assert_eq!(policy.decide(&call).decision(), &Decision::Allow);
    }
}

#[test]
fn unknown_methods_pass_only_under_default_allow() {
    let closed = load(r#"{"version":"1","default":"deny","tools":{"*":{}},"prompts":{"*":{}}}"#);
    let open = load(
        r#"{"version":"1","default":"allow","hide":["*"],"all_tools":{"deny_if":[{"conditions":[]}]}}"#,
    );
    let method = Subject::Method("tasks/list");
    assert_eq!(
        denial(&closed.decide(&call(method, None))).reason,
        "no rule allows method `tasks/list`; this policy denies what it does not name"
    );
    assert_eq!(open.decide(&call(method, None)).decision(), &Decision::Allow);
    assert!(open.shows(method) && !closed.shows(method));
}

#[test]
fn lists_show_what_may_be_called_and_what_is_denied_openly() {
    let policy = load(
        r#"{"version":"1","default":"deny","hide":["h*"],"tools":{"a":{},"d":{"action":"deny"},"q":{"action":"require_approval"},
        "x":{"action":"hide"},"ha":{},"get_*":{},"get_x":{"action":"hide"}},"resources":{"r://*":{}},"prompts":{"p":{}}}"#,
    );
    let cases = [
        (Subject::Tool("a"), true),
        (Subject::Tool("d"), true),
        (Subject::Tool("q"), true),
        (Subject::Tool("x"), false),
        (Subject::Tool("ha"), false),
        (Subject::Tool("get_y"), true),
        (Subject::Tool("get_x"), false),
        (Subject::Tool("other"), false),
        (Subject::Tool("get_\u{200b}"), false),
        (Subject::Resource("r://1"), true),
        (Subject::Resource("a"), false),
        (Subject::Prompt("p"), true),
        (Subject::Prompt("a"), false),
    ];
    for (subject, shown) in cases {
        assert_eq!(policy.shows(subject), shown, "{subject:?}");
    }
    let open = load(r#"{"version":"1","default":"allow","hide":["h"]}"#);
    assert!(open.shows(Subject::Tool("other")) && !open.shows(Subject::Tool("h")));
}

#[test]
fn server_requests_and_on_change_can_be_recommended() {
    let silent = load(r#"{"version":"1","default":"deny"}"#);
    assert!(ServerRequest::ALL.into_iter().all(|request| silent.server_may_ask(request)));
    let some = load(r#"{"version":"1","default":"deny","server_requests":["roots"]}"#);
    assert!(some.server_may_ask(ServerRequest::Roots));
    assert!(!some.server_may_ask(ServerRequest::Sampling));
    let none = load(
        r#"{"version":"1","default":"deny","server_requests":[],"on_change":"warn","tools":{"x":{"on_change":"allow"}}}"#,
    );
    assert!(!none.server_may_ask(ServerRequest::Roots));
    assert_eq!(none.on_change(Subject::Tool("x")), OnChange::Allow);
    assert_eq!(none.on_change(Subject::Tool("y")), OnChange::Warn);
    assert_eq!(silent.on_change(Subject::Tool("y")), OnChange::Refuse);
}

#[test]
fn without_a_policy_everything_is_denied() {
    let verdict = Verdict::no_policy(Subject::Tool("x"));
    assert_eq!((denial(&verdict).code, verdict.rule()), (Code::NoPolicy, "(no policy)"));
}

#[test]
fn codes_and_scopes_have_one_name_each() {
    let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Code::ALL.len());
    assert!(Scope::ALL.iter().all(|scope| Scope::from_name(scope.as_str()) == Some(*scope)));
}

#[test]
fn a_name_in_a_reason_is_short_and_visible() {
    let policy = load(r#"{"version":"1","default":"deny"}"#);
    let cases = [
        ("a\u{0}b".to_owned(), r"tool `a\u{0}b`".to_owned()),
        ("a\u{202e}b".to_owned(), r"tool `a\u{202e}b`".to_owned()),
        ("caf\u{e9}".to_owned(), "tool `caf\u{e9}`".to_owned()),
        ("x".repeat(128), format!("tool `{}`", "x".repeat(128))),
        ("x".repeat(100_000), format!("tool `{}…`", "x".repeat(128))),
    ];
    for (name, shown) in cases {
        let verdict = decide(&policy, Subject::Tool(&name), "{}");
        let expected = format!("no rule allows {shown}; this policy denies what it does not name");
        assert_eq!(denial(&verdict).reason, expected);
    }
}

#[test]
fn under_aggregate_only_everything_else_is_denied() {
    let policy = load(
        r#"{"version":"1","default":"allow","aggregate_only":10,"tools":{"*":{},"ask":{"action":"require_approval"}},
            "resources":{"*":{}},"prompts":{"*":{}},
            "tests":[{"tool":"x","aggregates":true,"expect":"allow"},{"tool":"x","expect":"deny","rule":"/aggregate_only"}]}"#,
    );
    let subjects = [
        Subject::Tool("x"),
        Subject::Tool("ask"),
        Subject::Resource("mem://x"),
        Subject::Prompt("x"),
        Subject::Method("completion/complete"),
    ];
    for subject in subjects {
        let verdict = policy.decide(&call(subject, None));
        assert_eq!(
            (denial(&verdict).code, verdict.rule()),
            (Code::DeniedByRule, "/aggregate_only")
        );
        // A declaration counts for tools only.
        let tool = ToolFacts { aggregates: true, ..ToolFacts::default() };
        let verdict = policy.decide(&Call { tool, ..call(subject, None) });
        let is_tool = matches!(subject, Subject::Tool(_));
        assert_eq!(verdict.aggregate_days(), is_tool.then_some(10), "{subject:?}");
        assert_eq!(matches!(verdict.decision(), Decision::Deny(_)), !is_tool, "{subject:?}");
    }
    let open = load(r#"{"version":"1","default":"allow"}"#);
    assert_eq!(open.decide(&call(Subject::Tool("x"), None)).aggregate_days(), None);
}

#[test]
fn a_tool_that_aggregates_honours_the_strictest_bound_of_the_grant() {
    let open = load(r#"{"version":"1","default":"allow"}"#);
    let bounded = load(r#"{"version":"1","default":"allow","aggregate_only":10}"#);
    for (policy, aggregates, of_grant, days) in [
        (&open, true, Some(28), Some(28)),
        (&open, true, None, None),
        // A tool that does not read such data is not concerned.
        (&open, false, Some(28), None),
        (&bounded, true, Some(28), Some(28)),
        (&bounded, true, Some(7), Some(10)),
    ] {
        let tool =
            ToolFacts { aggregates, aggregate_days_of_grant: of_grant, ..ToolFacts::default() };
        let verdict = policy.decide(&Call { tool, ..call(Subject::Tool("x"), None) });
        assert!(matches!(verdict.decision(), Decision::Allow), "{aggregates} {of_grant:?}");
        assert_eq!(verdict.aggregate_days(), days, "{aggregates} {of_grant:?}");
    }
}
