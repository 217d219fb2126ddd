//! Requests to Steam. The owner's key is part of the URL, so no error or log may show a URL.

use hyper::Method;
use serde_json::Value;

use super::{NAME, SERVICE};
use crate::ConnectorContext;
use crate::fetch::{self, ApiRequest, WaitPolicy};
use crate::http::Reply;
use crate::personal::{Code, Problem, field, from_fetch, json_of, value};

/// Steam's limit of summaries per request.
const SUMMARIES_MAX: usize = 100;
const SUMMARIES: [&str; 3] = ["ISteamUser", "GetPlayerSummaries", "v0002"];
const DETAILS: &str = "Game details";

async fn get(
    ctx: &ConnectorContext,
    path: [&str; 3],
    query: &[(&str, &str)],
) -> Result<Value, Problem> {
    let Some(key) = value(ctx, &SERVICE, "api_key") else { return Err(no_key()) };
    let [interface, method, version] = path;
    let segments = [interface, method, version, ""];
    let question = ApiRequest { method: &Method::GET, segments: &segments, query, json: None };
    let request = fetch::request(ctx, &SERVICE, question);
    let request = request.map_err(|error| from_fetch(&SERVICE, &error))?;
    let request = request.query("format", "json").query("key", key.expose());
    json_of(&SERVICE, fetch::send(ctx, &SERVICE, request, WaitPolicy::SOON).await, refusal)
}

fn refusal(reply: &Reply, _: &Value) -> Option<Problem> {
    let is_refused = matches!(reply.status, 401 | 403);
    let problem = is_refused.then(|| {
        Problem::new(
            Code::AuthExpired,
            NAME,
            "Steam does not accept the Web API key",
            "make a new key at https://steamcommunity.com/dev/apikey and run `tollgate connect steam`",
        )
    });
    problem.map(|problem| problem.status(reply.status))
}

/// The same for data that may be private. Steam refuses a private profile and a bad key with the
/// same status; summaries are public, so a request for one shows which it was.
async fn get_private(
    ctx: &ConnectorContext,
    path: [&str; 3],
    query: &[(&str, &str)],
    setting: &str,
) -> Result<Value, Problem> {
    let refused = match get(ctx, path, query).await {
        Err(problem) if problem.code == Code::AuthExpired => problem,
        answer => return answer,
    };
    let someone = query.iter().find(|(name, _)| *name == "steamid").map_or("", |(_, id)| *id);
    get(ctx, SUMMARIES, &[("steamids", someone)]).await.map_err(|problem| match problem.code {
        Code::AuthExpired => refused.clone(),
        _ => problem,
    })?;
    let hint = format!("`{setting}` must be public under Privacy Settings in Steam");
    let problem = private("this part of the profile is not public", &hint);
    Err(Problem { upstream_status: refused.upstream_status, ..problem })
}

fn no_key() -> Problem {
    Problem::new(
        Code::NotConfigured,
        NAME,
        "Steam is not connected: there is no Web API key",
        "run `tollgate connect steam` in a terminal, or set `STEAM_API_KEY` and `STEAM_USER_ID`",
    )
}

pub(super) fn private(message: &str, hint: &str) -> Problem {
    Problem::new(Code::PrivateProfile, NAME, message, hint)
}

/// The owner's own id.
pub(super) async fn own_id(ctx: &ConnectorContext) -> Result<String, Problem> {
    let Some(given) = value(ctx, &SERVICE, "user_id") else { return Err(no_key()) };
    id_of(ctx, given.expose(), "user_id").await
}

/// The id that an argument names; the owner's if it was left out.
pub(super) async fn whose(
    ctx: &ConnectorContext,
    steamid: Option<&str>,
) -> Result<String, Problem> {
    match steamid {
        Some(given) => id_of(ctx, given, "steamid").await,
        None => own_id(ctx).await,
    }
}

/// The id for an id, a profile URL or the name in one.
pub(super) async fn id_of(
    ctx: &ConnectorContext,
    given: &str,
    name: &str,
) -> Result<String, Problem> {
    let given = given.trim().trim_end_matches('/');
    let word = given.rsplit('/').next().unwrap_or(given);
    if is_id(word) {
        return Ok(word.to_owned());
    }
    let is_name = |text: &str| {
        (2..=32).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let wrong = || {
        Problem::invalid(
            NAME,
            format!("`{name}` is neither a SteamID64 nor the name in a profile's address"),
            "give the 17 digits, or the address of the profile",
        )
    };
    if !is_name(word) || word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let path = ["ISteamUser", "ResolveVanityURL", "v0001"];
    let found = get(ctx, path, &[("vanityurl", word)]).await?;
    let id = field::word(&found, "/response/steamid").filter(|id| is_id(id));
    id.ok_or_else(|| {
        Problem::new(
            Code::NotFound,
            NAME,
            "no profile has that name in its address",
            "check the name, or give the SteamID64",
        )
    })
}

fn is_id(text: &str) -> bool {
    text.len() == 17 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// All games of a player; a private library is empty.
pub(super) async fn owned(ctx: &ConnectorContext, id: &str) -> Result<Vec<Value>, Problem> {
    let query = [("steamid", id), ("include_appinfo", "1"), ("include_played_free_games", "1")];
    let path = ["IPlayerService", "GetOwnedGames", "v0001"];
    let body = get_private(ctx, path, &query, DETAILS).await?;
    is_shown(&body, "the library is empty or private")?;
    Ok(list(&body, "/response/games"))
}

/// The games of the last two weeks.
pub(super) async fn recent(ctx: &ConnectorContext, id: &str) -> Result<Vec<Value>, Problem> {
    let path = ["IPlayerService", "GetRecentlyPlayedGames", "v0001"];
    let body = get_private(ctx, path, &[("steamid", id)], DETAILS).await?;
    is_shown(&body, "the play history is private")?;
    Ok(list(&body, "/response/games"))
}

/// For private data Steam returns an empty object, without even a count.
fn is_shown(body: &Value, message: &str) -> Result<(), Problem> {
    let Some(response) = body.get("response").and_then(Value::as_object) else {
        return Err(unreadable());
    };
    if !response.is_empty() {
        return Ok(());
    }
    Err(private(message, "`Game details` must be public under Privacy Settings in Steam"))
}

fn unreadable() -> Problem {
    Problem::new(
        Code::UpstreamError,
        NAME,
        "could not read Steam's response",
        "call again in a minute",
    )
}

pub(super) async fn friends(ctx: &ConnectorContext, id: &str) -> Result<Vec<Value>, Problem> {
    let path = ["ISteamUser", "GetFriendList", "v0001"];
    let query = [("steamid", id), ("relationship", "friend")];
    let body = get_private(ctx, path, &query, "Friends list").await?;
    if body.get("friendslist").is_none_or(|list| !list.is_object()) {
        return Err(private(
            "the list of friends is private",
            "`Friends list` must be public under Privacy Settings in Steam",
        ));
    }
    let mut friends = list(&body, "/friendslist/friends");
    friends.retain(|friend| field::word(friend, "/steamid").is_some());
    Ok(friends)
}

/// The summaries of any number of players, in the given order; unknown ids are left out.
pub(super) async fn players(ctx: &ConnectorContext, ids: &[String]) -> Result<Vec<Value>, Problem> {
    let mut found = Vec::new();
    for some in ids.chunks(SUMMARIES_MAX) {
        let body = get(ctx, SUMMARIES, &[("steamids", &some.join(","))]).await?;
        found.append(&mut list(&body, "/response/players"));
    }
    let position = |player: &Value| {
        let id = field::word(player, "/steamid").unwrap_or_default();
        ids.iter().position(|one| *one == id)
    };
    found.sort_by_key(position);
    Ok(found)
}

pub(super) async fn figures(
    ctx: &ConnectorContext,
    method: &str,
    version: &str,
    app_id: i64,
) -> Result<Value, Problem> {
    let id = own_id(ctx).await?;
    let app = app_id.to_string();
    let path = ["ISteamUserStats", method, version];
    let query = [("steamid", id.as_str()), ("appid", app.as_str())];
    let answer = get_private(ctx, path, &query, DETAILS).await;
    let body = answer.map_err(|problem| match problem.upstream_status {
        // Steam returns 400 for a game without statistics and for an unknown game.
        Some(400) => no_figures().status(400),
        _ => problem,
    })?;
    let found = body.get("playerstats").cloned().unwrap_or_default();
    // Some games are refused with status 200.
    match field::word(&found, "/error") {
        Some(message) if message.contains("not public") => Err(private(
            "this part of the profile is not public",
            "`Game details` must be public under Privacy Settings in Steam",
        )),
        Some(_) => Err(no_figures()),
        None => Ok(found),
    }
}

pub(super) fn no_figures() -> Problem {
    Problem::new(
        Code::NotFound,
        NAME,
        "this game has no such statistics",
        "get_steam_library lists the games; not every game has statistics",
    )
}

fn list(body: &Value, pointer: &str) -> Vec<Value> {
    field::objects(body, pointer).into_iter().cloned().collect()
}
