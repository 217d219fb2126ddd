//! Who the owner is, who others are, and how the account stands.

use serde_json::{Value, json};

use super::api::{self, is_of_path};
use super::lists::USERS;
use super::{NAME, SERVICE, follow};
use crate::personal::{Code, Given, Outcome, Problem, is_known, remember, standing};
use crate::{Ask, Desk};

pub(super) async fn mine(ask: Ask<'_>) -> Outcome {
    Ok(own(&api::get(ask.desk, &["me"], &[]).await?))
}

fn own(me: &Value) -> Value {
    let at = |pointer: &str| me.pointer(pointer).cloned().unwrap_or_default();
    json!({
        "status": "success",
        "user_profile": {
            "id": at("/id"),
            "account_id": at("/account_id"),
            "display_name": at("/display_name"),
            "email": at("/email"),
            "country": at("/country"),
            "followers": at("/followers/total"),
            "product": at("/product"),
            "images": at("/images"),
            "external_urls": at("/external_urls"),
        },
    })
}

pub(super) async fn of_user(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let id = follow::id(&given, "user_id", "user")?;
    if !is_known(ask.desk, &SERVICE, USERS) {
        match api::get(ask.desk, &["users", &id], &[]).await {
            Err(problem) if is_of_path(&problem) => learn_of_users(ask.desk, problem).await?,
            user => return Ok(other(&user?)),
        }
    }
    let me = api::get(ask.desk, &["me"], &[]).await?;
    if me.get("id").and_then(Value::as_str) != Some(id.as_str()) {
        let instead = "for your own profile use get_current_user_profile";
        return Err(api::removed("the profiles of other users", instead));
    }
    Ok(other(&me))
}

fn other(user: &Value) -> Value {
    let at = |pointer: &str| user.pointer(pointer).cloned().unwrap_or_default();
    json!({
        "status": "success",
        "user_profile": {
            "id": at("/id"),
            "display_name": at("/display_name"),
            "followers": at("/followers/total"),
            "images": at("/images"),
            "external_urls": at("/external_urls"),
        },
    })
}

/// Was one user not found, or is the whole path gone? The owner exists, so asking for the owner
/// tells. What is gone is remembered; a user who does not exist is the answer.
pub(super) async fn learn_of_users(desk: &Desk, problem: Problem) -> Result<(), Problem> {
    if problem.code == Code::NotFound
        && let Some(own) = own_id(desk).await?
        && api::get(desk, &["users", &own], &[]).await.is_ok()
    {
        return Err(problem);
    }
    remember(desk, &SERVICE, USERS);
    Ok(())
}

pub(super) async fn own_id(desk: &Desk) -> Result<Option<String>, Problem> {
    let me = api::get(desk, &["me"], &[]).await?;
    Ok(me.get("id").and_then(Value::as_str).map(str::to_owned))
}

/// Tries the login for real.
pub(super) async fn test(ask: Ask<'_>) -> Result<String, Problem> {
    let me = api::get(ask.desk, &["me"], &[]).await?;
    let name = me.get("display_name").and_then(Value::as_str).unwrap_or("an account without name");
    Ok(format!("Spotify works: signed in as {name}."))
}

/// What is set up, without asking Spotify and without showing any of it.
pub(super) fn config(ask: &Ask<'_>) -> String {
    let facts = ask.desk.accounts.facts(NAME).ok().flatten();
    let settings = ask.desk.settings.of(&SERVICE);
    let kept = |column: &str| facts.as_ref().is_some_and(|facts| facts.has(column));
    let has_id = facts.as_ref().is_some_and(|facts| facts.client_id.is_some())
        || settings.is_some_and(|settings| settings.client_id.is_some());
    let has_secret =
        kept("client_secret") || settings.is_some_and(|settings| settings.client_secret.is_some());
    let word = |is_set: bool| if is_set { "set" } else { "not set" };
    let status = standing(ask.desk, &SERVICE);
    let login = status.pointer("/token_info/state").and_then(Value::as_str).unwrap_or_default();
    format!(
        "Client id: {}. Client secret: {} (not needed). Login: {login}. `tollgate connect spotify` signs in.",
        word(has_id),
        word(has_secret)
    )
}
