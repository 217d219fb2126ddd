//! Error responses of the gate: denials, unknown names, failed servers.

use policy::{Code, Denial};
use serde_json::json;
use store::captures::CaptureError;
use store::ledger::LedgerError;

pub(crate) use crate::runtime::error_codes as code;
use crate::upstream::UpstreamError;
use mcp::{Era, Id, error_body, result_body};

/// The `_meta` member with the denial as data. Servers must not set it.
pub(crate) const DENIAL: &str = "tollgate/denial";

/// The denial as data.
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

/// The denial as text for the agent. It never contains the command that approves: an agent with a shell could
/// run it.
pub(crate) fn denial_text(denial: &Denial) -> String {
    match denial.code {
        Code::ApprovalPending => {
            let reason = denial.reason.trim_end_matches('.');
            format!("[WAITING FOR APPROVAL] {reason}. {PENDING_HINT}")
        }
        Code::RateLimited => format!("[POLICY DENIED] {}{}", denial.reason, retry_text(denial)),
        _ => format!("[POLICY DENIED] {}", denial.reason),
    }
}

/// What happens to a pending call, and what the agent can do.
const PENDING_HINT: &str = "The call has not run and was not refused. Tell the user that it waits, then send the same call again, unchanged: it runs if the owner has approved it.";

/// The retry time, if the owner's own reason does not contain it.
fn retry_text(denial: &Denial) -> String {
    let wait = denial.retry_after_seconds.map(|seconds| format!("try again in {seconds} s"));
    let unsaid = wait.filter(|wait| !denial.reason.ends_with(wait));
    unsaid.map_or_else(String::new, |wait| format!(" ({wait})"))
}

/// A denied tool call is an ordinary result, so that the model reads why.
pub(crate) fn denied_call(id: &Id, denial: &Denial, era: Era) -> Vec<u8> {
    let mut result = json!({
        "content": [{ "type": "text", "text": denial_text(denial) }],
        "isError": true,
        "_meta": { DENIAL: denial_data(denial) },
    });
    if let (Era::Modern, Some(object)) = (era, result.as_object_mut()) {
        object.insert("resultType".to_owned(), "complete".into());
    }
    result_body(id, &result.to_string())
}

/// A failed tool call in the modern era, as a result that the model reads.
pub(crate) fn failed_call(id: &Id, message: &str) -> Vec<u8> {
    let result = json!({
        "content": [{ "type": "text", "text": message }],
        "isError": true,
        "resultType": "complete",
    });
    result_body(id, &result.to_string())
}

/// Any other denied request gets a protocol error with the same data.
pub(crate) fn denied(id: &Id, denial: &Denial) -> Vec<u8> {
    let code = match denial.code {
        Code::RateLimited => code::RATE_LIMITED,
        Code::StoreUnavailable => code::STORE_UNAVAILABLE,
        Code::ResultTooLarge => code::RESULT_TOO_LARGE,
        _ => code::DENIED,
    };
    error_body(Some(id), code, &denial_text(denial), Some(&denial_data(denial).to_string()))
}

/// An unknown tool and a hidden one get the same response.
pub(crate) fn unknown(id: &Id, what: &str, name: &str, audit_id: Option<u64>) -> Vec<u8> {
    let data = audit_id.map(|seq| format!("{{\"audit_id\":{seq}}}"));
    error_body(Some(id), -32602, &format!("Unknown {what}: {name}"), data.as_deref())
}

/// The ledger cannot write the row, so the call is denied.
pub(crate) fn ledger_failure(error: &LedgerError) -> Denial {
    tracing::error!(%error, "cannot write to the ledger; calls are denied");
    let reason = match error {
        LedgerError::Full(_) => {
            "the disk is full, so the audit log cannot be written and every call is denied; free some space"
        }
        _ => {
            "the audit log cannot be written, so every call is denied; the owner can run `tollgate doctor`"
        }
    };
    Denial::new(Code::StoreUnavailable, "(store)", reason)
}

/// The owner wants the arguments of this call kept, and they could not be.
pub(crate) fn capture_failure(error: &CaptureError) -> Denial {
    tracing::error!(%error, "cannot capture the arguments of a call; it is denied");
    let reason = "the owner keeps the arguments of calls to this server, and they could not be stored, so the call was not sent; the owner can run `tollgate doctor`";
    Denial::new(Code::StoreUnavailable, "(capture)", reason)
}

/// The server did not respond.
pub(crate) fn upstream_failed(id: &Id, server: &str, error: &UpstreamError) -> Vec<u8> {
    let (code, happened) = match error {
        UpstreamError::TimedOut { .. } => (code::UPSTREAM_TIMED_OUT, error.may_have_happened()),
        UpstreamError::TooLarge { .. } => (code::RESULT_TOO_LARGE, true),
        UpstreamError::SignIn { .. } => (code::NEEDS_SIGN_IN, false),
        _ => (code::UPSTREAM_FAILED, error.may_have_happened()),
    };
    let certainty =
        if happened { "it may have acted on the call" } else { "the call did not happen" };
    let message = format!("server `{server}`: {error}; {certainty}");
    let mut data = json!({ "server": server, "may_have_happened": happened });
    if let (UpstreamError::SignIn { page: Some(page), .. }, Some(object)) =
        (error, data.as_object_mut())
    {
        object.insert("sign_in_url".to_owned(), page.as_str().into());
    }
    error_body(Some(id), code, &message, Some(&data.to_string()))
}

/// The same for a legacy client that opens URLs (2025-11-25).
pub(crate) fn url_required(
    id: &Id,
    server: &str,
    error: &UpstreamError,
    elicitation: &serde_json::Value,
) -> Vec<u8> {
    let message = format!("server `{server}`: {error}; the call did not happen");
    let data =
        json!({ "elicitations": [elicitation], "server": server, "may_have_happened": false });
    error_body(Some(id), code::URL_ELICITATION_REQUIRED, &message, Some(&data.to_string()))
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
        let text = denial_text(&pending);
        assert!(text.starts_with("[WAITING FOR APPROVAL] asks; the owner has 10 min"), "{text}");
        assert_eq!(text.matches("again").count(), 1, "{text}");
        for word in ["DENIED", "tollgate", "approvals"] {
            assert!(!text.contains(word), "{text}");
        }
    }

    #[test]
    fn the_retry_time_is_added_once_after_the_owners_text() {
        let limited = |reason: &str, wait| Denial {
            retry_after_seconds: wait,
            ..Denial::new(Code::RateLimited, "/tools/echo/limits/0", reason.to_owned())
        };
        for (reason, wait, message) in [
            ("at most 3 a minute; try again in 9 s", Some(9), ""),
            ("slow down", Some(9), " (try again in 9 s)"),
            ("not at all", None, ""),
        ] {
            let text = denial_text(&limited(reason, wait));
            assert_eq!(text, format!("[POLICY DENIED] {reason}{message}"));
        }
    }
}
