//! Spotify in Development Mode and in extended mode.

use sandbox::{Service, spotify};
use serde_json::{Value, json};

use crate::stage::{Stage, of, stage};

const V1: &str = "/api/v1";

/// All items of a list, following `next` as a client does.
fn read_all(stage: &Stage, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut path = path.to_owned();
    loop {
        let body = stage.json(&path);
        let page = body.get("artists").unwrap_or(&body);
        items.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => next.strip_prefix(stage.running.url()).unwrap().clone_into(&mut path),
            None => return items,
        }
    }
}

#[test]
fn every_list_is_read_to_its_end() {
    let stage = stage("spotify");
    for (path, kind, more_than) in [
        ("/me/tracks?limit=50", "saved_track", 130),
        ("/me/albums", "saved_album", 50),
        ("/me/shows", "saved_show", 20),
        ("/me/episodes?limit=50", "saved_episode", 50),
        ("/me/audiobooks?limit=3", "saved_audiobook", 5),
        ("/me/playlists?limit=50", "playlist", 50),
        ("/me/following?type=artist&limit=50", "followed_artist", 50),
    ] {
        let items = read_all(&stage, &format!("{V1}{path}"));
        assert_eq!(items.len(), stage.records(kind).len(), "{path}");
        assert!(items.len() > more_than, "{path}: {}", items.len());
    }
    assert_eq!(read_all(&stage, "/api/v1/me/top/tracks?time_range=short_term").len(), 99);
}

#[test]
fn no_more_than_fifty_plays_can_be_read() {
    let stage = stage("spotify");
    let plays = read_all(&stage, "/api/v1/me/player/recently-played?limit=20");
    let known = stage.records("play");
    assert!(known.len() > 100);
    let newest: Vec<&Value> = known.iter().rev().take(50).collect();
    assert_eq!(
        plays.iter().map(|play| &play["played_at"]).collect::<Vec<_>>(),
        newest.iter().map(|play| &play["played_at"]).collect::<Vec<_>>()
    );
    let first = stage.json("/api/v1/me/player/recently-played?limit=5");
    let after = first["cursors"]["before"].as_str().unwrap();
    let newer = stage.json(&format!("/api/v1/me/player/recently-played?after={after}&limit=50"));
    assert_eq!(newer["items"].as_array().unwrap().len(), 4);
    let none = stage.json("/api/v1/me/player/recently-played?after=1900000000000");
    assert_eq!((none["items"].clone(), none["cursors"].clone()), (json!([]), Value::Null));
}

#[test]
fn refusals_have_the_status_the_service_gives() {
    let stage = stage("spotify");
    let words = "/error/message";
    stage.check(&[
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
    let mut stage = stage;
    stage.bear("made-up");
    stage.check(&[("/api/v1/me", 401, words, json!("Invalid access token"))]);
    let narrow = stage.running.control().tokens_for(&["user-top-read"]);
    stage.bear(narrow["access_token"].as_str().unwrap());
    stage.check(&[
        ("/api/v1/me/top/artists", 200, "/total", json!(64)),
        ("/api/v1/me/tracks", 403, words, json!("Insufficient client scope")),
        ("/api/v1/me/episodes", 403, words, json!("Insufficient client scope")),
    ]);
}

#[test]
fn development_mode_has_lost_paths_and_fields() {
    let stage = stage("spotify");
    let user = stage.records("followed_user")[0]["id"].as_str().unwrap().to_owned();
    let list = stage.records("playlist")[0]["id"].as_str().unwrap().to_owned();
    let removed = [
        ("GET", format!("/api/v1/users/{user}")),
        ("GET", format!("/api/v1/users/{user}/playlists")),
        ("GET", format!("/api/v1/playlists/{list}/tracks")),
        ("PUT", format!("/api/v1/me/following?type=user&ids={user}")),
        ("DELETE", format!("/api/v1/me/following?type=user&ids={user}")),
        ("PUT", format!("/api/v1/playlists/{list}/followers")),
        ("DELETE", format!("/api/v1/playlists/{list}/followers")),
    ];
    let statuses = |stage: &Stage| -> Vec<u16> {
        removed.iter().map(|(method, path)| stage.ask(method, path).status).collect()
    };
    assert_eq!(statuses(&stage), [403; 7]);
    stage.set(&json!({ "removed_status": 404 }));
    assert_eq!(statuses(&stage), [404; 7]);
    let gone = ["email", "country", "followers", "product", "explicit_content"];
    let me = stage.json("/api/v1/me");
    assert!(gone.iter().all(|name| me.get(name).is_none()) && me["account_id"].is_string());
    let track = stage.json("/api/v1/me/tracks?limit=1")["items"][0]["track"].clone();
    assert!(track.get("popularity").is_none() && track["album"].get("available_markets").is_none());
    let lists = stage.json("/api/v1/me/playlists?limit=1")["items"][0].clone();
    assert!(lists.get("tracks").is_none() && lists["items"]["total"] == json!(120));

    stage.set(&json!({ "mode": "extended" }));
    assert_eq!(statuses(&stage), [200, 200, 200, 204, 204, 200, 200]);
    let me = stage.json("/api/v1/me");
    assert!(gone.iter().all(|name| me.get(name).is_some()));
    let track = stage.json("/api/v1/me/tracks?limit=1")["items"][0]["track"].clone();
    assert!(track["popularity"].is_number());
    let new = format!("/api/v1/playlists/{list}/items?limit=1");
    assert_eq!(stage.get(&new).status, 200);
    stage.set(&json!({ "mode": "old" }));
    assert_eq!(stage.get(&new).status, 404);
    assert_eq!(statuses(&stage), [200, 200, 200, 204, 204, 200, 200]);
}

#[test]
fn a_playlist_holds_odd_entries_and_is_open_to_its_owner_only() {
    let stage = stage("spotify");
    let list = stage.records("playlist")[0]["id"].as_str().unwrap().to_owned();
    let entries = read_all(&stage, &format!("/api/v1/playlists/{list}/items?limit=50"));
    assert_eq!(entries.len(), 120);
    assert!(entries[0].get("track").is_none());
    assert_eq!(entries[1]["item"], Value::Null);
    assert_eq!(
        (entries[2]["is_local"].clone(), entries[2]["item"]["id"].clone()),
        (json!(true), Value::Null)
    );
    assert_eq!(entries[3]["item"]["type"], "episode");
    let empty = stage.records("playlist")[1]["id"].as_str().unwrap().to_owned();
    assert_eq!(read_all(&stage, &format!("/api/v1/playlists/{empty}/items")), Vec::<Value>::new());
    let others = stage.records("other_playlist");
    let status = |list: &Value| {
        stage.get(&format!("/api/v1/playlists/{}/items", list["id"].as_str().unwrap())).status
    };
    let closed = others.iter().find(|list| list["collaborative"] == json!(false)).unwrap();
    let open = others.iter().find(|list| list["collaborative"] == json!(true)).unwrap();
    assert_eq!((status(closed), status(open)), (403, 200));
    stage.set(&json!({ "mode": "extended" }));
    assert_eq!(status(closed), 200);
    let old = stage.json(&format!("/api/v1/playlists/{list}/tracks?limit=1"))["items"][0].clone();
    assert!(old.get("item").is_none() && old["track"]["id"].is_string());
}

#[test]
fn the_library_takes_addresses_and_forty_at_most() {
    let stage = stage("spotify");
    let list = stage.records("other_playlist")[12]["id"].as_str().unwrap().to_owned();
    let uri = format!("spotify:playlist:{list}");
    let held =
        |uri: &str| stage.json(&format!("/api/v1/me/library/contains?uris={uri}"))[0].clone();
    assert_eq!(held(&uri), json!(false));
    assert_eq!(stage.ask("PUT", &format!("/api/v1/me/library?uris={uri}")).status, 200);
    assert_eq!(held(&uri), json!(true));
    assert_eq!(
        stage.ask("DELETE", &format!("/api/v1/me/library?uris={uri},spotify:user:somebody")).status,
        200
    );
    assert_eq!(held(&uri), json!(false));
    let artist = stage.records("followed_artist")[3]["uri"].as_str().unwrap().to_owned();
    let put = |uris: &str| stage.ask("PUT", &format!("/api/v1/me/library?uris={uris}")).status;
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
    stage.set(&json!({ "artist_uris": true }));
    assert_eq!(put(&artist), 200);
}

#[test]
fn an_owner_without_premium_and_a_stranger_are_told_so() {
    let stage = stage("spotify");
    for (setting, words) in
        [("premium", "premium subscription"), ("allowlisted", "not be registered")]
    {
        stage.set(&json!({ setting: false }));
        let got = stage.get("/api/v1/me");
        assert!(got.status == 403 && got.text().contains(words), "{setting}: {}", got.text());
        stage.set(&json!({ setting: true }));
    }
    assert_eq!(stage.get("/api/v1/me").status, 200);
}

#[test]
fn too_many_requests_are_told_when_to_come_back() {
    let limits = vec![sandbox::Limit { requests: 2, window_s: 30 }];
    let stage = of(Service::Spotify(spotify::Settings { limits, ..spotify::Settings::default() }));
    let statuses: Vec<u16> = (0..3).map(|_| stage.get("/api/v1/me").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(stage.get("/api/v1/me").header("retry-after"), Some("30"));
    stage.running.control().advance(30_000_000);
    assert_eq!(stage.get("/api/v1/me").status, 200);
}
