//! Following and unfollowing: through the library paths of 2026, or through the older paths where an
//! application still has them.

use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::api::{self, is_path_error, removed};
use super::{NAME, SERVICE};
use crate::arguments::{BadArgument, IgnoredSecret};
use crate::personal::{Code, Problem, is_id, is_known, remember};
use crate::tool::{Json, Success};
use crate::{ConnectorContext, ToolCall};

/// Spotify's limit per request.
const URIS_MAX: usize = 40;
const IDS_MAX: usize = 200;
const OLD_FOLLOWING: &str = "following";
const OLD_FOLLOWERS: &str = "playlist followers";

#[derive(Deserialize, JsonSchema)]
pub(super) struct FollowArgs {
    /// Ids with commas between them; URIs and addresses are taken too.
    ids: String,
    #[schemars(extend("default" = "artist"))]
    follow_type: Option<FollowType>,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum FollowType {
    #[default]
    Artist,
    User,
}

impl FollowType {
    fn as_str(self) -> &'static str {
        match self {
            FollowType::Artist => "artist",
            FollowType::User => "user",
        }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct FollowPlaylistArgs {
    /// The playlist's id, URI or address.
    playlist_id: String,
    /// Whether others may see it; only applications with extended quota can say no.
    #[schemars(extend("default" = true))]
    public: Option<bool>,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct UnfollowPlaylistArgs {
    /// The playlist's id, URI or address.
    playlist_id: String,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ChangedPeople {
    status: Success,
    message: String,
    follow_type: FollowType,
    ids: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ChangedPlaylist {
    status: Success,
    message: String,
    playlist_id: String,
}

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

/// Accepts an id, `spotify:playlist:ID`, or the URL of its page.
pub(super) fn id(given: &str, name: &str, kind: &str) -> Result<String, Problem> {
    let wrong = || BadArgument::new(name, "an id of Spotify's").problem(NAME);
    bare(given, kind).ok_or_else(wrong)
}

fn bare(given: &str, kind: &str) -> Option<String> {
    let given = given.trim();
    let rest = given.strip_prefix(&format!("spotify:{kind}:")).or_else(|| {
        let page = given.strip_prefix("https://open.spotify.com/")?;
        let rest = page.split('?').next()?.strip_prefix(kind)?;
        rest.strip_prefix('/')
    });
    let id = rest.unwrap_or(given);
    is_id(id).then(|| id.to_owned())
}

pub(super) async fn people(
    call: ToolCall<'_>,
    args: FollowArgs,
    change: Change,
) -> Result<Json<ChangedPeople>, Problem> {
    let follow_type = args.follow_type.unwrap_or_default();
    let kind = follow_type.as_str();
    let given = args.ids.split(',').filter(|id| !id.trim().is_empty());
    let ids: Option<Vec<String>> = given.map(|id| bare(id, kind)).collect();
    let ids = ids.filter(|ids| (1..=IDS_MAX).contains(&ids.len()));
    let expected = "1 to 200 ids of Spotify's, with commas";
    let ids = ids.ok_or_else(|| BadArgument::new("ids", expected).problem(NAME))?;
    for some in ids.chunks(URIS_MAX) {
        some_people(call.ctx, change, kind, some).await?;
    }
    let message = format!("{} {} {kind}(s)", change.done(), ids.len());
    Ok(Json(ChangedPeople { status: Success, message, follow_type, ids }))
}

async fn some_people(
    ctx: &ConnectorContext,
    change: Change,
    kind: &str,
    ids: &[String],
) -> Result<(), Problem> {
    let Err(first) = in_library(ctx, change, kind, ids).await else { return Ok(()) };
    // The library accepts users; for artists the response decides.
    if !is_path_error(&first) && !is_about_kind(&first) {
        return Err(first);
    }
    if !is_known(ctx, &SERVICE, OLD_FOLLOWING) {
        let ids = ids.join(",");
        let query = [("type", kind), ("ids", ids.as_str())];
        match api::send(ctx, &change.method(), &["me", "following"], &query, None).await {
            Ok(()) => return Ok(()),
            Err(problem) if is_path_error(&problem) => remember(ctx, &SERVICE, OLD_FOLLOWING),
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

/// Refusals after which another path may still work.
fn is_about_kind(problem: &Problem) -> bool {
    matches!(problem.code, Code::InvalidArgument | Code::InsufficientScope)
}

async fn in_library(
    ctx: &ConnectorContext,
    change: Change,
    kind: &str,
    ids: &[String],
) -> Result<(), Problem> {
    let uris: Vec<String> = ids.iter().map(|id| format!("spotify:{kind}:{id}")).collect();
    let uris = uris.join(",");
    let query = [("uris", uris.as_str())];
    api::send(ctx, &change.method(), &["me", "library"], &query, None).await
}

pub(super) async fn follow_playlist(
    call: ToolCall<'_>,
    args: FollowPlaylistArgs,
) -> Result<Json<ChangedPlaylist>, Problem> {
    playlist(call.ctx, &args.playlist_id, Change::Follow, args.public.unwrap_or(true)).await
}

pub(super) async fn unfollow_playlist(
    call: ToolCall<'_>,
    args: UnfollowPlaylistArgs,
) -> Result<Json<ChangedPlaylist>, Problem> {
    playlist(call.ctx, &args.playlist_id, Change::Unfollow, true).await
}

async fn playlist(
    ctx: &ConnectorContext,
    given: &str,
    change: Change,
    public: bool,
) -> Result<Json<ChangedPlaylist>, Problem> {
    let id = id(given, "playlist_id", "playlist")?;
    let message = format!("{} the playlist", change.done());
    // Only the older path has the visibility flag.
    let is_old_first = change == Change::Follow && !public;
    if is_old_first && old_playlist(ctx, change, &id, public).await? {
        return Ok(Json(ChangedPlaylist { status: Success, message, playlist_id: id }));
    }
    if let Err(first) = in_library(ctx, change, "playlist", std::slice::from_ref(&id)).await {
        let may_try = !is_old_first && (is_path_error(&first) || is_about_kind(&first));
        if !may_try || !old_playlist(ctx, change, &id, public).await? {
            return Err(first);
        }
    }
    let message = if is_old_first {
        format!("{message}; Spotify no longer lets an application hide that you do")
    } else {
        message
    };
    Ok(Json(ChangedPlaylist { status: Success, message, playlist_id: id }))
}

/// False if the application no longer has the older path.
async fn old_playlist(
    ctx: &ConnectorContext,
    change: Change,
    id: &str,
    public: bool,
) -> Result<bool, Problem> {
    if is_known(ctx, &SERVICE, OLD_FOLLOWERS) {
        return Ok(false);
    }
    let body = (change == Change::Follow).then(|| json!({ "public": public }));
    let path = ["playlists", id, "followers"];
    match api::send(ctx, &change.method(), &path, &[], body.as_ref()).await {
        Ok(()) => Ok(true),
        Err(problem) if problem.code == Code::RestrictedResource => {
            remember(ctx, &SERVICE, OLD_FOLLOWERS);
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
    fn ids_uris_and_urls_are_accepted() {
        for (given, id) in [
            ("37i9dQZF1DXcBWIGoYBM5M", Some("37i9dQZF1DXcBWIGoYBM5M")),
            (" spotify:playlist:abc ", Some("abc")),
            ("https://open.spotify.com/playlist/abc?si=x", Some("abc")),
            ("spotify:album:abc", None),
            ("https://evil.example/playlist/abc", None),
            ("../../me", None),
            ("abc?x=1", None),
        ] {
            assert_eq!(bare(given, "playlist").as_deref(), id, "{given}");
        }
    }
}
