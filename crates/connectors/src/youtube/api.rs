//! Requests to YouTube. Public data: with the owner's API key, else with the login. The owner's data:
//! with the login alone, because Google refuses a key of another project together with it.

use hyper::Method;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{NAME, SERVICE};
use crate::ConnectorContext;
use crate::fetch::{self, ApiRequest, WaitPolicy};
use crate::http::Reply;
use crate::personal::{self, Code, Problem, from_fetch, json_of};

/// Google resets quotas at midnight in this zone.
const PACIFIC: &str = "America/Los_Angeles";

/// The owner's data.
pub(super) async fn own(
    ctx: &ConnectorContext,
    what: &str,
    query: &[(&str, &str)],
) -> Result<Value, Problem> {
    own_with(ctx, what, query, WaitPolicy::SOON).await
}

pub(super) async fn own_with(
    ctx: &ConnectorContext,
    what: &str,
    query: &[(&str, &str)],
    wait: WaitPolicy,
) -> Result<Value, Problem> {
    let reply = fetch::get(ctx, &SERVICE, &[what], query, wait).await;
    json_of(&SERVICE, reply, |reply, body| refusal(ctx, what, reply, body))
}

/// Public data.
pub(super) async fn open(
    ctx: &ConnectorContext,
    what: &str,
    query: &[(&str, &str)],
) -> Result<Value, Problem> {
    let Some(key) = personal::value(ctx, &SERVICE, "api_key") else {
        return own(ctx, what, query).await.map_err(|problem| match problem.code {
            Code::NotConfigured => no_key(),
            _ => problem,
        });
    };
    let question = ApiRequest { method: &Method::GET, segments: &[what], query, json: None };
    let request = fetch::request(ctx, &SERVICE, question);
    let request = request.map_err(|error| from_fetch(&SERVICE, &error))?;
    let request = request.query("key", key.expose());
    let reply = fetch::send(ctx, &SERVICE, request, WaitPolicy::SOON).await;
    json_of(&SERVICE, reply, |reply, body| refusal(ctx, what, reply, body))
}

fn no_key() -> Problem {
    Problem::new(
        Code::NotConfigured,
        NAME,
        "YouTube is not connected and there is no API key",
        "set `YOUTUBE_API_KEY`, or run `tollgate connect youtube` in a terminal",
    )
}

const BAD_KEY: (Code, &str, &str) = (
    Code::NotConfigured,
    "Google does not accept the API key",
    "put a valid key into `YOUTUBE_API_KEY`, or leave it out after `tollgate connect youtube`",
);

/// Google gives its reason as a word, in one of three members.
fn refusal(ctx: &ConnectorContext, what: &str, reply: &Reply, body: &Value) -> Option<Problem> {
    let reasons = ["/error/errors/0/reason", "/error/details/0/reason", "/error/status"];
    let reason = reasons.iter().find_map(|place| body.pointer(place)?.as_str()).unwrap_or_default();
    let text = body.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
    let (code, message, hint) = match reason {
        "quotaExceeded" | "dailyLimitExceeded" | "RESOURCE_EXHAUSTED" => {
            return Some(quota(ctx, what, reply.status));
        }
        "rateLimitExceeded" | "userRateLimitExceeded" | "RATE_LIMIT_EXCEEDED" => {
            (Code::RateLimited, "YouTube allows no more requests for now", "call again in a minute")
        }
        "accessNotConfigured" | "SERVICE_DISABLED" => (
            Code::NotConfigured,
            "the YouTube Data API is not enabled in your Google project",
            "enable it at https://console.cloud.google.com, then call again in a few minutes",
        ),
        "keyInvalid" | "keyExpired" | "API_KEY_INVALID" => BAD_KEY,
        _ if reply.status == 400 && text.contains("API key") => BAD_KEY,
        "subscriptionForbidden" => (
            Code::PrivateProfile,
            "YouTube does not show these subscriptions",
            "un-tick `Keep all my subscriptions private` in YouTube's privacy settings",
        ),
        "insufficientPermissions" | "ACCESS_TOKEN_SCOPE_INSUFFICIENT" => (
            Code::InsufficientScope,
            "the login lacks the permission youtube.readonly",
            "run `tollgate connect youtube` again and allow it",
        ),
        _ => return None,
    };
    let wait = reply.retry_after().filter(|_| code == Code::RateLimited);
    let wait_s = wait.map(|wait| wait.as_secs().max(1));
    Some(Problem::new(code, NAME, message, hint).status(reply.status).retry_after(wait_s))
}

fn quota(ctx: &ConnectorContext, what: &str, status: u16) -> Problem {
    let quota = match what {
        "search" => "the search quota (100 a day unless Google granted more)",
        _ => "the read quota (10,000 units a day unless Google granted more)",
    };
    let seconds = seconds_to_midnight(ctx.clock.now().wall_us);
    let hint = "it is reset at midnight Pacific time; the other quota still works";
    Problem::new(Code::QuotaExceeded, NAME, format!("{quota} is used up"), hint)
        .status(status)
        .retry_after(seconds)
}

fn seconds_to_midnight(now_us: i64) -> Option<u64> {
    let zone = TimeZone::get(PACIFIC).ok()?;
    let now = Timestamp::from_microsecond(now_us).ok()?.to_zoned(zone);
    let midnight = now.tomorrow().ok()?.start_of_day().ok()?;
    let seconds = midnight.timestamp().as_second() - now.timestamp().as_second();
    u64::try_from(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::seconds_to_midnight;

    #[test]
    fn quotas_reset_at_midnight_pacific_time() {
        // 2026-11-16T07:00:00Z is 23:00 there; without a time zone database the result is `None`.
        let seconds = seconds_to_midnight(1_794_812_400_000_000);
        assert!(matches!(seconds, Some(3600) | None), "{seconds:?}");
    }
}
