//! The older login tools. They were designed to pass tokens through the agent; here the vault keeps
//! the tokens, and a result shows only scopes and expiry.

use std::future::{Ready, ready};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::accounts::Account;

use crate::account::{Revoke, SignIn};
use crate::arguments::NoArgs;
use crate::http::Request;
use crate::identity;
use crate::oauth::grant::{Form, Grant};
use crate::oauth::token_response::Tokens;
use crate::tokens::{self, TokenError};
use crate::tool::{Json, Success};
use crate::whoop::account::ACCOUNT;
use crate::whoop::handler::{ClassicFailure, TextOutput};
use crate::whoop::{NAME, SERVICE};
use crate::{ConnectorContext, ServiceSettings, ToolCall, when};

const STATE_BYTES: usize = 16;
const SET: &str = "Access token set successfully";
const REVOKED: &str = "User access revoked successfully";

#[derive(Deserialize, JsonSchema)]
pub(in crate::whoop) struct CodeArgs {
    code: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::whoop) struct RefreshArgs {
    /// Not needed: the stored login is refreshed. A token given here is never used.
    #[schemars(with = "Option<String>")]
    refresh_token: Option<IgnoredAny>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::whoop) struct AccessTokenArgs {
    access_token: String,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::whoop) struct AuthorizationUrl {
    status: Success,
    url: String,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::whoop) struct Granted {
    status: Success,
    message: String,
    scopes: Vec<String>,
    expires_at: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::whoop) struct Revoked {
    status: Success,
    message: &'static str,
}

fn failed(message: impl Into<String>) -> ClassicFailure {
    ClassicFailure::new("AUTH_FAILED", message)
}

pub(in crate::whoop) fn authorization_url(
    call: ToolCall<'_>,
    _: NoArgs,
) -> Ready<Result<TextOutput<AuthorizationUrl>, ClassicFailure>> {
    ready(consent_url(call.ctx))
}

fn consent_url(ctx: &ConnectorContext) -> Result<TextOutput<AuthorizationUrl>, ClassicFailure> {
    let (settings, client_id) = client(ctx).ok_or_else(no_client)?;
    let SignIn::Code { authorize, redirect, .. } = &ACCOUNT.sign_in else {
        return Err(no_client());
    };
    let mut state = [0; STATE_BYTES];
    ctx.random.fill(&mut state).map_err(|error| failed(error.to_string()))?;
    let mut url = settings.oauth_base.join(authorize);
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client_id)
        .append_pair("redirect_uri", settings.redirect_uri.as_deref().unwrap_or(redirect))
        .append_pair("scope", &ACCOUNT.scopes.join(" "))
        .append_pair("state", &URL_SAFE_NO_PAD.encode(state));
    let output = AuthorizationUrl { status: Success, url: url.to_string() };
    Ok(TextOutput { text: format!("Authorization URL: {url}"), output })
}

/// Exchanges the code of a redirect URL and seals the tokens.
pub(in crate::whoop) async fn exchange(
    call: ToolCall<'_>,
    args: CodeArgs,
) -> Result<Json<Granted>, ClassicFailure> {
    let ctx = call.ctx;
    let (settings, client_id) = client(ctx).ok_or_else(no_client)?;
    let SignIn::Code { redirect, .. } = &ACCOUNT.sign_in else { return Err(no_client()) };
    let mut account = Account::new(NAME, ctx.clock.now().wall_us);
    if let Some(known) = known_account(ctx) {
        account.extra = known.extra;
        let is_same = known.client_id.is_none() || known.client_id.as_ref() == Some(&client_id);
        account.client_secret = known.client_secret.filter(|_| is_same);
    }
    account.client_id = Some(client_id);
    account.client_secret = settings.client_secret.clone().or(account.client_secret);
    let grant =
        Grant::new(&ACCOUNT, settings, &account).map_err(|refusal| failed(refusal.to_string()))?;
    let mut form = Form::of("authorization_code");
    form.push("code", &args.code);
    form.push("redirect_uri", settings.redirect_uri.as_deref().unwrap_or(redirect));
    let tokens = grant.tokens(&ctx.http, form).await;
    let tokens = tokens.map_err(|refusal| failed(format!("WHOOP gave no tokens: {refusal}")))?;
    // A service that grants exactly the requested scopes may omit them.
    account.scopes = ACCOUNT.scopes.iter().map(|&scope| scope.to_owned()).collect();
    tokens.apply(&mut account, ctx.clock.now().wall_us);
    take(ctx, settings, &account, "the login is sealed in the vault").await.map(Json)
}

/// Seals a login that works and belongs to the mirror's person; any other is dropped.
async fn take(
    ctx: &ConnectorContext,
    settings: &ServiceSettings,
    account: &Account,
    message: &str,
) -> Result<Granted, ClassicFailure> {
    let token = account.access.as_ref().ok_or_else(no_client)?;
    let probe = Request::get(&settings.api_base, ACCOUNT.probe.path)
        .header("user-agent", ACCOUNT.user_agent)
        .bearer(token);
    match ctx.http.send(probe).await {
        Ok(reply) if reply.status == 401 => {
            return Err(failed("WHOOP does not accept the token; nothing was changed"));
        }
        Ok(reply) if reply.is_success() => {
            if let Err(other) = identity::compare(ctx, &SERVICE, &reply.body) {
                return Err(failed(other.to_string().replace("\nhint: ", "; ")));
            }
        }
        // The login is identified again before anything is fetched with it.
        _ => {}
    }
    let saved = ctx.accounts.lock(NAME).and_then(|locked| locked.save(account));
    saved.map_err(|error| failed(error.to_string()))?;
    Ok(granted(ctx, message))
}

/// Refreshes the vault's login. A token that the model passes is never used.
pub(in crate::whoop) async fn refresh(
    call: ToolCall<'_>,
    args: RefreshArgs,
) -> Result<Json<Granted>, ClassicFailure> {
    tokens::refresh_now(call.ctx, &SERVICE).await.map_err(|error| of_tokens(&error))?;
    let message = if args.refresh_token.is_some() {
        "the stored login was refreshed; the token that was passed was not used"
    } else {
        "the stored login was refreshed"
    };
    Ok(Json(granted(call.ctx, message)))
}

/// Reachable only with a policy that allows more than the built-in one. The stored refresh token
/// is kept: it belongs to the same person, or the new token is refused.
pub(in crate::whoop) async fn set_access_token(
    call: ToolCall<'_>,
    args: AccessTokenArgs,
) -> Result<TextOutput<Granted>, ClassicFailure> {
    let ctx = call.ctx;
    let settings = ctx.settings.of(&SERVICE).ok_or_else(no_client)?;
    let given = Map::from_iter([("access_token".to_owned(), Value::from(args.access_token))]);
    let tokens = Tokens::read(&given).map_err(|_| failed("that cannot be an access token"))?;
    let now_us = ctx.clock.now().wall_us;
    let mut account = known_account(ctx).unwrap_or_else(|| Account::new(NAME, now_us));
    account.created_us = now_us;
    tokens.apply(&mut account, now_us);
    let output = take(ctx, settings, &account, SET).await?;
    Ok(TextOutput { text: SET.to_owned(), output })
}

/// Revokes the consent at WHOOP, then deletes the login here.
pub(in crate::whoop) async fn revoke(
    call: ToolCall<'_>,
    _: NoArgs,
) -> Result<TextOutput<Revoked>, ClassicFailure> {
    let ctx = call.ctx;
    let (Some(settings), Some(Revoke::Api { method, path })) =
        (ctx.settings.of(&SERVICE), &ACCOUNT.revoke)
    else {
        return Err(no_client());
    };
    let token = tokens::access(ctx, &SERVICE).await.map_err(|error| of_tokens(&error))?;
    let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::DELETE);
    let request = Request::new(method, &settings.api_base, path)
        .header("user-agent", ACCOUNT.user_agent)
        .bearer(&token);
    let upstream = |detail: String| ClassicFailure::new("UPSTREAM_ERROR", detail);
    let reply = ctx.http.send(request).await.map_err(|error| upstream(error.to_string()))?;
    if !reply.is_success() {
        return Err(upstream(format!("WHOOP answered {}", reply.status)));
    }
    let wiped = ctx.accounts.lock(NAME).and_then(|locked| locked.wipe());
    wiped.map_err(|error| failed(error.to_string()))?;
    Ok(TextOutput {
        text: REVOKED.to_owned(),
        output: Revoked { status: Success, message: REVOKED },
    })
}

/// Scopes and expiry; never a token.
fn granted(ctx: &ConnectorContext, text: &str) -> Granted {
    let facts = ctx.accounts.summary(NAME).ok().flatten();
    let expires_us = facts.as_ref().and_then(|facts| facts.expires_us);
    Granted {
        status: Success,
        message: text.to_owned(),
        scopes: facts.map(|facts| facts.scopes).unwrap_or_default(),
        expires_at: expires_us.map(when::utc_micros),
    }
}

fn known_account(ctx: &ConnectorContext) -> Option<Account> {
    ctx.accounts.load(NAME).ok().flatten()
}

/// The settings and the client id; the account's takes precedence over the environment's.
fn client(ctx: &ConnectorContext) -> Option<(&ServiceSettings, String)> {
    let settings = ctx.settings.of(&SERVICE)?;
    let known = known_account(ctx).and_then(|account| account.client_id);
    Some((settings, settings.client_id.clone().or(known)?))
}

fn no_client() -> ClassicFailure {
    failed("no WHOOP app is known; set `WHOOP_CLIENT_ID` or run `tollgate connect whoop`")
}

fn of_tokens(error: &TokenError) -> ClassicFailure {
    failed(error.to_string().replace("\nhint: ", "; "))
}
