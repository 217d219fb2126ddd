//! A compiled policy: immutable and shared by every call.

use std::sync::Arc;

use crate::call::Subject;
use crate::entry::{Action, Entry, OnChange, Rules};
use crate::names::{Match, Name, fold};
use crate::pointer;
use crate::problem::Problem;
use crate::section::{NamePatterns, Section};
use crate::selftest::SelfTest;
use crate::verdict::Effects;

/// JSON pointer of the field.
pub(crate) const AGGREGATE_ONLY: &str = "/aggregate_only";

/// A compiled policy.
pub struct Policy {
    pub(crate) source: String,
    pub(crate) description: Option<String>,
    /// Whether names without an entry are allowed.
    pub(crate) allows_unnamed: bool,
    pub(crate) default_rule: Arc<str>,
    pub(crate) hide: NamePatterns,
    pub(crate) all_tools: Rules,
    pub(crate) tools: Section,
    pub(crate) resources: Section,
    pub(crate) prompts: Section,
    pub(crate) skills: Section,
    pub(crate) on_change: OnChange,
    /// Only aggregates of at least so many days may leave.
    pub(crate) aggregate_days: Option<u32>,
    pub(crate) server_requests: Vec<ServerRequest>,
    pub(crate) redacts: bool,
    pub(crate) tests: Vec<SelfTest>,
    pub(crate) warnings: Vec<Problem>,
}

/// What a server may request from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerRequest {
    Elicitation,
    Sampling,
    Roots,
}

impl ServerRequest {
    pub const ALL: [ServerRequest; 3] =
        [ServerRequest::Elicitation, ServerRequest::Sampling, ServerRequest::Roots];

    pub const fn as_str(self) -> &'static str {
        match self {
            ServerRequest::Elicitation => "elicitation",
            ServerRequest::Sampling => "sampling",
            ServerRequest::Roots => "roots",
        }
    }

    pub fn from_name(name: &str) -> Option<ServerRequest> {
        ServerRequest::ALL.into_iter().find(|request| request.as_str() == name)
    }
}

/// The part of the policy that applies to a name.
pub(crate) enum Found<'p> {
    /// A pattern of `hide`, by index.
    Hidden(u32),
    Entry(&'p Entry),
    /// The name could be confused with a name in the policy, at this pointer.
    Doubtful(String),
    Nothing,
}

impl Policy {
    /// The text the policy was loaded from.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Whether names without an entry are allowed.
    pub fn allows_unnamed(&self) -> bool {
        self.allows_unnamed
    }

    /// Warnings about a policy that loads.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The names of the tools that have an entry; globs are left out.
    pub fn named_tools(&self) -> impl Iterator<Item = String> {
        let names = self.tools.entries().filter_map(|entry| pointer::last(&entry.pointer));
        names.filter(|name| !name.contains('*'))
    }

    /// Whether it appears in lists. A denied tool stays visible; a hidden one, and one that only the
    /// default denies, does not.
    pub fn shows(&self, subject: Subject<'_>) -> bool {
        match self.find(subject, &Name::of(subject.name())) {
            Found::Hidden(_) => false,
            Found::Entry(entry) => entry.action != Action::Hide,
            Found::Doubtful(_) => true,
            Found::Nothing => self.allows_unnamed,
        }
    }

    /// The days of the smallest aggregate that may leave, if only aggregates may.
    pub fn aggregate_days(&self) -> Option<u32> {
        self.aggregate_days
    }

    /// What happens when a definition differs from the accepted one.
    pub fn on_change(&self, subject: Subject<'_>) -> OnChange {
        match self.find(subject, &Name::of(subject.name())) {
            Found::Entry(entry) => entry.on_change.unwrap_or(self.on_change),
            _ => self.on_change,
        }
    }

    /// The effects for the result of a task that started as a call of this tool. None when the tool is no
    /// longer allowed, whatever its arguments were.
    pub fn effects_of_task(&self, tool: &str) -> Option<Effects> {
        match self.find(Subject::Tool(tool), &Name::of(tool)) {
            Found::Entry(entry) if matches!(entry.action, Action::Deny | Action::Hide) => None,
            Found::Entry(entry) => Some(entry.effects.clone()),
            Found::Nothing if self.allows_unnamed => Some(Effects::default()),
            Found::Hidden(_) | Found::Doubtful(_) | Found::Nothing => None,
        }
    }

    /// The part of the policy that allows a name, for messages about its result.
    pub fn rule_of(&self, subject: Subject<'_>) -> Arc<str> {
        match self.find(subject, &Name::of(subject.name())) {
            Found::Entry(entry) => Arc::clone(&entry.pointer),
            _ => Arc::clone(&self.default_rule),
        }
    }

    /// The redactions of all entries together, for server messages that are not results.
    pub fn redacted_anywhere(&self) -> Effects {
        let sections = [&self.tools, &self.resources, &self.prompts, &self.skills];
        let entries = sections.into_iter().flat_map(Section::entries);
        let redact = entries.flat_map(|entry| entry.effects.redact.iter().cloned()).collect();
        Effects { redact, result_bytes_max: None }
    }

    /// Whether any entry redacts results, so that other server messages must be inspected too.
    pub fn redacts(&self) -> bool {
        self.redacts
    }

    /// Whether a server may send this request to the client.
    pub fn server_may_ask(&self, request: ServerRequest) -> bool {
        self.server_requests.contains(&request)
    }

    pub(crate) fn section(&self, subject: Subject<'_>) -> Option<&Section> {
        match subject {
            Subject::Tool(_) => Some(&self.tools),
            Subject::Resource(_) => Some(&self.resources),
            Subject::Prompt(_) => Some(&self.prompts),
            Subject::Skill(_) => Some(&self.skills),
            Subject::Method(_) => None,
        }
    }

    /// Hidden overrides every entry; an exact name overrides a glob; methods have no entries.
    pub(crate) fn find(&self, subject: Subject<'_>, name: &Name<'_>) -> Found<'_> {
        let Some(section) = self.section(subject) else { return Found::Nothing };
        let readings = match subject {
            Subject::Resource(_) => {
                [Some(fold::uri_reading(&name.text)), fold::uri_reading_unsplit(&name.text)]
            }
            _ => [None, None],
        };
        let mut as_read = readings.iter().flatten();
        let hidden = self.hide.find(name).map(Match::entry);
        let hidden = hidden.or_else(|| as_read.find_map(|reading| self.hide.find_reading(reading)));
        if let Some(index) = hidden {
            return Found::Hidden(index);
        }
        let found = section.patterns.find(name);
        if let Some(doubt) = self.doubt(section, name, &readings, found) {
            return Found::Doubtful(doubt);
        }
        match found.and_then(|found| section.entry(found.entry())) {
            Some(entry) => Found::Entry(entry),
            None => Found::Nothing,
        }
    }

    /// The entry that would match a made-up name: a glob that does not itself hide.
    pub(crate) fn find_for_made_up(&self, subject: Subject<'_>) -> Option<&Entry> {
        let section = self.section(subject)?;
        let is_open =
            |index| section.entry(index).is_some_and(|entry| entry.action != Action::Hide);
        let found = section.patterns.find_glob_where(&Name::of(subject.name()), is_open)?;
        section.entry(found)
    }

    /// The part of the policy that a name could be meant to evade: because a server may read the URI
    /// as a name there, or because it looks like one. An exact entry is never doubtful.
    fn doubt(
        &self,
        section: &Section,
        name: &Name<'_>,
        readings: &[Option<String>],
        found: Option<Match>,
    ) -> Option<String> {
        if let Some(Match::Exact(_)) = found {
            return None;
        }
        let found = found.map(Match::entry);
        for reading in readings.iter().flatten() {
            let other = section.patterns.find_reading(reading);
            if other != found {
                return other.or(found).map(|index| entry_pointer(section, index));
            }
        }
        if found.is_some() {
            return None;
        }
        let entry =
            section.patterns.find_look_alike(name).map(|index| entry_pointer(section, index));
        entry.or_else(|| self.hide.find_look_alike(name).map(hide_pointer))
    }
}

fn entry_pointer(section: &Section, index: u32) -> String {
    section.entry(index).map_or_else(String::new, |entry| entry.pointer.to_string())
}

pub(crate) fn hide_pointer(index: u32) -> String {
    pointer::item("/hide", usize::try_from(index).unwrap_or(usize::MAX))
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy").field("description", &self.description).finish_non_exhaustive()
    }
}
