//! Generates artists, albums, tracks, shows, episodes, audiobooks and users by number, the same for the same
//! seed.

use serde_json::{Value, json};

use crate::rng::Rng;
use crate::timestamp;

pub(super) const ARTISTS: i64 = 64;
pub(super) const ALBUMS_EACH: i64 = 2;
pub(super) const TRACKS_EACH: i64 = 8;
pub(super) const ALBUMS: i64 = ARTISTS * ALBUMS_EACH;
pub(super) const TRACKS: i64 = ALBUMS * TRACKS_EACH;
pub(super) const SHOWS: i64 = 24;
pub(super) const EPISODES_EACH: i64 = 6;

const FIRST: &[&str] = &[
    "Amber", "Hollow", "Northern", "Paper", "Quiet", "Velvet", "Copper", "Midnight", "Glass",
    "Salt", "Winter", "Electric", "Golden", "Wild", "Second", "Lunar",
];
const SECOND: &[&str] = &[
    "Foxes",
    "Harbour",
    "Parade",
    "Echo",
    "Gardens",
    "Machines",
    "Rivers",
    "Tigers",
    "Signals",
    "Choir",
    "Motel",
    "Satellites",
    "Orchard",
    "Weather",
    "Letters",
    "Kids",
];
const SONGS: &[&str] = &[
    "Drive",
    "Home Again",
    "Left of Centre",
    "Slow Light",
    "Undertow",
    "Dancing Alone",
    "Northbound",
    "Fever",
    "Postcards",
    "Rooftops",
    "Half Asleep",
    "Bright Side",
    "Runaway",
    "Für dich",
    "愛の歌",
    "Corazón",
    "Tell Me Twice",
    "Static",
    "Blue Hour",
    "One More Summer",
];
const GENRES: &[&str] =
    &["indie pop", "art rock", "electronica", "folk", "jazz", "ambient", "hip hop", "k-indie"];

/// The catalogue of one seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Catalogue(pub(super) u64);

impl Catalogue {
    fn rng(self, subject: &str, number: i64) -> Rng {
        Rng::stream(self.0, subject, number)
    }

    pub(super) fn id(self, subject: &str, number: i64) -> String {
        self.rng(subject, number).word(22)
    }

    /// A title of two words, almost always unique.
    pub(super) fn title(self, subject: &str, number: i64) -> String {
        let mut rng = self.rng("title", number);
        let first = rng.pick(FIRST).copied().unwrap_or_default();
        let second = rng.pick(SECOND).copied().unwrap_or_default();
        match subject {
            "artist" => format!("{first} {second}"),
            "show" => format!("The {first} {second} Podcast"),
            "audiobook" => format!("A History of {second}"),
            _ => format!("{second}, {}", first.to_lowercase()),
        }
    }

    pub(super) fn artist(self, number: i64) -> Value {
        let mut rng = self.rng("artist figures", number);
        let genres: Vec<&str> =
            (0..rng.whole(0, 3)).filter_map(|_| rng.pick(GENRES)).copied().collect();
        let mut artist = self.named("artist", number, &self.title("artist", number));
        let followers = rng.whole(900, 9_000_000);
        let more = json!({
            "followers": { "href": null, "total": followers },
            "genres": genres,
            "images": images(&self.id("image", number)),
            "popularity": rng.whole(5, 95),
        });
        extend(&mut artist, &more);
        artist
    }

    /// The summary of an artist in a track.
    fn artist_brief(self, number: i64) -> Value {
        self.named("artist", number, &self.title("artist", number))
    }

    pub(super) fn album(self, number: i64) -> Value {
        let mut album = self.album_brief(number);
        let first = number * TRACKS_EACH;
        let tracks: Vec<Value> =
            (first..first + TRACKS_EACH).map(|track| self.track_brief(track)).collect();
        let mut rng = self.rng("album figures", number);
        let more = json!({
            "label": "Sandbox Records",
            "popularity": rng.whole(1, 90),
            "copyrights": [{ "text": "(C) Sandbox Records", "type": "C" }],
            "tracks": { "href": format!("https://api.spotify.com/v1/albums/{}/tracks", self.id("album", number)), "items": tracks,
                        "limit": 50, "next": null, "offset": 0, "previous": null, "total": TRACKS_EACH },
        });
        extend(&mut album, &more);
        album
    }

    fn album_brief(self, number: i64) -> Value {
        let mut rng = self.rng("album", number);
        let released = 10_957 + rng.whole(0, 9_500);
        let (year, month, day) = timestamp::date_of(released);
        let mut album = self.named("album", number, &self.title("album", 1_000 + number));
        let more = json!({
            "album_type": if number % 5 == 0 { "single" } else { "album" },
            "artists": [self.artist_brief(number / ALBUMS_EACH)],
            "available_markets": ["DE", "GB", "US"],
            "images": images(&self.id("cover", number)),
            "release_date": format!("{year:04}-{month:02}-{day:02}"),
            "release_date_precision": "day",
            "total_tracks": TRACKS_EACH,
        });
        extend(&mut album, &more);
        album
    }

    pub(super) fn track(self, number: i64) -> Value {
        let mut track = self.track_brief(number);
        let mut rng = self.rng("track figures", number);
        let more = json!({
            "album": self.album_brief(number / TRACKS_EACH),
            "external_ids": { "isrc": format!("SBX{:09}", number) },
            "popularity": rng.whole(0, 92),
            "is_local": false,
        });
        extend(&mut track, &more);
        track
    }

    fn track_brief(self, number: i64) -> Value {
        let mut rng = self.rng("track", number);
        let song = rng.pick(SONGS).copied().unwrap_or_default();
        let title = if number % 11 == 0 {
            format!("{song} (feat. {})", self.title("artist", (number + 7) % ARTISTS))
        } else {
            song.to_owned()
        };
        let mut artists = vec![self.artist_brief(number / (ALBUMS_EACH * TRACKS_EACH))];
        if number % 11 == 0 {
            artists.push(self.artist_brief((number + 7) % ARTISTS));
        }
        let mut track = self.named("track", number, &title);
        let more = json!({
            "artists": artists,
            "available_markets": ["DE", "GB", "US"],
            "disc_number": 1,
            "duration_ms": rng.whole(95_000, 420_000),
            "explicit": rng.happens(0.12),
            "preview_url": null,
            "track_number": number % TRACKS_EACH + 1,
        });
        extend(&mut track, &more);
        track
    }

    pub(super) fn show(self, number: i64) -> Value {
        let mut show = self.named("show", number, &self.title("show", 3_000 + number));
        let more = json!({
            "available_markets": ["DE", "GB", "US"],
            "description": "Two people talk about what happened this week.",
            "explicit": false,
            "images": images(&self.id("show image", number)),
            "languages": ["en"],
            "media_type": "audio",
            "publisher": self.title("artist", 4_000 + number),
            "total_episodes": EPISODES_EACH,
        });
        extend(&mut show, &more);
        show
    }

    pub(super) fn episode(self, number: i64) -> Value {
        let mut rng = self.rng("episode", number);
        let released = 20_000 + rng.whole(0, 700);
        let (year, month, day) = timestamp::date_of(released);
        let mut episode =
            self.named("episode", number, &format!("Episode {}", number % EPISODES_EACH + 1));
        let more = json!({
            "description": "In this episode: one question, three answers.",
            "duration_ms": rng.whole(900_000, 5_400_000),
            "explicit": false,
            "images": images(&self.id("episode image", number)),
            "language": "en",
            "release_date": format!("{year:04}-{month:02}-{day:02}"),
            "release_date_precision": "day",
            "resume_point": { "fully_played": rng.happens(0.4), "resume_position_ms": 0 },
            "show": self.show(number / EPISODES_EACH),
        });
        extend(&mut episode, &more);
        episode
    }

    pub(super) fn audiobook(self, number: i64) -> Value {
        let mut book = self.named("audiobook", number, &self.title("audiobook", 5_000 + number));
        let more = json!({
            "authors": [{ "name": self.title("artist", 6_000 + number) }],
            "narrators": [{ "name": self.title("artist", 7_000 + number) }],
            "description": "Read by the author.",
            "edition": "Unabridged",
            "explicit": false,
            "images": images(&self.id("book image", number)),
            "languages": ["en"],
            "publisher": "Sandbox Books",
            "total_chapters": 12,
        });
        extend(&mut book, &more);
        book
    }

    /// Number 0 is the owner.
    pub(super) fn user(self, number: i64) -> Value {
        let id = self.user_id(number);
        let mut rng = self.rng("user", number);
        json!({
            "display_name": self.title("artist", 8_000 + number),
            "external_urls": { "spotify": format!("https://open.spotify.com/user/{id}") },
            "followers": { "href": null, "total": rng.whole(0, 900) },
            "href": format!("https://api.spotify.com/v1/users/{id}"),
            "id": id,
            "images": images(&self.id("face", number)),
            "type": "user",
            "uri": format!("spotify:user:{id}"),
        })
    }

    pub(super) fn user_id(self, number: i64) -> String {
        self.rng("user id", number).word(25).to_lowercase()
    }

    fn named(self, kind: &str, number: i64, name: &str) -> Value {
        let id = self.id(kind, number);
        json!({
            "external_urls": { "spotify": format!("https://open.spotify.com/{kind}/{id}") },
            "href": format!("https://api.spotify.com/v1/{kind}s/{id}"),
            "id": id,
            "name": name,
            "type": kind,
            "uri": format!("spotify:{kind}:{id}"),
        })
    }
}

fn images(id: &str) -> Value {
    let image = |side: u32| json!({ "height": side, "url": format!("https://i.scdn.co/image/{id}{side}"), "width": side });
    json!([image(640), image(300), image(64)])
}

fn extend(value: &mut Value, more: &Value) {
    if let (Some(value), Some(more)) = (value.as_object_mut(), more.as_object()) {
        value.extend(more.clone());
    }
}
