//! Writes the rows: the fields of each kind, in order.

use std::sync::Arc;

use policy::{Amount, Subject, Verdict};

use super::counters::Taken;
use super::encode::{self, RowEncoder};
use super::facts::{Facts, Note, Outcome, PolicyRef};
use super::load::TruncatedTail;
use super::snapshot::StateSnapshot;
use crate::clock::Now;
use crate::registry::redact_tokens;

/// The version of the format, in every state row.
const FORMAT: u64 = 1;

const ARGUMENT_KEYS_MAX: usize = 32;
const ARGUMENT_KEY_BYTES_MAX: usize = 64;

/// The fields that every row begins with.
#[derive(Clone, Debug)]
pub(crate) struct RowHeader {
    pub(crate) seq: u64,
    pub(crate) now: Now,
    pub(crate) tick: u64,
    pub(crate) writer: Option<Arc<str>>,
}

impl RowHeader {
    fn open<'b>(&self, kind: &str, out: &'b mut Vec<u8>) -> RowEncoder<'b> {
        let mut row = RowEncoder::open(out);
        row.text("kind", kind);
        row.number("seq", self.seq);
        row.time("time", self.now.wall_us);
        row.number("tick", self.tick);
        row.maybe_text("writer", self.writer.as_deref());
        row
    }
}

/// What was decided about a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ruling<'a> {
    pub(crate) decision: &'a str,
    pub(crate) code: &'a str,
    pub(crate) rule: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) warning: Option<&'a str>,
    pub(crate) taken: &'a [Taken],
    pub(crate) approval: &'a str,
    pub(crate) asked: Option<NewApproval<'a>>,
    pub(crate) continuation_of: Option<u64>,
    pub(crate) retry_after_seconds: Option<u64>,
    /// How many requests this row stands for, if it is about repeats.
    pub(crate) count: Option<u64>,
}

/// A new approval: its binding, and until when it can be decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewApproval<'a> {
    pub(crate) binding: &'a str,
    /// The same without the arguments.
    pub(crate) tool_binding: &'a str,
    pub(crate) expires: u64,
    pub(crate) parked_bytes: u64,
}

impl<'a> Ruling<'a> {
    pub(crate) fn of(verdict: &'a Verdict) -> Ruling<'a> {
        Ruling { rule: verdict.rule(), warning: verdict.warning(), ..Ruling::default() }
    }
}

pub(crate) fn decision(
    header: &RowHeader,
    ruling: &Ruling<'_>,
    facts: &Facts<'_>,
    out: &mut Vec<u8>,
) {
    let mut row = header.open("decision", out);
    write_decision(&mut row, ruling, facts);
    row.close();
}

/// The decision without the fields that every row begins with, for a row that is written later.
pub(crate) fn decision_later(ruling: &Ruling<'_>, facts: &Facts<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut row = RowEncoder::within(&mut out);
    write_decision(&mut row, ruling, facts);
    row.close();
    out
}

/// A row from what [`decision_later`] returned.
pub(crate) fn late_decision(header: &RowHeader, decision: &[u8], out: &mut Vec<u8>) {
    header.open("decision", out);
    out.extend_from_slice(decision);
}

fn write_decision(row: &mut RowEncoder<'_>, ruling: &Ruling<'_>, facts: &Facts<'_>) {
    row.text("grant", facts.grant);
    row.maybe_text("session", facts.session);
    // A client controls these. A mistyped or truncated token, which the gate did not recognise as
    // one, would still reveal most of the real one.
    row.text("client", &redact_tokens(facts.client.unwrap_or_default()));
    row.text("client_version", &redact_tokens(facts.client_version.unwrap_or_default()));
    row.text("server", facts.server);
    row.text("method", &redact_tokens(facts.method));
    match facts.subject {
        Some(Subject::Tool(name)) => row.text("tool", &redact_tokens(name)),
        Some(Subject::Resource(uri)) => row.text("uri", &redact_tokens(uri)),
        Some(Subject::Prompt(name)) => row.text("prompt", &redact_tokens(name)),
        Some(Subject::Skill(name)) => row.text("skill", &redact_tokens(name)),
        Some(Subject::Method(_)) | None => {}
    }
    write_ruling(row, ruling);
    write_policy(row, facts.policy);
    row.list("keys", facts.argument_keys.iter().take(ARGUMENT_KEYS_MAX), |key, out| {
        encode::write_text_within(&redact_tokens(key), ARGUMENT_KEY_BYTES_MAX, out);
    });
    let left_out = facts.argument_keys.len().saturating_sub(ARGUMENT_KEYS_MAX);
    row.maybe_number("keys_left_out", u64::try_from(left_out).ok().filter(|n| *n > 0));
    row.digest("digest", facts.argument_digest.as_ref());
    row.maybe_text("definition", facts.definition);
    row.maybe_text("trace", facts.trace);
    row.maybe_text("remote", facts.remote);
}

/// How a call that waited for a human continued, and under which policy, which may be newer.
pub(crate) fn resolved(
    header: &RowHeader,
    of: u64,
    ruling: &Ruling<'_>,
    policy: Option<PolicyRef<'_>>,
    out: &mut Vec<u8>,
) {
    let mut row = header.open("resolved", out);
    row.number("of", of);
    write_ruling(&mut row, ruling);
    write_policy(&mut row, policy);
    row.close();
}

fn write_policy(row: &mut RowEncoder<'_>, policy: Option<PolicyRef<'_>>) {
    if let Some(policy) = policy {
        row.text("policy", policy.name);
        row.number("policy_version", policy.version);
    }
}

fn write_ruling(row: &mut RowEncoder<'_>, ruling: &Ruling<'_>) {
    row.text("decision", ruling.decision);
    row.text("code", ruling.code);
    row.text("rule", ruling.rule);
    row.text("reason", &redact_tokens(ruling.reason));
    row.maybe_text("warning", ruling.warning);
    row.list("holds", ruling.taken, write_hold);
    row.text("approval", ruling.approval);
    if let Some(asked) = ruling.asked {
        row.text("binding", asked.binding);
        row.text("tool_binding", asked.tool_binding);
        row.number("expires", asked.expires);
        row.number("parked_bytes", asked.parked_bytes);
    }
    row.maybe_number("continuation_of", ruling.continuation_of);
    row.maybe_number("retry_after_seconds", ruling.retry_after_seconds);
    row.maybe_number("count", ruling.count);
}

fn write_hold(taken: &Taken, out: &mut Vec<u8>) {
    use std::io::Write as _;
    let (scope, id, counter) = taken.key.parts();
    let mut hold = RowEncoder::open(out);
    for (name, text) in [("scope", scope), ("id", id), ("counter", counter)] {
        encode::write_text(text, hold.name(name));
    }
    let amount = Amount::from_units(taken.amount).unwrap_or(Amount::ZERO);
    let out = hold.name("amount");
    if amount == Amount::ONE {
        // Nearly every call counts as one.
        out.extend_from_slice(b"\"1\"");
    } else {
        // Writing to memory cannot fail.
        let _ = write!(out, "\"{amount}\"");
    }
    hold.list("windows_ms", &taken.windows_us, |us, out| {
        encode::write_number(us / 1_000, out);
    });
    if let Some(was) = &taken.former {
        hold.text("was", was.parts().1);
    }
    hold.close();
}

pub(crate) struct End<'a> {
    pub(crate) of: u64,
    pub(crate) outcome: Outcome,
    pub(crate) released: bool,
    pub(crate) words: &'a str,
    pub(crate) continues: &'a str,
}

pub(crate) fn outcome(header: &RowHeader, end: &End<'_>, out: &mut Vec<u8>) {
    let mut row = header.open("outcome", out);
    row.number("of", end.of);
    row.text("outcome", end.outcome.ending.as_str());
    if let Some(status) = end.outcome.status {
        row.text("status", itoa::Buffer::new().format(status));
    }
    row.maybe_text("code", end.outcome.code.map(policy::Code::as_str));
    row.maybe_number("latency_us", end.outcome.latency_us);
    row.maybe_number("result_bytes", end.outcome.result_bytes);
    row.flag("released", end.released);
    row.text("words", end.words);
    row.text("continues", end.continues);
    row.close();
}

pub(crate) fn note(header: &RowHeader, note: &Note<'_>, out: &mut Vec<u8>) {
    let row = open_note(header, note, out);
    row.close();
}

pub(crate) fn change(header: &RowHeader, note: &Note<'_>, mark: &str, out: &mut Vec<u8>) {
    let mut row = open_note(header, note, out);
    row.text("change", mark);
    row.close();
}

fn open_note<'b>(header: &RowHeader, note: &Note<'_>, out: &'b mut Vec<u8>) -> RowEncoder<'b> {
    let mut row = header.open("note", out);
    row.text("act", note.act);
    row.text("by", note.by);
    row.text("about", note.about);
    row.text("words", note.words);
    row
}

/// From here on, ledger time and the steady clock of this boot advance together.
pub(crate) fn clock(header: &RowHeader, boot: &str, ahead_us: u64, out: &mut Vec<u8>) {
    let mut row = open_note(header, &Note { act: "clock", ..Note::default() }, out);
    row.text("boot", boot);
    row.number("steady", header.now.steady_us);
    row.number("ahead", ahead_us);
    row.close();
}

pub(crate) fn truncated(header: &RowHeader, tail: &TruncatedTail, out: &mut Vec<u8>) {
    let words = format!("{} bytes of an unfinished row were cut off", tail.bytes);
    let said =
        Note { act: "torn_tail_cut", about: &tail.kept_in, words: &words, ..Note::default() };
    note(header, &said, out);
}

pub(crate) fn approval_decided(
    header: &RowHeader,
    approval: &str,
    answer: &str,
    until: Option<u64>,
    said: &Note<'_>,
    out: &mut Vec<u8>,
) {
    let mut row = open_note(header, said, out);
    row.text("approval", approval);
    row.text("answer", answer);
    row.maybe_number("until", until);
    row.close();
}

/// Rows up to here leave the log; what follows is bound to them by the hash of the last one.
pub(crate) struct Archive<'a> {
    pub(crate) segment: u32,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
    pub(crate) last_hash: &'a str,
    pub(crate) words: &'a str,
}

pub(crate) fn archive(header: &RowHeader, archive: &Archive<'_>, out: &mut Vec<u8>) {
    let said = Note { act: "archive", words: archive.words, ..Note::default() };
    let mut row = open_note(header, &said, out);
    row.number("segment", archive.segment.into());
    row.number("first_seq", archive.first_seq);
    row.number("last_seq", archive.last_seq);
    row.text("last_hash", archive.last_hash);
    row.close();
}

/// The first row of a segment.
pub(crate) fn state(
    header: &RowHeader,
    segment: u32,
    previous: &str,
    state: Option<&StateSnapshot>,
    out: &mut Vec<u8>,
) {
    let mut row = RowHeader { writer: None, ..header.clone() }.open("state", out);
    row.number("format", FORMAT);
    row.number("segment", segment.into());
    row.text("previous", previous);
    if let Some(state) = state {
        let out = row.name("state");
        let start = out.len();
        if serde_json::to_writer(&mut *out, state).is_err() {
            // A state that cannot be written would be missing when the segment is read; the row
            // says so.
            out.truncate(start);
            out.extend_from_slice(b"null");
        }
    }
    row.close();
}

/// The last row of a segment.
pub(crate) fn checkpoint(header: &RowHeader, segment: u32, out: &mut Vec<u8>) {
    let mut row = header.open("checkpoint", out);
    row.number("segment", segment.into());
    row.close();
}
