//! Google Takeout: watch and search history, which the API does not offer, and subscriptions, likes
//! and playlists. Google names files and columns in the owner's language and writes the history as
//! HTML by default, so files are recognised by their content.

mod activity;
mod tables;
#[cfg(test)]
mod tests;
mod timestamp;

use serde_json::{Value, json};
use store::records::{Column, View};
use url::Url;

use super::NAME;
use super::mirror::MIRROR;
use crate::ConnectorContext;
use crate::personal::archive::{self, Archive, ImportInput, Intake, OpenFile, Stop, each_entry};
use crate::personal::mirror::{Forgets, List, Stamp, at, columns};
use crate::personal::{ArchiveError, ArchiveImport, ImportReport};
use crate::when::{instant_us, utc_seconds};

/// The archive may hold files of other products. After so many foreign entries the rest of a file is
/// skipped.
const OTHERS_MAX: usize = 1_000;

pub const IMPORT: ArchiveImport = ArchiveImport {
    about: "Google Takeout of YouTube: history as HTML or JSON, subscriptions, playlists, likes",
    import,
};

const ARCHIVE: Archive = Archive {
    wants: |name| [".json", ".html", ".htm", ".csv"].iter().any(|end| name.ends_with(end)),
    learn: Some(|file, intake| match file.extension().as_str() {
        "csv" => tables::learn(file, intake),
        _ => Ok(()),
    }),
    read,
    hint: "at https://takeout.google.com choose YouTube and YouTube Music with history, subscriptions and playlists, and give all parts of the archive",
};

/// Imports the ZIPs that Google sends, or their unpacked folder.
pub fn import(
    ctx: &ConnectorContext,
    given: &ImportInput<'_>,
) -> Result<ImportReport, ArchiveError> {
    archive::import(ctx, &MIRROR, &ARCHIVE, given)
}

fn read(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    match file.extension().as_str() {
        "csv" => tables::read(file, intake),
        "json" => histories(file, intake),
        _ => activity::read(file, intake),
    }
}

/// The history as JSON.
fn histories(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    let mut others = Others::default();
    each_entry(file, &mut |section, item| {
        // A history is a top-level list.
        if !section.is_empty() {
            return Err(Stop::Enough);
        }
        take(item, intake, &mut others)
    })
}

/// How many entries of a file were foreign so far.
#[derive(Default)]
struct Others {
    is_ours: bool,
    count: usize,
}

/// Imports an entry of the watch or search history.
fn take(item: Value, intake: &mut Intake<'_>, others: &mut Others) -> Result<(), Stop> {
    let list = match (query_param(&item, "v"), query_param(&item, "search_query")) {
        (Some(_), _) => &WATCHES,
        (None, Some(_)) => &SEARCHES,
        (None, None) => {
            others.count += 1;
            let is_other = !others.is_ours && others.count >= OTHERS_MAX;
            return if is_other { Err(Stop::Enough) } else { Ok(()) };
        }
    };
    others.is_ours = true;
    if at(&item, "/time").as_str().and_then(instant_us).is_none() {
        intake.odd(list);
        return Ok(());
    }
    Ok(intake.put(list, item)?)
}

pub(super) const WATCHES: List = List {
    kind: "watches",
    id: |item| Some(format!("{} {}", second(item)?, query_param(item, "v")?)),
    at: "/time",
    stamp: Stamp::FromItem,
    parent: None,
    flat: |item| {
        columns([
            ("watched_at", at(item, "/time")),
            ("video_id", json!(query_param(item, "v"))),
            ("title", title(item)),
            ("channel", at(item, "/subtitles/0/name")),
            ("channel_url", at(item, "/subtitles/0/url")),
            ("product", at(item, "/header")),
            ("details", at(item, "/details/0/name")),
        ])
    },
    forgets: Forgets::Never,
};
pub(super) const SEARCHES: List = List {
    kind: "searches",
    id: |item| Some(format!("{} {}", second(item)?, query_param(item, "search_query")?)),
    at: "/time",
    stamp: Stamp::FromItem,
    parent: None,
    flat: |item| {
        columns([
            ("searched_at", at(item, "/time")),
            ("query", json!(query_param(item, "search_query"))),
            ("product", at(item, "/header")),
        ])
    },
    forgets: Forgets::Never,
};

/// Truncated to seconds, because HTML has no fractions and JSON has.
fn second(item: &Value) -> Option<String> {
    let at_us = instant_us(item.get("time")?.as_str()?)?;
    Some(utc_seconds(at_us))
}

pub(super) const WATCHES_VIEW: View = View::of(
    "youtube_watches",
    NAME,
    "watches",
    &[
        Column::text("watched_at"),
        Column::text("video_id"),
        Column::text("title"),
        Column::text("channel"),
        Column::text("channel_url"),
        Column::text("product"),
        Column::text("details"),
    ],
);
pub(super) const SEARCHES_VIEW: View = View {
    name: "youtube_searches",
    service: NAME,
    kind: "searches",
    columns: &[Column::text("searched_at"), Column::text("query"), Column::text("product")],
    except_state: None,
};

/// A query parameter of an entry's URL, if it is a YouTube URL.
fn query_param(item: &Value, name: &str) -> Option<String> {
    let url = Url::parse(item.get("titleUrl")?.as_str()?).ok()?;
    let host = url.host_str()?;
    if host != "youtube.com" && !host.ends_with(".youtube.com") {
        return None;
    }
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The text that Google writes before and after a title.
const TITLE_AFFIXES: &[(&str, &str)] = &[
    ("Watched ", ""),
    ("Vous avez regardé ", ""),
    ("Has visto ", ""),
    ("Hai guardato ", ""),
    ("Você assistiu a ", ""),
    ("Viu ", ""),
    ("", " angesehen"),
    ("", " bekeken"),
    ("", " を視聴しました"),
    ("", "을(를) 시청함"),
];

/// The title without that text, where it is known.
fn title(item: &Value) -> Value {
    let given = item.get("title").and_then(Value::as_str).unwrap_or_default();
    let given = given.replace('\u{a0}', " ");
    let bare = TITLE_AFFIXES.iter().find_map(|(before, after)| {
        let bare = given.strip_prefix(before)?.strip_suffix(after)?;
        (bare.len() < given.len()).then_some(bare)
    });
    json!(bare.unwrap_or(&given).trim())
}
