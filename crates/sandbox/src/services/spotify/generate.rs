//! Generates the data of a fictional listener: plays, saved things, followed artists and playlists with their
//! entries. A day adds plays and sometimes a saved track.

use serde_json::{Value, json};

use super::catalogue::{ALBUMS, ARTISTS, Catalogue, EPISODES_EACH, SHOWS, TRACKS};
use crate::record_store::{GeneratedRecords, RecordKind};
use crate::simulation::GenerateParams;
use crate::timestamp::{self, DAY_MS, HOUR_MS, MINUTE_MS};

pub(super) const KINDS: &[RecordKind] = &[
    RecordKind::at("play", "/played_at", "/played_at"),
    RecordKind::at("saved_track", "/track/id", "/added_at"),
    RecordKind::at("saved_album", "/album/id", "/added_at"),
    RecordKind::at("saved_show", "/show/id", "/added_at"),
    RecordKind::at("saved_episode", "/episode/id", "/added_at"),
    RecordKind::at("saved_audiobook", "/audiobook/id", "/added_at"),
    RecordKind::new("followed_artist", "/id"),
    RecordKind::new("followed_user", "/id"),
    RecordKind::new("playlist", "/id"),
    RecordKind::new("other_playlist", "/id"),
    RecordKind::new("playlist_item", "/id"),
];

/// Plays are generated for this many days; the API shows only 50 of them.
const PLAY_DAYS: i64 = 60;
const SAVED_BEFORE: i64 = 130;
const SAVED_MAX: i64 = 900;
const FOLLOWED: i64 = 58;
const OWN_PLAYLISTS: i64 = 54;
/// Playlists of others: the first ones are in the library, the rest can be followed.
const OTHER_PLAYLISTS: i64 = 14;
const OTHERS_FOLLOWED: i64 = 8;
const LONG_PLAYLIST: i64 = 120;

pub(super) fn generate(params: GenerateParams) -> GeneratedRecords {
    let music = Catalogue(params.seed);
    let before = |subject: &'static str, number: i64| {
        let mut rng = params.rng(subject, number);
        let day = params.first_day - 1 - rng.whole(0, 900);
        timestamp::seconds(day * DAY_MS + rng.whole(0, DAY_MS - 1))
    };
    let saved = |kind: &'static str, count: i64, one: &dyn Fn(i64) -> Value| -> Vec<Value> {
        (0..count).map(|n| json!({ "added_at": before(kind, n), (kind): one(n) })).collect()
    };
    let own: Vec<Value> = (0..OWN_PLAYLISTS).map(|n| playlist(music, n, 0)).collect();
    let others: Vec<Value> =
        (0..OTHER_PLAYLISTS).map(|n| playlist(music, OWN_PLAYLISTS + n, 1 + n % 5)).collect();
    let items = own
        .iter()
        .chain(&others)
        .enumerate()
        .flat_map(|(n, list)| entries(params, music, i64::try_from(n).unwrap_or(0), list));
    let items = items.collect();
    let followed = usize::try_from(OTHERS_FOLLOWED).unwrap_or(0);
    let library = own.into_iter().chain(others.iter().take(followed).cloned()).collect();
    vec![
        ("play", plays(params, music)),
        ("saved_track", saved_tracks(params, music)),
        ("saved_album", saved("album", 57, &|n| music.album((n * 5) % ALBUMS))),
        ("saved_show", saved("show", SHOWS, &|n| music.show(n))),
        (
            "saved_episode",
            saved("episode", 55, &|n| music.episode((n * 7) % (SHOWS * EPISODES_EACH))),
        ),
        ("saved_audiobook", saved("audiobook", 8, &|n| music.audiobook(n))),
        ("followed_artist", (0..FOLLOWED).map(|n| music.artist((n * 3) % ARTISTS)).collect()),
        ("followed_user", (1..4).map(|n| music.user(n)).collect()),
        ("playlist", library),
        ("other_playlist", others),
        ("playlist_item", items),
    ]
}

/// Plays in listening sessions; the last play is over by now.
fn plays(params: GenerateParams, music: Catalogue) -> Vec<Value> {
    let from = params.first_day.max(params.last_day() - PLAY_DAYS);
    let mut plays = Vec::new();
    for day in from..=params.last_day() {
        let mut rng = params.rng("plays", day);
        for _ in 0..rng.whole(0, 3) {
            let mut at_ms = day * DAY_MS + rng.whole(6 * HOUR_MS, 22 * HOUR_MS);
            let favourite = rng.whole(0, TRACKS - 1);
            for _ in 0..rng.whole(1, 14) {
                let number = (favourite + rng.whole(0, 40)) % TRACKS;
                at_ms += rng.whole(2 * MINUTE_MS, 5 * MINUTE_MS);
                if at_ms < params.now_ms {
                    let context = json!({ "type": "album", "uri": format!("spotify:album:{}", music.id("album", number / 8)) });
                    let context = if rng.happens(0.3) { Value::Null } else { context };
                    plays.push(json!({
                        "track": music.track(number),
                        "played_at": timestamp::text(at_ms),
                        "context": context,
                    }));
                }
            }
        }
    }
    plays
}

/// Those from before the first day, and those of each day.
fn saved_tracks(params: GenerateParams, music: Catalogue) -> Vec<Value> {
    let mut moments: Vec<i64> = (0..SAVED_BEFORE)
        .map(|n| {
            (params.first_day - 1 - n * 3) * DAY_MS + params.rng("saved", n).whole(0, DAY_MS - 1)
        })
        .collect();
    for day in params.days() {
        let mut rng = params.rng("saves", day);
        let count = if rng.happens(0.45) { rng.whole(1, 3) } else { 0 };
        moments.extend((0..count).map(|_| day * DAY_MS + rng.whole(0, DAY_MS - 1)));
    }
    moments.retain(|at_ms| *at_ms < params.now_ms);
    let saved = (0..SAVED_MAX).zip(moments);
    saved
        // 389 and the number of tracks are coprime, so that no track is repeated.
        .map(|(n, at_ms)| json!({ "added_at": timestamp::seconds(at_ms), "track": music.track(n * 389 % TRACKS) }))
        .collect()
}

fn playlist(music: Catalogue, number: i64, owner: i64) -> Value {
    let id = music.id("playlist", number);
    let mut owner_brief = music.user(owner);
    if let Some(owner) = owner_brief.as_object_mut() {
        owner.shift_remove("followers");
        owner.shift_remove("images");
    }
    json!({
        // Two playlists of others are collaborative.
        "collaborative": owner == 2,
        "description": if number % 4 == 0 { "Songs for the road &amp; the rain" } else { "" },
        "external_urls": { "spotify": format!("https://open.spotify.com/playlist/{id}") },
        "href": format!("https://api.spotify.com/v1/playlists/{id}"),
        "id": id,
        "images": null,
        "name": music.title("playlist", 2_000 + number),
        "owner": owner_brief,
        "primary_color": null,
        "public": number % 3 != 0,
        "snapshot_id": music.id("snapshot", number),
        "tracks": { "href": format!("https://api.spotify.com/v1/playlists/{id}/tracks"), "total": length(number) },
        "type": "playlist",
        "uri": format!("spotify:playlist:{id}"),
    })
}

/// The first playlist is long, the second is empty.
fn length(number: i64) -> i64 {
    match number {
        0 => LONG_PLAYLIST,
        1 => 0,
        _ => 4 + number % 9,
    }
}

fn entries(params: GenerateParams, music: Catalogue, number: i64, list: &Value) -> Vec<Value> {
    let id = list.get("id").and_then(Value::as_str).unwrap_or_default();
    let entry = |place: i64| {
        let at_ms = (params.first_day - 800 + place * 5) * DAY_MS;
        let item = match place {
            // A removed track, a local file, and an episode.
            1 => Value::Null,
            2 => local(number),
            3 => music.episode((number * 5) % (SHOWS * EPISODES_EACH)),
            _ => music.track((number * 31 + place * 7) % TRACKS),
        };
        json!({
            "playlist": id,
            "id": format!("{id}:{place}"),
            "entry": {
                "added_at": timestamp::seconds(at_ms),
                "added_by": { "id": list.pointer("/owner/id"), "type": "user" },
                "is_local": place == 2,
                "primary_color": null,
                "item": item,
            },
        })
    };
    (0..length(number)).map(entry).collect()
}

fn local(number: i64) -> Value {
    json!({
        "album": { "name": "Tapes", "type": "album", "artists": [], "id": null, "uri": null },
        "artists": [{ "name": "My own band", "type": "artist", "id": null, "uri": null }],
        "duration_ms": 181_000,
        "external_urls": {},
        "href": null,
        "id": null,
        "is_local": true,
        "name": format!("Rehearsal {number}"),
        "type": "track",
        "uri": format!("spotify:local:My+own+band:Tapes:Rehearsal+{number}:181"),
    })
}
