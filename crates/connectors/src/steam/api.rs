//! Asks Steam with the owner's key, which goes along in the address and never comes back out of it.

use hyper::Method;
use serde_json::Value;

use super::{NAME, SERVICE};
use crate::Desk;
use crate::fetch::{self, Patience, Question};
use crate::http::Reply;
use crate::personal::{Code, Given, Problem, field, from_fetch, json_of, value};

/// Summaries are given for so many at once.
const SUMMARIES_MAX: usize = 100;
const SUMMARIES: [&str; 3] = ["ISteamUser", "GetPlayerSummaries", "v0002"];
const DETAILS: &str = "Game details";

async fn get(desk: &Desk, path: [&str; 3], query: &[(&str, &str)]) -> Result<Value, Problem> {
    let Some(key) = value(desk, &SERVICE, "api_key") else { return Err(no_key()) };
    let [interface, method, version] = path;
    let segments = [interface, method, version, ""];
    let question = Question { method: &Method::GET, segments: &segments, query, json: None };
    let request = fetch::request(desk, &SERVICE, question);
    let request = request.map_err(|error| from_fetch(&SERVICE, &error))?;
    let request = request.query("format", "json").query("key", key.expose());
    json_of(&SERVICE, fetch::send(desk, &SERVICE, request, Patience::SOON).await, refusal)
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

/// The same for what people can keep private. Steam refuses a private profile and a bad key with the
/// same status; summaries are public, so asking for one tells which it was.
async fn get_private(
    desk: &Desk,
    path: [&str; 3],
    query: &[(&str, &str)],
    setting: &str,
) -> Result<Value, Problem> {
    let refused = match get(desk, path, query).await {
        Err(problem) if problem.code == Code::AuthExpired => problem,
        answer => return answer,
    };
    let someone = query.iter().find(|(name, _)| *name == "steamid").map_or("", |(_, id)| *id);
    get(desk, SUMMARIES, &[("steamids", someone)]).await.map_err(|problem| match problem.code {
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
pub(super) async fn own_id(desk: &Desk) -> Result<String, Problem> {
    let Some(said) = value(desk, &SERVICE, "user_id") else { return Err(no_key()) };
    id_of(desk, said.expose(), "user_id").await
}

/// Whose profile an argument means; the owner's where it was left out.
pub(super) async fn whose(desk: &Desk, given: &Given<'_>, name: &str) -> Result<String, Problem> {
    match given.text(name)? {
        Some(said) => id_of(desk, said, name).await,
        None => own_id(desk).await,
    }
}

/// The id of whom people name by id, by address or by the name in their address.
pub(super) async fn id_of(desk: &Desk, said: &str, name: &str) -> Result<String, Problem> {
    let said = said.trim().trim_end_matches('/');
    let word = said.rsplit('/').next().unwrap_or(said);
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
    let found = get(desk, path, &[("vanityurl", word)]).await?;
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

/// All games somebody has; a private library is empty of everything.
pub(super) async fn owned(desk: &Desk, id: &str) -> Result<Vec<Value>, Problem> {
    let query = [("steamid", id), ("include_appinfo", "1"), ("include_played_free_games", "1")];
    let path = ["IPlayerService", "GetOwnedGames", "v0001"];
    let body = get_private(desk, path, &query, DETAILS).await?;
    is_shown(&body, "the library is empty or private")?;
    Ok(list(&body, "/response/games"))
}

/// What was played in two weeks.
pub(super) async fn recent(desk: &Desk, id: &str) -> Result<Vec<Value>, Problem> {
    let path = ["IPlayerService", "GetRecentlyPlayedGames", "v0001"];
    let body = get_private(desk, path, &[("steamid", id)], DETAILS).await?;
    is_shown(&body, "what was played is private")?;
    Ok(list(&body, "/response/games"))
}

/// Of what is private Steam says nothing at all, not even that there are none.
fn is_shown(body: &Value, words: &str) -> Result<(), Problem> {
    let Some(response) = body.get("response").and_then(Value::as_object) else {
        return Err(unreadable());
    };
    if !response.is_empty() {
        return Ok(());
    }
    Err(private(words, "`Game details` must be public under Privacy Settings in Steam"))
}

fn unreadable() -> Problem {
    Problem::new(
        Code::UpstreamError,
        NAME,
        "Steam answered with something that cannot be read",
        "call again in a minute",
    )
}

pub(super) async fn friends(desk: &Desk, id: &str) -> Result<Vec<Value>, Problem> {
    let path = ["ISteamUser", "GetFriendList", "v0001"];
    let query = [("steamid", id), ("relationship", "friend")];
    let body = get_private(desk, path, &query, "Friends list").await?;
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

/// The summaries of any number of people, in the order asked for; unknown ids are left out.
pub(super) async fn players(desk: &Desk, ids: &[String]) -> Result<Vec<Value>, Problem> {
    let mut found = Vec::new();
    for some in ids.chunks(SUMMARIES_MAX) {
        let body = get(desk, SUMMARIES, &[("steamids", &some.join(","))]).await?;
        found.append(&mut list(&body, "/response/players"));
    }
    let place = |player: &Value| {
        let id = field::word(player, "/steamid").unwrap_or_default();
        ids.iter().position(|one| *one == id)
    };
    found.sort_by_key(place);
    Ok(found)
}

pub(super) async fn figures(
    desk: &Desk,
    method: &str,
    version: &str,
    app_id: i64,
) -> Result<Value, Problem> {
    let id = own_id(desk).await?;
    let app = app_id.to_string();
    let path = ["ISteamUserStats", method, version];
    let query = [("steamid", id.as_str()), ("appid", app.as_str())];
    let answer = get_private(desk, path, &query, DETAILS).await;
    let body = answer.map_err(|problem| match problem.upstream_status {
        // Steam says 400 of a game without figures, and of one it does not know.
        Some(400) => no_figures().status(400),
        _ => problem,
    })?;
    let found = body.get("playerstats").cloned().unwrap_or_default();
    // Some games are refused in a sound answer.
    match field::word(&found, "/error") {
        Some(words) if words.contains("not public") => Err(private(
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
        "there are no such figures for this game",
        "get_steam_library shows the games there are; not every game keeps figures",
    )
}

fn list(body: &Value, pointer: &str) -> Vec<Value> {
    field::objects(body, pointer).into_iter().cloned().collect()
}
