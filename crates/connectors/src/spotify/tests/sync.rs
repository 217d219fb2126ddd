//! The mirror: plays are kept, removed library items are deleted, and every change is an event.

use sandbox::{Fault, FaultKind};
use serde_json::Value;
use store::export::{Compression, CsvSafety, ExportJob, ExportOptions, PathScope};

use super::{Fixture, fixture};
use crate::spotify::NAME;
use crate::spotify::mirror::{EXPORTS, MIRROR};
use crate::sync::{self, EventsRequest, SyncRequest};

async fn run(fixture: &Fixture, asked: &SyncRequest) -> Value {
    sync::run(&fixture.ctx, &MIRROR, asked, &|_| {}).await.unwrap().value()
}

fn count(fixture: &Fixture, kind: &str) -> usize {
    usize::try_from(fixture.ctx.records.count(NAME, kind).unwrap()).unwrap()
}

fn events(fixture: &Fixture, since: &str, limit: i64) -> Value {
    let asked = EventsRequest { since, until: None, resources: None, limit };
    (MIRROR.events)(&fixture.ctx, &asked).unwrap()
}

#[tokio::test]
async fn a_second_sync_finds_nothing_new() {
    let fixture = fixture();
    let first = run(&fixture, &SyncRequest::default()).await;
    assert_eq!(first["status"], "success", "{first}");
    for (kind, shelf) in [
        ("saved_tracks", "saved_track"),
        ("saved_albums", "saved_album"),
        ("saved_shows", "saved_show"),
        ("saved_episodes", "saved_episode"),
        ("saved_audiobooks", "saved_audiobook"),
        ("followed_artists", "followed_artist"),
        ("playlists", "playlist"),
    ] {
        let expected = fixture.sandbox.control().records(shelf).unwrap().len();
        assert_eq!(count(&fixture, kind), expected, "{kind}");
    }
    let plays = fixture.sandbox.control().records("play").unwrap().len();
    assert_eq!(count(&fixture, "plays"), plays.min(50));
    let before = fixture.sandbox.control().counters().requests;
    let second = run(&fixture, &SyncRequest::default()).await;
    for (name, resource) in second["resources"].as_object().unwrap() {
        assert_eq!(resource["records_upserted"], 0, "{name}");
    }
    // One page of each list shows that nothing changed; the playlists are requested twice, and
    // none of their entries.
    let asked = fixture.sandbox.control().counters().requests - before;
    assert!(asked <= 11, "{asked}");
}

#[tokio::test]
async fn plays_are_kept_and_the_library_follows_spotify() {
    let fixture = fixture();
    run(&fixture, &SyncRequest::default()).await;
    let (plays, tracks) = (count(&fixture, "plays"), count(&fixture, "saved_tracks"));
    let since = events(&fixture, "2000-01-01", 5_000);
    assert_eq!(since["next_cursor"], Value::Null);
    fixture.sandbox.control().clear("play").unwrap();
    let gone = fixture.sandbox.control().records("saved_track").unwrap()[3]["track"]["id"].clone();
    fixture.sandbox.control().remove("saved_track", gone.as_str().unwrap()).unwrap();
    let again = run(&fixture, &SyncRequest::default()).await;
    assert_eq!(again["status"], "success", "{again}");
    assert_eq!(again["resources"]["saved_tracks"]["records_removed"], 1);
    assert_eq!((count(&fixture, "plays"), count(&fixture, "saved_tracks")), (plays, tracks - 1));
    let all = events(&fixture, "2000-01-01", 5_000);
    let removed: Vec<&Value> =
        all["events"].as_array().unwrap().iter().filter(|event| event["removed"] == true).collect();
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0]["id"], gone);
}

/// The non-null entries of a playlist at Spotify.
fn entries(fixture: &Fixture, playlist: &str) -> Vec<Value> {
    let all = fixture.sandbox.control().records("playlist_item").unwrap();
    let of_list = all.into_iter().filter(|item| item["playlist"] == playlist);
    of_list.filter(|item| item["entry"]["item"]["uri"].is_string()).collect()
}

#[tokio::test]
async fn playlists_are_kept_with_their_entries_and_read_again_only_when_they_change() {
    let fixture = fixture();
    run(&fixture, &SyncRequest::default()).await;
    let playlist = fixture.sandbox.control().records("playlist").unwrap()[0].clone();
    let id = playlist["id"].as_str().unwrap();
    let kept = |id: &str| fixture.ctx.records.by_parent(NAME, "playlist_items", id).unwrap();
    let there = entries(&fixture, id);
    assert_eq!(kept(id).len(), there.len());
    let flats: Vec<Value> =
        kept(id).iter().map(|row| serde_json::from_str(&row.flat).unwrap()).collect();
    assert!(flats.iter().all(|flat| flat["playlist"] == playlist["name"]), "{flats:?}");
    assert!(flats.iter().any(|flat| flat["position"] == 1), "{flats:?}");
    // Removing an entry changes the version of the playlist.
    let gone = there[0]["id"].as_str().map_or_else(|| there[0]["id"].to_string(), str::to_owned);
    fixture.sandbox.control().remove("playlist_item", &gone).unwrap();
    let unnoticed = run(&fixture, &SyncRequest::default()).await;
    assert_eq!(unnoticed["resources"]["playlist_items"]["records_fetched"], 0, "{unnoticed}");
    let patch = serde_json::json!({ "snapshot_id": "another" });
    fixture.sandbox.control().edit("playlist", id, &patch).unwrap();
    let noticed = run(&fixture, &SyncRequest::default()).await;
    assert_eq!(noticed["resources"]["playlist_items"]["records_removed"], 1, "{noticed}");
    assert_eq!(kept(id).len(), there.len() - 1);
    // Removing the playlist removes its entries.
    fixture.sandbox.control().remove("playlist", id).unwrap();
    let last = run(&fixture, &SyncRequest::default()).await;
    assert_eq!(last["resources"]["playlists"]["records_removed"], 1, "{last}");
    assert!(kept(id).is_empty());
    let artist = fixture.sandbox.control().records("followed_artist").unwrap()[0]["id"].clone();
    fixture.sandbox.control().remove("followed_artist", artist.as_str().unwrap()).unwrap();
    let last = run(&fixture, &SyncRequest::default()).await;
    assert_eq!(last["resources"]["followed_artists"]["records_removed"], 1, "{last}");
}

#[tokio::test]
async fn each_event_is_delivered_once_page_by_page() {
    let fixture = fixture();
    run(&fixture, &SyncRequest::default()).await;
    let (mut since, mut seen) = ("2000-01-01".to_owned(), Vec::new());
    loop {
        let page = events(&fixture, &since, 37);
        for event in page["events"].as_array().unwrap() {
            seen.push(format!("{} {}", event["resource"], event["id"]));
        }
        let Some(next) = page["next_cursor"].as_str() else { break };
        since = next.to_owned();
    }
    let total: u64 = fixture.ctx.records.counts(NAME).unwrap().iter().map(|(_, n)| n).sum();
    let told = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((told as u64, seen.len() as u64), (total, total));
    let bad = EventsRequest { since: "nonsense", until: None, resources: None, limit: 5 };
    assert_eq!((MIRROR.events)(&fixture.ctx, &bad).unwrap_err().code, "invalid_argument");
}

#[tokio::test]
async fn one_list_that_fails_does_not_stop_the_others_and_loses_nothing() {
    let fixture = fixture();
    run(&fixture, &SyncRequest::default()).await;
    let tracks = count(&fixture, "saved_tracks");
    let what = FaultKind::Status { code: 403, retry_after: None, reset: None, body: None };
    fixture.sandbox.control().fault(Fault::on("/api/v1/me/tracks", what));
    let full = SyncRequest { full: true, ..SyncRequest::default() };
    let result = run(&fixture, &full).await;
    assert_eq!(result["status"], "partial");
    assert_eq!(result["resources"]["saved_tracks"]["status"], "error");
    fixture.sandbox.control().clear_faults();
    fixture.sandbox.control().fault(Fault::on("/api/v1/me/tracks", FaultKind::RepeatToken));
    run(&fixture, &full).await;
    assert_eq!(count(&fixture, "saved_tracks"), tracks);
}

#[tokio::test]
async fn the_mirror_can_be_exported() {
    let fixture = fixture();
    run(&fixture, &SyncRequest::default()).await;
    crate::prepare(&fixture.ctx.records).unwrap();
    for format in ["csv", "jsonl", "parquet"] {
        for kind in EXPORTS.kinds {
            ExportJob::new(&EXPORTS, kind.name, format).unwrap();
        }
    }
    let plan = ExportJob::new(&EXPORTS, "saved_tracks", "csv").unwrap();
    let order = ExportOptions {
        path: "tracks.csv",
        from_us: None,
        to_us: None,
        now_us: fixture.ctx.clock.now().wall_us,
        overwrite: false,
        csv: CsvSafety::default(),
        compression: Compression::default(),
        reach: PathScope::Below(&fixture.ctx.exports),
    };
    plan.write(&fixture.ctx.records, &order, &mut |_| {}).unwrap();
    let text = std::fs::read_to_string(fixture.ctx.exports.join("tracks.csv")).unwrap();
    assert!(text.starts_with("added_at,album,artists,duration_ms,id,name"), "{text}");
    assert_eq!(text.lines().count(), count(&fixture, "saved_tracks") + 1);
}
