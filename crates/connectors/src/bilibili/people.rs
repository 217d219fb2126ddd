//! Who the owner is, whom they follow, and what can be said of others.

use serde_json::{Value, json};

use super::{NAME, SERVICE, api, picture};
use crate::personal::{Given, Outcome, Problem, value};
use crate::{Ask, Desk};

const PAGE: usize = 20;

async fn info(desk: &Desk) -> Result<Value, Problem> {
    api::signed_in(desk)?;
    api::get(desk, &["x", "space", "myinfo"], &[]).await
}

pub(super) async fn own_uid(desk: &Desk) -> Result<i64, Problem> {
    let me = info(desk).await?;
    me.get("mid").and_then(Value::as_i64).ok_or_else(api::unreadable)
}

/// A number that was given, or the owner's own.
pub(super) async fn whose(ask: &Ask<'_>, given: &Given<'_>) -> Result<i64, Problem> {
    if let Some(uid) = uid(given)? {
        return Ok(uid);
    }
    let me = info(ask.desk).await?;
    me.get("mid").and_then(Value::as_i64).ok_or_else(|| given.missing("uid"))
}

fn uid(given: &Given<'_>) -> Result<Option<i64>, Problem> {
    match given.whole("uid")? {
        Some(uid) if uid <= 0 => Err(given.wrong("uid", "the number of a user")),
        uid => Ok(uid),
    }
}

pub(super) fn page(given: &Given<'_>) -> Result<usize, Problem> {
    given.limit_of("page", 1, 10_000)
}

pub(super) async fn mine(ask: Ask<'_>) -> Outcome {
    let me = info(ask.desk).await?;
    let at = |name: &str| me.get(name).cloned().unwrap_or_default();
    Ok(json!({
        "uid": at("mid"),
        "name": at("name"),
        "face": picture(&at("face")),
        "sign": at("sign"),
        "level": at("level"),
        "coins": at("coins"),
        "experience": at("level_exp"),
        "official_verify": at("official"),
        "vip": at("vip"),
        "follower": at("follower"),
        "following": at("following"),
    }))
}

/// What Bilibili says of anybody without a signature: how many follow them, and whom they follow.
/// The rest is there where it is the owner.
pub(super) async fn of_user(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let uid = uid(&given)?.ok_or_else(|| given.missing("uid"))?;
    let text = uid.to_string();
    let stat = api::get(ask.desk, &["x", "relation", "stat"], &[("vmid", &text)]).await?;
    let me = match value(ask.desk, &SERVICE, "SESSDATA") {
        Some(_) => info(ask.desk).await.unwrap_or_default(),
        None => Value::Null,
    };
    let is_own = me.get("mid").and_then(Value::as_i64) == Some(uid);
    let of_me = |name: &str| me.get(name).filter(|_| is_own).cloned().unwrap_or_default();
    let of_stat = |name: &str| stat.get(name).cloned().unwrap_or_default();
    let note = "Bilibili gives names, levels and rooms of others only to its own pages, which sign their requests.";
    Ok(json!({
        "uid": uid,
        "name": of_me("name"),
        "face": picture(&of_me("face")),
        "sign": of_me("sign"),
        "level": of_me("level"),
        "follower": of_stat("follower"),
        "following": of_stat("following"),
        "video_count": Value::Null,
        "official_verify": of_me("official"),
        "vip": of_me("vip"),
        "live_room": Value::Null,
        "is_complete": is_own,
        "note": if is_own { Value::Null } else { json!(note) },
        "url": format!("https://space.bilibili.com/{uid}"),
    }))
}

pub(super) async fn following(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let page = page(&given)?;
    api::signed_in(ask.desk)?;
    let uid = whose(&ask, &given).await?.to_string();
    let (number, size) = (page.to_string(), PAGE.to_string());
    let query = [("vmid", uid.as_str()), ("ps", &size), ("pn", &number), ("order", "desc")];
    let found = api::get(ask.desk, &["x", "relation", "followings"], &query).await?;
    let list = found.get("list").and_then(Value::as_array);
    let one = |user: &Value| {
        let at = |name: &str| user.get(name).cloned().unwrap_or_default();
        json!({
            "uid": at("mid"),
            "name": at("uname"),
            "face": picture(&at("face")),
            "sign": at("sign"),
            "official_verify": at("official_verify"),
            "vip": at("vip"),
        })
    };
    let list: Vec<Value> = list.into_iter().flatten().map(one).collect();
    let total = found.get("total").and_then(Value::as_u64).unwrap_or(0);
    let reached = u64::try_from(page.saturating_mul(PAGE)).unwrap_or(u64::MAX);
    Ok(json!({
        "total": total,
        "page": page,
        "next_page": (reached < total && !list.is_empty()).then_some(page + 1),
        "following_list": list,
    }))
}

/// Tries the cookies for real. Nothing of them is shown.
pub(super) async fn test(ask: Ask<'_>) -> Result<String, Problem> {
    let me = info(ask.desk).await?;
    let name = me.get("name").and_then(Value::as_str).unwrap_or("an account without name");
    Ok(format!("Bilibili works: signed in as {name}."))
}

/// What is set up, without asking Bilibili and without showing any of it.
pub(super) fn config(ask: &Ask<'_>) -> String {
    let word = |name: &str| match value(ask.desk, &SERVICE, name) {
        Some(_) => "set",
        None => "not set",
    };
    format!(
        "SESSDATA: {}. bili_jct: {}. buvid3: {} (optional). `tollgate connect bilibili` sets them. Search and the videos of others are not offered: Bilibili wants them signed.",
        word("SESSDATA"),
        word("bili_jct"),
        word("buvid3")
    )
}
