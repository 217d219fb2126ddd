//! The state of the login as agents see it, and the sync they may ask for.

use serde_json::{Value, json};
use store::accounts::{Facts, State};

use super::problem::{Code, Problem};
use super::{NAME, Outcome, sync};
use crate::coerce::Arguments;
use crate::sync::Asked;
use crate::{Ask, Desk, when};

const ENDPOINT: &str = "/auth/status";

/// How the login stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    Missing,
    /// WHOOP refused it for good.
    Ended,
    Valid,
    Expired {
        refreshable: bool,
    },
}

pub(super) fn login(desk: &Desk) -> (Login, Option<Facts>) {
    // A file that cannot be read or opened is as good as none: the owner signs in again.
    let Some(facts) = desk.accounts.facts(NAME).ok().flatten().filter(|facts| facts.has("access"))
    else {
        return (Login::Missing, None);
    };
    let login = if matches!(facts.state, State::Dead { .. }) {
        Login::Ended
    } else if facts.expires_us.is_some_and(|at_us| desk.clock.now().wall_us > at_us) {
        Login::Expired { refreshable: facts.has("refresh") }
    } else {
        Login::Valid
    };
    (login, Some(facts))
}

pub(super) fn status(ask: &Ask<'_>) -> Outcome {
    let (login, facts) = login(ask.desk);
    let status = match login {
        Login::Missing => return Ok(no_tokens("WHOOP is not connected")),
        Login::Ended => return Ok(no_tokens("WHOOP has ended this login")),
        Login::Valid => "valid",
        Login::Expired { .. } => "expired",
    };
    let unreadable = || Problem::new(Code::UpstreamError, ENDPOINT, "the login has no expiry");
    let facts = facts.ok_or_else(unreadable)?;
    let expires_us = facts.expires_us.ok_or_else(unreadable)?;
    Ok(json!({
        "status": status,
        "expires_at": when::utc_micros(expires_us),
        "created_at": when::utc_micros(facts.refreshed_us.unwrap_or(facts.created_us)),
        "token_type": facts.token_type,
        "has_refresh_token": facts.has("refresh"),
    }))
}

fn no_tokens(words: &str) -> Value {
    json!({"status": "no_tokens", "detail": format!("{words}; `tollgate connect whoop` signs in")})
}

pub(super) async fn sync(ask: Ask<'_>) -> Outcome {
    let arguments = Arguments(ask.arguments);
    let asked = Asked {
        full: arguments.flag("full", false)?,
        since: arguments.optional_text("since")?.filter(|text| !text.is_empty()).map(str::to_owned),
        resources: arguments.optional_names("resources")?,
    };
    let told = ask.told.unwrap_or(&|_| {});
    Ok(sync::sync_whoop(ask.desk, &asked, told).await)
}
