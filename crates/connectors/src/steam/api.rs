//! Asks Steam with the owner's key, which goes along in the address and never comes back out of it.

use hyper::Method;
use serde_json::Value;

use super::{NAME, SERVICE};
use crate::Desk;
use crate::fetch::{self, Patience, Question};
use crate::http::Reply;
use crate::personal::{Code, Given, Problem, from_fetch, json_of, value};

/// Summaries are given for so many at once.
const SUMMARIES_MAX: usize = 100;

async fn get(desk: &Desk, path: [&str; 3], query: &[(&str, &str)]) -> Result<Value, Problem> {
    let Some(key) = value(desk, &SERVICE, "api_key") else { return Err(no_key()) };
    let [interface, method, version] = path;
    let segments = [interface, method, version, ""];
    let question = Question { method: &Method::GET, segments: &segments, query, json: None };
    let request = fetch::request(desk, &SERVICE, question);
    let request = request.map_err(|error| from_fetch(&SERVICE, &error))?;
    let request = request.query("format", "json").query("key", key.expose());
    json_of(&SERVICE, fetch::send(desk, &SERVICE, request, Patience::BRIEF).await, refusal)
}

/// A refusal of the key is a web page; one of the profile is JSON.
fn refusal(reply: &Reply, body: &Value) -> Option<Problem> {
    let problem = match (reply.status, body) {
        (401 | 403, Value::Object(_)) => private(
            "this part of the profile is not public",
            "its owner can change that under Privacy Settings in Steam",
        ),
        (401 | 403, _) => Problem::new(
            Code::AuthExpired,
            NAME,
            "Steam does not accept the Web API key",
            "make a new key at https://steamcommunity.com/dev/apikey and run `tollgate connect steam`",
        ),
        _ => return None,
    };
    Some(problem.status(reply.status))
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
    let id = found.pointer("/response/steamid").and_then(Value::as_str).filter(|id| is_id(id));
    id.map(str::to_owned).ok_or_else(|| {
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
    let mut body = get(desk, path, &query).await?;
    if body.pointer("/response/game_count").is_none() && body.pointer("/response/games").is_none() {
        return Err(private(
            "the library is empty or private",
            "`Game details` must be public under Privacy Settings in Steam",
        ));
    }
    Ok(list(&mut body, "/response/games"))
}

/// What was played in two weeks. Nothing for a private profile and for one that did not play.
pub(super) async fn recent(desk: &Desk, id: &str) -> Result<Vec<Value>, Problem> {
    let path = ["IPlayerService", "GetRecentlyPlayedGames", "v0001"];
    let mut body = get(desk, path, &[("steamid", id)]).await?;
    Ok(list(&mut body, "/response/games"))
}

pub(super) async fn friends(desk: &Desk, id: &str) -> Result<Vec<Value>, Problem> {
    let path = ["ISteamUser", "GetFriendList", "v0001"];
    let mut body = get(desk, path, &[("steamid", id), ("relationship", "friend")]).await.map_err(
        |problem| match problem.code {
            Code::PrivateProfile => {
                let hint = "`Friends list` must be public under Privacy Settings in Steam";
                Problem { hint: hint.to_owned(), ..problem }
            }
            _ => problem,
        },
    )?;
    Ok(list(&mut body, "/friendslist/friends"))
}

/// The summaries of any number of people, in the order asked for; unknown ids are left out.
pub(super) async fn players(desk: &Desk, ids: &[String]) -> Result<Vec<Value>, Problem> {
    let mut found = Vec::new();
    for some in ids.chunks(SUMMARIES_MAX) {
        let path = ["ISteamUser", "GetPlayerSummaries", "v0002"];
        let mut body = get(desk, path, &[("steamids", &some.join(","))]).await?;
        found.append(&mut list(&mut body, "/response/players"));
    }
    let place = |player: &Value| {
        let id = player.get("steamid").and_then(Value::as_str).unwrap_or_default();
        ids.iter().position(|one| one == id)
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
    let answer = get(desk, path, &[("steamid", &id), ("appid", &app)]).await;
    let mut body = answer.map_err(|problem| match problem.upstream_status {
        // Steam says 400 of a game without figures, and of one it does not know.
        Some(400) => Problem { code: Code::NotFound, ..no_figures() }.status(400),
        Some(403) if problem.code == Code::PrivateProfile => Problem {
            hint: "`Game details` must be public under Privacy Settings in Steam".to_owned(),
            ..problem
        },
        _ => problem,
    })?;
    Ok(body.pointer_mut("/playerstats").map(Value::take).unwrap_or_default())
}

pub(super) fn no_figures() -> Problem {
    Problem::new(
        Code::NotFound,
        NAME,
        "there are no such figures for this game",
        "get_steam_library shows the games there are; not every game keeps figures",
    )
}

fn list(body: &mut Value, pointer: &str) -> Vec<Value> {
    match body.pointer_mut(pointer).map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}
