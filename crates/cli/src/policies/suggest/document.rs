//! The suggestion itself: deny by default, one entry for each name that was used, a limit at what was seen,
//! and tests that say so.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::used::{Kind, Use, Used};
use crate::moment;
use crate::output::count;

/// Tests in one document; the first of very many names are tested.
const TESTS_MAX: usize = 400;
/// A section of a policy has no more entries than this.
const ENTRIES_MAX: usize = 10_000;

/// The tools of the server.
pub(super) struct Offered {
    pub(super) open: Vec<String>,
    /// By the policy in force.
    pub(super) hidden: Vec<String>,
}

/// A name that was used and has no entry.
#[derive(Debug, Serialize)]
pub(super) struct LeftOut {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) calls: u64,
    pub(super) why: &'static str,
}

pub(super) struct Document {
    pub(super) policy: Value,
    pub(super) left_out: Vec<LeftOut>,
    allowed: usize,
    asked: usize,
    hidden: usize,
}

impl Document {
    pub(super) fn make(grant: &str, server: &str, used: &Used, offered: &Offered) -> Document {
        let mut draft = Draft::default();
        for ((kind, name), how) in &used.names {
            draft.take(*kind, name, how, offered);
        }
        let unused = |tool: &&String| !used.names.contains_key(&(Kind::Tool, (*tool).clone()));
        if let Some(tool) = offered.open.iter().filter(unused).find(|tool| why_not(tool).is_none())
        {
            draft.test(Kind::Tool, tool, "was not used", "deny");
        }
        let hide: Vec<&String> =
            offered.hidden.iter().filter(|tool| why_not(tool).is_none()).collect();
        if let Some(tool) = hide.first() {
            draft.test(Kind::Tool, tool, "stays hidden", "hide");
        }
        let description = format!(
            "What `{grant}` did on `{server}` from {} to {}: {}.",
            day(&used.first_time),
            day(&used.last_time),
            count(usize::try_from(used.calls).unwrap_or(usize::MAX), "call")
        );
        draft.finish(&description, &hide)
    }

    /// `3 allowed, 1 asked for, 2 hidden; the rest is denied`
    pub(super) fn effects(&self) -> String {
        let parts = [(self.allowed, "allowed"), (self.asked, "asked for"), (self.hidden, "hidden")];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, words)| format!("{} {words}", count(number, "name")))
            .collect();
        let named = if parts.is_empty() { "nothing allowed".to_owned() } else { parts.join(", ") };
        format!("{named}; the rest is denied")
    }
}

#[derive(Default)]
struct Draft {
    tools: Map<String, Value>,
    resources: Map<String, Value>,
    prompts: Map<String, Value>,
    tests: Vec<Value>,
    left_out: Vec<LeftOut>,
    allowed: usize,
    asked: usize,
}

impl Draft {
    fn take(&mut self, kind: Kind, name: &str, how: &Use, offered: &Offered) {
        let is_hidden = kind == Kind::Tool && offered.hidden.iter().any(|hidden| hidden == name);
        let section = match kind {
            Kind::Tool => Some(&mut self.tools),
            Kind::Resource => Some(&mut self.resources),
            Kind::Prompt => Some(&mut self.prompts),
            Kind::Method => None,
        };
        let why = match &section {
            None => Some("methods have no entries and follow `default`"),
            Some(_) if is_hidden => Some("the policy in force hides it"),
            Some(section) if section.len() >= ENTRIES_MAX => Some("a policy has no room for more"),
            Some(_) => why_not(name),
        };
        match (section, why) {
            (Some(section), None) => {
                section.insert(name.to_owned(), entry(how));
                let expect = if how.always_asked {
                    self.asked += 1;
                    "ask"
                } else {
                    self.allowed += 1;
                    "allow"
                };
                self.test(kind, name, "was used", expect);
            }
            (_, why) => self.left_out.push(LeftOut {
                kind: kind.as_str(),
                name: name.to_owned(),
                calls: how.calls,
                why: why.unwrap_or_default(),
            }),
        }
    }

    fn test(&mut self, kind: Kind, name: &str, words: &str, expect: &str) {
        if self.tests.len() < TESTS_MAX {
            let title = format!("{name} {words}");
            self.tests.push(json!({ "name": title, kind.as_str(): name, "expect": expect }));
        }
    }

    fn finish(self, description: &str, hide: &[&String]) -> Document {
        let mut policy = Map::new();
        policy.insert("version".into(), "1".into());
        policy.insert("description".into(), description.into());
        policy.insert("default".into(), "deny".into());
        if !hide.is_empty() {
            policy.insert("hide".into(), json!(hide));
        }
        let sections =
            [("tools", self.tools), ("resources", self.resources), ("prompts", self.prompts)];
        for (name, entries) in sections.into_iter().filter(|(_, entries)| !entries.is_empty()) {
            policy.insert(name.into(), entries.into());
        }
        policy.insert("tests".into(), self.tests.into());
        Document {
            policy: policy.into(),
            left_out: self.left_out,
            allowed: self.allowed,
            asked: self.asked,
            hidden: hide.len(),
        }
    }
}

/// Limits at what was seen. That of an hour is left out where that of a day is as strict.
fn entry(how: &Use) -> Value {
    let (hour, day) = (how.hour_max(), how.day_max());
    let mut limits = vec![json!({ "window": "day", "max": day })];
    if hour < day {
        limits.insert(0, json!({ "window": "hour", "max": hour }));
    }
    if how.always_asked {
        return json!({ "action": "require_approval", "limits": limits });
    }
    json!({ "limits": limits })
}

/// Why a name cannot be the key of an entry that means it alone.
fn why_not(name: &str) -> Option<&'static str> {
    if name.contains('*') {
        return Some("`*` in an entry is a glob");
    }
    if name.ends_with('…') {
        return Some("the log holds only its beginning");
    }
    policy::name_warning(name).map(|_| "its name is not what it seems; name it by hand")
}

fn day(time: &str) -> String {
    let at = time.parse::<jiff::Timestamp>().map(|at| moment::utc(at.as_microsecond()));
    at.unwrap_or_default().chars().take(10).collect()
}
