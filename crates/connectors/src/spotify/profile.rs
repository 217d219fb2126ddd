//! Who the owner is, who others are, and how the account stands.

use serde_json::{Value, json};

use super::api::{self, is_of_path};
use super::lists::USERS;
use super::{NAME, SERVICE, follow};
use crate::personal::{Code, Given, Outcome, Problem, field, is_known, remember, standing};
use crate::{Ask, Desk};

pub(super) async fn mine(ask: Ask<'_>) -> Outcome {
    Ok(own(&me(ask.desk).await?))
}

/// The owner. An answer that does not say who that is is none.
async fn me(desk: &Desk) -> Result<Value, Problem> {
    let me = api::get(desk, &["me"], &[]).await?;
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

fn own(me: &Value) -> Value {
    let at = |pointer: &str| field::text(me, pointer);
    json!({
        "status": "success",
        "user_profile": {
            "id": at("/id"),
            "account_id": at("/account_id"),
            "display_name": at("/display_name"),
            "email": at("/email"),
            "country": at("/country"),
            "followers": field::whole(me, "/followers/total"),
            "product": at("/product"),
            "images": pictures(me),
            "external_urls": field::object(me, "/external_urls"),
        },
    })
}

fn pictures(user: &Value) -> Vec<&Value> {
    field::objects(user, "/images")
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
    let me = me(ask.desk).await?;
    if field::word(&me, "/id").as_deref() != Some(id.as_str()) {
        let instead = "for your own profile use get_current_user_profile";
        return Err(api::removed("the profiles of other users", instead));
    }
    Ok(other(&me))
}

fn other(user: &Value) -> Value {
    let at = |pointer: &str| field::text(user, pointer);
    json!({
        "status": "success",
        "user_profile": {
            "id": at("/id"),
            "display_name": at("/display_name"),
            "followers": field::whole(user, "/followers/total"),
            "images": pictures(user),
            "external_urls": field::object(user, "/external_urls"),
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
    Ok(field::word(&me(desk).await?, "/id"))
}

/// Tries the login for real.
pub(super) async fn test(ask: Ask<'_>) -> Result<String, Problem> {
    let me = me(ask.desk).await?;
    let name = field::word(&me, "/display_name");
    let name = name.unwrap_or_else(|| "an account without name".to_owned());
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
