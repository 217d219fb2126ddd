//! Takes in the archive that a service sends its user on request: a ZIP with JSON in it. Nothing is
//! unpacked to disk, and what grows past what an archive can be is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::Path;

use serde_json::Value;
use store::records::RecordsError;

use super::mirror::{List, put};
use crate::{Desk, Service};

const ENTRIES_MAX: usize = 100_000;
/// Spotify cuts its files at some 12 megabytes; Google writes years into one.
const ENTRY_BYTES_MAX: u64 = 512 << 20;
const TOTAL_BYTES_MAX: u64 = 4 << 30;
/// Entries of one transaction.
const BATCH_MAX: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("this is not a ZIP: {0}\nhint: give the file as it was sent, not unpacked")]
    NotAZip(String),
    #[error("`{name}` in the ZIP cannot be read: {why}")]
    Unreadable { name: String, why: String },
    #[error("the ZIP holds far more than an archive does")]
    TooMuch,
    #[error("the ZIP holds nothing that is known here\nhint: {0}")]
    NothingKnown(&'static str),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// What an import did with one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub rows: usize,
    /// New in the mirror.
    pub written: usize,
    /// Without a time or a name; left out.
    pub odd: usize,
}

/// How the entries of a service's archive are read.
pub(crate) struct Archive {
    /// May the file hold something for us?
    pub(crate) wants: fn(&str) -> bool,
    /// Brings an entry into its form; nothing when it is of no kind that is kept.
    pub(crate) sort: fn(&mut Value) -> Option<&'static List>,
    /// What to ask the service for.
    pub(crate) hint: &'static str,
}

pub(crate) fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

/// Takes in an archive. It can be given again: what is here already stays as it is.
pub(crate) fn import(
    desk: &Desk,
    service: &Service,
    archive: &Archive,
    source: impl Read + Seek,
) -> Result<BTreeMap<&'static str, Taken>, ArchiveError> {
    let mut zip =
        zip::ZipArchive::new(source).map_err(|error| ArchiveError::NotAZip(error.to_string()))?;
    if zip.len() > ENTRIES_MAX {
        return Err(ArchiveError::TooMuch);
    }
    let mut left_bytes = TOTAL_BYTES_MAX;
    let mut taken = BTreeMap::new();
    for index in 0..zip.len() {
        let file = zip.by_index(index).map_err(|e| ArchiveError::NotAZip(e.to_string()))?;
        let name = file.name().map(Cow::into_owned).unwrap_or_default();
        let base = name.rsplit(['/', '\\']).next().unwrap_or(&name);
        if base.starts_with("._") || !(archive.wants)(base) {
            continue;
        }
        let bytes = read(&name, file, left_bytes.min(ENTRY_BYTES_MAX))?;
        left_bytes = left_bytes.saturating_sub(bytes.len() as u64);
        let found: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let why = format!("line {}, column {}", error.line(), error.column());
            ArchiveError::Unreadable { name: name.clone(), why }
        })?;
        // Other products put other things into the same ZIP.
        let Value::Array(items) = found else { continue };
        for batch in items.chunks(BATCH_MAX) {
            take(desk, service, archive, batch, &mut taken)?;
        }
    }
    if taken.is_empty() { Err(ArchiveError::NothingKnown(archive.hint)) } else { Ok(taken) }
}

fn take(
    desk: &Desk,
    service: &Service,
    archive: &Archive,
    items: &[Value],
    taken: &mut BTreeMap<&'static str, Taken>,
) -> Result<(), RecordsError> {
    let mut sorted: BTreeMap<&'static str, (&'static List, Vec<Value>)> = BTreeMap::new();
    for item in items {
        let mut item = item.clone();
        if let Some(list) = (archive.sort)(&mut item) {
            sorted.entry(list.kind).or_insert((list, Vec::new())).1.push(item);
        }
    }
    for (kind, (list, items)) in sorted {
        let put = put(desk, service.name, list, &items)?;
        let tally = taken.entry(kind).or_default();
        tally.rows += items.len();
        tally.written += put.written;
        tally.odd += items.len() - put.ids.len();
    }
    Ok(())
}

/// The size in the directory of a ZIP is a claim; what counts is what comes out.
fn read(name: &str, file: impl Read, bytes_max: u64) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| ArchiveError::Unreadable {
        name: name.to_owned(),
        why: error.to_string(),
    })?;
    if bytes.len() as u64 > bytes_max {
        return Err(ArchiveError::TooMuch);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use std::io::{Cursor, Write as _};

    use sandbox::Config;
    use serde_json::json;
    use store::records::Window;
    use zip::write::SimpleFileOptions;

    use super::*;
    use crate::personal::stage::{Stage, stranger};
    use crate::{spotify, youtube};

    fn zipped(files: &[(&str, Value)]) -> Cursor<Vec<u8>> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, value) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(value.to_string().as_bytes()).unwrap();
        }
        zip.finish().unwrap()
    }

    fn stage(service: &'static Service) -> Stage {
        stranger(service, Config::spotify(1, 1, 1_776_247_200_000_000), |_, _| None)
    }

    fn flats(stage: &Stage, kind: &str) -> Vec<Value> {
        let window = Window::default();
        let texts = stage.desk.records.window_flat(stage.service.name, kind, &window).unwrap();
        texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    #[test]
    fn both_histories_of_spotify_are_taken_in_once_and_without_addresses() {
        let stage = stage(&spotify::SERVICE);
        let long = json!([
            { "ts": "2019-05-09T21:15:02Z", "ms_played": 180_000, "ip_addr": "198.51.100.7",
              "conn_country": "DE", "master_metadata_track_name": "Slow Light",
              "master_metadata_album_artist_name": "Second Letters",
              "spotify_track_uri": "spotify:track:abc", "skipped": false },
            { "ts": "2019-05-09T21:20:00Z", "ms_played": 5, "spotify_episode_uri": "spotify:episode:e",
              "episode_name": "One", "episode_show_name": "Show" },
            { "ms_played": 1 },
        ]);
        let short = json!([{ "endTime": "2018-01-02 03:04", "artistName": "A", "trackName": "T", "msPlayed": 7 }]);
        let files = [
            ("Spotify Extended Streaming History/Streaming_History_Audio_2019_0.json", long),
            ("MyData/StreamingHistory_music_0.json", short),
            ("MyData/Payments.json", json!({ "card": "no" })),
            ("__MACOSX/._Streaming_History_Audio_2019_0.json", json!("junk")),
        ];
        let taken = spotify::archive::import(&stage.desk, zipped(&files)).unwrap();
        assert_eq!(taken["streams"], Taken { rows: 3, written: 3, odd: 0 });
        let again = spotify::archive::import(&stage.desk, zipped(&files)).unwrap();
        assert_eq!(again["streams"], Taken { rows: 3, written: 0, odd: 0 });
        let flats = flats(&stage, "streams");
        assert_eq!(flats[0]["ended_at"], "2018-01-02T03:04:00Z");
        assert_eq!(flats[1]["track_name"], "Slow Light");
        assert_eq!(flats[2]["show_name"], "Show");
        let rows = stage.desk.records.window("spotify", "streams", &Window::default()).unwrap();
        assert!(rows.iter().all(|row| !row.raw.contains("198.51.100.7")));
    }

    #[test]
    fn takeout_gives_what_was_watched_and_searched_whatever_its_language() {
        let stage = stage(&youtube::SERVICE);
        let history = json!([
            { "header": "YouTube", "title": "Watched Rust in 10 minutes",
              "titleUrl": "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
              "subtitles": [{ "name": "Rust Channel", "url": "https://www.youtube.com/channel/UCx" }],
              "time": "2024-01-02T03:04:05.678Z" },
            { "header": "YouTube", "title": "Nach chess gesucht",
              "titleUrl": "https://www.youtube.com/results?search_query=chess",
              "time": "2024-01-03T03:04:05.678Z" },
            { "header": "YouTube", "title": "Watched a video that has been removed", "time": "2024-01-03T03:04:05Z" },
        ]);
        let files = [
            ("Takeout/YouTube und YouTube Music/Verlauf/Wiedergabeverlauf.json", history),
            ("Takeout/Chrome/Bookmarks.json", json!({ "roots": {} })),
        ];
        let taken = youtube::archive::import(&stage.desk, zipped(&files)).unwrap();
        assert_eq!(taken["watches"], Taken { rows: 1, written: 1, odd: 0 });
        assert_eq!(taken["searches"], Taken { rows: 1, written: 1, odd: 0 });
        let watched = &flats(&stage, "watches")[0];
        assert_eq!(watched["title"], "Rust in 10 minutes");
        assert_eq!(watched["video_id"], "dQw4w9WgXcQ");
        assert_eq!(flats(&stage, "searches")[0]["query"], "chess");
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let stage = stage(&spotify::SERVICE);
        let none = spotify::archive::import(&stage.desk, zipped(&[("a.txt", json!(1))]));
        assert!(matches!(none, Err(ArchiveError::NothingKnown(_))));
        let junk = spotify::archive::import(&stage.desk, Cursor::new(b"junk".to_vec()));
        assert!(matches!(junk, Err(ArchiveError::NotAZip(_))));
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("endsong_0.json", SimpleFileOptions::default()).unwrap();
        zip.write_all(b"[{\"ts\":").unwrap();
        let cut = spotify::archive::import(&stage.desk, zip.finish().unwrap());
        assert!(matches!(cut, Err(ArchiveError::Unreadable { .. })));
    }
}
