//! The login status and sync tools.

use std::future::{Ready, ready};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::accounts::{AccountState, AccountSummary};

use super::problem::{WhoopCode, WhoopProblem};
use super::{NAME, ToolError, sync};
use crate::arguments::NoArgs;
use crate::sync::{SyncReport, SyncRequest};
use crate::tool::Json;
use crate::{ConnectorContext, ToolCall, when};

const ENDPOINT: &str = "/auth/status";

#[derive(Serialize, JsonSchema)]
pub(super) struct AuthStatus {
    status: &'static str,
    #[serde(flatten)]
    login: Option<LoginFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct LoginFacts {
    expires_at: Option<String>,
    created_at: Option<String>,
    token_type: Option<String>,
    has_refresh_token: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SyncArgs {
    /// Everything since 2010.
    #[serde(default)]
    full: bool,
    /// Only what took place since then.
    #[serde(default)]
    since: Option<String>,
    /// Some of cycles, recoveries, sleeps, workouts, body_measurement, profile.
    #[serde(default)]
    resources: Option<Vec<String>>,
}

/// The state of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhoopLogin {
    Missing,
    /// WHOOP refused it permanently.
    Ended,
    Valid,
    Expired {
        refreshable: bool,
    },
}

pub(super) fn login(ctx: &ConnectorContext) -> (WhoopLogin, Option<AccountSummary>) {
    // An unreadable file counts as none: the owner signs in again.
    let Some(facts) = ctx.accounts.summary(NAME).ok().flatten().filter(|facts| facts.has("access"))
    else {
        return (WhoopLogin::Missing, None);
    };
    let login = if matches!(facts.state, AccountState::Dead { .. }) {
        WhoopLogin::Ended
    } else if facts.expires_us.is_some_and(|at_us| ctx.clock.now().wall_us > at_us) {
        WhoopLogin::Expired { refreshable: facts.has("refresh") }
    } else {
        WhoopLogin::Valid
    };
    (login, Some(facts))
}

pub(super) fn status(call: ToolCall<'_>, _: NoArgs) -> Ready<Result<Json<AuthStatus>, ToolError>> {
    ready(auth_status(call.ctx).map(Json).map_err(ToolError::from))
}

fn auth_status(ctx: &ConnectorContext) -> Result<AuthStatus, WhoopProblem> {
    let (login, facts) = login(ctx);
    let status = match login {
        WhoopLogin::Missing => {
            return Ok(AuthStatus::no_tokens(
                "WHOOP is not connected; `tollgate connect whoop` signs in",
            ));
        }
        WhoopLogin::Ended => {
            return Ok(AuthStatus::no_tokens(
                "WHOOP has ended this login; `tollgate connect whoop` signs in",
            ));
        }
        WhoopLogin::Valid => "valid",
        WhoopLogin::Expired { .. } => "expired",
    };
    let unreadable =
        || WhoopProblem::new(WhoopCode::UpstreamError, ENDPOINT, "the login has no expiry");
    let facts = facts.ok_or_else(unreadable)?;
    let expires_us = facts.expires_us.ok_or_else(unreadable)?;
    let login = LoginFacts {
        expires_at: Some(when::utc_micros(expires_us)),
        created_at: Some(when::utc_micros(facts.refreshed_us.unwrap_or(facts.created_us))),
        has_refresh_token: Some(facts.has("refresh")),
        token_type: Some(facts.token_type),
    };
    Ok(AuthStatus { status, login: Some(login), detail: None })
}

impl AuthStatus {
    pub(super) fn no_tokens(detail: &str) -> AuthStatus {
        AuthStatus { status: "no_tokens", login: None, detail: Some(detail.to_owned()) }
    }
}

pub(super) async fn sync(
    call: ToolCall<'_>,
    args: SyncArgs,
) -> Result<Json<SyncReport>, ToolError> {
    let asked = SyncRequest {
        full: args.full,
        since: args.since.filter(|text| !text.is_empty()),
        resources: args.resources,
    };
    let on_progress = call.on_progress.unwrap_or(&|_| {});
    Ok(Json(sync::sync_whoop(call.ctx, &asked, on_progress).await?))
}
