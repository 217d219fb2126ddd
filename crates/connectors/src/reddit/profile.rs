//! The owner's profile, sign-in and login status.

use std::future::{Ready, ready};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::{NAME, SERVICE, api};
use crate::account::SignIn;
use crate::arguments::{IgnoredSecret, TokenArgs, Unused};
use crate::personal::{self, CodeSetup, Completed, Problem, Refreshed, field};
use crate::tool::{Json, NoData, Success, Text};
use crate::{ConnectorContext, ToolCall};

const RAW: &[(&str, &str)] = &[("raw_json", "1")];

// Older clients could not call a tool without parameters.
#[derive(Deserialize, JsonSchema)]
pub(super) struct NoUsefulArgs {
    /// Ignored.
    #[serde(default, rename = "random_string")]
    #[schemars(extend("deprecated" = true))]
    _random_string: Unused,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RedditSetupArgs {
    /// The application's client id, if tollgate does not know it yet.
    client_id: Option<String>,
    #[serde(default, rename = "client_secret")]
    _client_secret: IgnoredSecret,
    /// As registered with the application; by default http://localhost:8888/callback.
    redirect_uri: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RedditCompleteArgs {
    /// Not needed: it is known from the first step.
    #[serde(default, rename = "client_id")]
    _client_id: Unused,
    #[serde(default, rename = "client_secret")]
    _client_secret: IgnoredSecret,
    /// The whole address the browser ended at, or the code in it.
    authorization_code: String,
    /// Not needed: it is known from the first step.
    #[serde(default, rename = "redirect_uri")]
    _redirect_uri: Unused,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct RedditProfile {
    status: Success,
    user_profile: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Preferences {
    status: Success,
    preferences: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Karma {
    status: Success,
    count: usize,
    karma_breakdown: Vec<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Trophies {
    status: Success,
    count: usize,
    trophies: Vec<Trophy>,
}

#[derive(Serialize, JsonSchema)]
struct Trophy {
    name: Option<String>,
    description: Option<String>,
    granted_at: Option<Number>,
    icon: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Config {
    status: ConfigStatus,
    has_client_id: bool,
    has_client_secret: bool,
    has_redirect_uri: bool,
    redirect_uri: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ConfigStatus {
    Configured,
    NotConfigured,
}

async fn read(ctx: &ConnectorContext, part: &str, scope: &str) -> Result<Value, Problem> {
    api::read(ctx, &["api", "v1", "me", part], RAW, scope).await
}

pub(super) async fn mine(call: ToolCall<'_>, _: TokenArgs) -> Result<Json<RedditProfile>, Problem> {
    let user_profile = field::map(&api::me(call.ctx).await?, "").unwrap_or_default();
    Ok(Json(RedditProfile { status: Success, user_profile }))
}

pub(super) async fn preferences(
    call: ToolCall<'_>,
    _: TokenArgs,
) -> Result<Json<Preferences>, Problem> {
    let found = read(call.ctx, "prefs", "identity").await?;
    let preferences = field::map(&found, "").unwrap_or_default();
    Ok(Json(Preferences { status: Success, preferences }))
}

pub(super) async fn karma(call: ToolCall<'_>, _: TokenArgs) -> Result<Json<Karma>, Problem> {
    let found = read(call.ctx, "karma", "mysubreddits").await?;
    let karma_breakdown = field::maps(&found, "/data");
    Ok(Json(Karma { status: Success, count: karma_breakdown.len(), karma_breakdown }))
}

pub(super) async fn trophies(call: ToolCall<'_>, _: TokenArgs) -> Result<Json<Trophies>, Problem> {
    let found = read(call.ctx, "trophies", "identity").await?;
    let trophies: Vec<Trophy> =
        field::objects(&found, "/data/trophies").into_iter().map(trophy).collect();
    Ok(Json(Trophies { status: Success, count: trophies.len(), trophies }))
}

fn trophy(one: &Value) -> Trophy {
    Trophy {
        name: field::word(one, "/data/name"),
        description: field::word(one, "/data/description"),
        granted_at: field::number(one, "/data/granted_at"),
        icon: field::word(one, "/data/icon_70"),
    }
}

/// Checks the login with a request.
pub(super) async fn test(call: ToolCall<'_>, _: NoUsefulArgs) -> Result<Text<NoData>, Problem> {
    let name = api::own_name(call.ctx).await?;
    Ok(format!("Reddit works: signed in as {name}.").into())
}

/// Which settings exist, without a request and without their values.
pub(super) fn config(call: ToolCall<'_>, _: NoUsefulArgs) -> Ready<Result<Json<Config>, Problem>> {
    let settings = call.ctx.settings.of(&SERVICE);
    let facts = call.ctx.accounts.summary(NAME).ok().flatten();
    let has_id = api::has_client(call.ctx);
    let has_secret = facts.is_some_and(|facts| facts.has("client_secret"))
        || settings.is_some_and(|settings| settings.client_secret.is_some());
    let set = settings.and_then(|settings| settings.redirect_uri.clone());
    let usual = match SERVICE.account.map(|account| &account.sign_in) {
        Some(SignIn::Code { redirect, .. }) => *redirect,
        _ => "",
    };
    let is_complete = has_id && has_secret;
    ready(Ok(Json(Config {
        status: if is_complete { ConfigStatus::Configured } else { ConfigStatus::NotConfigured },
        has_client_id: has_id,
        has_client_secret: has_secret,
        has_redirect_uri: set.is_some(),
        redirect_uri: set.unwrap_or_else(|| usual.to_owned()),
    })))
}

pub(super) async fn setup(
    call: ToolCall<'_>,
    args: RedditSetupArgs,
) -> Result<Json<CodeSetup>, Problem> {
    let (next, redirect) = ("complete_reddit_oauth", args.redirect_uri.as_deref());
    let begun = personal::setup_by_code(call, &SERVICE, next, args.client_id, redirect).await;
    begun.map_err(|problem| api::explained(call.ctx, problem))
}

pub(super) async fn complete(
    call: ToolCall<'_>,
    args: RedditCompleteArgs,
) -> Result<Json<Completed>, Problem> {
    let code = Some(args.authorization_code.as_str());
    let done = personal::complete(call, &SERVICE, "setup_reddit_oauth", code).await;
    done.map_err(|problem| api::explained(call.ctx, problem))
}

pub(super) async fn refresh(
    call: ToolCall<'_>,
    _: NoUsefulArgs,
) -> Result<Json<Refreshed>, Problem> {
    let done = personal::refresh(call, &SERVICE).await;
    done.map_err(|problem| api::explained(call.ctx, problem))
}

pub(super) async fn refresh_if_due(
    call: ToolCall<'_>,
    _: NoUsefulArgs,
) -> Result<Json<Refreshed>, Problem> {
    let done = personal::refresh_if_due(call, &SERVICE).await;
    done.map_err(|problem| api::explained(call.ctx, problem))
}
