//! The owner's profile and followings, and the public part of other profiles.

use std::future::{Ready, ready};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::{NAME, SERVICE, api, picture};
use crate::arguments::{BadArgument, Limit, NoArgs};
use crate::personal::{Problem, field, value};
use crate::tool::{Json, NoData, Text};
use crate::{ConnectorContext, ToolCall};

const PAGE: usize = 20;
pub(super) const PAGES_MAX: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
pub(super) struct BilibiliUserArgs {
    /// The number of the user.
    #[schemars(range(min = 1))]
    uid: i64,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct BilibiliUserPageArgs {
    /// The number of the user; the owner if left out.
    #[schemars(range(min = 1))]
    pub(super) uid: Option<i64>,
    /// Which page, from 1.
    #[serde(default)]
    pub(super) page: Limit<1, PAGES_MAX>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct BilibiliProfile {
    uid: Option<i64>,
    name: Option<String>,
    face: Option<String>,
    sign: Option<String>,
    level: Option<i64>,
    coins: Option<Number>,
    experience: Option<Map<String, Value>>,
    official_verify: Option<Map<String, Value>>,
    vip: Option<Map<String, Value>>,
    follower: Option<i64>,
    following: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct User {
    uid: i64,
    name: Option<String>,
    face: Option<String>,
    sign: Option<String>,
    level: Option<i64>,
    follower: Option<i64>,
    following: Option<i64>,
    video_count: (),
    official_verify: Option<Map<String, Value>>,
    vip: Option<Map<String, Value>>,
    live_room: (),
    is_complete: bool,
    note: Option<&'static str>,
    url: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Following {
    total: usize,
    page: usize,
    next_page: Option<usize>,
    following_list: Vec<Followed>,
}

#[derive(Serialize, JsonSchema)]
struct Followed {
    uid: Option<i64>,
    name: Option<String>,
    face: Option<String>,
    sign: Option<String>,
    official_verify: Option<Map<String, Value>>,
    vip: Option<Map<String, Value>>,
}

/// A picture's absolute URL.
pub(super) fn picture_at(value: &Value, pointer: &str) -> Option<String> {
    field::word(value, pointer).map(|address| picture(&address))
}

async fn info(ctx: &ConnectorContext) -> Result<Value, Problem> {
    api::signed_in(ctx)?;
    let me = api::get(ctx, &["x", "space", "myinfo"], &[]).await?;
    match field::int(&me, "/mid") {
        Some(_) => Ok(me),
        None => Err(api::unreadable()),
    }
}

pub(super) async fn own_uid(ctx: &ConnectorContext) -> Result<i64, Problem> {
    let me = info(ctx).await?;
    me.get("mid").and_then(Value::as_i64).ok_or_else(api::unreadable)
}

/// The given uid, or the owner's.
pub(super) async fn whose(ctx: &ConnectorContext, given: Option<i64>) -> Result<i64, Problem> {
    if let Some(given) = given {
        return uid(given);
    }
    let me = info(ctx).await?;
    field::int(&me, "/mid").ok_or_else(|| BadArgument::missing("uid").problem(NAME))
}

fn uid(given: i64) -> Result<i64, Problem> {
    let wrong = || BadArgument::new("uid", "the number of a user").problem(NAME);
    (given > 0).then_some(given).ok_or_else(wrong)
}

pub(super) async fn mine(call: ToolCall<'_>, _: NoArgs) -> Result<Json<BilibiliProfile>, Problem> {
    let me = info(call.ctx).await?;
    Ok(Json(BilibiliProfile {
        uid: field::int(&me, "/mid"),
        name: field::word(&me, "/name"),
        face: picture_at(&me, "/face"),
        sign: field::word(&me, "/sign"),
        level: field::int(&me, "/level"),
        coins: field::number(&me, "/coins"),
        experience: field::map(&me, "/level_exp"),
        official_verify: field::map(&me, "/official"),
        vip: field::map(&me, "/vip"),
        follower: field::int(&me, "/follower"),
        following: field::int(&me, "/following"),
    }))
}

/// The public part of a user that needs no signature: followers and followings. The owner's profile
/// is complete.
pub(super) async fn of_user(
    call: ToolCall<'_>,
    args: BilibiliUserArgs,
) -> Result<Json<User>, Problem> {
    let uid = uid(args.uid)?;
    let text = uid.to_string();
    let stat = api::get(call.ctx, &["x", "relation", "stat"], &[("vmid", &text)]).await?;
    let me = match value(call.ctx, &SERVICE, "SESSDATA") {
        Some(_) => info(call.ctx).await.unwrap_or_default(),
        None => Value::Null,
    };
    let is_own = field::int(&me, "/mid") == Some(uid);
    let me = if is_own { me } else { Value::Null };
    let note = "Bilibili gives names, levels and rooms of others only to its own pages, which sign their requests.";
    Ok(Json(User {
        uid,
        name: field::word(&me, "/name"),
        face: picture_at(&me, "/face"),
        sign: field::word(&me, "/sign"),
        level: field::int(&me, "/level"),
        follower: field::int(&stat, "/follower"),
        following: field::int(&stat, "/following"),
        video_count: (),
        official_verify: field::map(&me, "/official"),
        vip: field::map(&me, "/vip"),
        live_room: (),
        is_complete: is_own,
        note: (!is_own).then_some(note),
        url: format!("https://space.bilibili.com/{uid}"),
    }))
}

pub(super) async fn following(
    call: ToolCall<'_>,
    args: BilibiliUserPageArgs,
) -> Result<Json<Following>, Problem> {
    let page = args.page.get();
    api::signed_in(call.ctx)?;
    let uid = whose(call.ctx, args.uid).await?.to_string();
    let (number, size) = (page.to_string(), PAGE.to_string());
    let query = [("vmid", uid.as_str()), ("ps", &size), ("pn", &number), ("order", "desc")];
    let found = api::get(call.ctx, &["x", "relation", "followings"], &query).await?;
    let list: Vec<Followed> = field::objects(&found, "/list").into_iter().map(followed).collect();
    let reached = page.saturating_mul(PAGE);
    let total = field::int(&found, "/total").and_then(|total| usize::try_from(total).ok());
    // Without a total from Bilibili, a full page means that there may be more.
    let is_more = total.map_or(list.len() >= PAGE, |total| reached < total);
    Ok(Json(Following {
        total: total.unwrap_or(reached - PAGE + list.len()),
        page,
        next_page: (is_more && !list.is_empty()).then_some(page + 1),
        following_list: list,
    }))
}

fn followed(user: &Value) -> Followed {
    Followed {
        uid: field::int(user, "/mid"),
        name: field::word(user, "/uname"),
        face: picture_at(user, "/face"),
        sign: field::word(user, "/sign"),
        official_verify: field::map(user, "/official_verify"),
        vip: field::map(user, "/vip"),
    }
}

/// Checks the cookies with a request. Never shows them.
pub(super) async fn test(call: ToolCall<'_>, _: NoArgs) -> Result<Text<NoData>, Problem> {
    let me = info(call.ctx).await?;
    let name = field::word(&me, "/name");
    let name = name.unwrap_or_else(|| "an account without name".to_owned());
    Ok(format!("Bilibili works: signed in as {name}.").into())
}

/// Which settings exist, without a request and without their values.
pub(super) fn config(call: ToolCall<'_>, _: NoArgs) -> Ready<Result<Text<NoData>, Problem>> {
    let word = |name: &str| match value(call.ctx, &SERVICE, name) {
        Some(_) => "set",
        None => "not set",
    };
    let text = format!(
        "SESSDATA: {}. bili_jct: {}. buvid3: {} (optional). `tollgate connect bilibili` sets them. Search and the videos of others are not offered: Bilibili wants them signed.",
        word("SESSDATA"),
        word("bili_jct"),
        word("buvid3")
    );
    ready(Ok(text.into()))
}
