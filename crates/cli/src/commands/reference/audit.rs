//! The meaning of every field of an audit entry. A test refuses a field without a row here.

use std::fmt::Write as _;

/// Field and meaning, in the order of the output.
const FIELDS: &[(&str, &str)] = &[
    ("kind", "`call` for a request, `note` for an action of the owner or of the gate"),
    ("seq", "the number of the row in the chain; without gaps"),
    ("time", "wall clock, UTC, to the microsecond"),
    ("tick", "ledger time in microseconds; never goes back when the wall clock does"),
    ("writer", "which process wrote it"),
    ("grant", "label of the grant; absent when the caller has no valid grant"),
    ("session", "the session, where the protocol revision has one"),
    ("client", "the client's name, as the client gave it"),
    ("client_version", "the client's version, as the client gave it"),
    ("server", "the server the request was for"),
    ("method", "the JSON-RPC method, or `(http)` for a request that never became a message"),
    ("tool", "the tool that was called"),
    ("uri", "the resource that was read"),
    ("prompt", "the prompt that was fetched"),
    ("skill", "the skill that was read, or whose file was read"),
    (
        "decision",
        "`admitted`, `denied`, `limited`, `asked`, `refused` (malformed or ambiguous), `unauthenticated`, `passed` (protocol messages of a client), or `own` (requests of the gate itself)",
    ),
    ("code", "why, for programs, such as `denied_by_rule` or `rate_limited`"),
    ("rule", "JSON pointer of the part of the policy that decided"),
    ("reason", "why, for people; never an argument value, never a token"),
    ("warning", "something the owner should know that did not affect the decision"),
    ("policy", "name of the policy that decided"),
    ("policy_version", "its version; 0 for a policy of tollgate.toml"),
    ("keys", "names of the top-level arguments; the first 32"),
    ("keys_left_out", "how many more there were"),
    (
        "digest",
        "keyed digest of the canonical arguments, or of all bound params if there are more; the values are not stored",
    ),
    ("definition", "fingerprint of the current tool definition"),
    ("holds", "what the call took from counters: `scope`, `id`, `counter`, `amount`, `windows_ms`"),
    ("approval", "the approval the call asked for, used, or that was decided"),
    ("continuation_of", "the row of the call that this one continues"),
    ("retry_after_seconds", "when a limited caller may retry"),
    (
        "count",
        "how many requests the row is about: repeated requests without a grant, from one address and for one reason, share a row; absent for one",
    ),
    ("trace", "W3C trace context of the request"),
    ("remote", "address of the peer"),
    (
        "outcome",
        "`ok`, `error`, `cancelled`, `unknown` (sent, but the result is not known) or `abandoned`; absent while the call is open, and when it was not admitted",
    ),
    ("status", "the server's status: an HTTP status, a JSON-RPC code, an exit code"),
    ("latency_us", "from admission to ending"),
    ("result_bytes", "size of the result"),
    ("released", "true when the call certainly did not happen and its holds were released"),
    ("ended", "wall clock when it ended"),
    ("act", "for a note: what was done, such as `grant_created`, `policy_saved`, `start`"),
    ("by", "who did it"),
    ("about", "what it was done to"),
    ("words", "further details"),
];

pub(super) fn page() -> String {
    let mut page = super::opening(
        "Audit entries",
        "Every field of an entry as `tollgate audit tail --json`, `audit search --json` and `audit export --format jsonl` write it: a request with its decision and outcome, or a note. Empty fields are left out. The rows of the chain itself (`audit export --format chain`) are described in [audit-format.md](audit-format.md).",
    );
    page.push_str("\n| Field | Meaning |\n| --- | --- |\n");
    for (field, message) in FIELDS {
        let _ = writeln!(page, "| `{field}` | {} |", super::cell(message));
    }
    page
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::FIELDS;
    use store::ledger::{Entry, EntryKind, Held};

    /// An entry with every field set; a new field does not compile without a line here.
    fn full_entry() -> Entry {
        let text = || "x".to_owned();
        let held = Held {
            scope: text(),
            id: text(),
            counter: text(),
            amount: text(),
            windows_ms: vec![1],
        };
        Entry {
            kind: EntryKind::Call,
            seq: 1,
            time: text(),
            tick: 1,
            writer: text(),
            grant: text(),
            session: text(),
            client: text(),
            client_version: text(),
            server: text(),
            method: text(),
            tool: text(),
            uri: text(),
            prompt: text(),
            skill: text(),
            decision: text(),
            code: text(),
            rule: text(),
            reason: text(),
            warning: text(),
            policy: text(),
            policy_version: Some(1),
            keys: vec![text()],
            keys_left_out: Some(1),
            digest: text(),
            definition: text(),
            holds: vec![held],
            approval: text(),
            continuation_of: Some(1),
            retry_after_seconds: Some(1),
            count: Some(1),
            trace: text(),
            remote: text(),
            outcome: text(),
            status: text(),
            latency_us: Some(1),
            result_bytes: Some(1),
            released: true,
            ended: text(),
            act: text(),
            by: text(),
            about: text(),
            words: text(),
        }
    }

    #[test]
    fn every_field_of_an_entry_is_documented_in_its_order() {
        let written = serde_json::to_value(full_entry()).unwrap();
        let written: Vec<&String> = written.as_object().unwrap().keys().collect();
        let documented: Vec<&str> = FIELDS.iter().map(|(field, _)| *field).collect();
        assert_eq!(written, documented);
    }
}
