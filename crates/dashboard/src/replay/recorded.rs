//! The calls of the audit log that a policy judged, in a form that another policy can judge: everything but
//! the arguments, which the log does not hold.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use policy::json::{Bounds, Doc};
use policy::{Call, Caller, Code, Definition, LocalTime, Subject, ToolFacts};
use serde::Serialize;
use store::ledger::{Entry, EntryKind, Facts, LedgerError};
use store::registry::{Pin, Registry, RegistryError};

use crate::time::policy_time;

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("row {0} of the audit log has no time")]
    NoTime(u64),
}

/// The recorded decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PastDecision {
    Allowed,
    /// A human was asked, whatever the answer.
    Asked,
    Denied,
    Limited,
}

impl PastDecision {
    pub const ALL: [PastDecision; 4] =
        [PastDecision::Allowed, PastDecision::Asked, PastDecision::Denied, PastDecision::Limited];

    pub const fn as_str(self) -> &'static str {
        match self {
            PastDecision::Allowed => "allowed",
            PastDecision::Asked => "asked",
            PastDecision::Denied => "denied",
            PastDecision::Limited => "limited",
        }
    }
}

/// One judged call.
pub struct Recorded {
    pub entry: Entry,
    pub then: PastDecision,
    time: LocalTime,
}

impl Recorded {
    /// None for notes, for protocol messages and for requests refused before a policy was consulted: only
    /// a policy leaves a rule in the row.
    fn of(entry: Entry, zone: &TimeZone) -> Result<Option<Recorded>, ReplayError> {
        if entry.kind != EntryKind::Call || entry.rule.is_empty() {
            return Ok(None);
        }
        let by_human = !entry.approval.is_empty() || entry.code.starts_with("approval_");
        let then = match entry.decision.as_str() {
            "asked" => PastDecision::Asked,
            "admitted" | "denied" if by_human => PastDecision::Asked,
            "admitted" => PastDecision::Allowed,
            "denied" => PastDecision::Denied,
            "limited" => PastDecision::Limited,
            _ => return Ok(None),
        };
        let no_time = ReplayError::NoTime(entry.seq);
        let at: Option<jiff::Timestamp> = entry.time.parse().ok();
        let time = at.and_then(|at| policy_time(at.as_microsecond(), zone)).ok_or(no_time)?;
        Ok(Some(Recorded { entry, then, time }))
    }

    /// Whether it was sent to the server: admitted and not released.
    pub fn was_carried_out(&self) -> bool {
        self.entry.decision == "admitted" && !self.entry.released
    }

    /// Whether it counts against limits: a continuation was counted with the first part of the call.
    pub fn counts(&self) -> bool {
        self.was_carried_out() && self.entry.continuation_of.is_none()
    }

    pub fn subject(&self) -> Subject<'_> {
        let Entry { tool, uri, prompt, skill, method, .. } = &self.entry;
        match (tool.is_empty(), uri.is_empty(), prompt.is_empty()) {
            _ if !skill.is_empty() => Subject::Skill(skill),
            (false, ..) => Subject::Tool(tool),
            (_, false, _) => Subject::Resource(uri),
            (.., false) => Subject::Prompt(prompt),
            _ => Subject::Method(method),
        }
    }

    pub fn facts(&self) -> Facts<'_> {
        let Entry { grant, session, server, .. } = &self.entry;
        Facts { grant, server, session: some(session), ..Facts::default() }
    }

    /// Passes the call to `judge`, with the current class of its tool.
    pub fn with_call<T>(
        &self,
        tools: &mut Tools<'_>,
        judge: impl FnOnce(&Call<'_>) -> T,
    ) -> Result<T, ReplayError> {
        let entry = &self.entry;
        let subject = self.subject();
        let client = match entry.client_version.as_str() {
            "" => entry.client.clone(),
            version => format!("{} {version}", entry.client),
        };
        let (category, risk) = match subject {
            Subject::Tool(tool) => tools.class(&entry.server, tool)?.unzip(),
            _ => (None, None),
        };
        let caller =
            Caller { grant: &entry.grant, session: some(&entry.session), client: some(&client) };
        let tool = ToolFacts {
            server: some(&entry.server),
            category,
            risk,
            definition: self.definition(),
            aggregates: connectors::aggregates(&entry.server, subject.name()),
            aggregate_days_of_grant: None,
        };
        Ok(judge(&Call { subject, args: None, params: None, caller, tool, time: self.time }))
    }

    /// The state of the definition at that time, as far as the row shows it: one that was not accepted was
    /// refused.
    fn definition(&self) -> Definition {
        match self.subject() {
            Subject::Tool(_) | Subject::Skill(_)
                if self.entry.code == Code::ToolChanged.as_str() =>
            {
                Definition::Changed
            }
            Subject::Tool(_) | Subject::Skill(_) => Definition::Unchanged,
            _ => Definition::Unknown,
        }
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Passes every judged call to `visit`, in the order of the entries.
pub fn each<E: From<ReplayError>>(
    entries: impl Iterator<Item = Result<Entry, LedgerError>>,
    zone: &TimeZone,
    mut visit: impl FnMut(Recorded) -> Result<(), E>,
) -> Result<(), E> {
    for entry in entries {
        let entry = entry.map_err(ReplayError::from)?;
        if let Some(recorded) = Recorded::of(entry, zone)? {
            visit(recorded)?;
        }
    }
    Ok(())
}

type Class = (&'static str, &'static str);

/// Category and risk of tools, from the current pins. A tool is classified when it is first needed.
pub struct Tools<'s> {
    registry: &'s Registry,
    servers: HashMap<String, HashMap<String, CachedTool>>,
}

enum CachedTool {
    Definition(String),
    Class(Option<Class>),
}

impl<'s> Tools<'s> {
    pub fn new(registry: &'s Registry) -> Tools<'s> {
        Tools { registry, servers: HashMap::new() }
    }

    fn class(&mut self, server: &str, tool: &str) -> Result<Option<Class>, ReplayError> {
        if !self.servers.contains_key(server) {
            let pins = self.registry.pins(server)?;
            let known = pins.into_iter().filter_map(definition).collect();
            self.servers.insert(server.to_owned(), known);
        }
        let Some(known) = self.servers.get_mut(server).and_then(|tools| tools.get_mut(tool)) else {
            return Ok(None);
        };
        if let CachedTool::Definition(text) = known {
            *known = CachedTool::Class(classify(server, text));
        }
        Ok(match known {
            CachedTool::Class(class) => *class,
            CachedTool::Definition(_) => None,
        })
    }
}

/// The definition that the gate classifies, too.
fn definition(pin: Pin) -> Option<(String, CachedTool)> {
    let pinned = pin.accepted.or(pin.seen)?;
    Some((pin.tool, CachedTool::Definition(pinned.definition)))
}

fn classify(server: &str, definition: &str) -> Option<Class> {
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let classed = catalog::classify::classify(server, doc.root());
    Some((classed.category.as_str(), classed.risk.as_str()))
}
