//! The mirror: what came stays, what was taken out of the library goes, and every change is told.

use sandbox::{Fault, What};
use serde_json::Value;
use store::export::{Compression, CsvSafety, Order, Plan, Reach};

use super::{Stage, stage};
use crate::spotify::NAME;
use crate::spotify::mirror::{MIRROR, SHELF};
use crate::sync::{self, Asked, EventsAsked};

async fn run(stage: &Stage, asked: &Asked) -> Value {
    sync::run(&stage.desk, &MIRROR, asked, &|_| {}).await.unwrap()
}

fn count(stage: &Stage, kind: &str) -> usize {
    usize::try_from(stage.desk.records.count(NAME, kind).unwrap()).unwrap()
}

fn events(stage: &Stage, since: &str, limit: i64) -> Value {
    let asked = EventsAsked { since, until: None, resources: None, limit };
    (MIRROR.events)(&stage.desk, &asked).unwrap()
}

#[tokio::test]
async fn a_sync_brings_everything_and_a_second_one_nothing() {
    let stage = stage();
    let first = run(&stage, &Asked::default()).await;
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
        let expected = stage.sandbox.control().records(shelf).unwrap().len();
        assert_eq!(count(&stage, kind), expected, "{kind}");
    }
    let plays = stage.sandbox.control().records("play").unwrap().len();
    assert_eq!(count(&stage, "plays"), plays.min(50));
    let before = stage.sandbox.control().counters().requests;
    let second = run(&stage, &Asked::default()).await;
    for (name, resource) in second["resources"].as_object().unwrap() {
        assert_eq!(resource["records_upserted"], 0, "{name}");
    }
    // One page of each list shows that nothing is new and nothing is missing; the playlists are
    // asked twice, and no entries of them.
    let asked = stage.sandbox.control().counters().requests - before;
    assert!(asked <= 11, "{asked}");
}

#[tokio::test]
async fn plays_stay_and_the_library_follows() {
    let stage = stage();
    run(&stage, &Asked::default()).await;
    let (plays, tracks) = (count(&stage, "plays"), count(&stage, "saved_tracks"));
    let since = events(&stage, "2000-01-01", 5_000);
    assert_eq!(since["next_cursor"], Value::Null);
    stage.sandbox.control().clear("play").unwrap();
    let gone = stage.sandbox.control().records("saved_track").unwrap()[3]["track"]["id"].clone();
    stage.sandbox.control().remove("saved_track", gone.as_str().unwrap()).unwrap();
    let again = run(&stage, &Asked::default()).await;
    assert_eq!(again["status"], "success", "{again}");
    assert_eq!(again["resources"]["saved_tracks"]["records_removed"], 1);
    assert_eq!((count(&stage, "plays"), count(&stage, "saved_tracks")), (plays, tracks - 1));
    let all = events(&stage, "2000-01-01", 5_000);
    let removed: Vec<&Value> =
        all["events"].as_array().unwrap().iter().filter(|event| event["removed"] == true).collect();
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0]["id"], gone);
}

/// The entries of a playlist as Spotify has them: those that are something.
fn entries(stage: &Stage, playlist: &str) -> Vec<Value> {
    let all = stage.sandbox.control().records("playlist_item").unwrap();
    let of_list = all.into_iter().filter(|item| item["playlist"] == playlist);
    of_list.filter(|item| item["entry"]["item"]["uri"].is_string()).collect()
}

#[tokio::test]
async fn playlists_are_kept_with_their_entries_and_read_again_only_when_they_change() {
    let stage = stage();
    run(&stage, &Asked::default()).await;
    let playlist = stage.sandbox.control().records("playlist").unwrap()[0].clone();
    let id = playlist["id"].as_str().unwrap();
    let kept = |id: &str| stage.desk.records.by_parent(NAME, "playlist_items", id).unwrap();
    let there = entries(&stage, id);
    assert_eq!(kept(id).len(), there.len());
    let flats: Vec<Value> =
        kept(id).iter().map(|row| serde_json::from_str(&row.flat).unwrap()).collect();
    assert!(flats.iter().all(|flat| flat["playlist"] == playlist["name"]), "{flats:?}");
    assert!(flats.iter().any(|flat| flat["position"] == 1), "{flats:?}");
    // An entry goes; Spotify says so by the version of the playlist.
    let gone = there[0]["id"].as_str().map_or_else(|| there[0]["id"].to_string(), str::to_owned);
    stage.sandbox.control().remove("playlist_item", &gone).unwrap();
    let unnoticed = run(&stage, &Asked::default()).await;
    assert_eq!(unnoticed["resources"]["playlist_items"]["records_fetched"], 0, "{unnoticed}");
    let patch = serde_json::json!({ "snapshot_id": "another" });
    stage.sandbox.control().edit("playlist", id, &patch).unwrap();
    let noticed = run(&stage, &Asked::default()).await;
    assert_eq!(noticed["resources"]["playlist_items"]["records_removed"], 1, "{noticed}");
    assert_eq!(kept(id).len(), there.len() - 1);
    // The playlist goes, and all that was in it.
    stage.sandbox.control().remove("playlist", id).unwrap();
    let last = run(&stage, &Asked::default()).await;
    assert_eq!(last["resources"]["playlists"]["records_removed"], 1, "{last}");
    assert!(kept(id).is_empty());
    let artist = stage.sandbox.control().records("followed_artist").unwrap()[0]["id"].clone();
    stage.sandbox.control().remove("followed_artist", artist.as_str().unwrap()).unwrap();
    let last = run(&stage, &Asked::default()).await;
    assert_eq!(last["resources"]["followed_artists"]["records_removed"], 1, "{last}");
}

#[tokio::test]
async fn events_are_told_once_each_page_by_page() {
    let stage = stage();
    run(&stage, &Asked::default()).await;
    let (mut since, mut seen) = ("2000-01-01".to_owned(), Vec::new());
    loop {
        let page = events(&stage, &since, 37);
        for event in page["events"].as_array().unwrap() {
            seen.push(format!("{} {}", event["resource"], event["id"]));
        }
        let Some(next) = page["next_cursor"].as_str() else { break };
        since = next.to_owned();
    }
    let total: u64 = stage.desk.records.counts(NAME).unwrap().iter().map(|(_, n)| n).sum();
    let told = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((told as u64, seen.len() as u64), (total, total));
    let bad = EventsAsked { since: "nonsense", until: None, resources: None, limit: 5 };
    assert_eq!((MIRROR.events)(&stage.desk, &bad).unwrap_err().code, "invalid_argument");
}

#[tokio::test]
async fn one_list_that_fails_does_not_stop_the_others_and_loses_nothing() {
    let stage = stage();
    run(&stage, &Asked::default()).await;
    let tracks = count(&stage, "saved_tracks");
    let what = What::Status { code: 403, retry_after: None, reset: None, body: None };
    stage.sandbox.control().fault(Fault::on("/api/v1/me/tracks", what));
    let full = Asked { full: true, ..Asked::default() };
    let result = run(&stage, &full).await;
    assert_eq!(result["status"], "partial");
    assert_eq!(result["resources"]["saved_tracks"]["status"], "error");
    stage.sandbox.control().clear_faults();
    stage.sandbox.control().fault(Fault::on("/api/v1/me/tracks", What::RepeatToken));
    run(&stage, &full).await;
    assert_eq!(count(&stage, "saved_tracks"), tracks);
}

#[tokio::test]
async fn what_is_mirrored_can_be_taken_out() {
    let stage = stage();
    run(&stage, &Asked::default()).await;
    crate::shelves::prepare(&stage.desk.records).unwrap();
    for format in ["csv", "jsonl", "parquet"] {
        for kind in SHELF.kinds {
            Plan::new(&SHELF, kind.name, format).unwrap();
        }
    }
    let plan = Plan::new(&SHELF, "saved_tracks", "csv").unwrap();
    let order = Order {
        path: "tracks.csv",
        from_us: None,
        to_us: None,
        now_us: stage.desk.clock.now().wall_us,
        overwrite: false,
        csv: CsvSafety::default(),
        compression: Compression::default(),
        reach: Reach::Below(&stage.desk.exports),
    };
    plan.write(&stage.desk.records, &order, &mut |_| {}).unwrap();
    let text = std::fs::read_to_string(stage.desk.exports.join("tracks.csv")).unwrap();
    assert!(text.starts_with("added_at,album,artists,duration_ms,id,name"), "{text}");
    assert_eq!(text.lines().count(), count(&stage, "saved_tracks") + 1);
}
