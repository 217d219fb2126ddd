//! The rules behind an entry of the audit log: which parts of the policy were looked at, and which decided.
//! The log has no arguments, so a rule on arguments is known only by what followed it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use policy::{Call, Caller, LocalTime, Policy, Subject, ToolFacts, Weekday};
use serde::Serialize;
use store::ledger::Entry;
use store::registry::PolicyText;

/// One part of the policy, in the order of the walk.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WalkStep {
    /// JSON pointer in the policy.
    pub(crate) rule: String,
    pub(crate) finding: &'static str,
    pub(crate) decided: bool,
    /// The text of the rule, where the policy is JSON.
    pub(crate) text: Option<String>,
}

/// The walk of an entry under the policy that judged it. Nothing for an entry without a subject, or if the
/// policy does not load.
pub(crate) fn walk(entry: &Entry, policy: &PolicyText, zone: &TimeZone) -> Option<Vec<WalkStep>> {
    let loaded = Policy::load(&policy.source, policy.format).ok()?;
    let call = Call {
        subject: subject(entry)?,
        args: None,
        params: None,
        caller: Caller {
            grant: &entry.grant,
            session: Some(entry.session.as_str()).filter(|session| !session.is_empty()),
            client: Some(entry.client.as_str()).filter(|client| !client.is_empty()),
        },
        tool: ToolFacts {
            server: Some(&entry.server),
            aggregates: connectors::aggregates(&entry.server, &entry.tool),
            ..ToolFacts::default()
        },
        time: policy_time(&entry.time, zone)?,
    };
    let document: serde_json::Value = serde_json::from_str(&policy.source).unwrap_or_default();
    let mut steps = Vec::new();
    for rule in loaded.reached(&call) {
        let decided = rule.pointer == entry.rule && !matches!(rule.finding, Some("matches"));
        let finding = match rule.finding {
            _ if decided => decided_word(entry),
            Some(finding) => finding,
            None => "did not apply",
        };
        let text =
            document.pointer(&rule.pointer).filter(|_| rule.pointer.matches('/').count() > 2);
        let text = text.and_then(|text| serde_json::to_string_pretty(text).ok());
        steps.push(WalkStep { rule: rule.pointer, finding, decided, text });
        if decided {
            return Some(steps);
        }
    }
    // A limit, an earlier approval or a changed definition decided after the walk.
    steps.push(WalkStep {
        rule: entry.rule.clone(),
        finding: decided_word(entry),
        decided: true,
        text: None,
    });
    Some(steps)
}

fn decided_word(entry: &Entry) -> &'static str {
    match entry.decision.as_str() {
        "denied" => "denied it",
        "limited" => "was full",
        "asked" => "asked a human",
        "refused" => "refused it",
        _ => "allowed it",
    }
}

fn subject(entry: &Entry) -> Option<Subject<'_>> {
    if !entry.tool.is_empty() {
        return Some(Subject::Tool(&entry.tool));
    }
    if !entry.uri.is_empty() {
        return Some(Subject::Resource(&entry.uri));
    }
    if !entry.skill.is_empty() {
        return Some(Subject::Skill(&entry.skill));
    }
    (!entry.prompt.is_empty()).then_some(Subject::Prompt(&entry.prompt))
}

/// The hour and weekday that the policy saw.
pub(crate) fn policy_time(time: &str, zone: &TimeZone) -> Option<LocalTime> {
    let at = time.parse::<Timestamp>().ok()?.to_zoned(zone.clone());
    let days = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];
    let day = usize::try_from(at.weekday().to_monday_zero_offset()).ok()?;
    Some(LocalTime { hour: u8::try_from(at.hour()).ok()?, weekday: *days.get(day)? })
}
