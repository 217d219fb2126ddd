//! Spotify in Development Mode and in extended mode.

use sandbox::Service;
use sandbox::services::spotify;
use serde_json::{Value, json};

use crate::service_test::{ServiceTest, of, start};

const V1: &str = "/api/v1";

/// All items of a list, following `next` as a client does.
fn read_all(test: &ServiceTest, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut path = path.to_owned();
    loop {
        let body = test.json(&path);
        let page = body.get("artists").unwrap_or(&body);
        items.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => next.strip_prefix(test.running.url()).unwrap().clone_into(&mut path),
            None => return items,
        }
    }
}

#[test]
fn every_list_is_read_to_its_end() {
    let test = start("spotify");
    for (path, kind, more_than) in [
        ("/me/tracks?limit=50", "saved_track", 130),
        ("/me/albums", "saved_album", 50),
        ("/me/shows", "saved_show", 20),
        ("/me/episodes?limit=50", "saved_episode", 50),
        ("/me/audiobooks?limit=3", "saved_audiobook", 5),
        ("/me/playlists?limit=50", "playlist", 50),
        ("/me/following?type=artist&limit=50", "followed_artist", 50),
    ] {
        let items = read_all(&test, &format!("{V1}{path}"));
        assert_eq!(items.len(), test.records(kind).len(), "{path}");
        assert!(items.len() > more_than, "{path}: {}", items.len());
    }
    assert_eq!(read_all(&test, "/api/v1/me/top/tracks?time_range=short_term").len(), 99);
}

#[test]
fn at_most_fifty_plays_are_readable() {
    let test = start("spotify");
    let plays = read_all(&test, "/api/v1/me/player/recently-played?limit=20");
    let known = test.records("play");
    assert!(known.len() > 100);
    let newest: Vec<&Value> = known.iter().rev().take(50).collect();
    assert_eq!(
        plays.iter().map(|play| &play["played_at"]).collect::<Vec<_>>(),
        newest.iter().map(|play| &play["played_at"]).collect::<Vec<_>>()
    );
    let first = test.json("/api/v1/me/player/recently-played?limit=5");
    let after = first["cursors"]["before"].as_str().unwrap();
    let newer = test.json(&format!("/api/v1/me/player/recently-played?after={after}&limit=50"));
    assert_eq!(newer["items"].as_array().unwrap().len(), 4);
    let none = test.json("/api/v1/me/player/recently-played?after=1900000000000");
    assert_eq!((none["items"].clone(), none["cursors"].clone()), (json!([]), Value::Null));
}

#[test]
fn errors_have_the_status_of_the_service() {
    let test = start("spotify");
    let words = "/error/message";
    test.check(&[
        ("/api/v1/me?x=1", 200, "/type", json!("user")),
        ("/api/v1/me/tracks?limit=51", 400, words, json!("Invalid limit")),
        ("/api/v1/me/tracks?limit=0", 400, words, json!("Invalid limit")),
        ("/api/v1/me/tracks?offset=-1", 400, words, json!("Invalid offset")),
        ("/api/v1/me/tracks?offset=99999", 200, "/items", json!([])),
        ("/api/v1/me/top/songs", 400, words, json!("Invalid type")),
        ("/api/v1/me/top/tracks?time_range=ever", 400, words, json!("Invalid time range")),
        ("/api/v1/me/following", 400, "", Value::Null),
        ("/api/v1/me/following?type=artist&after=x", 400, "", Value::Null),
        ("/api/v1/me/player/recently-played?before=1&after=2", 400, "", Value::Null),
        ("/api/v1/me/player/recently-played?before=now", 400, "", Value::Null),
        ("/api/v1/playlists/%2E%2E/items", 400, words, json!("Invalid base62 id")),
        ("/api/v1/playlists/37i9dQZF1DXcBWIGoYBM5M/items", 404, words, json!("Resource not found")),
        ("/api/v1/nowhere", 404, "/error/status", json!(404)),
        ("/v1/me", 404, "", Value::Null),
    ]);
    let mut test = test;
    test.bear("made-up");
    test.check(&[("/api/v1/me", 401, words, json!("Invalid access token"))]);
    let narrow = test.running.control().tokens_for(&["user-top-read"]);
    test.bear(narrow["access_token"].as_str().unwrap());
    test.check(&[
        ("/api/v1/me/top/artists", 200, "/total", json!(64)),
        ("/api/v1/me/tracks", 403, words, json!("Insufficient client scope")),
        ("/api/v1/me/episodes", 403, words, json!("Insufficient client scope")),
    ]);
}

#[test]
fn development_mode_lacks_paths_and_fields() {
    let test = start("spotify");
    let user = test.records("followed_user")[0]["id"].as_str().unwrap().to_owned();
    let list = test.records("playlist")[0]["id"].as_str().unwrap().to_owned();
    let removed = [
        ("GET", format!("/api/v1/users/{user}")),
        ("GET", format!("/api/v1/users/{user}/playlists")),
        ("GET", format!("/api/v1/playlists/{list}/tracks")),
        ("PUT", format!("/api/v1/me/following?type=user&ids={user}")),
        ("DELETE", format!("/api/v1/me/following?type=user&ids={user}")),
        ("PUT", format!("/api/v1/playlists/{list}/followers")),
        ("DELETE", format!("/api/v1/playlists/{list}/followers")),
    ];
    let statuses = |test: &ServiceTest| -> Vec<u16> {
        removed.iter().map(|(method, path)| test.ask(method, path).status).collect()
    };
    assert_eq!(statuses(&test), [403; 7]);
    test.set(&json!({ "removed_status": 404 }));
    assert_eq!(statuses(&test), [404; 7]);
    let gone = ["email", "country", "followers", "product", "explicit_content"];
    let me = test.json("/api/v1/me");
    assert!(gone.iter().all(|name| me.get(name).is_none()) && me["account_id"].is_string());
    let track = test.json("/api/v1/me/tracks?limit=1")["items"][0]["track"].clone();
    assert!(track.get("popularity").is_none() && track["album"].get("available_markets").is_none());
    let lists = test.json("/api/v1/me/playlists?limit=1")["items"][0].clone();
    assert!(lists.get("tracks").is_none() && lists["items"]["total"] == json!(120));

    test.set(&json!({ "mode": "extended" }));
    assert_eq!(statuses(&test), [200, 200, 200, 204, 204, 200, 200]);
    let me = test.json("/api/v1/me");
    assert!(gone.iter().all(|name| me.get(name).is_some()));
    let track = test.json("/api/v1/me/tracks?limit=1")["items"][0]["track"].clone();
    assert!(track["popularity"].is_number());
    let new = format!("/api/v1/playlists/{list}/items?limit=1");
    assert_eq!(test.get(&new).status, 200);
    test.set(&json!({ "mode": "old" }));
    assert_eq!(test.get(&new).status, 404);
    assert_eq!(statuses(&test), [200, 200, 200, 204, 204, 200, 200]);
}

#[test]
fn a_playlist_has_special_entries_and_is_readable_by_its_owner_only() {
    let test = start("spotify");
    let list = test.records("playlist")[0]["id"].as_str().unwrap().to_owned();
    let entries = read_all(&test, &format!("/api/v1/playlists/{list}/items?limit=50"));
    assert_eq!(entries.len(), 120);
    assert!(entries[0].get("track").is_none());
    assert_eq!(entries[1]["item"], Value::Null);
    assert_eq!(
        (entries[2]["is_local"].clone(), entries[2]["item"]["id"].clone()),
        (json!(true), Value::Null)
    );
    assert_eq!(entries[3]["item"]["type"], "episode");
    let empty = test.records("playlist")[1]["id"].as_str().unwrap().to_owned();
    assert_eq!(read_all(&test, &format!("/api/v1/playlists/{empty}/items")), Vec::<Value>::new());
    let others = test.records("other_playlist");
    let status = |list: &Value| {
        test.get(&format!("/api/v1/playlists/{}/items", list["id"].as_str().unwrap())).status
    };
    let closed = others.iter().find(|list| list["collaborative"] == json!(false)).unwrap();
    let open = others.iter().find(|list| list["collaborative"] == json!(true)).unwrap();
    assert_eq!((status(closed), status(open)), (403, 200));
    test.set(&json!({ "mode": "extended" }));
    assert_eq!(status(closed), 200);
    let old = test.json(&format!("/api/v1/playlists/{list}/tracks?limit=1"))["items"][0].clone();
    assert!(old.get("item").is_none() && old["track"]["id"].is_string());
}

#[test]
fn the_library_accepts_at_most_forty_uris() {
    let test = start("spotify");
    let list = test.records("other_playlist")[12]["id"].as_str().unwrap().to_owned();
    let uri = format!("spotify:playlist:{list}");
    let held = |uri: &str| test.json(&format!("/api/v1/me/library/contains?uris={uri}"))[0].clone();
    assert_eq!(held(&uri), json!(false));
    assert_eq!(test.ask("PUT", &format!("/api/v1/me/library?uris={uri}")).status, 200);
    assert_eq!(held(&uri), json!(true));
    assert_eq!(
        test.ask("DELETE", &format!("/api/v1/me/library?uris={uri},spotify:user:another")).status,
        200
    );
    assert_eq!(held(&uri), json!(false));
    let artist = test.records("followed_artist")[3]["uri"].as_str().unwrap().to_owned();
    let put = |uris: &str| test.ask("PUT", &format!("/api/v1/me/library?uris={uris}")).status;
    let many = |count: usize| vec!["spotify:user:a"; count].join(",");
    for (uris, status) in [
        ("", 400),
        (artist.as_str(), 400),
        ("spotify:track:short", 400),
        ("https://open.spotify.com/track/1", 400),
        (&many(40), 200),
        (&many(41), 400),
    ] {
        assert_eq!(put(uris), status, "{uris}");
    }
    test.set(&json!({ "artist_uris": true }));
    assert_eq!(put(&artist), 200);
}

#[test]
fn missing_premium_and_unregistered_users_get_an_error() {
    let test = start("spotify");
    for (setting, words) in
        [("premium", "premium subscription"), ("allowlisted", "not be registered")]
    {
        test.set(&json!({ setting: false }));
        let got = test.get("/api/v1/me");
        assert!(got.status == 403 && got.text().contains(words), "{setting}: {}", got.text());
        test.set(&json!({ setting: true }));
    }
    assert_eq!(test.get("/api/v1/me").status, 200);
}

#[test]
fn too_many_requests_get_a_retry_time() {
    let limits = vec![sandbox::Limit { requests: 2, window_s: 30 }];
    let test = of(Service::Spotify(spotify::SpotifySettings {
        limits,
        ..spotify::SpotifySettings::default()
    }));
    let statuses: Vec<u16> = (0..3).map(|_| test.get("/api/v1/me").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(test.get("/api/v1/me").header("retry-after"), Some("30"));
    test.running.control().advance(30_000_000);
    assert_eq!(test.get("/api/v1/me").status, 200);
}
