//! The suggestion itself: deny by default, one entry for each name that was used, a limit at the observed maximum,
//! and tests.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::count;
use super::usage::{NameKind, Usage, Use};

/// The most tests in one document; further names have none.
const TESTS_MAX: usize = 400;
/// A section of a policy has no more entries than this.
const ENTRIES_MAX: usize = 10_000;

/// The tools of the server.
pub struct Offered {
    pub open: Vec<String>,
    /// By the current policy.
    pub hidden: Vec<String>,
}

/// A name that was used and has no entry.
#[derive(Debug, Serialize)]
pub struct LeftOut {
    pub kind: &'static str,
    pub name: String,
    pub calls: u64,
    pub why: &'static str,
}

pub struct Suggestion {
    pub policy: Value,
    pub left_out: Vec<LeftOut>,
    allowed: usize,
    asked: usize,
    hidden: usize,
}

impl Suggestion {
    pub fn make(grant: &str, server: &str, used: &Usage, offered: &Offered) -> Suggestion {
        let mut builder = SuggestionBuilder::default();
        for ((kind, name), how) in &used.names {
            builder.take(*kind, name, how, offered);
        }
        let unused = |tool: &&String| !used.names.contains_key(&(NameKind::Tool, (*tool).clone()));
        if let Some(tool) = offered.open.iter().filter(unused).find(|tool| why_not(tool).is_none())
        {
            builder.test(NameKind::Tool, tool, "was not used", "deny");
        }
        let hide: Vec<&String> =
            offered.hidden.iter().filter(|tool| why_not(tool).is_none()).collect();
        if let Some(tool) = hide.first() {
            builder.test(NameKind::Tool, tool, "stays hidden", "hide");
        }
        let description = format!(
            "What `{grant}` did on `{server}` from {} to {}: {}.",
            day(&used.first_time),
            day(&used.last_time),
            count(used.calls, "call")
        );
        builder.finish(&description, &hide)
    }

    /// `3 names allowed, 1 name needing approval, 2 names hidden; the rest is denied`
    pub fn effects(&self) -> String {
        let parts =
            [(self.allowed, "allowed"), (self.asked, "needing approval"), (self.hidden, "hidden")];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, message)| format!("{} {message}", count(number as u64, "name")))
            .collect();
        let named = if parts.is_empty() { "nothing allowed".to_owned() } else { parts.join(", ") };
        format!("{named}; the rest is denied")
    }
}

#[derive(Default)]
struct SuggestionBuilder {
    tools: Map<String, Value>,
    resources: Map<String, Value>,
    prompts: Map<String, Value>,
    skills: Map<String, Value>,
    tests: Vec<Value>,
    left_out: Vec<LeftOut>,
    allowed: usize,
    asked: usize,
}

impl SuggestionBuilder {
    fn take(&mut self, kind: NameKind, name: &str, how: &Use, offered: &Offered) {
        let is_hidden =
            kind == NameKind::Tool && offered.hidden.iter().any(|hidden| hidden == name);
        let section = match kind {
            NameKind::Tool => Some(&mut self.tools),
            NameKind::Resource => Some(&mut self.resources),
            NameKind::Prompt => Some(&mut self.prompts),
            NameKind::Skill => Some(&mut self.skills),
            NameKind::Method => None,
        };
        let why = match &section {
            None => Some("methods have no entries and follow `default`"),
            Some(_) if is_hidden => Some("the current policy hides it"),
            Some(section) if section.len() >= ENTRIES_MAX => {
                Some("a policy cannot have more entries")
            }
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

    fn test(&mut self, kind: NameKind, name: &str, message: &str, expect: &str) {
        if self.tests.len() < TESTS_MAX {
            let title = format!("{name} {message}");
            self.tests.push(json!({ "name": title, kind.as_str(): name, "expect": expect }));
        }
    }

    fn finish(self, description: &str, hide: &[&String]) -> Suggestion {
        let mut policy = Map::new();
        policy.insert("version".into(), "1".into());
        policy.insert("description".into(), description.into());
        policy.insert("default".into(), "deny".into());
        if !hide.is_empty() {
            policy.insert("hide".into(), json!(hide));
        }
        let sections = [
            ("tools", self.tools),
            ("resources", self.resources),
            ("prompts", self.prompts),
            ("skills", self.skills),
        ];
        for (name, entries) in sections.into_iter().filter(|(_, entries)| !entries.is_empty()) {
            policy.insert(name.into(), entries.into());
        }
        policy.insert("tests".into(), self.tests.into());
        Suggestion {
            policy: policy.into(),
            left_out: self.left_out,
            allowed: self.allowed,
            asked: self.asked,
            hidden: hide.len(),
        }
    }
}

/// Limits at the observed maximum. The hourly limit is left out if the daily one is as strict.
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

/// Why a name cannot be the key of an entry for this name only.
fn why_not(name: &str) -> Option<&'static str> {
    if name.contains('*') {
        return Some("`*` in an entry is a glob");
    }
    if name.ends_with('…') {
        return Some("the log holds only its beginning");
    }
    policy::name_warning(name).map(|_| "its name has misleading characters; add it by hand")
}

fn day(time: &str) -> String {
    time.chars().take("2026-11-18".len()).collect()
}
