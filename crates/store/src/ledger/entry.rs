//! One history entry for readers: a request joined with its decision and ending, or a note about
//! something that was not a request.

use serde::Serialize;

use super::row::{AuditRow, Held, RowKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    Call,
    Note,
}

/// Empty texts and absent numbers are omitted in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub kind: EntryKind,
    pub seq: u64,
    pub time: String,
    /// Ledger time.
    pub tick: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub writer: String,

    #[serde(skip_serializing_if = "String::is_empty")]
    pub grant: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub method: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uri: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    pub skill: String,
    /// `admitted`, `denied`, `limited`, `asked`, `refused`, `unauthenticated`, `passed` or `own`;
    /// for a call that was held for a human, how it continued.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub decision: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub code: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rule: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub warning: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_left_out: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub definition: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<Held>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub approval: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuation_of: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// How many unauthenticated requests this row stands for; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote: String,

    /// `ok`, `error`, `cancelled`, `unknown` or `abandoned`; empty while the call is open, and when
    /// it was not admitted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended: String,

    #[serde(skip_serializing_if = "String::is_empty")]
    pub act: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub words: String,
}

impl Entry {
    /// The entry that a row starts; none for rows that belong to another entry.
    pub(crate) fn begun(row: &AuditRow<'_>) -> Option<Entry> {
        let kind = match row.kind {
            RowKind::Decision => EntryKind::Call,
            RowKind::Note => EntryKind::Note,
            RowKind::Resolved | RowKind::Outcome | RowKind::State | RowKind::Checkpoint => {
                return None;
            }
        };
        Some(Entry {
            kind,
            seq: row.seq,
            time: row.time.to_string(),
            tick: row.tick,
            writer: row.writer.to_string(),
            grant: row.grant.to_string(),
            session: row.session.to_string(),
            client: row.client.to_string(),
            client_version: row.client_version.to_string(),
            server: row.server.to_string(),
            method: row.method.to_string(),
            tool: row.tool.to_string(),
            uri: row.uri.to_string(),
            prompt: row.prompt.to_string(),
            skill: row.skill.to_string(),
            decision: row.decision.to_string(),
            code: row.code.to_string(),
            rule: row.rule.to_string(),
            reason: row.reason.to_string(),
            warning: row.warning.to_string(),
            policy: row.policy.to_string(),
            policy_version: row.policy_version,
            keys: row.keys.iter().map(ToString::to_string).collect(),
            keys_left_out: row.keys_left_out,
            definition: row.definition.to_string(),
            digest: row.digest.to_string(),
            holds: row.holds.iter().map(super::row::HoldRow::to_held).collect(),
            approval: row.approval.to_string(),
            continuation_of: row.continuation_of,
            retry_after_seconds: row.retry_after_seconds,
            count: row.count,
            trace: row.trace.to_string(),
            remote: row.remote.to_string(),
            outcome: String::new(),
            status: String::new(),
            latency_us: None,
            result_bytes: None,
            released: false,
            ended: String::new(),
            act: row.act.to_string(),
            by: row.by.to_string(),
            about: row.about.to_string(),
            words: row.words.to_string(),
        })
    }

    /// Adds a later row of this entry.
    pub(crate) fn join(&mut self, row: &AuditRow<'_>) {
        match row.kind {
            RowKind::Resolved => {
                self.decision = row.decision.to_string();
                self.code = row.code.to_string();
                self.rule = row.rule.to_string();
                self.reason = row.reason.to_string();
                self.holds = row.holds.iter().map(super::row::HoldRow::to_held).collect();
                self.retry_after_seconds = row.retry_after_seconds;
                if row.policy_version.is_some() {
                    self.policy = row.policy.to_string();
                    self.policy_version = row.policy_version;
                }
            }
            RowKind::Outcome => {
                self.outcome = row.outcome.to_string();
                self.status = row.status.to_string();
                self.latency_us = row.latency_us;
                self.result_bytes = row.result_bytes;
                self.released = row.released;
                self.ended = row.time.to_string();
                self.words = row.words.to_string();
                if !row.code.is_empty() {
                    self.code = row.code.to_string();
                }
            }
            RowKind::Decision | RowKind::Note | RowKind::State | RowKind::Checkpoint => {}
        }
    }

    /// Whether a later row may still add to it.
    pub(crate) fn is_unfinished(&self) -> bool {
        let goes_on = matches!(self.decision.as_str(), "admitted" | "passed" | "own" | "asked");
        self.kind == EntryKind::Call && goes_on && self.outcome.is_empty()
    }
}
