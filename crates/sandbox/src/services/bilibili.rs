//! Bilibili: the web API with the cookies of a browser, for the owner's own data. Endpoints that need a
//! signature are refused.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Request, Response};
use crate::limits::{Limit, or_none};
use crate::oauth::Provider;
use crate::record_store::{GeneratedRecords, RecordKind};
use crate::routes::{Call, Route, find};
use crate::simulation::{GenerateParams, ServiceSpec, Simulation};

mod api;
mod generate;
mod history;

/// How this Bilibili behaves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BilibiliSettings {
    /// Empty, the default, means unlimited; beyond a limit the code is -799.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    /// Answers everything with this code: -352, -412 or -799.
    pub risk: Option<i64>,
}

/// The endpoint needs the cookies of a signed-in user.
const COOKIE: &str = "cookie";

const fn get(
    path: &'static str,
    needs: &'static str,
    run: fn(&mut Call<'_, BilibiliSettings>) -> Response,
) -> Route<BilibiliSettings> {
    Route { method: "GET", path, needs, run }
}

const ROUTES: &[Route<BilibiliSettings>] = &[
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

impl ServiceSpec for BilibiliSettings {
    type Extra = ();

    const NAME: &'static str = "bilibili";
    const KINDS: &'static [RecordKind] = generate::KINDS;
    const HOSTS: &'static [(&'static str, &'static str)] = &[("api.bilibili.com", "")];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn unlimit(&mut self) {
        self.limits.clear();
    }

    fn provider(_seed: u64, _url: &str) -> Option<Provider> {
        None
    }

    fn values(sim: &Simulation<BilibiliSettings>) -> Value {
        json!({
            "BILIBILI_SESSDATA": session(sim),
            "BILIBILI_BILI_JCT": sim.secret("bili_jct", 32).to_lowercase(),
            "BILIBILI_BUVID3": format!("{}infoc", sim.secret("buvid3", 35).to_uppercase()),
        })
    }

    fn generate(&self, params: GenerateParams) -> GeneratedRecords {
        generate::generate(params)
    }

    fn answer(sim: &Simulation<BilibiliSettings>, request: &Request, now_us: i64) -> Response {
        let Some((route, ids)) = find(ROUTES, request) else {
            return Response::json(404, &json!({ "code": -404, "message": "啥都木有", "ttl": 1 }));
        };
        if sim.take(now_us).is_some_and(|rate_limit| rate_limit.exceeded) {
            return risk(-799);
        }
        let mut state = sim.open(now_us);
        if let Some(code) = state.settings.risk {
            return risk(code);
        }
        let said = cookie(request, "SESSDATA").unwrap_or_default();
        let known = said.replace(',', "%2C") == session(sim);
        // The only permission is whether the caller is signed in.
        let scopes: Vec<String> = known.then(|| COOKIE.to_owned()).into_iter().collect();
        if !route.allows(&scopes) {
            return refusal(-101, "账号未登录");
        }
        let mut call = Call { sim, state: &mut state, request, ids, scopes: &scopes, now_us };
        (route.run)(&mut call)
    }

    fn problem(_request: &Request, status: u16, message: &str) -> Response {
        let code = -i64::from(status);
        Response::json(status, &json!({ "code": code, "message": message, "ttl": 1 }))
    }

    fn repeat_page(request: &Request, body: &mut Value) {
        let cursor = body.pointer_mut("/data/cursor").and_then(Value::as_object_mut);
        let Some(cursor) = cursor else { return };
        for name in ["max", "view_at"] {
            if let Some(number) = request.value(name).and_then(|text| text.parse::<i64>().ok()) {
                cursor.insert(name.to_owned(), json!(number));
            }
        }
    }
}

/// As browsers store it: commas are escaped.
fn session(sim: &Simulation<BilibiliSettings>) -> String {
    let (first, last) = (sim.secret("sessdata", 8), sim.secret("sessdata end", 5));
    format!("{}%2C1810000000%2C{}*b1", first.to_lowercase(), last.to_lowercase())
}

fn cookie<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let pairs = request.header("cookie")?.split(';');
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn good(data: &Value) -> Response {
    Response::json(200, &json!({ "code": 0, "message": "0", "ttl": 1, "data": data }))
}

/// An error is a code in a response with status 200.
fn refusal(code: i64, message: &str) -> Response {
    Response::json(200, &json!({ "code": code, "message": message, "ttl": 1 }))
}

/// The response to clients that send too many requests or look automated.
fn risk(code: i64) -> Response {
    match code {
        -412 => {
            Response::json(412, &json!({ "code": -412, "message": "request was banned", "ttl": 1 }))
        }
        -352 => Response::json(
            200,
            &json!({ "code": -352, "message": "-352", "ttl": 1, "data": { "v_voucher": "voucher_sandbox" } }),
        ),
        -799 => refusal(-799, "请求过于频繁，请稍后再试"),
        other => refusal(other, "错误"),
    }
}
