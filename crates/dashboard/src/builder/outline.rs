//! A policy as rows: for each name its state, where the state comes from, and what else its entry has.

use policy::edit;
use policy::json::{Kind, Value};
use policy::{
    Call, Caller, Definition, LocalTime, Policy, PredictedOutcome, Subject, ToolFacts, Weekday,
};
use serde::Serialize;

/// The sections of a policy that have entries by name.
pub(crate) const SECTIONS: [&str; 4] = ["tools", "resources", "prompts", "skills"];

/// The fields of an entry that make it more than its action.
pub(super) const RULE_FIELDS: [&str; 7] =
    ["require", "deny_if", "approve_if", "limits", "rate_limit", "redact", "result_bytes_max"];

/// What the switch of a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Allow,
    Deny,
    Hide,
    Ask,
    /// Allowed with conditions, limits or redaction.
    Custom,
}

impl State {
    pub(crate) const ALL: [State; 5] =
        [State::Allow, State::Deny, State::Hide, State::Ask, State::Custom];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            State::Allow => "allow",
            State::Deny => "deny",
            State::Hide => "hide",
            State::Ask => "ask",
            State::Custom => "custom",
        }
    }

    pub(crate) const fn label(self) -> &'static str {
        match self {
            State::Allow => "Allow",
            State::Deny => "Deny",
            State::Hide => "Hide",
            State::Ask => "Ask",
            State::Custom => "Custom",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What a policy does with one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    pub(crate) state: State,
    /// The part of the policy that decides, if it is not the name's own entry: `default`, or a pattern.
    pub(crate) by: Option<String>,
    /// A pattern of `hide` hides it, which no entry can change.
    pub(crate) is_locked: bool,
    /// What the entry has beyond its action, such as `2 rules`.
    pub(crate) notes: Vec<String>,
}

/// A compiled policy next to its content.
pub(crate) struct Outline<'p> {
    pub(crate) policy: &'p Policy,
    pub(crate) root: Value<'p>,
}

impl<'p> Outline<'p> {
    /// The names that have an entry in a section.
    pub(crate) fn entries(&self, section: &str) -> Vec<String> {
        let entries = self.root.get(section).map(Value::entries);
        entries.into_iter().flatten().map(|(key, _)| key.text().into_owned()).collect()
    }

    pub(crate) fn own_entry(&self, section: &str, name: &str) -> Option<Value<'p>> {
        self.root.get(section)?.get(name)
    }

    pub(crate) fn at(&self, pointer: &str) -> Option<Value<'p>> {
        at(self.root, pointer)
    }

    /// The entry that a name falls under, its own or that of a pattern.
    pub(crate) fn entry(&self, section: &str, name: &str) -> Option<Value<'p>> {
        let own = self.own_entry(section, name);
        own.or_else(|| self.at(&self.policy.rule_of(subject(section, name)?)).filter(is_object))
    }

    pub(crate) fn row(&self, section: &str, name: &str) -> Row {
        let own = self.own_entry(section, name);
        let Some(subject) = subject(section, name) else {
            return row_of(own, || self.by_default());
        };
        let outcome = self.policy.predict(&bare_call(subject)).outcome;
        if let PredictedOutcome::Hidden { rule } = &outcome
            && let Some(pattern) = rule.strip_prefix("/hide/").and_then(|_| self.at(rule))
        {
            let pattern = pattern.as_str().unwrap_or_default().into_owned();
            let is_locked = pattern != name;
            let by = is_locked.then_some(pattern);
            return Row { state: State::Hide, by, is_locked, notes: Vec::new() };
        }
        row_of(own, || {
            let rule = self.policy.rule_of(subject);
            match self.at(&rule).filter(is_object) {
                Some(entry) => {
                    let by = edit::steps(&rule).pop();
                    Row { state: state_of(entry), by, is_locked: false, notes: notes(entry) }
                }
                None => self.by_default(),
            }
        })
    }

    fn by_default(&self) -> Row {
        let state = if self.policy.allows_unnamed() { State::Allow } else { State::Deny };
        let by = Some("default".to_owned());
        Row { state, by, is_locked: false, notes: Vec::new() }
    }
}

/// The row of a name's own entry; without one, of what it falls under.
fn row_of(own: Option<Value<'_>>, otherwise: impl FnOnce() -> Row) -> Row {
    match own {
        Some(own) => Row { state: state_of(own), by: None, is_locked: false, notes: notes(own) },
        None => otherwise(),
    }
}

pub(super) fn at<'p>(root: Value<'p>, pointer: &str) -> Option<Value<'p>> {
    edit::steps(pointer).iter().try_fold(root, |value, step| match value.kind() {
        Kind::Object => value.get(step),
        Kind::Array => value.items().nth(step.parse().ok()?),
        _ => None,
    })
}

fn is_object(value: &Value<'_>) -> bool {
    value.kind() == Kind::Object
}

fn subject<'n>(section: &str, name: &'n str) -> Option<Subject<'n>> {
    match section {
        "tools" => Some(Subject::Tool(name)),
        "resources" => Some(Subject::Resource(name)),
        "prompts" => Some(Subject::Prompt(name)),
        "skills" => Some(Subject::Skill(name)),
        _ => None,
    }
}

/// A call of which only the name is known.
fn bare_call(subject: Subject<'_>) -> Call<'_> {
    let definition = match subject {
        Subject::Tool(_) => Definition::Unchanged,
        _ => Definition::Unknown,
    };
    Call {
        subject,
        args: None,
        params: None,
        caller: Caller::default(),
        tool: ToolFacts { definition, ..ToolFacts::default() },
        time: LocalTime { hour: 12, weekday: Weekday::Monday },
    }
}

fn state_of(entry: Value<'_>) -> State {
    match entry.get("action").and_then(Value::as_str).as_deref() {
        Some("deny") => State::Deny,
        Some("hide") => State::Hide,
        Some("require_approval") => State::Ask,
        _ if RULE_FIELDS.iter().any(|field| has(entry, field)) => State::Custom,
        _ => State::Allow,
    }
}

fn has(entry: Value<'_>, field: &str) -> bool {
    entry.get(field).is_some_and(|value| value.kind() != Kind::Array || !value.is_empty())
}

fn notes(entry: Value<'_>) -> Vec<String> {
    let items = |field: &str| entry.get(field).map_or(0, |list| list.items().count());
    let rules = items("require") + items("deny_if") + items("approve_if");
    let limits = items("limits") + usize::from(entry.get("rate_limit").is_some());
    let counted = |number: usize, one: &str, many: &str| match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{number} {many}")),
    };
    let parts = [
        counted(rules, "rule", "rules"),
        counted(limits, "limit", "limits"),
        counted(items("redact"), "redacted path", "redacted paths"),
        entry.get("result_bytes_max").map(|_| "size limit".to_owned()),
    ];
    parts.into_iter().flatten().collect()
}
