//! The endpoints about people, videos, folders and the list of things to watch.

use serde_json::{Value, json};

use super::{BilibiliSettings, COOKIE, generate, good, refusal, risk};
use crate::http::Response;
use crate::routes::Call;

pub(super) type BilibiliCall<'a> = Call<'a, BilibiliSettings>;

/// Only this many pages of other users' followings are shown.
const OTHERS_PAGES_MAX: usize = 5;

pub(super) fn is_signed_in(call: &BilibiliCall<'_>) -> bool {
    call.scopes.iter().any(|scope| scope == COOKIE)
}

/// Page number and size; an invalid or too large size is -400.
pub(super) fn page(
    call: &BilibiliCall<'_>,
    size: usize,
    most: usize,
) -> Result<(usize, usize), Response> {
    let wrong = |_| refusal(-400, "请求错误");
    let number = call.number("pn", 1, 1..=1_000_000).map_err(wrong)?;
    Ok((number, call.number("ps", size, 1..=most).map_err(wrong)?))
}

pub(super) fn slice(list: &[Value], number: usize, size: usize) -> Vec<Value> {
    list.iter().skip((number - 1).saturating_mul(size)).take(size).cloned().collect()
}

pub(super) fn my_info(call: &mut BilibiliCall<'_>) -> Response {
    good(&generate::owner(call.sim.seed, call.state.records.all("following").len()))
}

pub(super) fn nav(call: &mut BilibiliCall<'_>) -> Response {
    if !is_signed_in(call) {
        let body = json!({ "code": -101, "message": "账号未登录", "ttl": 1, "data": { "isLogin": false } });
        return Response::json(200, &body);
    }
    let me = generate::owner(call.sim.seed, 0);
    good(&json!({
        "isLogin": true,
        "mid": me.get("mid"),
        "uname": me.get("name"),
        "face": me.get("face"),
        "money": me.get("coins"),
        "level_info": me.get("level_exp"),
    }))
}

pub(super) fn stat(call: &mut BilibiliCall<'_>) -> Response {
    let Some(mid) = whose(call, "vmid") else { return refusal(-400, "请求错误") };
    if mid == generate::owner_mid(call.sim.seed) {
        let following = call.state.records.all("following").len();
        return good(
            &json!({ "mid": mid, "following": following, "whisper": 0, "black": 0, "follower": 321 }),
        );
    }
    match generate::up_number(call.sim.seed, mid) {
        Some(number) => good(&json!({
            "mid": mid, "following": 40 + number, "whisper": 0, "black": 0, "follower": 1_000 + number * 777,
        })),
        None => {
            good(&json!({ "mid": mid, "following": 0, "whisper": 0, "black": 0, "follower": 0 }))
        }
    }
}

fn whose(call: &BilibiliCall<'_>, name: &str) -> Option<i64> {
    call.request.value(name)?.parse().ok().filter(|mid| *mid > 0)
}

pub(super) fn followings(call: &mut BilibiliCall<'_>) -> Response {
    let Some(mid) = whose(call, "vmid") else { return refusal(-400, "请求错误") };
    let (number, size) = match page(call, 50, 50) {
        Ok(page) => page,
        Err(refused) => return refused,
    };
    let newest_first: Vec<Value> =
        call.state.records.all("following").iter().rev().cloned().collect();
    if mid == generate::owner_mid(call.sim.seed) {
        let total = newest_first.len();
        return good(
            &json!({ "list": slice(&newest_first, number, size), "re_version": 0, "total": total }),
        );
    }
    match generate::up_number(call.sim.seed, mid) {
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

pub(super) fn view(call: &mut BilibiliCall<'_>) -> Response {
    let all = call.state.records.all("video");
    let found =
        match (call.request.value("bvid").filter(|id| !id.is_empty()), call.request.value("aid")) {
            (Some(bvid), _) => all.iter().find(|video| video.get("bvid") == Some(&json!(bvid))),
            (None, Some(aid)) => {
                let aid = aid.parse::<i64>().unwrap_or(0);
                all.iter().find(|video| video.get("aid") == Some(&json!(aid)))
            }
            (None, None) => return refusal(-400, "请求错误"),
        };
    match found {
        // Some are visible to their uploader only.
        Some(video) if video.get("state") == Some(&json!(-4)) => refusal(62_002, "稿件不可见"),
        Some(video) => good(video),
        None => refusal(-404, "啥都木有"),
    }
}

/// The folders of a user: all of the owner's, none of others.
pub(super) fn folders(call: &mut BilibiliCall<'_>) -> Response {
    let Some(mid) = whose(call, "up_mid") else { return refusal(-400, "请求错误") };
    if mid != generate::owner_mid(call.sim.seed) {
        return good(&Value::Null);
    }
    let signed_in = is_signed_in(call);
    let shown = |folder: &&Value| signed_in || !is_private(folder);
    let folders: Vec<Value> =
        call.state.records.all("folder").iter().filter(shown).map(brief).collect();
    good(&json!({ "count": folders.len(), "list": folders, "season": null }))
}

fn is_private(folder: &Value) -> bool {
    folder.get("attr").and_then(Value::as_i64).unwrap_or(0) % 2 == 1
}

/// The summary of a folder in a list.
fn brief(folder: &Value) -> Value {
    let names = ["id", "fid", "mid", "attr", "title", "fav_state", "media_count"];
    Value::Object(
        names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), folder.get(*name)?.clone())))
            .collect(),
    )
}

/// The content of one folder.
pub(super) fn favourites(call: &mut BilibiliCall<'_>) -> Response {
    let Some(id) = whose(call, "media_id") else { return refusal(-400, "请求错误") };
    let (number, size) = match page(call, 20, 20) {
        Ok(page) => page,
        Err(refused) => return refused,
    };
    let Some(folder) = call.state.records.get("folder", &id.to_string()) else {
        return refusal(-404, "啥都木有");
    };
    if is_private(folder) && !is_signed_in(call) {
        return refusal(-403, "访问权限不足");
    }
    let of_folder = |item: &&Value| item.get("folder") == Some(&json!(id));
    let items = call.state.records.all("favourite").iter().rev().filter(of_folder);
    let items: Vec<Value> = items.filter_map(|item| item.get("media").cloned()).collect();
    let more = number.saturating_mul(size) < items.len();
    good(
        &json!({ "info": folder, "medias": slice(&items, number, size), "has_more": more, "ttl": 0 }),
    )
}

pub(super) fn to_view(call: &mut BilibiliCall<'_>) -> Response {
    let list: Vec<Value> = call.state.records.all("toview").iter().rev().cloned().collect();
    good(&json!({ "count": list.len(), "list": list }))
}

/// Paths that were retired when signatures were introduced.
pub(super) fn retired(_call: &mut BilibiliCall<'_>) -> Response {
    refusal(-403, "访问权限不足")
}

/// Paths that need a signature.
pub(super) fn unsigned(_call: &mut BilibiliCall<'_>) -> Response {
    risk(-352)
}
