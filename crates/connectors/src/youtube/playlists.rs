//! The owner's playlists and what is in them, for the mirror.

use std::collections::HashSet;

use serde_json::Value;
use store::records::Window;

use super::mirror::{PLAYLIST_ITEMS, page};
use crate::personal::mirror::{
    KEPT_PARENT, Page, Whole, forget_parts, is_same, keep_parts, newest, note_version, text_at,
};
use crate::personal::{Code, Problem};
use crate::sync::{Fault, Turn};

/// YouTube lets a playlist have 5,000 entries.
const PAGES_MAX: usize = 120;
const DAY_US: i64 = 24 * 3_600 * 1_000_000;

/// The entries of every playlist. Of a list that is as long as it was YouTube does not say whether
/// it changed; such a list is read again once a day.
pub(super) async fn items(turn: &Turn<'_>) -> Result<Option<String>, Fault> {
    let mut parents = kept_parents(turn)?;
    for playlist in mine(turn).await? {
        let Some(id) = text_at(&playlist, "/id") else { continue };
        let length = playlist.pointer("/contentDetails/itemCount").cloned().unwrap_or_default();
        let version = format!("{length} on day {}", turn.started_us / DAY_US);
        parents.insert(id.clone());
        if is_same(turn, &id, &version)? {
            continue;
        }
        let items = match entries(turn, &id).await {
            // It went between the two questions.
            Err(problem) if problem.code == Code::NotFound => continue,
            items => items?,
        };
        let title = playlist.pointer("/snippet/title").and_then(Value::as_str);
        let whole = Whole { parent: &id, title, items };
        let items = whole.marked(|item| text_at(item, "/snippet/resourceId/videoId"));
        keep_parts(turn, &PLAYLIST_ITEMS, &id, &items)?;
        note_version(turn, &id, &version)?;
    }
    forget_parts(turn, &PLAYLIST_ITEMS, &parents)?;
    newest(turn, &PLAYLIST_ITEMS)
}

/// Lists that only Takeout has are none of the API's to take away.
fn kept_parents(turn: &Turn<'_>) -> Result<HashSet<String>, Fault> {
    let ids = turn.desk.records.ids_in(turn.service, PLAYLIST_ITEMS.kind, &Window::default())?;
    let parents = ids.iter().filter_map(|id| id.split_once(' ')).map(|(parent, _)| parent);
    Ok(parents.filter(|parent| parent.starts_with(KEPT_PARENT)).map(str::to_owned).collect())
}

async fn mine(turn: &Turn<'_>) -> Result<Vec<Value>, Problem> {
    let query = &[("part", "snippet,contentDetails"), ("mine", "true")];
    all(|token| page(turn.desk, "playlists", query, token)).await
}

async fn entries(turn: &Turn<'_>, id: &str) -> Result<Vec<Value>, Problem> {
    let query = &[("part", "snippet,contentDetails"), ("playlistId", id)];
    all(|token| page(turn.desk, "playlistItems", query, token)).await
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
