//! The endpoints about people, videos, folders and the list of things to watch.

use serde_json::{Value, json};

use super::{COOKIE, Settings, good, refusal, risk, world};
use crate::http::Reply;
use crate::routes::Call;

pub(super) type Calling<'a> = Call<'a, Settings>;

/// Of the followings of others only so many pages are shown.
const OTHERS_PAGES_MAX: usize = 5;

pub(super) fn is_signed_in(call: &Calling<'_>) -> bool {
    call.scopes.iter().any(|scope| scope == COOKIE)
}

/// Page number and size; a size that is none or too large is -400.
pub(super) fn page(call: &Calling<'_>, size: usize, most: usize) -> Result<(usize, usize), Reply> {
    let wrong = |_| refusal(-400, "请求错误");
    let number = call.number("pn", 1, 1..=1_000_000).map_err(wrong)?;
    Ok((number, call.number("ps", size, 1..=most).map_err(wrong)?))
}

pub(super) fn slice(list: &[Value], number: usize, size: usize) -> Vec<Value> {
    list.iter().skip((number - 1).saturating_mul(size)).take(size).cloned().collect()
}

pub(super) fn my_info(call: &mut Calling<'_>) -> Reply {
    good(&world::owner(call.room.seed, call.inner.shelves.all("following").len()))
}

pub(super) fn nav(call: &mut Calling<'_>) -> Reply {
    if !is_signed_in(call) {
        let body = json!({ "code": -101, "message": "账号未登录", "ttl": 1, "data": { "isLogin": false } });
        return Reply::json(200, &body);
    }
    let me = world::owner(call.room.seed, 0);
    good(&json!({
        "isLogin": true,
        "mid": me.get("mid"),
        "uname": me.get("name"),
        "face": me.get("face"),
        "money": me.get("coins"),
        "level_info": me.get("level_exp"),
    }))
}

pub(super) fn stat(call: &mut Calling<'_>) -> Reply {
    let Some(mid) = whose(call, "vmid") else { return refusal(-400, "请求错误") };
    if mid == world::owner_mid(call.room.seed) {
        let following = call.inner.shelves.all("following").len();
        return good(
            &json!({ "mid": mid, "following": following, "whisper": 0, "black": 0, "follower": 321 }),
        );
    }
    match world::up_number(call.room.seed, mid) {
        Some(number) => good(&json!({
            "mid": mid, "following": 40 + number, "whisper": 0, "black": 0, "follower": 1_000 + number * 777,
        })),
        None => {
            good(&json!({ "mid": mid, "following": 0, "whisper": 0, "black": 0, "follower": 0 }))
        }
    }
}

fn whose(call: &Calling<'_>, name: &str) -> Option<i64> {
    call.asked.value(name)?.parse().ok().filter(|mid| *mid > 0)
}

pub(super) fn followings(call: &mut Calling<'_>) -> Reply {
    let Some(mid) = whose(call, "vmid") else { return refusal(-400, "请求错误") };
    let (number, size) = match page(call, 50, 50) {
        Ok(page) => page,
        Err(refused) => return refused,
    };
    let newest_first: Vec<Value> =
        call.inner.shelves.all("following").iter().rev().cloned().collect();
    if mid == world::owner_mid(call.room.seed) {
        let total = newest_first.len();
        return good(
            &json!({ "list": slice(&newest_first, number, size), "re_version": 0, "total": total }),
        );
    }
    match world::up_number(call.room.seed, mid) {
        None => refusal(-404, "啥都木有"),
        Some(up) if up % 5 == 0 => refusal(22_115, "用户已设置隐私，无法查看"),
        Some(_) if number > OTHERS_PAGES_MAX => refusal(22_007, "限制只访问前5页"),
        Some(_) => {
            let total = newest_first.len();
            good(
                &json!({ "list": slice(&newest_first, number, size), "re_version": 0, "total": total }),
            )
        }
    }
}

pub(super) fn view(call: &mut Calling<'_>) -> Reply {
    let all = call.inner.shelves.all("video");
    let found =
        match (call.asked.value("bvid").filter(|id| !id.is_empty()), call.asked.value("aid")) {
            (Some(bvid), _) => all.iter().find(|video| video.get("bvid") == Some(&json!(bvid))),
            (None, Some(aid)) => {
                let aid = aid.parse::<i64>().unwrap_or(0);
                all.iter().find(|video| video.get("aid") == Some(&json!(aid)))
            }
            (None, None) => return refusal(-400, "请求错误"),
        };
    match found {
        // Some are only for those who made them.
        Some(video) if video.get("state") == Some(&json!(-4)) => refusal(62_002, "稿件不可见"),
        Some(video) => good(video),
        None => refusal(-404, "啥都木有"),
    }
}

/// The folders of somebody: all of one's own, of others none here.
pub(super) fn folders(call: &mut Calling<'_>) -> Reply {
    let Some(mid) = whose(call, "up_mid") else { return refusal(-400, "请求错误") };
    if mid != world::owner_mid(call.room.seed) {
        return good(&Value::Null);
    }
    let signed_in = is_signed_in(call);
    let shown = |folder: &&Value| signed_in || !is_private(folder);
    let folders: Vec<Value> =
        call.inner.shelves.all("folder").iter().filter(shown).map(brief).collect();
    good(&json!({ "count": folders.len(), "list": folders, "season": null }))
}

fn is_private(folder: &Value) -> bool {
    folder.get("attr").and_then(Value::as_i64).unwrap_or(0) % 2 == 1
}

/// What the list says of a folder.
fn brief(folder: &Value) -> Value {
    let names = ["id", "fid", "mid", "attr", "title", "fav_state", "media_count"];
    Value::Object(
        names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), folder.get(*name)?.clone())))
            .collect(),
    )
}

/// What lies in one folder.
pub(super) fn favourites(call: &mut Calling<'_>) -> Reply {
    let Some(id) = whose(call, "media_id") else { return refusal(-400, "请求错误") };
    let (number, size) = match page(call, 20, 20) {
        Ok(page) => page,
        Err(refused) => return refused,
    };
    let Some(folder) = call.inner.shelves.one("folder", &id.to_string()) else {
        return refusal(-404, "啥都木有");
    };
    if is_private(folder) && !is_signed_in(call) {
        return refusal(-403, "访问权限不足");
    }
    let of_folder = |item: &&Value| item.get("folder") == Some(&json!(id));
    let items = call.inner.shelves.all("favourite").iter().rev().filter(of_folder);
    let items: Vec<Value> = items.filter_map(|item| item.get("media").cloned()).collect();
    let more = number.saturating_mul(size) < items.len();
    good(
        &json!({ "info": folder, "medias": slice(&items, number, size), "has_more": more, "ttl": 0 }),
    )
}

pub(super) fn to_view(call: &mut Calling<'_>) -> Reply {
    let list: Vec<Value> = call.inner.shelves.all("toview").iter().rev().cloned().collect();
    good(&json!({ "count": list.len(), "list": list }))
}

/// Paths that were left behind when signatures came.
pub(super) fn retired(_call: &mut Calling<'_>) -> Reply {
    refusal(-403, "访问权限不足")
}

/// Paths that want a signature.
pub(super) fn unsigned(_call: &mut Calling<'_>) -> Reply {
    risk(-352)
}
