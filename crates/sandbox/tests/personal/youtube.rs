//! YouTube: lists of the Data API, keys, scopes and quotas.

use serde_json::{Value, json};

use crate::stage::{DAY_US, Stage, stage};
use crate::wire::send;

const V3: &str = "/www/youtube/v3";

fn read_all(stage: &Stage, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let page = stage.json(&format!("{V3}/{path}&maxResults=50{next}"));
        items.extend(page["items"].as_array().unwrap().clone());
        match page["nextPageToken"].as_str() {
            Some(token) => next = format!("&pageToken={token}"),
            None => return items,
        }
    }
}

fn key(stage: &Stage) -> String {
    stage.running.control().ready()["values"]["YOUTUBE_API_KEY"].as_str().unwrap().to_owned()
}

#[test]
fn every_list_is_read_to_its_end() {
    let stage = stage("youtube");
    for (path, kind) in [
        ("subscriptions?part=snippet,contentDetails&mine=true", "subscription"),
        ("playlists?part=snippet,contentDetails&mine=true", "playlist"),
        ("videos?part=snippet,statistics&myRating=like", "like"),
        ("playlistItems?part=snippet&playlistId=LL", "like"),
    ] {
        let items = read_all(&stage, path);
        assert_eq!(items.len(), stage.records(kind).len(), "{path}");
        assert!(items.len() > 50, "{path}");
    }
    assert_eq!(read_all(&stage, "videos?part=snippet&chart=mostPopular&regionCode=DE").len(), 200);
    let long = stage.records("playlist")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        read_all(&stage, &format!("playlistItems?part=snippet&playlistId={long}")).len(),
        120
    );
}

#[test]
fn a_search_finds_words_and_a_strange_word_finds_nothing() {
    let stage = stage("youtube");
    let found = read_all(&stage, "search?part=snippet&q=rust&type=video&order=relevance");
    assert!(found.len() > 10 && found[0]["id"]["videoId"].is_string());
    assert!(found.iter().any(|item| item["snippet"]["title"].as_str().unwrap().contains("&amp;")));
    stage.check(&[
        ("/www/youtube/v3/search?part=snippet&q=zzzz", 200, "/items", json!([])),
        (
            "/www/youtube/v3/search?part=snippet&q=rust&order=odd",
            400,
            "/error/errors/0/reason",
            json!("invalidParameter"),
        ),
    ]);
}

#[test]
fn parts_are_those_asked_for_and_some_things_lack_some() {
    let stage = stage("youtube");
    let one = stage
        .json(&format!("{V3}/videos?part=contentDetails&chart=mostPopular&maxResults=1"))["items"]
        [0]
    .clone();
    let names: Vec<&String> = one.as_object().unwrap().keys().collect();
    assert_eq!(names, ["kind", "etag", "id", "contentDetails"]);
    let videos = read_all(&stage, "videos?part=snippet,statistics&chart=mostPopular");
    assert!(videos.iter().any(|video| video["snippet"].get("thumbnails").is_none()));
    assert!(videos.iter().any(|video| video.get("statistics").is_none()));
    let hidden = stage.records("channel")[4]["id"].as_str().unwrap().to_owned();
    let statistics = stage.json(&format!("{V3}/channels?part=statistics&id={hidden}"))["items"][0]
        ["statistics"]
        .clone();
    assert!(
        statistics.get("subscriberCount").is_none()
            && statistics["hiddenSubscriberCount"] == json!(true)
    );
    let handle = stage.records("channel")[3]["snippet"]["customUrl"].as_str().unwrap().to_owned();
    assert_eq!(
        stage.json(&format!("{V3}/channels?part=id&forHandle={handle}"))["pageInfo"]["totalResults"],
        1
    );
    assert!(stage.json(&format!("{V3}/channels?part=id&id=UCnobody")).get("items").is_none());
    assert_eq!(stage.json(&format!("{V3}/videos?part=id&id=nobody"))["items"], json!([]));
    let liked = stage.records("like")[0]["video"]["id"].as_str().unwrap().to_owned();
    let ratings = stage.json(&format!("{V3}/videos/getRating?id={liked},other"))["items"].clone();
    assert_eq!([&ratings[0]["rating"], &ratings[1]["rating"]], ["like", "none"]);
}

#[test]
fn refusals_name_their_reason() {
    let mut stage = stage("youtube");
    let reason = "/error/errors/0/reason";
    let other = stage.records("channel")[2]["id"].as_str().unwrap().to_owned();
    stage.check(&[
        ("/www/youtube/v3/videos?part=snippet", 400, reason, json!("missingRequiredParameter")),
        (
            "/www/youtube/v3/videos?chart=mostPopular",
            400,
            reason,
            json!("missingRequiredParameter"),
        ),
        ("/www/youtube/v3/videos?part=soul&chart=mostPopular", 400, reason, json!("unknownPart")),
        (
            "/www/youtube/v3/videos?part=id&chart=mostPopular&maxResults=51",
            400,
            reason,
            json!("invalidParameter"),
        ),
        (
            "/www/youtube/v3/videos?part=id&chart=mostPopular&regionCode=xx1",
            400,
            reason,
            json!("invalidRegionCode"),
        ),
        (
            "/www/youtube/v3/videos?part=id&chart=mostPopular&pageToken=odd",
            400,
            reason,
            json!("invalidPageToken"),
        ),
        (
            "/www/youtube/v3/videos?part=id&id=a&chart=mostPopular",
            400,
            reason,
            json!("invalidParameter"),
        ),
        (
            "/www/youtube/v3/playlistItems?part=id&playlistId=PLx",
            404,
            reason,
            json!("playlistNotFound"),
        ),
        (
            &format!("/www/youtube/v3/subscriptions?part=id&channelId={other}"),
            403,
            reason,
            json!("subscriptionForbidden"),
        ),
        (
            "/www/youtube/v3/videos?part=id&chart=mostPopular&key=AIzaOther",
            400,
            reason,
            json!("keyInvalid"),
        ),
        ("/www/youtube/v3/nowhere", 404, "", Value::Null),
    ]);
    stage.set(&json!({ "subscriptions_private": true }));
    let mine = "/www/youtube/v3/subscriptions?part=id&mine=true";
    stage.check(&[(mine, 403, reason, json!("subscriptionForbidden"))]);
    stage.bear("void");
    stage.check(&[(mine, 401, reason, json!("authError"))]);
    let narrow = stage.running.control().tokens_for(&["openid"]);
    stage.bear(narrow["access_token"].as_str().unwrap());
    stage.check(&[(mine, 403, reason, json!("insufficientPermissions"))]);
    let keyed = |query: &str| send(stage.running.url(), "GET", &format!("{mine}{query}"), &[], "");
    assert_eq!(keyed("").status, 403);
    assert_eq!(
        keyed(&format!("&key={}", key(&stage))).json()["error"]["errors"][0]["reason"],
        "authorizationRequired"
    );
}

#[test]
fn search_has_a_quota_of_its_own_until_midnight_in_california() {
    let stage = stage("youtube");
    stage.set(&json!({ "search_quota": 2, "read_quota": 3 }));
    let search = || stage.get("/www/youtube/v3/search?part=snippet&q=rust");
    assert_eq!([search().status, search().status, search().status], [200, 200, 403]);
    let refused = search().json();
    assert_eq!(
        refused["error"]["errors"][0],
        json!({
            "message": refused["error"]["message"], "domain": "youtube.quota", "reason": "quotaExceeded",
        })
    );
    let read = || stage.get("/www/youtube/v3/videos?part=id&chart=mostPopular").status;
    assert_eq!([read(), read(), read(), read()], [200, 200, 200, 403]);
    stage.running.control().advance(DAY_US);
    let mut stage = stage;
    stage.sign_in();
    assert_eq!(stage.get("/www/youtube/v3/search?part=snippet&q=rust").status, 200);
}
