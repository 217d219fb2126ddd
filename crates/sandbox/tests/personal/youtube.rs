//! YouTube: lists of the Data API, keys, scopes and quotas.

use serde_json::{Value, json};

use crate::service_test::{DAY_US, ServiceTest, start};
use crate::wire::send;

const V3: &str = "/www/youtube/v3";

fn read_all(test: &ServiceTest, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let page = test.json(&format!("{V3}/{path}&maxResults=50{next}"));
        items.extend(page["items"].as_array().unwrap().clone());
        match page["nextPageToken"].as_str() {
            Some(token) => next = format!("&pageToken={token}"),
            None => return items,
        }
    }
}

fn key(test: &ServiceTest) -> String {
    test.running.control().ready()["values"]["YOUTUBE_API_KEY"].as_str().unwrap().to_owned()
}

#[test]
fn every_list_is_read_to_its_end() {
    let test = start("youtube");
    for (path, kind) in [
        ("subscriptions?part=snippet,contentDetails&mine=true", "subscription"),
        ("playlists?part=snippet,contentDetails&mine=true", "playlist"),
        ("videos?part=snippet,statistics&myRating=like", "like"),
        ("playlistItems?part=snippet&playlistId=LL", "like"),
    ] {
        let items = read_all(&test, path);
        assert_eq!(items.len(), test.records(kind).len(), "{path}");
        assert!(items.len() > 50, "{path}");
    }
    assert_eq!(read_all(&test, "videos?part=snippet&chart=mostPopular&regionCode=DE").len(), 200);
    let long = test.records("playlist")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        read_all(&test, &format!("playlistItems?part=snippet&playlistId={long}")).len(),
        120
    );
}

#[test]
fn a_search_finds_words_and_an_unknown_word_finds_nothing() {
    let test = start("youtube");
    let found = read_all(&test, "search?part=snippet&q=rust&type=video&order=relevance");
    assert!(found.len() > 10 && found[0]["id"]["videoId"].is_string());
    assert!(found.iter().any(|item| item["snippet"]["title"].as_str().unwrap().contains("&amp;")));
    test.check(&[
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
fn parts_are_those_requested_and_some_resources_lack_some() {
    let test = start("youtube");
    let one = test.json(&format!("{V3}/videos?part=contentDetails&chart=mostPopular&maxResults=1"))
        ["items"][0]
        .clone();
    let names: Vec<&String> = one.as_object().unwrap().keys().collect();
    assert_eq!(names, ["kind", "etag", "id", "contentDetails"]);
    let videos = read_all(&test, "videos?part=snippet,statistics&chart=mostPopular");
    assert!(videos.iter().any(|video| video["snippet"].get("thumbnails").is_none()));
    assert!(videos.iter().any(|video| video.get("statistics").is_none()));
    let hidden = test.records("channel")[4]["id"].as_str().unwrap().to_owned();
    let statistics =
        test.json(&format!("{V3}/channels?part=statistics&id={hidden}"))["items"][0]["statistics"]
            .clone();
    assert!(
        statistics.get("subscriberCount").is_none()
            && statistics["hiddenSubscriberCount"] == json!(true)
    );
    let handle = test.records("channel")[3]["snippet"]["customUrl"].as_str().unwrap().to_owned();
    assert_eq!(
        test.json(&format!("{V3}/channels?part=id&forHandle={handle}"))["pageInfo"]["totalResults"],
        1
    );
    assert!(test.json(&format!("{V3}/channels?part=id&id=UCnobody")).get("items").is_none());
    assert_eq!(test.json(&format!("{V3}/videos?part=id&id=unknown"))["items"], json!([]));
    let liked = test.records("like")[0]["video"]["id"].as_str().unwrap().to_owned();
    let ratings = test.json(&format!("{V3}/videos/getRating?id={liked},other"))["items"].clone();
    assert_eq!([&ratings[0]["rating"], &ratings[1]["rating"]], ["like", "none"]);
}

#[test]
fn errors_have_their_reason() {
    let mut test = start("youtube");
    let reason = "/error/errors/0/reason";
    let other = test.records("channel")[2]["id"].as_str().unwrap().to_owned();
    test.check(&[
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
    test.set(&json!({ "subscriptions_private": true }));
    let mine = "/www/youtube/v3/subscriptions?part=id&mine=true";
    test.check(&[(mine, 403, reason, json!("subscriptionForbidden"))]);
    test.bear("void");
    test.check(&[(mine, 401, reason, json!("authError"))]);
    let narrow = test.running.control().tokens_for(&["openid"]);
    test.bear(narrow["access_token"].as_str().unwrap());
    test.check(&[(mine, 403, reason, json!("insufficientPermissions"))]);
    let keyed = |query: &str| send(test.running.url(), "GET", &format!("{mine}{query}"), &[], "");
    assert_eq!(keyed("").status, 403);
    assert_eq!(
        keyed(&format!("&key={}", key(&test))).json()["error"]["errors"][0]["reason"],
        "authorizationRequired"
    );
}

#[test]
fn search_has_a_separate_quota_until_midnight_in_california() {
    let test = start("youtube");
    test.set(&json!({ "search_quota": 2, "read_quota": 3 }));
    let search = || test.get("/www/youtube/v3/search?part=snippet&q=rust");
    assert_eq!([search().status, search().status, search().status], [200, 200, 403]);
    let refused = search().json();
    assert_eq!(
        refused["error"]["errors"][0],
        json!({
            "message": refused["error"]["message"], "domain": "youtube.quota", "reason": "quotaExceeded",
        })
    );
    let read = || test.get("/www/youtube/v3/videos?part=id&chart=mostPopular").status;
    assert_eq!([read(), read(), read(), read()], [200, 200, 200, 403]);
    test.running.control().advance(DAY_US);
    let mut test = test;
    test.sign_in();
    assert_eq!(test.get("/www/youtube/v3/search?part=snippet&q=rust").status, 200);
}
