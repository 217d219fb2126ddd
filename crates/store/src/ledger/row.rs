//! Reads rows back. One struct has every field of the journal's format; see
//! `docs/reference/audit-format.md` for what each means.

use std::borrow::Cow;

use policy::Amount;
use serde::{Deserialize, Serialize};

use super::chain::{Hash, Line};
use super::counters::{Key, Taken};
use super::snapshot::StateSnapshot;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowKind {
    Decision,
    Resolved,
    Outcome,
    Note,
    State,
    Checkpoint,
}

type Text<'a> = Cow<'a, str>;

/// Any row. An absent text is empty; texts are borrowed from the line where possible.
#[derive(Debug, Deserialize)]
pub(crate) struct AuditRow<'a> {
    pub(crate) kind: RowKind,
    pub(crate) seq: u64,
    #[serde(borrow)]
    pub(crate) time: Text<'a>,
    pub(crate) tick: u64,
    #[serde(borrow, default)]
    pub(crate) writer: Text<'a>,

    // decision
    #[serde(borrow, default)]
    pub(crate) grant: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) session: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) client: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) client_version: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) server: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) method: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) tool: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) uri: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) prompt: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) skill: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) policy: Text<'a>,
    pub(crate) policy_version: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) keys: Vec<Text<'a>>,
    pub(crate) keys_left_out: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) digest: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) definition: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) trace: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) remote: Text<'a>,
    pub(crate) continuation_of: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) binding: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) tool_binding: Text<'a>,
    #[serde(default)]
    pub(crate) expires: u64,
    #[serde(default)]
    pub(crate) parked_bytes: u64,

    // decision and resolved
    #[serde(borrow, default)]
    pub(crate) decision: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) code: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) rule: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) reason: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) warning: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) holds: Vec<HoldRow<'a>>,
    #[serde(borrow, default)]
    pub(crate) approval: Text<'a>,
    pub(crate) retry_after_seconds: Option<u64>,
    pub(crate) count: Option<u64>,

    // resolved and outcome
    #[serde(default)]
    pub(crate) of: u64,
    #[serde(borrow, default)]
    pub(crate) outcome: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) status: Text<'a>,
    pub(crate) latency_us: Option<u64>,
    pub(crate) result_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) released: bool,
    #[serde(borrow, default)]
    pub(crate) continues: Text<'a>,

    // note
    #[serde(borrow, default)]
    pub(crate) act: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) by: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) about: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) words: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) answer: Text<'a>,
    #[serde(default)]
    pub(crate) until: u64,
    #[serde(borrow, default)]
    pub(crate) boot: Text<'a>,
    #[serde(default)]
    pub(crate) steady: u64,
    #[serde(default)]
    pub(crate) ahead: u64,
    #[serde(default)]
    pub(crate) last_seq: u64,
    #[serde(borrow, default)]
    pub(crate) last_hash: Text<'a>,

    // state, checkpoint and archive notes
    #[serde(default)]
    pub(crate) segment: u32,
    #[serde(borrow, default)]
    pub(crate) previous: Text<'a>,
    pub(crate) state: Option<Box<StateSnapshot>>,
}

/// What a call added to one counter, as stored in a row.
#[derive(Debug, Deserialize)]
pub(crate) struct HoldRow<'a> {
    #[serde(borrow)]
    scope: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    counter: Text<'a>,
    #[serde(borrow)]
    amount: Text<'a>,
    windows_ms: Vec<u64>,
    /// The id that it had before.
    #[serde(borrow, default)]
    was: Text<'a>,
}

/// What a call added to one counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// `grant`, `session`, `server` or `everyone`, and which of them.
    pub scope: String,
    pub id: String,
    pub counter: String,
    /// An exact decimal.
    pub amount: String,
    pub windows_ms: Vec<u64>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// Not a hash, a space and an object.
    NotALine,
    /// The hash does not match the previous row and this JSON.
    WrongHash,
    /// The chain holds, but the row is invalid.
    Unreadable(String),
}

impl<'a> AuditRow<'a> {
    pub(crate) fn read(json: &'a [u8]) -> Result<AuditRow<'a>, BadLine> {
        serde_json::from_slice(json).map_err(|e| BadLine::Unreadable(e.to_string()))
    }

    /// Reads the line that follows `seq` and `previous`.
    pub(crate) fn next(
        bytes: &'a [u8],
        seq: u64,
        previous: &Hash,
    ) -> Result<(AuditRow<'a>, Hash), BadLine> {
        let line = Line::split(bytes).ok_or(BadLine::NotALine)?;
        if !line.follows(previous) {
            return Err(BadLine::WrongHash);
        }
        let row = AuditRow::read(line.json)?;
        if row.seq != seq + 1 {
            return Err(BadLine::Unreadable(format!("row {} after row {seq}", row.seq)));
        }
        Ok((row, *line.hash))
    }

    /// The kind and name of what the call uses.
    pub(crate) fn subject(&self) -> (&'static str, &str) {
        if !self.tool.is_empty() {
            ("tool", &self.tool)
        } else if !self.uri.is_empty() {
            ("resource", &self.uri)
        } else if !self.prompt.is_empty() {
            ("prompt", &self.prompt)
        } else if !self.skill.is_empty() {
            ("skill", &self.skill)
        } else {
            ("method", &self.method)
        }
    }
}

impl HoldRow<'_> {
    pub(crate) fn taken(&self) -> Option<Taken> {
        let taken = taken(&self.scope, &self.id, &self.counter, &self.amount, &self.windows_ms)?;
        let was = match &*self.was {
            "" => None,
            was => Some(Key::from_parts(&self.scope, was, &self.counter)?),
        };
        Some(Taken { former: was, ..taken })
    }

    pub(crate) fn to_held(&self) -> Held {
        Held {
            scope: self.scope.to_string(),
            id: self.id.to_string(),
            counter: self.counter.to_string(),
            amount: self.amount.to_string(),
            windows_ms: self.windows_ms.clone(),
        }
    }
}

impl Held {
    pub(crate) fn taken(&self) -> Option<Taken> {
        taken(&self.scope, &self.id, &self.counter, &self.amount, &self.windows_ms)
    }

    pub(crate) fn of(taken: &Taken) -> Held {
        let (scope, id, counter) = taken.key.parts();
        let amount = Amount::from_units(taken.amount).unwrap_or(Amount::ZERO);
        Held {
            scope: scope.to_owned(),
            id: id.to_owned(),
            counter: counter.to_owned(),
            amount: amount.to_string(),
            windows_ms: taken.windows_us.iter().map(|us| us / 1_000).collect(),
        }
    }
}

fn taken(scope: &str, id: &str, counter: &str, amount: &str, windows_ms: &[u64]) -> Option<Taken> {
    Some(Taken {
        former: None,
        key: Key::from_parts(scope, id, counter)?,
        amount: Amount::parse(amount)?.units(),
        windows_us: windows_ms.iter().map(|ms| ms.saturating_mul(1_000)).collect(),
    })
}
