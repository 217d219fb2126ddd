//! The input of a decision: one call, its caller, facts about the tool, and the time.

use std::fmt;

use crate::json;
use crate::names::name_warning;

/// What the call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject<'a> {
    Tool(&'a str),
    /// By its URI.
    Resource(&'a str),
    Prompt(&'a str),
    /// By its path at the server, such as `acme/refunds`.
    Skill(&'a str),
    /// Any other JSON-RPC method.
    Method(&'a str),
}

impl<'a> Subject<'a> {
    pub const fn name(self) -> &'a str {
        match self {
            Subject::Tool(name)
            | Subject::Resource(name)
            | Subject::Prompt(name)
            | Subject::Skill(name)
            | Subject::Method(name) => name,
        }
    }

    /// `tool`, `resource`, `prompt`, `skill` or `method`.
    pub const fn kind(self) -> &'static str {
        match self {
            Subject::Tool(_) => "tool",
            Subject::Resource(_) => "resource",
            Subject::Prompt(_) => "prompt",
            Subject::Skill(_) => "skill",
            Subject::Method(_) => "method",
        }
    }
}

/// Kind and name for messages. The caller chooses the name, so it is truncated and invisible characters
/// are escaped.
pub(crate) fn described(subject: Subject<'_>) -> String {
    const CHARACTERS_MAX: usize = 128;
    let mut shown = format!("{} `", subject.kind());
    for c in subject.name().chars().take(CHARACTERS_MAX) {
        if c.is_control() || name_warning(c.encode_utf8(&mut [0; 4])).is_some() {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    let cut = subject.name().chars().nth(CHARACTERS_MAX).is_some();
    shown.push_str(if cut { "…`" } else { "`" });
    shown
}

/// Who makes the call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caller<'a> {
    /// The label of the grant.
    pub grant: &'a str,
    pub session: Option<&'a str>,
    /// The client's name as it states it; not to be trusted on its own.
    pub client: Option<&'a str>,
}

/// Facts about a tool or skill beyond its name.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolFacts<'a> {
    /// The server that offers it, if known.
    pub server: Option<&'a str>,
    pub category: Option<&'a str>,
    pub risk: Option<&'a str>,
    pub definition: Definition,
    /// Its server declares that it honours `aggregate_only`. Only built-in servers do.
    pub aggregates: bool,
    /// The strictest `aggregate_only` among the policies of the grant. A tool that honours it may read the
    /// data of a server that another of these policies is for.
    pub aggregate_days_of_grant: Option<u32>,
}

/// How the definition of a tool or skill compares with the one the owner accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Definition {
    Unchanged,
    Changed,
    New,
    /// The server offers the name more than once.
    Conflict,
    /// Nothing is pinned, as for resources and prompts.
    #[default]
    Unknown,
}

/// The time in the owner's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// 0 to 23.
    pub hour: u8,
    pub weekday: Weekday,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Weekday {
    pub const ALL: [Weekday; 7] = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];

    /// The name that `time.weekday` is compared with.
    pub const fn as_str(self) -> &'static str {
        match self {
            Weekday::Monday => "monday",
            Weekday::Tuesday => "tuesday",
            Weekday::Wednesday => "wednesday",
            Weekday::Thursday => "thursday",
            Weekday::Friday => "friday",
            Weekday::Saturday => "saturday",
            Weekday::Sunday => "sunday",
        }
    }

    pub fn from_name(name: &str) -> Option<Weekday> {
        Weekday::ALL.into_iter().find(|day| day.as_str() == name)
    }
}

impl fmt::Display for Weekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One call, as the policy sees it. The arguments are a view into the message that will be sent.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub subject: Subject<'a>,
    pub args: Option<json::Value<'a>>,
    /// All of the request's params, for paths that begin with `params`.
    pub params: Option<json::Value<'a>>,
    pub caller: Caller<'a>,
    pub tool: ToolFacts<'a>,
    pub time: LocalTime,
}
