//! Checks an account with one harmless request, and revokes consent at the service.

use hyper::Method;
use serde_json::Value;
use store::accounts::AccountsError;

use crate::account::{Account, Probe, Revoke, SignIn};
use crate::fetch::{self, FetchError, WaitPolicy};
use crate::http::{HttpError, Reply, Request};
use crate::identity::{self, OtherPerson};
use crate::oauth::grant::{Form, Grant};
use crate::oauth::token_response::TokenRefusal;
use crate::settings::ServiceSettings;
use crate::tokens::{self, TokenError};
use crate::{ConnectorContext, Service};

/// What is wrong with an account.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("the service answered the credentials with status {status}")]
    Refused { status: u16 },
    #[error("the check failed: the service answered with status {status}")]
    Unclear { status: u16 },
    #[error(transparent)]
    OtherPerson(#[from] OtherPerson),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Store(#[from] AccountsError),
}

impl CheckError {
    /// Are the credentials themselves invalid? Otherwise it is not known yet.
    pub fn is_final(&self) -> bool {
        match self {
            CheckError::Refused { .. } | CheckError::OtherPerson(_) => true,
            CheckError::Fetch(FetchError::SignIn(error)) => {
                matches!(error, TokenError::Dead { .. } | TokenError::NotConnected { .. })
            }
            _ => false,
        }
    }
}

/// Why consent was not revoked.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    #[error("the service answered with status {status}")]
    Status { status: u16 },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// One harmless request with the owner's credentials. Its response must name the owner of the mirror.
pub async fn check(ctx: &ConnectorContext, service: &'static Service) -> Result<(), CheckError> {
    let (Some(account), Some(settings)) = (service.account, ctx.settings.of(service)) else {
        return Err(FetchError::from(not_connected(service)).into());
    };
    let Probe { path, fixed, .. } = account.probe;
    let reply = match account.sign_in {
        SignIn::Values(_) => with_values(ctx, service, account, settings).await?,
        _ => fetch::get(ctx, service, path, fixed, WaitPolicy::BRIEF).await?,
    };
    match reply.status {
        status @ 200..300 if is_refusal(account, &reply) => Err(CheckError::Refused { status }),
        200..300 => Ok(identity::verify(ctx, service, &reply.body)?),
        status @ (401 | 403) => Err(CheckError::Refused { status }),
        status => Err(CheckError::Unclear { status }),
    }
}

/// A service with cookies refuses with a code in a 200 response.
fn is_refusal(account: &Account, reply: &Reply) -> bool {
    let code = || serde_json::from_slice::<Value>(&reply.body).ok()?.get("code")?.as_i64();
    !account.probe.cookies.is_empty() && code() != Some(0)
}

async fn with_values(
    ctx: &ConnectorContext,
    service: &Service,
    account: &Account,
    settings: &ServiceSettings,
) -> Result<Reply, CheckError> {
    let kept = ctx.accounts.load(service.name)?;
    if kept.is_none() && settings.values.is_empty() {
        return Err(FetchError::from(not_connected(service)).into());
    }
    let extra = kept.map(|kept| kept.extra).unwrap_or_default();
    let value = |name: &str| {
        let found = settings.values.get(name).or_else(|| extra.get(name));
        found.map_or("", |value| value.expose())
    };
    let mut request = Request::get(&settings.api_base, account.probe.path)
        .header("user-agent", account.user_agent);
    for (name, value) in account.probe.fixed {
        request = request.query(name, value);
    }
    for (name, field) in account.probe.query {
        request = request.query(name, value(field));
    }
    if !account.probe.cookies.is_empty() {
        let cookies: Vec<String> =
            account.probe.cookies.iter().map(|name| format!("{name}={}", value(name))).collect();
        request = request.header("cookie", &cookies.join("; "));
    }
    Ok(ctx.http.send(request).await.map_err(FetchError::from)?)
}

/// Revokes consent. False if there is none any more, or the service cannot revoke it.
pub async fn revoke(
    ctx: &ConnectorContext,
    service: &'static Service,
) -> Result<bool, RevokeError> {
    let account = service.account;
    let Some(way) = account.and_then(|account| account.revoke.as_ref()) else { return Ok(false) };
    let Some(settings) = ctx.settings.of(service) else { return Ok(false) };
    let (method, path) = match way {
        Revoke::Api { method, path } => (*method, *path),
        Revoke::Oauth { path } => return revoke_token(ctx, service, settings, path).await,
    };
    let token = match tokens::access(ctx, service).await {
        Ok(token) => token,
        Err(TokenError::NotConnected { .. } | TokenError::Dead { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::DELETE);
    let request = Request::new(method, &settings.api_base, path)
        .header("user-agent", account.map_or("", |account| account.user_agent));
    let mut reply = ctx.http.send(request.clone().bearer(&token)).await?;
    if reply.status == 401 {
        match tokens::after_401(ctx, service, &token).await {
            Ok(token) => reply = ctx.http.send(request.bearer(&token)).await?,
            Err(TokenError::NotConnected { .. } | TokenError::Dead { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    match reply.status {
        200..300 => Ok(true),
        401 => Ok(false),
        status => Err(RevokeError::Status { status }),
    }
}

async fn revoke_token(
    ctx: &ConnectorContext,
    service: &Service,
    settings: &ServiceSettings,
    path: &[&str],
) -> Result<bool, RevokeError> {
    let Some(account) = service.account else { return Ok(false) };
    let Some(kept) = ctx.accounts.load(service.name).map_err(TokenError::from)? else {
        return Ok(false);
    };
    // Revoking the refresh token revokes the whole consent.
    let Some(token) = kept.refresh.as_ref().or(kept.access.as_ref()) else { return Ok(false) };
    let Ok(grant) = Grant::new(account, settings, &kept) else { return Ok(false) };
    let mut form = Form::empty();
    form.push("token", token.expose());
    match grant.post(&ctx.http, path, form).await {
        Ok(reply) if reply.is_success() => Ok(true),
        Ok(reply) if matches!(reply.status, 400 | 401) => Ok(false),
        Ok(reply) => Err(RevokeError::Status { status: reply.status }),
        Err(TokenRefusal::Http(error)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

fn not_connected(service: &Service) -> TokenError {
    TokenError::NotConnected { service: service.name.to_owned() }
}
