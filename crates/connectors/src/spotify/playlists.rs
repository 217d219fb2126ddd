//! The owner's playlists with their entries, and followed artists, for the mirror.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::api::{self, is_path_error};
use super::mirror::{items as items_of, saved_page};
use crate::ConnectorContext;
use crate::fetch::WaitPolicy;
use crate::personal::Problem;
use crate::personal::mirror::{
    Forgets, List, Page, Stamp, Whole, at, columns, forget_parts, id_of, is_same, keep_parts,
    names, newest, note_version, text_at,
};
use crate::sync::{ResourceError, SyncJob};

/// Spotify lets a playlist have 10,000 entries.
const PAGES_MAX: usize = 250;

pub(super) const PLAYLISTS: List = List {
    kind: "playlists",
    id: |item| text_at(item, "/id"),
    at: "",
    stamp: Stamp::FirstSeen,
    parent: None,
    flat: |item| {
        let total = match at(item, "/items/total") {
            Value::Null => at(item, "/tracks/total"),
            total => total,
        };
        columns([
            ("id", at(item, "/id")),
            ("name", at(item, "/name")),
            ("description", at(item, "/description")),
            ("owner", at(item, "/owner/display_name")),
            ("owner_id", at(item, "/owner/id")),
            ("public", at(item, "/public")),
            ("collaborative", at(item, "/collaborative")),
            ("total_items", total),
        ])
    },
    forgets: Forgets::Missing,
};
pub(super) const PLAYLIST_ITEMS: List = List {
    kind: "playlist_items",
    id: |item| id_of(item, item.pointer("/item/uri")?.as_str()?),
    at: "/added_at",
    stamp: Stamp::FirstSeen,
    parent: Some("/playlist_id"),
    flat: |item| {
        let artists = match names(item, "/item/artists") {
            Value::String(names) if names.is_empty() => at(item, "/item/show/name"),
            names => names,
        };
        columns([
            ("playlist_id", at(item, "/playlist_id")),
            ("playlist", at(item, "/playlist")),
            ("position", at(item, "/position")),
            ("added_at", at(item, "/added_at")),
            ("type", at(item, "/item/type")),
            ("name", at(item, "/item/name")),
            ("artists", artists),
            ("album", at(item, "/item/album/name")),
            ("uri", at(item, "/item/uri")),
        ])
    },
    forgets: Forgets::Missing,
};

/// A page of the owner's playlists, without pictures: their URLs change without a reason.
pub(super) async fn playlists_page(
    ctx: &ConnectorContext,
    offset: Option<String>,
) -> Result<Page, Problem> {
    let mut page = saved_page(ctx, "playlists", offset).await?;
    page.items.retain(Value::is_object);
    for item in page.items.iter_mut().filter_map(Value::as_object_mut) {
        item.shift_remove("images");
    }
    Ok(page)
}

/// A page of followed artists, without follower counts and popularity.
pub(super) async fn artists_page(
    ctx: &ConnectorContext,
    after: Option<String>,
) -> Result<Page, Problem> {
    let mut query = vec![("type", "artist"), ("limit", "50")];
    query.extend(after.as_deref().map(|after| ("after", after)));
    let found = api::get_with(ctx, &["me", "following"], &query, WaitPolicy::SYNC).await?;
    let artists = found.get("artists").cloned().unwrap_or_default();
    let mut items = items_of(&artists);
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        for name in ["images", "followers", "popularity"] {
            item.shift_remove(name);
        }
    }
    let next = text_at(&artists, "/cursors/after").filter(|_| !items.is_empty());
    Ok(Page { items, next, total: artists.get("total").and_then(Value::as_u64) })
}

/// The entries of every playlist whose version differs from the mirrored one.
pub(super) async fn items(job: &SyncJob<'_>) -> Result<Option<String>, ResourceError> {
    let mut parents = HashSet::new();
    for playlist in mine(job.ctx).await? {
        let Some(id) = text_at(&playlist, "/id") else { continue };
        let version = text_at(&playlist, "/snapshot_id").unwrap_or_default();
        parents.insert(id.clone());
        if !version.is_empty() && is_same(job, &id, &version)? {
            continue;
        }
        let items = match entries(job.ctx, &id).await {
            // Spotify shows the entries only of the owner's own playlists to most applications.
            Err(problem) if is_path_error(&problem) => {
                note_version(job, &id, &version)?;
                continue;
            }
            items => items?,
        };
        let title = playlist.get("name").and_then(Value::as_str);
        let whole = Whole { parent: &id, title, items };
        let items = whole.marked(|item| text_at(item, "/item/uri"));
        keep_parts(job, &PLAYLIST_ITEMS, &id, &items)?;
        note_version(job, &id, &version)?;
    }
    forget_parts(job, &PLAYLIST_ITEMS, &parents)?;
    newest(job, &PLAYLIST_ITEMS)
}

async fn mine(ctx: &ConnectorContext) -> Result<Vec<Value>, Problem> {
    let (mut all, mut next) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = playlists_page(ctx, next).await?;
        all.extend(page.items);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    Ok(all)
}

/// Through the path of 2026, or the older one where an application has only that.
async fn entries(ctx: &ConnectorContext, id: &str) -> Result<Vec<Value>, Problem> {
    match entries_at(ctx, &["playlists", id, "items"]).await {
        Err(problem) if is_path_error(&problem) => {
            entries_at(ctx, &["playlists", id, "tracks"]).await.map_err(|_| problem)
        }
        entries => entries,
    }
}

async fn entries_at(ctx: &ConnectorContext, path: &[&str]) -> Result<Vec<Value>, Problem> {
    let mut all: Vec<Value> = Vec::new();
    for _ in 0..PAGES_MAX {
        let offset = all.len().to_string();
        let query = [("limit", "50"), ("offset", offset.as_str())];
        let found = api::get_with(ctx, path, &query, WaitPolicy::SYNC).await?;
        let items = items_of(&found);
        let is_last = items.is_empty() || at(&found, "/next").is_null();
        all.extend(items);
        if is_last {
            break;
        }
    }
    all.iter_mut().for_each(brief);
    Ok(all)
}

/// Spotify renamed `track` to `item` in 2026. Pictures, previews and popularity are left out.
fn brief(entry: &mut Value) {
    let Some(entry) = entry.as_object_mut() else { return };
    if let Some(track) = entry.shift_remove("track") {
        entry.insert("item".to_owned(), track);
    }
    for name in ["video_thumbnail", "primary_color"] {
        entry.shift_remove(name);
    }
    let Some(item) = entry.get_mut("item").and_then(Value::as_object_mut) else { return };
    for name in ["popularity", "preview_url", "images"] {
        item.shift_remove(name);
    }
    if let Some(album) = item.get_mut("album").and_then(Value::as_object_mut) {
        album.shift_remove("images");
    }
    // A local file has no id, only a URI.
    item.entry("uri").or_insert(json!(null));
}
