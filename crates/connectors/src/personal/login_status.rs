//! The state of a login, as tools show it: from what is stored, without a request to the service.

use std::future::{Ready, ready};

use schemars::JsonSchema;
use serde::Serialize;
use store::accounts::{AccountState, AccountSummary};

use super::problem::Problem;
use crate::tool::{Json, Success};
use crate::when::utc_millis;
use crate::{ConnectorContext, Service, ToolCall};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
const SOON_S: i64 = 5 * 60;

#[derive(Serialize, JsonSchema)]
pub(crate) struct LoginStatus {
    status: Success,
    message: String,
    pub(crate) token_info: TokenInfo,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenInfo {
    has_tokens: bool,
    pub(crate) state: LoginState,
    #[serde(flatten)]
    tokens: Option<TokensHeld>,
    #[serde(flatten)]
    times: Option<TokenTimes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginState {
    NotConfigured,
    Valid,
    ExpiringSoon,
    Expired,
    Ended,
}

impl LoginState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            LoginState::NotConfigured => "not_configured",
            LoginState::Valid => "valid",
            LoginState::ExpiringSoon => "expiring_soon",
            LoginState::Expired => "expired",
            LoginState::Ended => "ended",
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct TokensHeld {
    has_access_token: bool,
    has_refresh_token: bool,
    is_expired: bool,
}

#[derive(Serialize, JsonSchema)]
struct TokenTimes {
    expires_in_seconds: Option<i64>,
    expires_in_minutes: Option<i64>,
    expires_at: Option<String>,
    refreshed_at: Option<String>,
    scopes: Vec<String>,
    consent_ends_at: Option<String>,
    consent_days_left: Option<i64>,
}

impl TokenInfo {
    pub(crate) fn is_refreshable(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.has_refresh_token)
    }
}

/// The state of the login, as a tool shows it.
pub(crate) fn show_login_status(
    call: ToolCall<'_>,
    service: &Service,
) -> Ready<Result<Json<LoginStatus>, Problem>> {
    ready(Ok(Json(login_status(call.ctx, service))))
}

/// The state of the login, without a request to the service.
pub(crate) fn login_status(ctx: &ConnectorContext, service: &Service) -> LoginStatus {
    let facts = ctx.accounts.summary(service.name).ok().flatten();
    match facts.filter(|facts| facts.has("access") || facts.has("refresh")) {
        Some(facts) => signed_in(ctx, service, facts),
        None => not_signed_in(ctx, service),
    }
}

fn not_signed_in(ctx: &ConnectorContext, service: &Service) -> LoginStatus {
    let name = service.name;
    let Some(variable) = lent(ctx, service) else {
        let state = LoginState::NotConfigured;
        return LoginStatus {
            status: Success,
            message: format!("not connected; run `tollgate connect {name}` in a terminal"),
            token_info: TokenInfo { has_tokens: false, state, tokens: None, times: None },
        };
    };
    let tokens = TokensHeld { has_access_token: true, has_refresh_token: false, is_expired: false };
    LoginStatus {
        status: Success,
        message: format!(
            "the token in `{variable}` is used; nothing refreshes it. `tollgate connect {name}` signs in"
        ),
        token_info: TokenInfo {
            has_tokens: true,
            state: LoginState::Valid,
            tokens: Some(tokens),
            times: None,
        },
    }
}

fn signed_in(ctx: &ConnectorContext, service: &Service, facts: AccountSummary) -> LoginStatus {
    let left = facts.expires_us.map(|at| left_s(ctx, at));
    let is_expired = left.is_some_and(|left| left <= 0);
    let state = match (&facts.state, left) {
        (AccountState::Dead { .. }, _) => LoginState::Ended,
        _ if is_expired => LoginState::Expired,
        (_, Some(left)) if left <= SOON_S => LoginState::ExpiringSoon,
        _ => LoginState::Valid,
    };
    let message = match state {
        LoginState::Ended => {
            format!("the login has ended; run `tollgate connect {}`", service.name)
        }
        LoginState::Expired => {
            "the access token has run out; it is refreshed with the next call".to_owned()
        }
        _ => "connected".to_owned(),
    };
    let tokens = TokensHeld {
        has_access_token: facts.has("access"),
        has_refresh_token: facts.has("refresh"),
        is_expired,
    };
    let times = Some(token_times(ctx, service, facts));
    LoginStatus {
        status: Success,
        message,
        token_info: TokenInfo { has_tokens: true, state, tokens: Some(tokens), times },
    }
}

fn token_times(ctx: &ConnectorContext, service: &Service, facts: AccountSummary) -> TokenTimes {
    let left = facts.expires_us.map(|at| left_s(ctx, at));
    let days = service.account.and_then(|account| account.consent_days_max);
    let ends_us = days.map(|days| facts.created_us.saturating_add(i64::from(days) * DAY_US));
    TokenTimes {
        expires_in_seconds: left,
        expires_in_minutes: left.map(|left| left / 60),
        expires_at: facts.expires_us.map(utc_millis),
        refreshed_at: facts.refreshed_us.map(utc_millis),
        scopes: facts.scopes,
        consent_ends_at: ends_us.map(utc_millis),
        consent_days_left: ends_us.map(|at| left_s(ctx, at).max(0) / 86_400),
    }
}

/// The variable whose token is used while there is no login.
fn lent(ctx: &ConnectorContext, service: &Service) -> Option<&'static str> {
    ctx.settings.of(service)?.access.as_ref()?;
    service.account?.access_token
}

pub(super) fn left_s(ctx: &ConnectorContext, at_us: i64) -> i64 {
    at_us.saturating_sub(ctx.clock.now().wall_us) / SECOND_US
}
