//! The owner's playlists with their entries, for the mirror.

use std::collections::HashSet;

use serde_json::Value;
use store::records::Window;

use super::mirror::{PLAYLIST_ITEMS, page};
use crate::personal::mirror::{
    KEPT_PARENT, Page, Whole, forget_parts, is_same, keep_parts, newest, note_version, text_at,
};
use crate::personal::{Code, Problem};
use crate::sync::{ResourceError, SyncJob};

/// YouTube lets a playlist have 5,000 entries.
const PAGES_MAX: usize = 120;
const DAY_US: i64 = 24 * 3_600 * 1_000_000;

/// The entries of every playlist. YouTube does not report a change that leaves the length the same,
/// so such a list is read again once a day.
pub(super) async fn items(job: &SyncJob<'_>) -> Result<Option<String>, ResourceError> {
    let mut parents = kept_parents(job)?;
    for playlist in mine(job).await? {
        let Some(id) = text_at(&playlist, "/id") else { continue };
        let length = playlist.pointer("/contentDetails/itemCount").cloned().unwrap_or_default();
        let version = format!("{length} on day {}", job.started_us / DAY_US);
        parents.insert(id.clone());
        if is_same(job, &id, &version)? {
            continue;
        }
        let items = match entries(job, &id).await {
            // It was removed between the two requests.
            Err(problem) if problem.code == Code::NotFound => continue,
            items => items?,
        };
        let title = playlist.pointer("/snippet/title").and_then(Value::as_str);
        let whole = Whole { parent: &id, title, items };
        let items = whole.marked(|item| text_at(item, "/snippet/resourceId/videoId"));
        keep_parts(job, &PLAYLIST_ITEMS, &id, &items)?;
        note_version(job, &id, &version)?;
    }
    forget_parts(job, &PLAYLIST_ITEMS, &parents)?;
    newest(job, &PLAYLIST_ITEMS)
}

/// A sync must not delete lists that only Takeout has.
fn kept_parents(job: &SyncJob<'_>) -> Result<HashSet<String>, ResourceError> {
    let ids = job.ctx.records.ids_in(job.service, PLAYLIST_ITEMS.kind, &Window::default())?;
    let parents = ids.iter().filter_map(|id| id.split_once(' ')).map(|(parent, _)| parent);
    Ok(parents.filter(|parent| parent.starts_with(KEPT_PARENT)).map(str::to_owned).collect())
}

async fn mine(job: &SyncJob<'_>) -> Result<Vec<Value>, Problem> {
    let query = &[("part", "snippet,contentDetails"), ("mine", "true")];
    all(|token| page(job.ctx, "playlists", query, token)).await
}

async fn entries(job: &SyncJob<'_>, id: &str) -> Result<Vec<Value>, Problem> {
    let query = &[("part", "snippet,contentDetails"), ("playlistId", id)];
    all(|token| page(job.ctx, "playlistItems", query, token)).await
}

async fn all<F, P>(page: F) -> Result<Vec<Value>, Problem>
where
    F: Fn(Option<String>) -> P,
    P: Future<Output = Result<Page, Problem>>,
{
    let (mut items, mut next) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = page(next).await?;
        items.extend(page.items);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    Ok(items)
}
