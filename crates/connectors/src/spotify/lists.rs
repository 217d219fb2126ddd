//! The owner's saved items, top items and plays, page by page.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::api::{self, is_path_error};
use super::list_args::{
    ArtistsArgs, ItemType, PAGE_MAX, PlaylistArgs, PlaysArgs, SpotifyPageArgs, SpotifyUserPageArgs,
    TimeRange, TopArgs,
};
use super::{NAME, SERVICE, profile};
use crate::arguments::BadArgument;
use crate::personal::{Code, Problem, field, is_known, remember, truncate};
use crate::tool::{Json, Success};
use crate::{ConnectorContext, ToolCall};

const OLD_ITEMS: &str = "playlist tracks";
pub(super) const USERS: &str = "users";

// A page; the requested list follows the status.
#[derive(Serialize, JsonSchema)]
pub(super) struct Items<T> {
    #[serde(flatten)]
    cut: Option<TruncatedList>,
    status: Success,
    #[serde(flatten)]
    of: T,
    total: usize,
    #[schemars(with = "Vec<Map<String, Value>>")]
    items: Vec<Value>,
    limit: usize,
    offset: usize,
    next_offset: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct TruncatedList {
    truncated: bool,
    hint: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Library {}

#[derive(Serialize, JsonSchema)]
pub(super) struct TopItems {
    item_type: ItemType,
    time_range: TimeRange,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct OfPlaylist {
    playlist_id: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct OfUser {
    user_id: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Artists {
    status: Success,
    total: Option<i64>,
    artists: Vec<Map<String, Value>>,
    next_after: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Plays {
    status: Success,
    total_tracks: usize,
    tracks: Vec<Play>,
    next: Option<String>,
    cursors: Option<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Play {
    track_name: Option<String>,
    artists: String,
    album: Option<String>,
    played_at: Option<String>,
    duration_ms: Option<i64>,
    external_urls: Option<Map<String, Value>>,
    track_id: Option<String>,
}

/// The part of a list that a call requests.
#[derive(Clone, Copy)]
struct OffsetRange {
    limit: usize,
    offset: usize,
}

/// A list that is paged by offset.
struct Pages {
    total: usize,
    items: Vec<Value>,
    /// The index of each item in the whole list; removed entries leave gaps.
    positions: Vec<usize>,
    limit: usize,
    offset: usize,
    next_offset: Option<usize>,
}

async fn pages(
    ctx: &ConnectorContext,
    segments: &[&str],
    query: &[(&str, &str)],
    range: OffsetRange,
) -> Result<Pages, Problem> {
    let OffsetRange { limit, offset } = range;
    let mut pages = Pages {
        total: 0,
        items: Vec::new(),
        positions: Vec::new(),
        limit,
        offset,
        next_offset: None,
    };
    let mut seen = 0;
    while seen < limit {
        let wanted = (limit - seen).min(PAGE_MAX).to_string();
        let begin = (offset + seen).to_string();
        let mut query = query.to_vec();
        query.extend([("limit", wanted.as_str()), ("offset", begin.as_str())]);
        let page = api::get(ctx, segments, &query).await?;
        let Some(all) = page.get("items").and_then(Value::as_array) else {
            return Err(unreadable());
        };
        // Removed entries are null; they still count for the offset.
        for (at, item) in all.iter().enumerate().filter(|(_, item)| item.is_object()) {
            pages.items.push(item.clone());
            pages.positions.push(offset + seen + at);
        }
        seen += all.len();
        let total = field::int(&page, "/total").and_then(|total| usize::try_from(total).ok());
        pages.total = total.unwrap_or(offset + seen);
        let is_more = match page.get("next") {
            Some(next) => !next.is_null(),
            None => total.is_some_and(|total| offset + seen < total),
        };
        pages.next_offset = (is_more && !all.is_empty()).then_some(offset + seen);
        if pages.next_offset.is_none() {
            break;
        }
    }
    Ok(pages)
}

fn items<T>(mut pages: Pages, of: T) -> Json<Items<T>> {
    truncate::lighten(&mut pages.items);
    let (shown, all) = (truncate::fitting(&pages.items), pages.items.len());
    let cut = pages.positions.get(shown).copied().map(|next| {
        pages.items.truncate(shown);
        pages.next_offset = Some(next);
        TruncatedList { truncated: true, hint: truncate::hint(shown, all, "items", Some(next)) }
    });
    Json(Items {
        cut,
        status: Success,
        of,
        total: pages.total,
        items: pages.items,
        limit: pages.limit,
        offset: pages.offset,
        next_offset: pages.next_offset,
    })
}

/// Saved tracks, albums, shows, episodes, audiobooks, and the owner's playlists.
pub(super) async fn mine(
    call: ToolCall<'_>,
    args: SpotifyPageArgs,
    what: &'static str,
) -> Result<Json<Items<Library>>, Problem> {
    let range = OffsetRange { limit: args.limit.get(), offset: args.offset.get() };
    let pages = pages(call.ctx, &["me", what], &[], range).await?;
    Ok(items(pages, Library {}))
}

pub(super) async fn top(
    call: ToolCall<'_>,
    args: TopArgs,
) -> Result<Json<Items<TopItems>>, Problem> {
    let range = OffsetRange { limit: args.limit.get(), offset: args.offset.get() };
    let item_type = args.item_type.unwrap_or_default();
    let time_range = args.time_range.unwrap_or_default();
    let path = ["me", "top", item_type.as_str()];
    let query = [("time_range", time_range.as_str())];
    let pages = pages(call.ctx, &path, &query, range).await?;
    Ok(items(pages, TopItems { item_type, time_range }))
}

pub(super) async fn followed_artists(
    call: ToolCall<'_>,
    args: ArtistsArgs,
) -> Result<Json<Artists>, Problem> {
    let limit = args.limit.get().to_string();
    let mut query = vec![("type", "artist"), ("limit", limit.as_str())];
    query.extend(args.after.as_deref().map(|after| ("after", after)));
    let found = api::get(call.ctx, &["me", "following"], &query).await?;
    if found.pointer("/artists/items").is_none_or(|items| !items.is_array()) {
        return Err(unreadable());
    }
    Ok(Json(Artists {
        status: Success,
        total: field::int(&found, "/artists/total"),
        artists: field::maps(&found, "/artists/items"),
        next_after: field::word(&found, "/artists/cursors/after"),
    }))
}

pub(super) async fn recently_played(
    call: ToolCall<'_>,
    args: PlaysArgs,
) -> Result<Json<Plays>, Problem> {
    let limit = args.limit.get().to_string();
    let edge = match (args.before, args.after) {
        (Some(_), Some(_)) => {
            let expected = "left out when `after` is given";
            return Err(BadArgument::new("before", expected).problem(NAME));
        }
        (Some(at), None) => Some(("before", at.to_string())),
        (None, after) => after.map(|at| ("after", at.to_string())),
    };
    let mut query = vec![("limit", limit.as_str())];
    query.extend(edge.iter().map(|(name, at)| (*name, at.as_str())));
    let found = api::get(call.ctx, &["me", "player", "recently-played"], &query).await?;
    let tracks: Vec<Play> = field::objects(&found, "/items").into_iter().map(play).collect();
    Ok(Json(Plays {
        status: Success,
        total_tracks: tracks.len(),
        tracks,
        next: field::word(&found, "/next"),
        cursors: field::map(&found, "/cursors"),
    }))
}

/// A play in a flat form.
pub(super) fn play(play: &Value) -> Play {
    let artists = field::objects(play, "/track/artists");
    let names = artists.into_iter().filter_map(|artist| field::word(artist, "/name"));
    Play {
        track_name: field::word(play, "/track/name"),
        artists: names.collect::<Vec<_>>().join(", "),
        album: field::word(play, "/track/album/name"),
        played_at: field::word(play, "/played_at"),
        duration_ms: field::int(play, "/track/duration_ms"),
        external_urls: field::map(play, "/track/external_urls"),
        track_id: field::word(play, "/track/id"),
    }
}

/// The entries of a playlist: the path of 2026 first, the old one where that is refused.
pub(super) async fn playlist_items(
    call: ToolCall<'_>,
    args: PlaylistArgs,
) -> Result<Json<Items<OfPlaylist>>, Problem> {
    let id = super::follow::id(&args.playlist_id, "playlist_id", "playlist")?;
    let range = OffsetRange { limit: args.limit.get(), offset: args.offset.get() };
    let found = pages(call.ctx, &["playlists", &id, "items"], &[], range).await;
    let mut pages = match found {
        Err(problem) if is_path_error(&problem) => {
            match pages_of_old(call.ctx, &id, range).await? {
                Some(pages) => pages,
                None if problem.code == Code::NotFound => return Err(problem),
                None => return Err(not_yours()),
            }
        }
        pages => pages?,
    };
    pages.items.iter_mut().for_each(entry);
    Ok(items(pages, OfPlaylist { playlist_id: id }))
}

async fn pages_of_old(
    ctx: &ConnectorContext,
    id: &str,
    range: OffsetRange,
) -> Result<Option<Pages>, Problem> {
    if is_known(ctx, &SERVICE, OLD_ITEMS) {
        return Ok(None);
    }
    match pages(ctx, &["playlists", id, "tracks"], &[], range).await {
        Ok(pages) => Ok(Some(pages)),
        Err(problem) if is_path_error(&problem) => {
            if problem.code != Code::NotFound {
                remember(ctx, &SERVICE, OLD_ITEMS);
            }
            Ok(None)
        }
        Err(problem) => Err(problem),
    }
}

/// Spotify renamed `track` to `item` in 2026; the output keeps the older name.
fn entry(entry: &mut Value) {
    let Some(entry) = entry.as_object_mut() else { return };
    if let Some(item) = entry.shift_remove("item") {
        entry.insert("track".to_owned(), item);
    }
}

fn unreadable() -> Problem {
    Problem::new(
        Code::UpstreamError,
        NAME,
        "could not read Spotify's response",
        "call again in a minute",
    )
}

fn not_yours() -> Problem {
    Problem::new(
        Code::RestrictedResource,
        NAME,
        "Spotify shows the entries only of playlists you own or collaborate on",
        "get_current_user_playlists lists yours; copy the other playlist into one of your own",
    )
    .status(403)
}

/// A user's playlists. Spotify shows those of others only to some applications.
pub(super) async fn playlists_of(
    call: ToolCall<'_>,
    args: SpotifyUserPageArgs,
) -> Result<Json<Items<OfUser>>, Problem> {
    let ctx = call.ctx;
    let id = super::follow::id(&args.user_id, "user_id", "user")?;
    let range = OffsetRange { limit: args.limit.get(), offset: args.offset.get() };
    if !is_known(ctx, &SERVICE, USERS) {
        match pages(ctx, &["users", &id, "playlists"], &[], range).await {
            Err(problem) if is_path_error(&problem) => {
                profile::learn_of_users(ctx, problem).await?;
            }
            pages => return Ok(items(pages?, OfUser { user_id: id })),
        }
    }
    if profile::own_id(ctx).await?.as_deref() != Some(id.as_str()) {
        let instead = "for your own playlists use get_current_user_playlists";
        return Err(api::removed("the playlists of other users", instead));
    }
    let pages = pages(ctx, &["me", "playlists"], &[], range).await?;
    Ok(items(pages, OfUser { user_id: id }))
}
