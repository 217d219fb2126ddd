//! Google Takeout: what was watched and searched for, which the API does not offer.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use serde_json::{Value, json};
use store::records::{Column, View};
use url::Url;

use super::mirror::object;
use super::{NAME, SERVICE};
use crate::Desk;
use crate::personal::archive::{self, Archive, is_json};
use crate::personal::mirror::{List, at};
use crate::personal::{ArchiveError, Taken};

const ARCHIVE: Archive = Archive {
    // The names of the files are in the owner's language; what is in them is told by its addresses.
    wants: is_json,
    sort,
    hint: "at https://takeout.google.com choose YouTube with its history, and JSON as the history's format",
};

pub(super) const WATCHES: List = List {
    kind: "watches",
    id: |item| Some(format!("{} {}", item.get("time")?.as_str()?, asked(item, "v")?)),
    at: "/time",
    flat: |item| {
        object(json!({
            "watched_at": at(item, "/time"),
            "video_id": asked(item, "v"),
            "title": title(item, "Watched "),
            "channel": at(item, "/subtitles/0/name"),
            "product": at(item, "/header"),
        }))
    },
    forgets: false,
};
pub(super) const SEARCHES: List = List {
    kind: "searches",
    id: |item| Some(format!("{} {}", item.get("time")?.as_str()?, asked(item, "search_query")?)),
    at: "/time",
    flat: |item| {
        object(json!({
            "searched_at": at(item, "/time"),
            "query": asked(item, "search_query"),
            "product": at(item, "/header"),
        }))
    },
    forgets: false,
};

pub(super) const WATCHES_VIEW: View = View {
    name: "youtube_watches",
    service: NAME,
    kind: "watches",
    columns: &[
        Column::text("watched_at"),
        Column::text("video_id"),
        Column::text("title"),
        Column::text("channel"),
        Column::text("product"),
    ],
    except_state: None,
};
pub(super) const SEARCHES_VIEW: View = View {
    name: "youtube_searches",
    service: NAME,
    kind: "searches",
    columns: &[Column::text("searched_at"), Column::text("query"), Column::text("product")],
    except_state: None,
};

/// Takes in the ZIP that Google sends.
pub fn import(
    desk: &Desk,
    source: impl Read + Seek,
) -> Result<BTreeMap<&'static str, Taken>, ArchiveError> {
    archive::import(desk, &SERVICE, &ARCHIVE, source)
}

/// Is it something watched or something searched for?
fn sort(item: &mut Value) -> Option<&'static List> {
    item.get("time")?;
    if asked(item, "v").is_some() {
        return Some(&WATCHES);
    }
    asked(item, "search_query").map(|_| &SEARCHES)
}

/// A field of the address that an entry leads to, if that is YouTube's.
fn asked(item: &Value, name: &str) -> Option<String> {
    let url = Url::parse(item.get("titleUrl")?.as_str()?).ok()?;
    if !url.host_str()?.ends_with("youtube.com") {
        return None;
    }
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Without the word that Google puts before it, where that is English.
fn title(item: &Value, before: &str) -> Value {
    let said = item.get("title").and_then(Value::as_str).unwrap_or_default();
    json!(said.strip_prefix(before).unwrap_or(said))
}
