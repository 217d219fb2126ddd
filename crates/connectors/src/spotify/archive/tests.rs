//! Imports of both Spotify archives, alone and together with a synced library.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::Config;
use serde_json::json;
use store::clock::Clock;
use store::records::Window;

use super::import;
use crate::spotify::SERVICE;
use crate::spotify::mirror::MIRROR;
use crate::sync::{SyncRequest, run};
use crate::testing::archives::{ArchiveFiles, owner};
use crate::testing::{Fixture, signed_out_fixture};

#[test]
fn both_histories_are_imported_once_and_without_ip_addresses() {
    let (fixture, archives) = (owner(&SERVICE), ArchiveFiles::new());
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
    let podcast = json!([{ "endTime": "2018-01-03 03:04", "podcastName": "P", "episodeName": "E", "msPlayed": 9 }]);
    let (long, short, podcast) =
        (long.to_string(), format!("\u{feff}{short}"), podcast.to_string());
    let files: [(&str, &[u8]); 5] = [
        ("Spotify Extended Streaming History/Streaming_History_Audio_2019_0.json", long.as_bytes()),
        ("MyData/StreamingHistory_music_0.json", short.as_bytes()),
        ("MyData/StreamingHistory_podcast_0.json", podcast.as_bytes()),
        ("MyData/Payments.json", b"{\"card\":\"no\"}"),
        ("__MACOSX/._Streaming_History_Audio_2019_0.json", b"junk"),
    ];
    let zip = archives.zip("my_spotify_data.zip", &files);
    let taken = fixture.import(import, std::slice::from_ref(&zip)).unwrap();
    assert_eq!(Fixture::counts(&taken, "streams"), (5, 4, 1, 0));
    let again = fixture.import(import, &[zip, archives.unpacked("MyData", &files)]).unwrap();
    assert_eq!(Fixture::counts(&again, "streams"), (10, 0, 2, 0));
    let flats = fixture.flats("streams");
    assert_eq!(flats[0]["ended_at"], "2018-01-02T03:04:00Z");
    assert_eq!(flats[1]["show_name"], "P");
    assert_eq!(flats[2]["track_name"], "Slow Light");
    assert_eq!(flats[3]["show_name"], "Show");
    let rows = fixture.ctx.records.window("spotify", "streams", &Window::default()).unwrap();
    assert!(rows.iter().all(|row| !row.raw.contains("198.51.100.7")));
}

const TRACK: &str = "4uLU6hMCjMI75M1A2tKUQC";

fn account_data(playlist: &str, track: &str) -> (String, String) {
    let library = json!({
        "tracks": [
            { "artist": "Rick", "album": "Whenever", "track": "Never", "uri": format!("spotify:track:{track}") },
            { "artist": "Me", "album": "", "track": "Own file", "uri": "spotify:local:Me::Own+file:100" },
        ],
        "albums": [{ "artist": "Rick", "album": "Whenever", "uri": "spotify:album:6XzZ5pg0dPYQkPmfzZpAbc" }],
        "shows": [{ "name": "Talk", "publisher": "P", "uri": "spotify:show:6XzZ5pg0dPYQkPmfzZpAbd" }],
        "episodes": [{ "name": "Ep", "show": "Talk", "uri": "spotify:episode:6XzZ5pg0dPYQkPmfzZpAbe" }],
        "bannedTracks": [], "other": ["x"],
        "artists": [{ "name": "Rick", "uri": "spotify:artist:0gxyHStUsqpMadRV0Di1Qt" }],
    });
    let track = json!({ "trackName": "Never", "artistName": "Rick", "albumName": "Whenever", "trackUri": format!("spotify:track:{track}") });
    let playlists = json!({ "playlists": [
        { "name": playlist, "lastModifiedDate": "2024-02-03", "description": null, "numberOfFollowers": 0, "items": [
            { "track": track, "episode": null, "localTrack": null, "addedDate": "2024-01-02" },
            { "track": null, "episode": { "episodeName": "Ep", "showName": "Talk", "episodeUri": "spotify:episode:6XzZ5pg0dPYQkPmfzZpAbe" }, "localTrack": null, "addedDate": "2024-01-03" },
            { "track": null, "episode": null, "localTrack": { "uri": "spotify:local:Me::Own+file:100" }, "addedDate": "2024-01-04" },
            { "track": track, "episode": null, "localTrack": null, "addedDate": "2024-01-05" },
            { "track": null, "episode": null, "localTrack": null, "addedDate": "2024-01-06" },
        ] },
    ] });
    (library.to_string(), playlists.to_string())
}

fn zip(archives: &ArchiveFiles, playlist: &str, track: &str) -> std::path::PathBuf {
    let (library, playlists) = account_data(playlist, track);
    archives.zip(
        "my_spotify_data.zip",
        &[
            ("Spotify Account Data/YourLibrary.json", library.as_bytes()),
            ("Spotify Account Data/Playlist1.json", playlists.as_bytes()),
        ],
    )
}

#[test]
fn the_library_and_playlists_of_the_account_data_are_imported() {
    let (fixture, archives) = (owner(&SERVICE), ArchiveFiles::new());
    let zip = zip(&archives, "Road trip", TRACK);
    let taken = fixture.import(import, std::slice::from_ref(&zip)).unwrap();
    assert_eq!(Fixture::counts(&taken, "saved_tracks"), (2, 1, 1, 0), "an own file has no id");
    for kind in ["saved_albums", "saved_shows", "saved_episodes", "followed_artists", "playlists"] {
        assert_eq!(Fixture::counts(&taken, kind), (1, 1, 0, 0), "{kind}");
    }
    assert_eq!(Fixture::counts(&taken, "playlist_items"), (4, 4, 0, 0));
    let again = fixture.import(import, &[zip]).unwrap();
    assert!(again.kinds.values().all(|taken| taken.written == 0), "{again:?}");
    let items = fixture.flats("playlist_items");
    let names: Vec<_> = items.iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Never", "Ep", "spotify:local:Me::Own+file:100", "Never"]);
    assert!(items.iter().all(|item| item["playlist"] == "Road trip"), "{items:?}");
    assert_eq!(fixture.flats("saved_tracks")[0]["artists"], "Rick");
}

#[tokio::test]
async fn an_import_does_not_overwrite_synced_records() {
    fn look(name: &str, url: &str) -> Option<String> {
        Some(match name {
            "SPOTIFY_API_BASE_URL" => format!("{url}/api"),
            "SPOTIFY_OAUTH_BASE_URL" => format!("{url}/accounts"),
            "SPOTIFY_CLIENT_ID" => "sandbox-spotify-client".to_owned(),
            "SPOTIFY_CLIENT_SECRET" => "sandbox-spotify-secret".to_owned(),
            _ => return None,
        })
    }
    let config = Config::spotify(7, 5, Clock::System.now().wall_us);
    let (fixture, archives) =
        (signed_out_fixture(&SERVICE, config, look).sign_in(), ArchiveFiles::new());
    let saved = fixture.sandbox.control().records("saved_track").unwrap()[0].clone();
    let track = saved["track"]["id"].as_str().unwrap();
    let playlist = fixture.sandbox.control().records("playlist").unwrap()[0].clone();
    let zip = zip(&archives, playlist["name"].as_str().unwrap(), track);
    let first = fixture.import(import, std::slice::from_ref(&zip)).unwrap();
    assert_eq!(Fixture::counts(&first, "saved_tracks").1, 1);
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(result["status"], "success", "{result}");
    let row = fixture.ctx.records.one("spotify", "saved_tracks", track).unwrap().unwrap();
    assert!(row.raw.contains("added_at") && row.state.is_none(), "{}", row.raw);
    // The placeholder playlist of the archive was replaced by the synced one.
    let playlists = fixture.flats("playlists");
    assert_eq!(playlists.len(), fixture.sandbox.control().records("playlist").unwrap().len());
    assert!(playlists.iter().all(|one| !one["id"].as_str().unwrap().starts_with("archive:")));
    let again = fixture.import(import, &[zip]).unwrap();
    assert!(again.kinds.values().all(|taken| taken.written == 0), "{again:?}");
    assert_eq!(Fixture::counts(&again, "followed_artists"), (1, 0, 0, 1), "followed no more");
}
