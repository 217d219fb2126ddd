//! The bodies that the gate itself answers with.

use policy::{Code, Denial};
use serde_json::json;
use store::ledger::LedgerError;

use crate::rebuild::string;
use crate::upstream::UpstreamError;
use crate::wire::{Era, Id, error_body, result_body};

/// Codes of our own, outside the ranges that JSON-RPC and MCP keep for themselves.
pub(crate) mod code {
    pub(crate) const DENIED: i64 = -31003;
    pub(crate) const RATE_LIMITED: i64 = -31029;
    pub(crate) const UPSTREAM_FAILED: i64 = -31052;
    pub(crate) const STORE_UNAVAILABLE: i64 = -31053;
    pub(crate) const UPSTREAM_TIMED_OUT: i64 = -31054;
    pub(crate) const RESULT_TOO_LARGE: i64 = -31060;
}

/// Where a denied call's result has the twin of its words; no server may speak there.
pub(crate) const DENIAL: &str = "tollgate/denial";

/// The machine-readable twin of a refusal.
pub(crate) fn denial_data(denial: &Denial) -> serde_json::Value {
    let mut data = json!({
        "code": denial.code.as_str(),
        "rule": denial.rule,
        "reason": denial.reason,
    });
    if let Some(object) = data.as_object_mut() {
        if let Some(seconds) = denial.retry_after_seconds {
            object.insert("retry_after_seconds".to_owned(), seconds.into());
        }
        if let Some(id) = &denial.approval_id {
            object.insert("approval_id".to_owned(), id.as_str().into());
        }
        if let Some(id) = denial.audit_id {
            object.insert("audit_id".to_owned(), id.into());
        }
    }
    data
}

/// What the agent reads. It never holds a command that approves: an agent with a shell could run it.
pub(crate) fn denial_words(denial: &Denial) -> String {
    match denial.code {
        Code::ApprovalPending => {
            let reason = denial.reason.trim_end_matches('.');
            format!("[WAITING FOR APPROVAL] {reason}. {WAITING_NEXT}")
        }
        Code::RateLimited => format!("[POLICY DENIED] {}{}", denial.reason, wait_words(denial)),
        _ => format!("[POLICY DENIED] {}", denial.reason),
    }
}

/// What happens to a call that waits, and what the agent can do.
const WAITING_NEXT: &str = "The call has not run and was not refused. Tell the user that it waits, then send the same call again, unchanged: it runs if the owner has approved it.";

/// When to come back, where the reason does not say it because the owner put it into words of their own.
fn wait_words(denial: &Denial) -> String {
    let wait = denial.retry_after_seconds.map(|seconds| format!("try again in {seconds} s"));
    let unsaid = wait.filter(|wait| !denial.reason.ends_with(wait));
    unsaid.map_or_else(String::new, |wait| format!(" ({wait})"))
}

/// A denied tool call is an ordinary result, so that the model reads why.
pub(crate) fn denied_call(id: &Id, denial: &Denial, era: Era) -> Vec<u8> {
    let mut result = json!({
        "content": [{ "type": "text", "text": denial_words(denial) }],
        "isError": true,
        "_meta": { DENIAL: denial_data(denial) },
    });
    if let (Era::Modern, Some(object)) = (era, result.as_object_mut()) {
        object.insert("resultType".to_owned(), "complete".into());
    }
    result_body(id, &result.to_string())
}

/// A tool call of the newer era that could not be carried on; the model reads why.
pub(crate) fn failed_call(id: &Id, words: &str) -> Vec<u8> {
    let result = json!({
        "content": [{ "type": "text", "text": words }],
        "isError": true,
        "resultType": "complete",
    });
    result_body(id, &result.to_string())
}

/// Anything else that is denied is a protocol error with the same data.
pub(crate) fn denied(id: &Id, denial: &Denial) -> Vec<u8> {
    let code = match denial.code {
        Code::RateLimited => code::RATE_LIMITED,
        Code::StoreUnavailable => code::STORE_UNAVAILABLE,
        Code::ResultTooLarge => code::RESULT_TOO_LARGE,
        _ => code::DENIED,
    };
    error_body(Some(id), code, &denial_words(denial), Some(&denial_data(denial).to_string()))
}

/// A tool that does not exist, and one that this caller must not know of, are answered alike.
pub(crate) fn unknown(id: &Id, what: &str, name: &str, audit_id: Option<u64>) -> Vec<u8> {
    let data = audit_id.map(|seq| format!("{{\"audit_id\":{seq}}}"));
    error_body(Some(id), -32602, &format!("Unknown {what}: {name}"), data.as_deref())
}

/// The ledger cannot take the row, so the call does not happen.
pub(crate) fn no_record(error: &LedgerError) -> Denial {
    tracing::error!(%error, "the ledger cannot record, calls are refused");
    Denial::new(
        Code::StoreUnavailable,
        "(store)",
        "the audit log cannot be written, so nothing is let through; the owner can run `tollgate doctor`",
    )
}

/// What the agent hears when the server did not answer.
pub(crate) fn upstream_failed(id: &Id, server: &str, error: &UpstreamError) -> Vec<u8> {
    let (code, happened) = match error {
        UpstreamError::TimedOut { .. } => (code::UPSTREAM_TIMED_OUT, error.may_have_happened()),
        UpstreamError::TooLarge { .. } => (code::RESULT_TOO_LARGE, true),
        _ => (code::UPSTREAM_FAILED, error.may_have_happened()),
    };
    let certainty =
        if happened { "it may have acted on the call" } else { "the call did not happen" };
    let words = format!("server `{server}`: {error}; {certainty}");
    let data = format!("{{\"server\":{},\"may_have_happened\":{happened}}}", string(server));
    error_body(Some(id), code, &words, Some(&data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_is_not_denied_and_names_no_command_that_approves() {
        let reason = "asks; the owner has 10 min to decide (approval `ap_1`)";
        let pending = Denial {
            approval_id: Some("ap_1".to_owned()),
            ..Denial::new(Code::ApprovalPending, "/tools/pay", reason.to_owned())
        };
        let told = denial_words(&pending);
        assert!(told.starts_with("[WAITING FOR APPROVAL] asks; the owner has 10 min"), "{told}");
        assert_eq!(told.matches("again").count(), 1, "{told}");
        for word in ["DENIED", "tollgate", "approvals"] {
            assert!(!told.contains(word), "{told}");
        }
    }

    #[test]
    fn the_wait_is_told_once_and_behind_the_owners_words() {
        let limited = |reason: &str, wait| Denial {
            retry_after_seconds: wait,
            ..Denial::new(Code::RateLimited, "/tools/echo/limits/0", reason.to_owned())
        };
        for (reason, wait, words) in [
            ("at most 3 a minute; try again in 9 s", Some(9), ""),
            ("slow down", Some(9), " (try again in 9 s)"),
            ("not at all", None, ""),
        ] {
            let told = denial_words(&limited(reason, wait));
            assert_eq!(told, format!("[POLICY DENIED] {reason}{words}"));
        }
    }
}
