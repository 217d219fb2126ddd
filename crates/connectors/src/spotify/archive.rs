//! Spotify's own archive: the extended streaming history, every play since the account began, and the
//! short history of a year that comes with the account data.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use serde_json::{Value, json};
use store::records::{Column, View};

use super::mirror::object;
use super::{NAME, SERVICE};
use crate::Desk;
use crate::personal::archive::{self, Archive, is_json};
use crate::personal::mirror::{List, at};
use crate::personal::{ArchiveError, Taken};

const ARCHIVE: Archive = Archive {
    wants: |name| {
        let begins = ["streaming_history", "streaminghistory", "endsong"];
        is_json(name) && begins.iter().any(|begin| name.to_ascii_lowercase().starts_with(begin))
    },
    sort,
    hint: "ask for the extended streaming history at https://www.spotify.com/account/privacy",
};

/// A play as the archive has it. It tells when a play ended and how much of it was heard, so it is
/// not the same as a play of the API.
pub(super) const STREAMS: List = List {
    kind: "streams",
    id: |stream| {
        let text = |name: &str| stream.get(name).and_then(Value::as_str);
        let what = ["spotify_track_uri", "spotify_episode_uri", "audiobook_chapter_uri"]
            .into_iter()
            .find_map(text)
            .or_else(|| text("master_metadata_track_name"))?;
        let heard_ms = stream.get("ms_played").and_then(Value::as_i64).unwrap_or_default();
        Some(format!("{} {heard_ms} {what}", text("ts")?))
    },
    at: "/ts",
    flat: |stream| {
        object(json!({
            "ended_at": at(stream, "/ts"),
            "track_name": at(stream, "/master_metadata_track_name"),
            "artist": at(stream, "/master_metadata_album_artist_name"),
            "album": at(stream, "/master_metadata_album_album_name"),
            "episode_name": at(stream, "/episode_name"),
            "show_name": at(stream, "/episode_show_name"),
            "audiobook_title": at(stream, "/audiobook_title"),
            "ms_played": at(stream, "/ms_played"),
            "track_uri": at(stream, "/spotify_track_uri"),
            "platform": at(stream, "/platform"),
            "country": at(stream, "/conn_country"),
            "reason_end": at(stream, "/reason_end"),
            "shuffle": at(stream, "/shuffle"),
            "skipped": at(stream, "/skipped"),
        }))
    },
    forgets: false,
};

pub(super) const STREAMS_VIEW: View = View {
    name: "spotify_streams",
    service: NAME,
    kind: "streams",
    columns: &[
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
    except_state: None,
};

/// Takes in the ZIP that Spotify sends.
pub fn import(
    desk: &Desk,
    source: impl Read + Seek,
) -> Result<BTreeMap<&'static str, Taken>, ArchiveError> {
    archive::import(desk, &SERVICE, &ARCHIVE, source)
}

/// Brings both histories into the form of the extended one, without what says where the owner was.
fn sort(item: &mut Value) -> Option<&'static List> {
    let stream = item.as_object_mut()?;
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
    stream.contains_key("ts").then_some(&STREAMS)
}
