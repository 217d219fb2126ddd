//! The endpoints about the account itself: who it is, karma, trophies, preferences.

use serde_json::{Value, json};

use super::{RedditSettings, generate, problem};
use crate::http::Response;
use crate::routes::Call;

type RedditCall<'a> = Call<'a, RedditSettings>;

pub(super) fn me(call: &mut RedditCall<'_>) -> Response {
    Response::json(200, &profile(call))
}

pub(super) fn about(call: &mut RedditCall<'_>) -> Response {
    if call.id().eq_ignore_ascii_case(&generate::name(call.sim.seed)) {
        return Response::json(200, &json!({ "kind": "t2", "data": profile(call) }));
    }
    if generate::OTHERS.contains(&call.id()) {
        let data = json!({ "name": call.id(), "link_karma": 1_204, "comment_karma": 9_311, "created_utc": 1_400_000_000.0 });
        return Response::json(200, &json!({ "kind": "t2", "data": data }));
    }
    problem(404, "Not Found")
}

fn profile(call: &RedditCall<'_>) -> Value {
    let karma = call.state.records.all("karma");
    let sum = |name: &str| karma.iter().filter_map(|of| of.get(name)?.as_i64()).sum::<i64>();
    let (link, comment) = (sum("link_karma"), sum("comment_karma"));
    let unread = call.state.records.all("inbox").iter().filter(|one| generate::is_new(one)).count();
    json!({
        "id": "sb2x1",
        "name": generate::name(call.sim.seed),
        "created_utc": 1_388_534_400.0,
        "link_karma": link,
        "comment_karma": comment,
        "total_karma": link + comment + 190,
        "awardee_karma": 120,
        "awarder_karma": 70,
        "has_verified_email": true,
        "has_mail": unread > 0,
        "inbox_count": unread,
        "is_gold": false,
        "is_mod": !call.state.records.all("moderated").is_empty(),
        "is_employee": false,
        "is_suspended": false,
        "over_18": false,
        "icon_img": "https://www.redditstatic.com/avatars/avatar_default_02.png",
        "num_friends": 3,
        "pref_nightmode": true,
        "features": { "chat": true },
        "subreddit": { "display_name_prefixed": format!("u/{}", generate::name(call.sim.seed)), "subscribers": 4 },
    })
}

pub(super) fn karma(call: &mut RedditCall<'_>) -> Response {
    let data = call.state.records.all("karma");
    Response::json(200, &json!({ "kind": "KarmaList", "data": data }))
}

pub(super) fn trophies(call: &mut RedditCall<'_>) -> Response {
    let trophies = call.state.records.all("trophy");
    Response::json(200, &json!({ "kind": "TrophyList", "data": { "trophies": trophies } }))
}

pub(super) fn prefs(_call: &mut RedditCall<'_>) -> Response {
    Response::json(
        200,
        &json!({
            "lang": "en-us",
            "nightmode": true,
            "over_18": false,
            "search_include_over_18": false,
            "email_messages": false,
            "email_digests": true,
            "default_comment_sort": "confidence",
            "numsites": 25,
            "num_comments": 200,
            "threaded_messages": true,
            "hide_downs": false,
            "public_votes": false,
            "show_presence": true,
            "accept_pms": "everyone",
            "country_code": "DE",
            "min_link_score": -4,
        }),
    )
}
