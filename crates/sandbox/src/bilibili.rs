//! Bilibili: the web API with the cookies of a browser, for the owner's own data. What needs a
//! signature is refused, because nothing here signs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Asked, Reply};
use crate::limits::{Limit, or_none};
use crate::oauth::Provider;
use crate::room::{Ask, Room, Stand};
use crate::routes::{Call, Route, find};
use crate::shelves::{Kind, World};

mod api;
mod history;
mod world;

/// How this Bilibili behaves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Empty, the default, means unlimited; beyond them is -799.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    /// Answers everything with this code: -352, -412 or -799.
    pub risk: Option<i64>,
}

/// Whether an endpoint wants to know who asks.
const COOKIE: &str = "cookie";

const fn get(
    path: &'static str,
    needs: &'static str,
    run: fn(&mut Call<'_, Settings>) -> Reply,
) -> Route<Settings> {
    Route { method: "GET", path, needs, run }
}

const ROUTES: &[Route<Settings>] = &[
    get("/x/space/myinfo", COOKIE, api::my_info),
    get("/x/web-interface/nav", "", api::nav),
    get("/x/relation/stat", "", api::stat),
    get("/x/relation/followings", COOKIE, api::followings),
    get("/x/web-interface/view", "", api::view),
    get("/x/v3/fav/folder/created/list-all", "", api::folders),
    get("/x/v3/fav/resource/list", "", api::favourites),
    get("/x/v2/history/toview", COOKIE, api::to_view),
    get("/x/v2/history", COOKIE, history::pages),
    get("/x/web-interface/history/cursor", COOKIE, history::cursor),
    get("/x/space/acc/info", "", api::retired),
    get("/x/space/arc/search", "", api::retired),
    get("/x/web-interface/search/type", "", api::retired),
    get("/x/space/wbi/acc/info", "", api::unsigned),
    get("/x/space/wbi/arc/search", "", api::unsigned),
    get("/x/web-interface/wbi/search/type", "", api::unsigned),
];

impl Stand for Settings {
    type Books = ();

    const NAME: &'static str = "bilibili";
    const KINDS: &'static [Kind] = world::KINDS;
    const HOSTS: &'static [(&'static str, &'static str)] = &[("api.bilibili.com", "")];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn provider(_seed: u64, _url: &str) -> Option<Provider> {
        None
    }

    fn values(room: &Room<Settings>) -> Value {
        json!({
            "BILIBILI_SESSDATA": session(room),
            "BILIBILI_BILI_JCT": room.secret("bili_jct", 32).to_lowercase(),
            "BILIBILI_BUVID3": format!("{}infoc", room.secret("buvid3", 35).to_uppercase()),
        })
    }

    fn world(&self, ask: Ask) -> World {
        world::world(ask)
    }

    fn answer(room: &Room<Settings>, asked: &Asked, now_us: i64) -> Reply {
        let Some((route, ids)) = find(ROUTES, asked) else {
            return Reply::json(404, &json!({ "code": -404, "message": "啥都木有", "ttl": 1 }));
        };
        if room.take(now_us).is_some_and(|standing| standing.exceeded) {
            return risk(-799);
        }
        let mut inner = room.open(now_us);
        if let Some(code) = inner.settings.risk {
            return risk(code);
        }
        let said = cookie(asked, "SESSDATA").unwrap_or_default();
        let known = said.replace(',', "%2C") == session(room);
        // What a caller is allowed hangs on one thing alone.
        let scopes: Vec<String> = known.then(|| COOKIE.to_owned()).into_iter().collect();
        if !route.allows(&scopes) {
            return refusal(-101, "账号未登录");
        }
        let mut call = Call { room, inner: &mut inner, asked, ids, scopes: &scopes, now_us };
        (route.run)(&mut call)
    }

    fn problem(_asked: &Asked, status: u16, words: &str) -> Reply {
        let code = -i64::from(status);
        Reply::json(status, &json!({ "code": code, "message": words, "ttl": 1 }))
    }

    fn repeat(asked: &Asked, body: &mut Value) {
        let cursor = body.pointer_mut("/data/cursor").and_then(Value::as_object_mut);
        let Some(cursor) = cursor else { return };
        for name in ["max", "view_at"] {
            if let Some(number) = asked.value(name).and_then(|text| text.parse::<i64>().ok()) {
                cursor.insert(name.to_owned(), json!(number));
            }
        }
    }
}

/// As browsers keep it: commas are escaped in it.
fn session(room: &Room<Settings>) -> String {
    let (first, last) = (room.secret("sessdata", 8), room.secret("sessdata end", 5));
    format!("{}%2C1810000000%2C{}*b1", first.to_lowercase(), last.to_lowercase())
}

fn cookie<'a>(asked: &'a Asked, name: &str) -> Option<&'a str> {
    let pairs = asked.header("cookie")?.split(';');
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn good(data: &Value) -> Reply {
    Reply::json(200, &json!({ "code": 0, "message": "0", "ttl": 1, "data": data }))
}

/// A failure is a code in a sound answer.
fn refusal(code: i64, words: &str) -> Reply {
    Reply::json(200, &json!({ "code": code, "message": words, "ttl": 1 }))
}

/// What is said to those who ask too much or look like machines.
fn risk(code: i64) -> Reply {
    match code {
        -412 => {
            Reply::json(412, &json!({ "code": -412, "message": "request was banned", "ttl": 1 }))
        }
        -352 => Reply::json(
            200,
            &json!({ "code": -352, "message": "-352", "ttl": 1, "data": { "v_voucher": "voucher_sandbox" } }),
        ),
        -799 => refusal(-799, "请求过于频繁，请稍后再试"),
        other => refusal(other, "错误"),
    }
}
