//! Spotify's data exports: the extended streaming history with every play since the account began,
//! and the account data with one year of history, the library and the playlists.

mod library;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use store::records::{Column, View};

use super::NAME;
use super::mirror::MIRROR;
use crate::ConnectorContext;
use crate::personal::archive::{self, Archive, ImportInput, Intake, OpenFile, Stop, each_entry};
use crate::personal::mirror::{Forgets, List, Stamp, at, columns};
use crate::personal::{ArchiveError, ArchiveImport, ImportReport};

pub const IMPORT: ArchiveImport = ArchiveImport {
    about: "Spotify's data export: the extended streaming history, or the account data",
    import,
};

const ARCHIVE: Archive = Archive {
    wants: |path| File::of(path).is_some(),
    learn: None,
    read,
    hint: "request the extended streaming history, or the account data, at https://www.spotify.com/account/privacy",
};

/// The files to read. Spotify names them in English in every language.
#[derive(Clone, Copy, PartialEq, Eq)]
enum File {
    History,
    Library,
    Playlists,
}

impl File {
    fn of(path: &str) -> Option<File> {
        let base = path.rsplit(['/', '\\']).next().unwrap_or(path).to_ascii_lowercase();
        let name = base.strip_suffix(".json")?;
        let begins = |begins: &[&str]| begins.iter().any(|begin| name.starts_with(begin));
        if begins(&["streaming_history", "streaminghistory", "endsong"]) {
            return Some(File::History);
        }
        if name == "yourlibrary" {
            return Some(File::Library);
        }
        let number = name.strip_prefix("playlist")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(File::Playlists)
    }
}

/// Imports the ZIP that Spotify sends, or its unpacked folder.
pub fn import(
    ctx: &ConnectorContext,
    given: &ImportInput<'_>,
) -> Result<ImportReport, ArchiveError> {
    archive::import(ctx, &MIRROR, &ARCHIVE, given)
}

fn read(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    match File::of(file.name) {
        Some(File::History) => each_entry(file, &mut |_, mut item| {
            if is_stream(&mut item) {
                intake.put(&STREAMS, item)?;
            } else {
                intake.odd(&STREAMS);
            }
            Ok(())
        }),
        Some(File::Library) => {
            each_entry(file, &mut |section, item| Ok(library::saved(section, &item, intake)?))
        }
        Some(File::Playlists) => library::playlists(file, intake),
        None => Ok(()),
    }
}

/// A play in the archive. It has the end and the played time of a play, so it differs from a play of
/// the API.
pub(super) const STREAMS: List = List {
    kind: "streams",
    id: |stream| {
        let text = |name: &str| stream.get(name).and_then(Value::as_str);
        let what = ["spotify_track_uri", "spotify_episode_uri", "audiobook_chapter_uri"]
            .into_iter()
            .find_map(text)
            .or_else(|| text("master_metadata_track_name"))
            .or_else(|| text("episode_name"))?;
        let heard_ms = stream.get("ms_played").and_then(Value::as_i64).unwrap_or_default();
        Some(format!("{} {heard_ms} {what}", text("ts")?))
    },
    at: "/ts",
    stamp: Stamp::FromItem,
    parent: None,
    flat,
    forgets: Forgets::Never,
};

fn flat(stream: &Value) -> Map<String, Value> {
    columns([
        ("ended_at", at(stream, "/ts")),
        ("track_name", at(stream, "/master_metadata_track_name")),
        ("artist", at(stream, "/master_metadata_album_artist_name")),
        ("album", at(stream, "/master_metadata_album_album_name")),
        ("episode_name", at(stream, "/episode_name")),
        ("show_name", at(stream, "/episode_show_name")),
        ("audiobook_title", at(stream, "/audiobook_title")),
        ("ms_played", at(stream, "/ms_played")),
        ("track_uri", at(stream, "/spotify_track_uri")),
        ("platform", at(stream, "/platform")),
        ("country", at(stream, "/conn_country")),
        ("reason_end", at(stream, "/reason_end")),
        ("shuffle", at(stream, "/shuffle")),
        ("skipped", at(stream, "/skipped")),
    ])
}

pub(super) const STREAMS_VIEW: View = View::of(
    "spotify_streams",
    NAME,
    "streams",
    &[
        Column::text("ended_at"),
        Column::text("track_name"),
        Column::text("artist"),
        Column::text("album"),
        Column::text("episode_name"),
        Column::text("show_name"),
        Column::text("audiobook_title"),
        Column::integer("ms_played"),
        Column::text("track_uri"),
        Column::text("platform"),
        Column::text("country"),
        Column::text("reason_end"),
        Column::bool("shuffle"),
        Column::bool("skipped"),
    ],
);

/// Converts both histories to the extended form, without members that show the owner's location.
fn is_stream(item: &mut Value) -> bool {
    let Some(stream) = item.as_object_mut() else { return false };
    for name in ["ip_addr", "ip_addr_decrypted", "user_agent_decrypted", "username"] {
        stream.shift_remove(name);
    }
    if let Some(Value::String(end)) = stream.shift_remove("endTime") {
        stream.insert("ts".to_owned(), json!(format!("{}:00Z", end.replacen(' ', "T", 1))));
        for (short, long) in [
            ("artistName", "master_metadata_album_artist_name"),
            ("trackName", "master_metadata_track_name"),
            ("podcastName", "episode_show_name"),
            ("episodeName", "episode_name"),
            ("msPlayed", "ms_played"),
        ] {
            if let Some(value) = stream.shift_remove(short) {
                stream.insert(long.to_owned(), value);
            }
        }
    }
    stream.contains_key("ts")
}
