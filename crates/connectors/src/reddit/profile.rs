//! Who the owner is at Reddit, and how the account stands.

use serde_json::{Value, json};

use super::{NAME, SERVICE, api};
use crate::Ask;
use crate::account::SignIn;
use crate::personal::{self, Outcome, Problem, field};

const RAW: &[(&str, &str)] = &[("raw_json", "1")];

async fn read(ask: &Ask<'_>, part: &str, scope: &str) -> Result<Value, Problem> {
    api::read(ask.desk, &["api", "v1", "me", part], RAW, scope).await
}

pub(super) async fn mine(ask: Ask<'_>) -> Outcome {
    Ok(json!({ "status": "success", "user_profile": api::me(ask.desk).await? }))
}

pub(super) async fn preferences(ask: Ask<'_>) -> Outcome {
    Ok(json!({ "status": "success", "preferences": read(&ask, "prefs", "identity").await? }))
}

pub(super) async fn karma(ask: Ask<'_>) -> Outcome {
    let found = read(&ask, "karma", "mysubreddits").await?;
    let list = field::objects(&found, "/data");
    Ok(json!({ "status": "success", "count": list.len(), "karma_breakdown": list }))
}

pub(super) async fn trophies(ask: Ask<'_>) -> Outcome {
    let found = read(&ask, "trophies", "identity").await?;
    let list = field::objects(&found, "/data/trophies");
    let trophy = |one: &Value| {
        let at = |name: &str| one.pointer(&format!("/data/{name}")).cloned().unwrap_or_default();
        json!({
            "name": at("name"),
            "description": at("description"),
            "granted_at": at("granted_at"),
            "icon": at("icon_70"),
        })
    };
    let list: Vec<Value> = list.into_iter().map(trophy).collect();
    Ok(json!({ "status": "success", "count": list.len(), "trophies": list }))
}

/// Tries the login for real.
pub(super) async fn test(ask: Ask<'_>) -> Result<String, Problem> {
    let name = api::own_name(ask.desk).await?;
    Ok(format!("Reddit works: signed in as {name}."))
}

/// What is set up, without asking Reddit and without showing any of it.
pub(super) fn config(ask: &Ask<'_>) -> Value {
    let settings = ask.desk.settings.of(&SERVICE);
    let facts = ask.desk.accounts.facts(NAME).ok().flatten();
    let has_id = api::has_client(ask.desk);
    let has_secret = facts.is_some_and(|facts| facts.has("client_secret"))
        || settings.is_some_and(|settings| settings.client_secret.is_some());
    let set = settings.and_then(|settings| settings.redirect_uri.clone());
    let usual = match SERVICE.account.map(|account| &account.sign_in) {
        Some(SignIn::Code { redirect, .. }) => *redirect,
        _ => "",
    };
    json!({
        "status": if has_id && has_secret { "configured" } else { "not_configured" },
        "has_client_id": has_id,
        "has_client_secret": has_secret,
        "has_redirect_uri": set.is_some(),
        "redirect_uri": set.unwrap_or_else(|| usual.to_owned()),
    })
}

pub(super) async fn setup(ask: Ask<'_>) -> Outcome {
    let desk = ask.desk;
    let begun = personal::setup(ask, &SERVICE, "complete_reddit_oauth").await;
    begun.map_err(|problem| api::explained(desk, problem))
}

pub(super) async fn complete(ask: Ask<'_>) -> Outcome {
    let desk = ask.desk;
    let done = personal::complete(ask, &SERVICE, "setup_reddit_oauth").await;
    done.map_err(|problem| api::explained(desk, problem))
}

pub(super) async fn refresh(ask: Ask<'_>) -> Outcome {
    let desk = ask.desk;
    let done = personal::refresh(ask, &SERVICE).await;
    done.map_err(|problem| api::explained(desk, problem))
}

pub(super) async fn refresh_if_due(ask: Ask<'_>) -> Outcome {
    let desk = ask.desk;
    let done = personal::refresh_if_due(ask, &SERVICE).await;
    done.map_err(|problem| api::explained(desk, problem))
}
