//! Profiles of the owner and other users, and the account status.

use std::future::{Ready, ready};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::api::{self, is_path_error};
use super::lists::USERS;
use super::{NAME, SERVICE, follow};
use crate::arguments::{IgnoredSecret, NoArgs, TokenArgs};
use crate::personal::{Code, Problem, field, is_known, login_status, remember};
use crate::tool::{Json, NoData, Success, Text};
use crate::{ConnectorContext, ToolCall};

#[derive(Deserialize, JsonSchema)]
pub(super) struct SpotifyUserArgs {
    /// The user's id.
    user_id: String,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ProfileOutput<T> {
    status: Success,
    user_profile: T,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SpotifyProfile {
    id: Option<String>,
    account_id: Option<String>,
    display_name: Option<String>,
    email: Option<String>,
    country: Option<String>,
    followers: Option<i64>,
    product: Option<String>,
    images: Vec<Map<String, Value>>,
    external_urls: Option<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct UserProfile {
    id: Option<String>,
    display_name: Option<String>,
    followers: Option<i64>,
    images: Vec<Map<String, Value>>,
    external_urls: Option<Map<String, Value>>,
}

pub(super) async fn mine(
    call: ToolCall<'_>,
    _: TokenArgs,
) -> Result<Json<ProfileOutput<SpotifyProfile>>, Problem> {
    let me = me(call.ctx).await?;
    let user_profile = SpotifyProfile {
        id: field::word(&me, "/id"),
        account_id: field::word(&me, "/account_id"),
        display_name: field::word(&me, "/display_name"),
        email: field::word(&me, "/email"),
        country: field::word(&me, "/country"),
        followers: field::int(&me, "/followers/total"),
        product: field::word(&me, "/product"),
        images: field::maps(&me, "/images"),
        external_urls: field::map(&me, "/external_urls"),
    };
    Ok(Json(ProfileOutput { status: Success, user_profile }))
}

/// The owner's profile. A response without an id is an error.
async fn me(ctx: &ConnectorContext) -> Result<Value, Problem> {
    let me = api::get(ctx, &["me"], &[]).await?;
    match field::word(&me, "/id") {
        Some(_) => Ok(me),
        None => Err(Problem::new(
            Code::UpstreamError,
            NAME,
            "Spotify did not say whose account this is",
            "call again in a minute",
        )),
    }
}

pub(super) async fn of_user(
    call: ToolCall<'_>,
    args: SpotifyUserArgs,
) -> Result<Json<ProfileOutput<UserProfile>>, Problem> {
    let ctx = call.ctx;
    let id = follow::id(&args.user_id, "user_id", "user")?;
    if !is_known(ctx, &SERVICE, USERS) {
        match api::get(ctx, &["users", &id], &[]).await {
            Err(problem) if is_path_error(&problem) => learn_of_users(ctx, problem).await?,
            user => return Ok(Json(user_profile(&user?))),
        }
    }
    let me = me(ctx).await?;
    if field::word(&me, "/id").as_deref() != Some(id.as_str()) {
        let instead = "for your own profile use get_current_user_profile";
        return Err(api::removed("the profiles of other users", instead));
    }
    Ok(Json(user_profile(&me)))
}

fn user_profile(user: &Value) -> ProfileOutput<UserProfile> {
    let user_profile = UserProfile {
        id: field::word(user, "/id"),
        display_name: field::word(user, "/display_name"),
        followers: field::int(user, "/followers/total"),
        images: field::maps(user, "/images"),
        external_urls: field::map(user, "/external_urls"),
    };
    ProfileOutput { status: Success, user_profile }
}

/// Was one user not found, or was the whole path removed? A request for the owner shows which. A
/// removed path is remembered; an unknown user is reported.
pub(super) async fn learn_of_users(
    ctx: &ConnectorContext,
    problem: Problem,
) -> Result<(), Problem> {
    if problem.code == Code::NotFound
        && let Some(own) = own_id(ctx).await?
        && api::get(ctx, &["users", &own], &[]).await.is_ok()
    {
        return Err(problem);
    }
    remember(ctx, &SERVICE, USERS);
    Ok(())
}

pub(super) async fn own_id(ctx: &ConnectorContext) -> Result<Option<String>, Problem> {
    Ok(field::word(&me(ctx).await?, "/id"))
}

/// Checks the login with a request.
pub(super) async fn test(call: ToolCall<'_>, _: NoArgs) -> Result<Text<NoData>, Problem> {
    let me = me(call.ctx).await?;
    let name = field::word(&me, "/display_name");
    let name = name.unwrap_or_else(|| "an account without name".to_owned());
    Ok(format!("Spotify works: signed in as {name}.").into())
}

/// Which settings exist, without a request and without their values.
pub(super) fn config(call: ToolCall<'_>, _: NoArgs) -> Ready<Result<Text<NoData>, Problem>> {
    let facts = call.ctx.accounts.summary(NAME).ok().flatten();
    let settings = call.ctx.settings.of(&SERVICE);
    let kept = |column: &str| facts.as_ref().is_some_and(|facts| facts.has(column));
    let has_id = facts.as_ref().is_some_and(|facts| facts.client_id.is_some())
        || settings.is_some_and(|settings| settings.client_id.is_some());
    let has_secret =
        kept("client_secret") || settings.is_some_and(|settings| settings.client_secret.is_some());
    let word = |is_set: bool| if is_set { "set" } else { "not set" };
    let login = login_status(call.ctx, &SERVICE).token_info.state.as_str();
    let text = format!(
        "Client id: {}. Client secret: {} (not needed). Login: {login}. `tollgate connect spotify` signs in.",
        word(has_id),
        word(has_secret)
    );
    ready(Ok(text.into()))
}
