//! What the owner has saved, loves and played, page by page.

use serde_json::{Map, Value, json};

use super::api::{self, is_of_path};
use super::{NAME, SERVICE, profile};
use crate::Ask;
use crate::personal::{Code, Given, Outcome, Problem, field, fit, is_known, remember};

/// No page of Spotify's is longer.
const PAGE_MAX: usize = 50;
const ITEMS_MAX: usize = 100;
const OLD_ITEMS: &str = "playlist tracks";
pub(super) const USERS: &str = "users";

/// A list that is paged by an offset.
struct Pages {
    total: usize,
    items: Vec<Value>,
    /// Where each item stands in the whole list; entries that are gone leave gaps.
    places: Vec<usize>,
    limit: usize,
    offset: usize,
    next_offset: Option<usize>,
}

async fn pages(
    ask: &Ask<'_>,
    segments: &[&str],
    query: &[(&str, &str)],
    limits: (usize, usize),
) -> Result<Pages, Problem> {
    let given = Given::new(NAME, ask.arguments);
    let limit = given.limit(limits.0, limits.1)?;
    let offset = given.offset()?;
    let mut pages =
        Pages { total: 0, items: Vec::new(), places: Vec::new(), limit, offset, next_offset: None };
    let mut seen = 0;
    while seen < limit {
        let wanted = (limit - seen).min(PAGE_MAX).to_string();
        let begin = (offset + seen).to_string();
        let mut query = query.to_vec();
        query.extend([("limit", wanted.as_str()), ("offset", begin.as_str())]);
        let page = api::get(ask.desk, segments, &query).await?;
        let Some(all) = page.get("items").and_then(Value::as_array) else {
            return Err(unreadable());
        };
        // Entries that are gone are null; they still count for the offset.
        for (at, item) in all.iter().enumerate().filter(|(_, item)| item.is_object()) {
            pages.items.push(item.clone());
            pages.places.push(offset + seen + at);
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

fn told(mut pages: Pages, extra: &[(&str, Value)]) -> Value {
    let mut out = Map::new();
    fit::lighten(&mut pages.items);
    let (shown, all) = (fit::fitting(&pages.items), pages.items.len());
    if let Some(next) = pages.places.get(shown).copied() {
        pages.items.truncate(shown);
        pages.next_offset = Some(next);
        out.insert("truncated".to_owned(), json!(true));
        let hint = fit::hint(shown, all, "items", Some(next));
        out.insert("hint".to_owned(), json!(hint));
    }
    out.insert("status".to_owned(), json!("success"));
    out.extend(extra.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    out.insert("total".to_owned(), json!(pages.total));
    out.insert("items".to_owned(), Value::Array(pages.items));
    out.insert("limit".to_owned(), json!(pages.limit));
    out.insert("offset".to_owned(), json!(pages.offset));
    out.insert("next_offset".to_owned(), json!(pages.next_offset));
    Value::Object(out)
}

/// Saved tracks, albums, shows, episodes, audiobooks, and the owner's playlists.
pub(super) async fn mine(ask: Ask<'_>, what: &'static str) -> Outcome {
    let pages = pages(&ask, &["me", what], &[], (PAGE_MAX, PAGE_MAX)).await?;
    Ok(told(pages, &[]))
}

pub(super) async fn top(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let kind = given.word("item_type", &["tracks", "artists"], "tracks")?;
    let ranges = ["short_term", "medium_term", "long_term"];
    let range = given.word("time_range", &ranges, "medium_term")?;
    let limits = (PAGE_MAX, PAGE_MAX);
    let pages = pages(&ask, &["me", "top", kind], &[("time_range", range)], limits).await?;
    Ok(told(pages, &[("item_type", json!(kind)), ("time_range", json!(range))]))
}

pub(super) async fn followed_artists(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let limit = given.limit(PAGE_MAX, PAGE_MAX)?.to_string();
    let mut query = vec![("type", "artist"), ("limit", limit.as_str())];
    query.extend(given.text("after")?.map(|after| ("after", after)));
    let found = api::get(ask.desk, &["me", "following"], &query).await?;
    if found.pointer("/artists/items").is_none_or(|items| !items.is_array()) {
        return Err(unreadable());
    }
    Ok(json!({
        "status": "success",
        "total": field::whole(&found, "/artists/total"),
        "artists": field::objects(&found, "/artists/items"),
        "next_after": field::text(&found, "/artists/cursors/after"),
    }))
}

pub(super) async fn recently_played(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let limit = given.limit(PAGE_MAX, PAGE_MAX)?.to_string();
    let (before, after) = (given.whole("before")?, given.whole("after")?);
    if before.is_some() && after.is_some() {
        return Err(given.wrong("before", "left out when `after` is given"));
    }
    let edge = before.map(|at| ("before", at)).or(after.map(|at| ("after", at)));
    let edge = edge.map(|(name, at)| (name, at.to_string()));
    let mut query = vec![("limit", limit.as_str())];
    query.extend(edge.iter().map(|(name, at)| (*name, at.as_str())));
    let found = api::get(ask.desk, &["me", "player", "recently-played"], &query).await?;
    let tracks: Vec<Value> = field::objects(&found, "/items").into_iter().map(play).collect();
    Ok(json!({
        "status": "success",
        "total_tracks": tracks.len(),
        "tracks": tracks,
        "next": field::text(&found, "/next"),
        "cursors": field::object(&found, "/cursors"),
    }))
}

/// A play in a flat form.
pub(super) fn play(play: &Value) -> Value {
    let at = |pointer: &str| field::text(play, pointer);
    let artists = field::objects(play, "/track/artists");
    let names = artists.into_iter().filter_map(|artist| field::word(artist, "/name"));
    json!({
        "track_name": at("/track/name"),
        "artists": names.collect::<Vec<_>>().join(", "),
        "album": at("/track/album/name"),
        "played_at": at("/played_at"),
        "duration_ms": field::whole(play, "/track/duration_ms"),
        "external_urls": field::object(play, "/track/external_urls"),
        "track_id": at("/track/id"),
    })
}

/// The entries of a playlist: the path of 2026 first, the old one where that is refused.
pub(super) async fn playlist_items(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let id = super::follow::id(&given, "playlist_id", "playlist")?;
    let limits = (ITEMS_MAX, ITEMS_MAX);
    let pages = match pages(&ask, &["playlists", &id, "items"], &[], limits).await {
        Err(problem) if is_of_path(&problem) => match pages_of_old(&ask, &id, limits).await? {
            Some(pages) => pages,
            None if problem.code == Code::NotFound => return Err(problem),
            None => return Err(not_yours()),
        },
        pages => pages?,
    };
    let mut pages = pages;
    pages.items.iter_mut().for_each(entry);
    Ok(told(pages, &[("playlist_id", json!(id))]))
}

async fn pages_of_old(
    ask: &Ask<'_>,
    id: &str,
    limits: (usize, usize),
) -> Result<Option<Pages>, Problem> {
    if is_known(ask.desk, &SERVICE, OLD_ITEMS) {
        return Ok(None);
    }
    match pages(ask, &["playlists", id, "tracks"], &[], limits).await {
        Ok(pages) => Ok(Some(pages)),
        Err(problem) if is_of_path(&problem) => {
            if problem.code != Code::NotFound {
                remember(ask.desk, &SERVICE, OLD_ITEMS);
            }
            Ok(None)
        }
        Err(problem) => Err(problem),
    }
}

/// `item` is what `track` was called before 2026; agents know the older name.
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
        "Spotify answered with something that cannot be read",
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

/// Another user's playlists, where Spotify still shows them; one's own always.
pub(super) async fn playlists_of(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let id = super::follow::id(&given, "user_id", "user")?;
    let limits = (PAGE_MAX, PAGE_MAX);
    let extra = [("user_id", json!(id))];
    if !is_known(ask.desk, &SERVICE, USERS) {
        match pages(&ask, &["users", &id, "playlists"], &[], limits).await {
            Err(problem) if is_of_path(&problem) => {
                profile::learn_of_users(ask.desk, problem).await?;
            }
            pages => return Ok(told(pages?, &extra)),
        }
    }
    if profile::own_id(ask.desk).await?.as_deref() != Some(id.as_str()) {
        let instead = "for your own playlists use get_current_user_playlists";
        return Err(api::removed("the playlists of other users", instead));
    }
    Ok(told(pages(&ask, &["me", "playlists"], &[], limits).await?, &extra))
}
