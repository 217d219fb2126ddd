//! Who the owner is, whom they follow, and what can be said of others.

use serde_json::{Value, json};

use super::{NAME, SERVICE, api, picture};
use crate::personal::{Given, Outcome, Problem, field, value};
use crate::{Ask, Desk};

const PAGE: usize = 20;

async fn info(desk: &Desk) -> Result<Value, Problem> {
    api::signed_in(desk)?;
    let me = api::get(desk, &["x", "space", "myinfo"], &[]).await?;
    match field::int(&me, "/mid") {
        Some(_) => Ok(me),
        None => Err(api::unreadable()),
    }
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
    field::int(&me, "/mid").ok_or_else(|| given.missing("uid"))
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
    Ok(json!({
        "uid": field::whole(&me, "/mid"),
        "name": field::text(&me, "/name"),
        "face": picture(&field::text(&me, "/face")),
        "sign": field::text(&me, "/sign"),
        "level": field::whole(&me, "/level"),
        "coins": field::number(&me, "/coins"),
        "experience": field::object(&me, "/level_exp"),
        "official_verify": field::object(&me, "/official"),
        "vip": field::object(&me, "/vip"),
        "follower": field::whole(&me, "/follower"),
        "following": field::whole(&me, "/following"),
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
    let is_own = field::int(&me, "/mid") == Some(uid);
    let me = if is_own { me } else { Value::Null };
    let note = "Bilibili gives names, levels and rooms of others only to its own pages, which sign their requests.";
    Ok(json!({
        "uid": uid,
        "name": field::text(&me, "/name"),
        "face": picture(&field::text(&me, "/face")),
        "sign": field::text(&me, "/sign"),
        "level": field::whole(&me, "/level"),
        "follower": field::whole(&stat, "/follower"),
        "following": field::whole(&stat, "/following"),
        "video_count": Value::Null,
        "official_verify": field::object(&me, "/official"),
        "vip": field::object(&me, "/vip"),
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
    let one = |user: &Value| {
        json!({
            "uid": field::whole(user, "/mid"),
            "name": field::text(user, "/uname"),
            "face": picture(&field::text(user, "/face")),
            "sign": field::text(user, "/sign"),
            "official_verify": field::object(user, "/official_verify"),
            "vip": field::object(user, "/vip"),
        })
    };
    let list: Vec<Value> = field::objects(&found, "/list").into_iter().map(one).collect();
    let reached = page.saturating_mul(PAGE);
    let total = field::int(&found, "/total").and_then(|total| usize::try_from(total).ok());
    // Where Bilibili does not say how many there are, a full page means that there may be more.
    let is_more = total.map_or(list.len() >= PAGE, |total| reached < total);
    Ok(json!({
        "total": total.unwrap_or(reached - PAGE + list.len()),
        "page": page,
        "next_page": (is_more && !list.is_empty()).then_some(page + 1),
        "following_list": list,
    }))
}

/// Tries the cookies for real. Nothing of them is shown.
pub(super) async fn test(ask: Ask<'_>) -> Result<String, Problem> {
    let me = info(ask.desk).await?;
    let name = field::word(&me, "/name");
    let name = name.unwrap_or_else(|| "an account without name".to_owned());
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
