//! Following and unfollowing: through the library, as since 2026, or by the older paths where an
//! application still has them.

use hyper::Method;
use serde_json::json;

use super::api::{self, is_of_path, removed};
use super::{NAME, SERVICE};
use crate::personal::{Code, Given, Outcome, Problem, is_id, is_known, remember};
use crate::{Ask, Desk};

/// So many fit into one request.
const URIS_MAX: usize = 40;
const IDS_MAX: usize = 200;
const OLD_FOLLOWING: &str = "following";
const OLD_FOLLOWERS: &str = "playlist followers";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Follow,
    Unfollow,
}

impl Change {
    fn method(self) -> Method {
        if self == Change::Follow { Method::PUT } else { Method::DELETE }
    }

    fn done(self) -> &'static str {
        if self == Change::Follow { "followed" } else { "unfollowed" }
    }
}

/// An id as people have it: alone, as `spotify:playlist:ID`, or as the address of its page.
pub(super) fn id(given: &Given<'_>, name: &str, kind: &str) -> Result<String, Problem> {
    bare(given.needed(name)?, kind).ok_or_else(|| given.wrong(name, "an id of Spotify's"))
}

fn bare(said: &str, kind: &str) -> Option<String> {
    let said = said.trim();
    let rest = said.strip_prefix(&format!("spotify:{kind}:")).or_else(|| {
        let page = said.strip_prefix("https://open.spotify.com/")?;
        let rest = page.split('?').next()?.strip_prefix(kind)?;
        rest.strip_prefix('/')
    });
    let id = rest.unwrap_or(said);
    is_id(id).then(|| id.to_owned())
}

pub(super) async fn people(ask: Ask<'_>, change: Change) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let kind = given.word("follow_type", &["artist", "user"], "artist")?;
    let said = given.needed("ids")?.split(',').filter(|id| !id.trim().is_empty());
    let ids: Option<Vec<String>> = said.map(|id| bare(id, kind)).collect();
    let ids = ids.filter(|ids| (1..=IDS_MAX).contains(&ids.len()));
    let ids = ids.ok_or_else(|| given.wrong("ids", "1 to 200 ids of Spotify's, with commas"))?;
    for some in ids.chunks(URIS_MAX) {
        some_people(ask.desk, change, kind, some).await?;
    }
    let message = format!("{} {} {kind}(s)", change.done(), ids.len());
    Ok(json!({ "status": "success", "message": message, "follow_type": kind, "ids": ids }))
}

async fn some_people(
    desk: &Desk,
    change: Change,
    kind: &str,
    ids: &[String],
) -> Result<(), Problem> {
    let Err(first) = in_library(desk, change, kind, ids).await else { return Ok(()) };
    // The library takes users; whether it takes artists is for it to say.
    if !is_of_path(&first) && !is_about_kind(&first) {
        return Err(first);
    }
    if !is_known(desk, &SERVICE, OLD_FOLLOWING) {
        let ids = ids.join(",");
        let query = [("type", kind), ("ids", ids.as_str())];
        match api::send(desk, &change.method(), &["me", "following"], &query, None).await {
            Ok(()) => return Ok(()),
            Err(problem) if is_of_path(&problem) => remember(desk, &SERVICE, OLD_FOLLOWING),
            Err(problem) => return Err(problem),
        }
    }
    if first.code == Code::InsufficientScope || kind == "user" {
        return Err(first);
    }
    Err(removed(
        "following and unfollowing artists",
        "follow or unfollow the artist in Spotify's own app; get_followed_artists shows the result",
    ))
}

/// Refusals that another path may not share.
fn is_about_kind(problem: &Problem) -> bool {
    matches!(problem.code, Code::InvalidArgument | Code::InsufficientScope)
}

async fn in_library(
    desk: &Desk,
    change: Change,
    kind: &str,
    ids: &[String],
) -> Result<(), Problem> {
    let uris: Vec<String> = ids.iter().map(|id| format!("spotify:{kind}:{id}")).collect();
    let uris = uris.join(",");
    let query = [("uris", uris.as_str())];
    api::send(desk, &change.method(), &["me", "library"], &query, None).await
}

pub(super) async fn playlist(ask: Ask<'_>, change: Change) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let id = id(&given, "playlist_id", "playlist")?;
    let public = given.flag("public", true)?;
    let message = format!("{} the playlist", change.done());
    // Only the older path knows whether others may see it.
    let is_old_first = change == Change::Follow && !public;
    if is_old_first && old_playlist(ask.desk, change, &id, public).await? {
        return Ok(json!({ "status": "success", "message": message, "playlist_id": id }));
    }
    if let Err(first) = in_library(ask.desk, change, "playlist", std::slice::from_ref(&id)).await {
        let may_try = !is_old_first && (is_of_path(&first) || is_about_kind(&first));
        if !may_try || !old_playlist(ask.desk, change, &id, public).await? {
            return Err(first);
        }
    }
    let message = if is_old_first {
        format!("{message}; Spotify no longer lets an application hide that you do")
    } else {
        message
    };
    Ok(json!({ "status": "success", "message": message, "playlist_id": id }))
}

/// False when the application does not have the older path any more.
async fn old_playlist(
    desk: &Desk,
    change: Change,
    id: &str,
    public: bool,
) -> Result<bool, Problem> {
    if is_known(desk, &SERVICE, OLD_FOLLOWERS) {
        return Ok(false);
    }
    let body = (change == Change::Follow).then(|| json!({ "public": public }));
    let path = ["playlists", id, "followers"];
    match api::send(desk, &change.method(), &path, &[], body.as_ref()).await {
        Ok(()) => Ok(true),
        Err(problem) if problem.code == Code::RestrictedResource => {
            remember(desk, &SERVICE, OLD_FOLLOWERS);
            Ok(false)
        }
        Err(problem) if problem.code == Code::NotFound => Ok(false),
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn ids_are_taken_as_people_have_them() {
        for (said, id) in [
            ("37i9dQZF1DXcBWIGoYBM5M", Some("37i9dQZF1DXcBWIGoYBM5M")),
            (" spotify:playlist:abc ", Some("abc")),
            ("https://open.spotify.com/playlist/abc?si=x", Some("abc")),
            ("spotify:album:abc", None),
            ("https://evil.example/playlist/abc", None),
            ("../../me", None),
            ("abc?x=1", None),
        ] {
            assert_eq!(bare(said, "playlist").as_deref(), id, "{said}");
        }
    }
}
