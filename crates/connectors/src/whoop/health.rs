//! The health check: the login, WHOOP, the mirror. No third party is contacted, so the update check
//! of older servers is reported as skipped.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::api::{self, ApiPath, WaitPolicy};
use super::kind::Kind;
use super::problem::WhoopCode;
use super::status::{self, WhoopLogin};
use super::{NAME, ToolError, doubtful};
use crate::tool::Json;
use crate::{ConnectorContext, ToolCall, when};

/// How long WHOOP may take, its retries included.
const PROBE_WAIT: Duration = Duration::from_secs(5);
const PROBE_KEY: &str = "health_probe";

#[derive(Deserialize, JsonSchema)]
pub(super) struct HealthArgs {
    /// Also ask WHOOP whether it answers.
    #[serde(default = "yes")]
    live: bool,
}

fn yes() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    status: &'static str,
    #[schemars(with = "std::collections::BTreeMap<String, ShownCheck>")]
    checks: Map<String, Value>,
    server_version: &'static str,
    timestamp: String,
}

#[derive(Serialize, JsonSchema)]
struct ShownCheck {
    status: CheckStatus,
    detail: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

// The verdict of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CheckStatus {
    Skipped,
    Ok,
    Warn,
    Fail,
}

struct Check {
    name: &'static str,
    mark: CheckStatus,
    detail: String,
    more: Map<String, Value>,
}

impl Check {
    fn new(name: &'static str, mark: CheckStatus, detail: impl Into<String>) -> Check {
        Check { name, mark, detail: detail.into(), more: Map::new() }
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Check {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

pub(super) async fn health(
    call: ToolCall<'_>,
    args: HealthArgs,
) -> Result<Json<Health>, ToolError> {
    let ctx = call.ctx;
    let checks = [
        auth(ctx),
        reachable(ctx, args.live).await,
        readable(ctx),
        writable(ctx),
        schema(ctx),
        no_third_party(),
    ];
    Ok(Json(verdict(checks, ctx.clock.now().wall_us)))
}

/// The same without the vault key: nothing is opened and no request is sent.
pub(super) fn locked(message: &str, now_us: i64) -> Health {
    let skipped =
        |name| Check::new(name, CheckStatus::Skipped, "not looked at without the vault key");
    let checks = [
        Check::new("auth", CheckStatus::Fail, message)
            .with("latency_ms", 0)
            .with("has_refresh_token", false),
        skipped("api_reachable"),
        skipped("cache_readable"),
        skipped("cache_writable"),
        skipped("schema_version"),
        no_third_party(),
    ];
    verdict(checks, now_us)
}

fn no_third_party() -> Check {
    Check::new("pypi_update_available", CheckStatus::Skipped, "no third party is asked")
}

/// The worst status wins.
fn verdict(checks: [Check; 6], now_us: i64) -> Health {
    let worst = checks.iter().map(|check| check.mark).max().unwrap_or(CheckStatus::Ok);
    let status = match worst {
        CheckStatus::Skipped | CheckStatus::Ok => "healthy",
        CheckStatus::Warn => "degraded",
        CheckStatus::Fail => "unhealthy",
    };
    Health {
        status,
        checks: checks.into_iter().map(shown).collect(),
        server_version: env!("CARGO_PKG_VERSION"),
        timestamp: when::utc_micros(now_us),
    }
}

fn shown(check: Check) -> (String, Value) {
    let detail = check.detail.replace("\nhint: ", "; ");
    let shown = ShownCheck { status: check.mark, detail, more: check.more };
    (check.name.to_owned(), serde_json::to_value(shown).unwrap_or_default())
}

fn auth(ctx: &ConnectorContext) -> Check {
    let began_us = ctx.clock.now().steady_us;
    let (login, facts) = status::login(ctx);
    let latency_ms = ctx.clock.now().steady_us.saturating_sub(began_us) / 1000;
    let (mark, detail) = match login {
        WhoopLogin::Valid => (CheckStatus::Ok, "signed in"),
        WhoopLogin::Expired { refreshable: true } => {
            (CheckStatus::Warn, "the token has expired and is refreshed at the next call")
        }
        WhoopLogin::Expired { refreshable: false } => {
            (CheckStatus::Fail, "the token has expired; run `tollgate connect whoop`")
        }
        WhoopLogin::Ended => {
            (CheckStatus::Fail, "WHOOP has ended the login; run `tollgate connect whoop`")
        }
        WhoopLogin::Missing => (CheckStatus::Fail, "not signed in; run `tollgate connect whoop`"),
    };
    let has_refresh_token = facts.is_some_and(|facts| facts.has("refresh"));
    Check::new("auth", mark, detail)
        .with("latency_ms", latency_ms)
        .with("has_refresh_token", has_refresh_token)
}

async fn reachable(ctx: &ConnectorContext, live: bool) -> Check {
    const NAME: &str = "api_reachable";
    if !live {
        return Check::new(NAME, CheckStatus::Skipped, "live=false");
    }
    let began_us = ctx.clock.now().steady_us;
    let asked = api::get(ctx, ApiPath::Profile, &[], WaitPolicy::PROMPT);
    let outcome = tokio::time::timeout(PROBE_WAIT, asked).await;
    let latency_ms = ctx.clock.now().steady_us.saturating_sub(began_us) / 1000;
    let check = match outcome {
        Ok(Ok(_)) => Check::new(NAME, CheckStatus::Ok, "reachable"),
        Ok(Err(problem)) if problem.code == WhoopCode::AuthFailed => {
            Check::new(NAME, CheckStatus::Fail, "auth failed (401)")
        }
        Ok(Err(problem)) => Check::new(NAME, CheckStatus::Fail, problem.line()),
        Err(_) => Check::new(NAME, CheckStatus::Fail, "timeout after 5s"),
    };
    check.with("latency_ms", latency_ms)
}

fn readable(ctx: &ConnectorContext) -> Check {
    const CHECK: &str = "cache_readable";
    let mut total = 0;
    for kind in Kind::ALL {
        match ctx.records.count(NAME, kind.name()) {
            Ok(count) => total += count,
            Err(error) => return Check::new(CHECK, CheckStatus::Fail, error.to_string()),
        }
    }
    let doubtful = match doubtful(&ctx.records) {
        Ok(doubtful) => doubtful,
        Err(error) => return Check::new(CHECK, CheckStatus::Fail, error.to_string()),
    };
    let more = if doubtful > 0 {
        format!(", {doubtful} of them with impossible times, which belong to no day")
    } else {
        String::new()
    };
    Check::new(CHECK, CheckStatus::Ok, format!("{total} rows{more}"))
        .with("rows_total", total)
        .with("rows_doubtful", doubtful)
}

fn writable(ctx: &ConnectorContext) -> Check {
    let written = ctx
        .records
        .state_put(NAME, PROBE_KEY, "1")
        .and_then(|()| ctx.records.state_drop(NAME, PROBE_KEY));
    match written {
        Ok(()) => Check::new("cache_writable", CheckStatus::Ok, "a value was written and removed"),
        Err(error) => Check::new("cache_writable", CheckStatus::Fail, error.to_string()),
    }
}

/// A mirror of another version does not open, so an open one is valid.
fn schema(ctx: &ConnectorContext) -> Check {
    match ctx.records.newest_seq() {
        Ok(_) => Check::new("schema_version", CheckStatus::Ok, "current"),
        Err(error) => Check::new("schema_version", CheckStatus::Warn, error.to_string()),
    }
}
