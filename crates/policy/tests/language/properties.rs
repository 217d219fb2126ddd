//! The engine against the second evaluator, and what must hold for every policy and call. The number of
//! calls is small in the normal run; `TOLLGATE_CASES` sets another.

use std::collections::BTreeMap;
use std::sync::Arc;

use policy::json::{Bounds, Doc, Keys, Numbers};
use policy::{
    Call, Caller, Decision, Definition, Format, LocalTime, Policy, PredictedOutcome, Subject,
    ToolFacts, Verdict, Weekday,
};
use proptest::collection::vec;
use proptest::prelude::{
    ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof,
};
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::generate;
use crate::model::{self, Answer, ModelCall};
use crate::tree::Json;

const ARGS: Bounds = Bounds { numbers: Numbers::AnyValid, keys: Keys::Unique, ..Bounds::MESSAGE };
const CALLS_PER_POLICY: u32 = 12;

/// Runs a property on about as many calls as asked for; says how many that were.
fn check<S: Strategy>(
    calls: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) -> u32 {
    let asked = std::env::var("TOLLGATE_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = asked.unwrap_or(calls).div_ceil(CALLS_PER_POLICY);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(error) = TestRunner::new(config).run(strategy, test) {
        panic!("{error}");
    }
    cases * CALLS_PER_POLICY
}

fn policy_and_calls() -> impl Strategy<Value = (Json, Vec<ModelCall>)> {
    (generate::policy(), vec(generate::call(), CALLS_PER_POLICY as usize))
}

/// Turns the model's call into the engine's.
fn with_call<T>(call: &ModelCall, run: impl FnOnce(&Call<'_>) -> T) -> T {
    let args = call.args.as_ref().map(Json::to_json);
    let doc = args.as_ref().map(|args| Doc::read(args.as_bytes(), &ARGS).unwrap());
    let name = call.name.as_str();
    run(&Call {
        subject: match call.section {
            "tools" => Subject::Tool(name),
            "resources" => Subject::Resource(name),
            "prompts" => Subject::Prompt(name),
            "skills" => Subject::Skill(name),
            _ => Subject::Method(name),
        },
        args: doc.as_ref().map(Doc::root),
        params: None,
        caller: Caller {
            grant: &call.grant,
            session: call.session.as_deref(),
            client: call.client.as_deref(),
        },
        tool: ToolFacts {
            server: None,
            category: call.category.as_deref(),
            risk: call.risk.as_deref(),
            definition: match call.definition {
                "changed" => Definition::Changed,
                "new" => Definition::New,
                "conflict" => Definition::Conflict,
                "unknown" => Definition::Unknown,
                _ => Definition::Unchanged,
            },
            aggregates: call.aggregates,
            aggregate_days_of_grant: None,
        },
        time: LocalTime { hour: call.hour, weekday: Weekday::from_name(call.weekday).unwrap() },
    })
}

fn answer(verdict: &Verdict) -> Answer {
    let holds = verdict.holds().iter().map(|hold| {
        let (max, amount) = (hold.max.units(), hold.amount.units());
        let scope = hold.scope.as_str().to_owned();
        (hold.counter.to_string(), scope, hold.window_ms, max, amount, hold.rule.to_string())
    });
    Answer {
        decision: verdict.decision().as_str(),
        rule: verdict.rule().to_owned(),
        holds: holds.collect(),
        via: match verdict.decision() {
            Decision::Ask(ask) => Some(ask.via.as_str()),
            _ => None,
        },
        timeout_seconds: match verdict.decision() {
            Decision::Ask(ask) => Some(ask.timeout_seconds),
            _ => None,
        },
    }
}

#[test]
fn the_engine_equals_the_second_evaluator() {
    let judged = std::cell::Cell::new(0_u64);
    check(24_000, &policy_and_calls(), |(policy, calls)| {
        let source = policy.to_json();
        let loaded = Policy::load(&source, Format::Json);
        prop_assert_eq!(
            loaded.is_err(),
            model::is_refused(&policy),
            "{:?}\n{}",
            loaded.err(),
            source
        );
        let Ok(loaded) = loaded else { return Ok(()) };
        for call in &calls {
            let expected = model::evaluate(&policy, call);
            let found = with_call(call, |call| answer(&loaded.decide(call)));
            prop_assert_eq!(found, expected, "{}\n{:?}", source, call);
        }
        judged.set(judged.get() + calls.len() as u64);
        Ok(())
    });
    println!("P12: {} calls judged by both, 0 differences", judged.get());
}

/// Which part of a policy a rule names: `deny_if`, `action`, `default` and so on.
fn part(verdict: &Verdict) -> String {
    let rule = verdict.rule().trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('/');
    let last = rule.rsplit('/').next().unwrap_or_default();
    let known =
        ["require", "deny_if", "approve_if", "limits", "action", "on_change", "default", "hide"];
    let place = if rule.starts_with("/all_tools") { "all_tools " } else { "" };
    let part = if known.contains(&last) { last } else { "entry" };
    format!("{} by {place}{part}", verdict.decision().as_str())
}

#[test]
fn the_random_cases_reach_every_part_of_the_language() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..1_500 {
        let (policy, calls) = policy_and_calls().new_tree(&mut runner).unwrap().current();
        let Ok(policy) = Policy::load(&policy.to_json(), Format::Json) else {
            *seen.entry("refused".into()).or_default() += 1;
            continue;
        };
        for call in &calls {
            let (verdict, steps) = with_call(call, |call| policy.explain(call));
            *seen.entry(part(&verdict)).or_default() += 1;
            for step in steps.iter().filter(|step| step.pointer.contains("/conditions/")) {
                let operator = step.looked_at.split_whitespace().nth(1).unwrap_or_default();
                // `args["odd key"]` has a space in it.
                let operator = if operator == "key\"]`" { continue } else { operator };
                *seen.entry(format!("{operator} {}", step.finding)).or_default() += 1;
            }
        }
    }
    let mut expected: Vec<String> = [
        "refused",
        "allow by entry",
        "allow by default",
        "ask by action",
        "ask by approve_if",
        "ask by all_tools approve_if",
        "deny by default",
        "deny by action",
        "deny by require",
        "deny by all_tools require",
        "deny by deny_if",
        "deny by all_tools deny_if",
        "deny by on_change",
        "deny by limits",
        "deny by all_tools limits",
        "deny by entry",
        "deny by hide",
        "hide by hide",
        "hide by action",
    ]
    .map(str::to_owned)
    .to_vec();
    for row in policy::operators() {
        for truth in ["holds", "does not hold", "is indeterminate"] {
            expected.push(format!("{} {truth}", row.name));
        }
    }
    let rare: Vec<_> =
        expected.iter().filter(|what| seen.get(*what).copied().unwrap_or(0) < 5).collect();
    assert!(rare.is_empty(), "{rare:?}\n{seen:#?}");
}

#[test]
fn yaml_and_json_of_one_policy_decide_alike() {
    check(3_000, &policy_and_calls(), |(policy, calls)| {
        let json = Policy::load(&policy.to_json(), Format::Json);
        let yaml_text = policy.to_yaml(0);
        let yaml = Policy::load(&yaml_text, Format::Yaml);
        prop_assert_eq!(json.is_ok(), yaml.is_ok(), "{}\n{:?}", yaml_text, yaml.err());
        let (Ok(json), Ok(yaml)) = (json, yaml) else { return Ok(()) };
        for call in &calls {
            let (one, other) = with_call(call, |call| (json.decide(call), yaml.decide(call)));
            prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
        Ok(())
    });
}

#[test]
fn deciding_is_deterministic_and_explaining_is_the_same_walk() {
    let calls = check(6_000, &policy_and_calls(), |(policy, calls)| {
        let source = policy.to_json();
        let Ok(first) = Policy::load(&source, Format::Json) else { return Ok(()) };
        let second = Policy::load(&source, Format::Json).unwrap();
        for call in &calls {
            with_call(call, |call| {
                let decided = format!("{:?}", first.decide(call));
                let (verdict, steps) = first.explain(call);
                prop_assert_eq!(&decided, &format!("{:?}", second.decide(call)));
                prop_assert_eq!(&decided, &format!("{verdict:?}"));
                prop_assert_eq!(&steps, &second.explain(call).1);
                prop_assert!(!steps.is_empty());
                Ok(())
            })?;
        }
        Ok(())
    });
    println!("P13: {calls} calls, the same decision and the same steps from a second loading");
}

/// Whether some entry of the section matches a name, by trying all of them.
fn some_entry_matches(policy: &Json, call: &ModelCall) -> bool {
    let entries = policy.get(call.section).map(Json::members).unwrap_or_default();
    let name = call.name.replace("e\u{301}", "\u{e9}");
    entries.iter().any(|(pattern, _)| {
        let mut parts = pattern.split('*');
        let (first, last) = (parts.next().unwrap(), pattern.rsplit('*').next().unwrap());
        *pattern == name
            || (pattern.contains('*') && name.starts_with(first) && name.ends_with(last))
    })
}

#[test]
fn a_call_is_allowed_only_by_an_entry_or_by_default_allow() {
    let calls = check(10_000, &policy_and_calls(), |(policy, calls)| {
        let Ok(loaded) = Policy::load(&policy.to_json(), Format::Json) else { return Ok(()) };
        for call in &calls {
            let open = policy.get("default") == Some(&Json::text("allow"));
            let verdict = with_call(call, |call| loaded.decide(call));
            if matches!(verdict.decision(), Decision::Allow | Decision::Ask(_)) {
                prop_assert!(open || some_entry_matches(&policy, call), "{:?}", call);
            }
        }
        Ok(())
    });
    println!("P11: {calls} calls, none allowed by accident");
}

/// The policy with a rule that always denies put into one list of every entry and of all tools.
fn with_denial(policy: &Json, place: usize) -> Json {
    let always = Json::map([("conditions", Json::List(Vec::new()))]);
    let add = |source: &Json| {
        let Json::Map(members) = source else { return source.clone() };
        let mut members: Vec<_> =
            members.iter().filter(|(name, _)| name != "deny_if").cloned().collect();
        let mut rules = source.get("deny_if").map(Json::items).unwrap_or_default().to_vec();
        rules.insert(place.min(rules.len()), always.clone());
        members.push(("deny_if".into(), Json::List(rules)));
        Json::Map(members)
    };
    let Json::Map(members) = policy else { return policy.clone() };
    let members = members.iter().map(|(name, value)| {
        let value = match name.as_str() {
            "tools" | "resources" | "prompts" | "skills" => Json::Map(
                value.members().iter().map(|(name, entry)| (name.clone(), add(entry))).collect(),
            ),
            "default" => Json::text("deny"),
            _ => value.clone(),
        };
        (name.clone(), value)
    });
    Json::Map(members.collect())
}

#[test]
fn a_rule_that_denies_always_wins() {
    let strategy = (policy_and_calls(), 0_usize..3);
    let calls = check(10_000, &strategy, |((policy, calls), place)| {
        let Ok(loaded) = Policy::load(&with_denial(&policy, place).to_json(), Format::Json) else {
            return Ok(());
        };
        for call in &calls {
            let verdict = with_call(call, |call| loaded.decide(call));
            let refused = matches!(verdict.decision(), Decision::Deny(_) | Decision::Hidden(_));
            prop_assert!(refused, "{:?}", call);
            prop_assert!(verdict.holds().is_empty());
        }
        Ok(())
    });
    println!("P11: {calls} calls under a rule that denies, all denied");
}

#[test]
fn lists_and_calls_agree_on_what_is_visible() {
    check(6_000, &policy_and_calls(), |(policy, calls)| {
        let Ok(loaded) = Policy::load(&policy.to_json(), Format::Json) else { return Ok(()) };
        for call in &calls {
            let (verdict, shown) =
                with_call(call, |call| (loaded.decide(call), loaded.shows(call.subject)));
            match verdict.decision() {
                Decision::Allow | Decision::Ask(_) => prop_assert!(shown),
                Decision::Hidden(_) => prop_assert!(!shown),
                Decision::Deny(_) => prop_assert_eq!(shown, verdict.rule() != "/default"),
            }
        }
        Ok(())
    });
}

/// A text that was a policy before something happened to it.
fn damaged() -> impl Strategy<Value = String> {
    let cut = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        "\\PC{0,3}|[\\[\\]{},:\"'&*!#|>%@`~-]{1,3}",
    );
    (generate::policy(), any::<bool>(), vec(cut, 0..4)).prop_map(|(policy, yaml, cuts)| {
        let mut text = if yaml { policy.to_yaml(0) } else { policy.to_json() };
        for (from, to, put) in cuts {
            let mut chars: Vec<char> = text.chars().collect();
            if chars.is_empty() {
                break;
            }
            let (from, to) = (from.index(chars.len()), to.index(chars.len()));
            let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 8));
            chars.splice(from..to, put.chars());
            text = chars.into_iter().collect();
        }
        text
    })
}

#[test]
fn any_text_is_answered_without_a_panic() {
    let bytes =
        vec(any::<u8>(), 0..200).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let yamlish =
        proptest::string::string_regex("([a-z]{0,3}|[\\[\\]{},:?\"'&*!#|>%@`~\\-\n\t ]){0,60}")
            .unwrap();
    let strategy = prop_oneof![3 => damaged(), 1 => bytes, 3 => yamlish, 1 => "\\PC{0,80}"];
    check(60_000, &strategy, |text| {
        for format in [Format::Json, Format::Yaml] {
            if let Err(error) = Policy::load(&text, format) {
                prop_assert!(!error.problems.is_empty());
                prop_assert!(
                    error.problems.iter().all(|problem| problem.line > 0 && problem.column > 0)
                );
            }
        }
        Ok(())
    });
}

/// A walk that is not told the arguments may say less than one that is, and never something else.
#[test]
fn a_prediction_without_arguments_holds_with_them() {
    let mut told = BTreeMap::new();
    let counted = std::cell::RefCell::new(&mut told);
    check(24_000, &policy_and_calls(), |(policy, calls)| {
        let source = policy.to_json();
        let Ok(policy) = Policy::load(&source, Format::Json) else { return Ok(()) };
        for call in &calls {
            let without = ModelCall { args: None, ..call.clone() };
            let prediction = with_call(&without, |call| policy.predict(call));
            let outcome = prediction.outcome;
            let verdict = with_call(call, |call| policy.decide(call));
            let known = with_call(call, |call| policy.predict(call)).outcome;
            prop_assert_eq!(&known, &outcome, "arguments must not be looked at");
            prop_assert!(agree(&outcome, &verdict), "{:?}\n{:?}\n{}", outcome, verdict, source);
            let passes = matches!(verdict.decision(), Decision::Allow);
            prop_assert!(!(prediction.asks && passes), "{:?}\n{:?}\n{}", outcome, verdict, source);
            *counted.borrow_mut().entry(outcome.as_str()).or_insert(0_u32) += 1;
        }
        Ok(())
    });
    let kinds: Vec<&str> = told.keys().copied().collect();
    assert_eq!(kinds, ["ask", "deny", "depends", "hide", "pass"], "{told:?}");
}

fn agree(outcome: &PredictedOutcome, verdict: &Verdict) -> bool {
    let by = |rule: &Arc<str>| verdict.rule() == &**rule;
    match (outcome, verdict.decision()) {
        (PredictedOutcome::Passes { rule }, Decision::Allow)
        | (PredictedOutcome::Hidden { rule }, Decision::Hidden(_)) => by(rule),
        (PredictedOutcome::Denied { code, rule, earlier }, Decision::Deny(denial)) => {
            (by(rule) && denial.code == *code) || earlier.iter().any(by)
        }
        (PredictedOutcome::Depends { rules }, Decision::Deny(_)) => rules.iter().any(by),
        // Which of several rules asks may be for the arguments to say.
        (PredictedOutcome::Asks { .. }, Decision::Ask(_))
        | (PredictedOutcome::Depends { .. }, Decision::Allow | Decision::Ask(_)) => true,
        _ => false,
    }
}
