//! One look at everything the connector depends on: the login, WHOOP, the mirror. No third party is
//! asked, so the check for updates of older servers answers that it was skipped.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::api::{self, Endpoint, Patience};
use super::kind::Kind;
use super::problem::Code;
use super::status::{self, Login};
use super::{NAME, Outcome, doubtful};
use crate::coerce::Arguments;
use crate::{Ask, Desk, when};

/// How long WHOOP may take, its retries included.
const PROBE_WAIT: Duration = Duration::from_secs(5);
const PROBE_KEY: &str = "health_probe";

/// The verdict of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Skipped,
    Ok,
    Warn,
    Fail,
}

impl Mark {
    fn as_str(self) -> &'static str {
        match self {
            Mark::Skipped => "skipped",
            Mark::Ok => "ok",
            Mark::Warn => "warn",
            Mark::Fail => "fail",
        }
    }
}

struct Check {
    name: &'static str,
    mark: Mark,
    detail: String,
    more: Vec<(&'static str, Value)>,
}

impl Check {
    fn new(name: &'static str, mark: Mark, detail: impl Into<String>) -> Check {
        Check { name, mark, detail: detail.into(), more: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Check {
        self.more.push((name, value.into()));
        self
    }
}

pub(super) async fn health(ask: Ask<'_>) -> Outcome {
    let live = Arguments(ask.arguments).flag("live", true)?;
    let desk = ask.desk;
    let checks = [
        auth(desk),
        reachable(desk, live).await,
        readable(desk),
        writable(desk),
        schema(desk),
        no_third_party(),
    ];
    Ok(verdict(checks, desk.clock.now().wall_us))
}

/// The same without the key of the home: nothing is opened and nobody asked.
pub(super) fn locked(words: &str, now_us: i64) -> Value {
    let skipped = |name| Check::new(name, Mark::Skipped, "not looked at without the vault key");
    let checks = [
        Check::new("auth", Mark::Fail, words)
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
    Check::new("pypi_update_available", Mark::Skipped, "no third party is asked")
}

/// The worst decides.
fn verdict(checks: [Check; 6], now_us: i64) -> Value {
    let worst = checks.iter().map(|check| check.mark).max().unwrap_or(Mark::Ok);
    let status = match worst {
        Mark::Skipped | Mark::Ok => "healthy",
        Mark::Warn => "degraded",
        Mark::Fail => "unhealthy",
    };
    json!({
        "status": status,
        "checks": checks.into_iter().map(shown).collect::<Map<String, Value>>(),
        "server_version": env!("CARGO_PKG_VERSION"),
        "timestamp": when::utc_micros(now_us),
    })
}

fn shown(check: Check) -> (String, Value) {
    let mut shown = Map::new();
    shown.insert("status".into(), check.mark.as_str().into());
    shown.insert("detail".into(), check.detail.replace("\nhint: ", "; ").into());
    for (name, value) in check.more {
        shown.insert(name.into(), value);
    }
    (check.name.to_owned(), Value::Object(shown))
}

fn auth(desk: &Desk) -> Check {
    let began_us = desk.clock.now().steady_us;
    let (login, facts) = status::login(desk);
    let latency_ms = desk.clock.now().steady_us.saturating_sub(began_us) / 1000;
    let (mark, detail) = match login {
        Login::Valid => (Mark::Ok, "signed in"),
        Login::Expired { refreshable: true } => {
            (Mark::Warn, "the token has expired and is refreshed at the next call")
        }
        Login::Expired { refreshable: false } => {
            (Mark::Fail, "the token has expired; run `tollgate connect whoop`")
        }
        Login::Ended => (Mark::Fail, "WHOOP has ended the login; run `tollgate connect whoop`"),
        Login::Missing => (Mark::Fail, "not signed in; run `tollgate connect whoop`"),
    };
    let has_refresh_token = facts.is_some_and(|facts| facts.has("refresh"));
    Check::new("auth", mark, detail)
        .with("latency_ms", latency_ms)
        .with("has_refresh_token", has_refresh_token)
}

async fn reachable(desk: &Desk, live: bool) -> Check {
    const NAME: &str = "api_reachable";
    if !live {
        return Check::new(NAME, Mark::Skipped, "live=false");
    }
    let began_us = desk.clock.now().steady_us;
    let asked = api::get(desk, Endpoint::Profile, &[], Patience::PROMPT);
    let outcome = tokio::time::timeout(PROBE_WAIT, asked).await;
    let latency_ms = desk.clock.now().steady_us.saturating_sub(began_us) / 1000;
    let check = match outcome {
        Ok(Ok(_)) => Check::new(NAME, Mark::Ok, "reachable"),
        Ok(Err(problem)) if problem.code == Code::AuthFailed => {
            Check::new(NAME, Mark::Fail, "auth failed (401)")
        }
        Ok(Err(problem)) => Check::new(NAME, Mark::Fail, problem.line()),
        Err(_) => Check::new(NAME, Mark::Fail, "timeout after 5s"),
    };
    check.with("latency_ms", latency_ms)
}

fn readable(desk: &Desk) -> Check {
    const CHECK: &str = "cache_readable";
    let mut total = 0;
    for kind in Kind::ALL {
        match desk.records.count(NAME, kind.name()) {
            Ok(count) => total += count,
            Err(error) => return Check::new(CHECK, Mark::Fail, error.to_string()),
        }
    }
    let doubtful = match doubtful(&desk.records) {
        Ok(doubtful) => doubtful,
        Err(error) => return Check::new(CHECK, Mark::Fail, error.to_string()),
    };
    let more = if doubtful > 0 {
        format!(", {doubtful} of them with impossible times, which belong to no day")
    } else {
        String::new()
    };
    Check::new(CHECK, Mark::Ok, format!("{total} rows{more}"))
        .with("rows_total", total)
        .with("rows_doubtful", doubtful)
}

fn writable(desk: &Desk) -> Check {
    let written = desk
        .records
        .state_put(NAME, PROBE_KEY, "1")
        .and_then(|()| desk.records.state_drop(NAME, PROBE_KEY));
    match written {
        Ok(()) => Check::new("cache_writable", Mark::Ok, "a value was written and removed"),
        Err(error) => Check::new("cache_writable", Mark::Fail, error.to_string()),
    }
}

/// A mirror of another version is refused when it is opened, so one that opens is right.
fn schema(desk: &Desk) -> Check {
    match desk.records.newest_seq() {
        Ok(_) => Check::new("schema_version", Mark::Ok, "current"),
        Err(error) => Check::new("schema_version", Mark::Warn, error.to_string()),
    }
}
