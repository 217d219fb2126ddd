//! Google Takeout: what was watched and searched for, which the API does not offer, and the
//! subscriptions, likes and playlists as they were. Google names files and columns in the owner's
//! language and writes the history as HTML unless asked otherwise, so files are known by what is in
//! them.

mod activity;
mod moment;
mod tables;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use store::records::{Column, View};
use url::Url;

use super::{NAME, SERVICE};
use crate::Desk;
use crate::personal::archive::{self, Archive, Given, Intake, OpenFile, Stop, each_entry};
use crate::personal::mirror::{Forgets, List, Stamp, at, columns};
use crate::personal::{ArchiveError, Imported};
use crate::when::{instant_us, utc_seconds};

/// Other products put other things into the same archive: a file in which so many entries are none
/// of ours is not read further.
const OTHERS_MAX: usize = 1_000;

const ARCHIVE: Archive = Archive {
    wants: |name| [".json", ".html", ".htm", ".csv"].iter().any(|end| name.ends_with(end)),
    learn: Some(|file, intake| match file.extension().as_str() {
        "csv" => tables::learn(file, intake),
        _ => Ok(()),
    }),
    read,
    hint: "at https://takeout.google.com choose YouTube and YouTube Music with history, subscriptions and playlists, and give all parts of the archive",
};

/// Takes in what Google sends: ZIPs, or the folder they were unpacked to.
pub fn import(desk: &Desk, given: &Given<'_>) -> Result<Imported, ArchiveError> {
    archive::import(desk, &SERVICE, &ARCHIVE, given)
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
        // A history is a list; an object of lists is something else.
        if !section.is_empty() {
            return Err(Stop::Enough);
        }
        take(item, intake, &mut others)
    })
}

/// How much of a file was not ours so far.
#[derive(Default)]
struct Others {
    is_ours: bool,
    count: usize,
}

/// Takes in an entry if it is of something watched or searched for.
fn take(item: Value, intake: &mut Intake<'_>, others: &mut Others) -> Result<(), Stop> {
    let list = match (asked(&item, "v"), asked(&item, "search_query")) {
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
    id: |item| Some(format!("{} {}", second(item)?, asked(item, "v")?)),
    at: "/time",
    stamp: Stamp::Said,
    parent: None,
    flat: |item| {
        columns([
            ("watched_at", at(item, "/time")),
            ("video_id", json!(asked(item, "v"))),
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
    id: |item| Some(format!("{} {}", second(item)?, asked(item, "search_query")?)),
    at: "/time",
    stamp: Stamp::Said,
    parent: None,
    flat: |item| {
        columns([
            ("searched_at", at(item, "/time")),
            ("query", json!(asked(item, "search_query"))),
            ("product", at(item, "/header")),
        ])
    },
    forgets: Forgets::Never,
};

/// HTML has no parts of a second, JSON has; they tell of the same moment.
fn second(item: &Value) -> Option<String> {
    let at_us = instant_us(item.get("time")?.as_str()?)?;
    Some(utc_seconds(at_us))
}

pub(super) const WATCHES_VIEW: View = View {
    name: "youtube_watches",
    service: NAME,
    kind: "watches",
    columns: &[
        Column::text("watched_at"),
        Column::text("video_id"),
        Column::text("title"),
        Column::text("channel"),
        Column::text("channel_url"),
        Column::text("product"),
        Column::text("details"),
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

/// A field of the address that an entry leads to, if that is YouTube's.
fn asked(item: &Value, name: &str) -> Option<String> {
    let url = Url::parse(item.get("titleUrl")?.as_str()?).ok()?;
    let host = url.host_str()?;
    if host != "youtube.com" && !host.ends_with(".youtube.com") {
        return None;
    }
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// What Google says around a title, before and after it.
const SAID: &[(&str, &str)] = &[
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

/// Without the words that Google puts around it, where they are known.
fn title(item: &Value) -> Value {
    let said = item.get("title").and_then(Value::as_str).unwrap_or_default();
    let said = said.replace('\u{a0}', " ");
    let bare = SAID.iter().find_map(|(before, after)| {
        let bare = said.strip_prefix(before)?.strip_suffix(after)?;
        (bare.len() < said.len()).then_some(bare)
    });
    json!(bare.unwrap_or(&said).trim())
}
