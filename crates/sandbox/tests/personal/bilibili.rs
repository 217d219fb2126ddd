//! Bilibili: the owner's lists, error codes, and unavailable endpoints.

use std::collections::BTreeSet;

use sandbox::TokenKind;
use serde_json::{Value, json};

use crate::service_test::{ServiceTest, start};
use crate::wire::send;

fn mid(test: &ServiceTest) -> i64 {
    test.json("/x/space/myinfo")["data"]["mid"].as_i64().unwrap()
}

#[test]
fn followings_and_favourites_are_read_page_by_page() {
    let test = start("bilibili");
    let me = mid(&test);
    let all: Vec<Value> = (1..=8)
        .flat_map(|page| {
            let path = format!("/x/relation/followings?vmid={me}&ps=20&pn={page}&order=desc");
            test.json(&path)["data"]["list"].as_array().unwrap().clone()
        })
        .collect();
    assert_eq!(all.len(), test.records("following").len());
    let folders =
        test.json(&format!("/x/v3/fav/folder/created/list-all?up_mid={me}&type=2"))["data"].clone();
    assert_eq!(folders["count"], json!(6));
    let first = folders["list"][0]["id"].as_i64().unwrap();
    let page = |number: u32| {
        test.json(&format!("/x/v3/fav/resource/list?media_id={first}&pn={number}&ps=20"))["data"]
            .clone()
    };
    assert_eq!(
        [page(1), page(2), page(3)]
            .map(|page| (page["medias"].as_array().unwrap().len(), page["has_more"].clone())),
        [(20, json!(true)), (20, json!(true)), (15, json!(false))]
    );
}

#[test]
fn history_is_read_by_cursor_to_the_end() {
    let test = start("bilibili");
    let mut query = String::new();
    let mut seen = Vec::new();
    loop {
        let data =
            test.json(&format!("/x/web-interface/history/cursor?ps=30{query}"))["data"].clone();
        let list = data["list"].as_array().unwrap().clone();
        if list.is_empty() {
            assert_eq!(data["cursor"]["max"], 0);
            break;
        }
        seen.extend(list);
        let cursor = &data["cursor"];
        query = format!(
            "&max={}&view_at={}&business={}",
            cursor["max"],
            cursor["view_at"],
            cursor["business"].as_str().unwrap()
        );
    }
    assert_eq!(seen.len(), test.records("history").len());
    let kinds: BTreeSet<&str> =
        seen.iter().map(|item| item["history"]["business"].as_str().unwrap()).collect();
    assert_eq!(kinds, BTreeSet::from(["archive", "article", "live", "pgc"]));
    assert!(seen.iter().any(|item| item["title"].as_str().unwrap().contains("<em")));
    let live = test.json("/x/web-interface/history/cursor?type=live")["data"]["list"].clone();
    assert!(live.as_array().unwrap().iter().all(|item| item["history"]["business"] == "live"));
    let old = test.json("/x/v2/history?pn=2&ps=20")["data"].clone();
    assert!(old[0].get("history").is_none() && old[0]["bvid"].is_string());
}

#[test]
fn responses_have_the_codes_of_the_service() {
    let test = start("bilibili");
    let me = mid(&test);
    let video = |number: usize| test.records("video")[number]["bvid"].as_str().unwrap().to_owned();
    let up = |number: usize| {
        test.records("following")
            .iter()
            .find(|one| one["uname"].as_str().unwrap().ends_with(&number.to_string()))
            .unwrap()["mid"]
            .clone()
    };
    let code = |path: String| test.json(&path)["code"].clone();
    for (path, said) in [
        (format!("/x/web-interface/view?bvid={}", video(3)), 0),
        ("/x/web-interface/view?aid=113000000000000".to_owned(), 0),
        (format!("/x/web-interface/view?bvid={}", video(49)), 62_002),
        ("/x/web-interface/view?bvid=BV1nobody".to_owned(), -404),
        ("/x/web-interface/view".to_owned(), -400),
        (format!("/x/relation/stat?vmid={me}"), 0),
        ("/x/relation/stat?vmid=x".to_owned(), -400),
        (format!("/x/relation/followings?vmid={me}&ps=51"), -400),
        (format!("/x/relation/followings?vmid={}&pn=5", up(11)), 0),
        (format!("/x/relation/followings?vmid={}&pn=6", up(11)), 22_007),
        (format!("/x/relation/followings?vmid={}", up(10)), 22_115),
        ("/x/relation/followings?vmid=1".to_owned(), -404),
        ("/x/web-interface/history/cursor?ps=31".to_owned(), -400),
        ("/x/v3/fav/resource/list?media_id=1".to_owned(), -404),
        (format!("/x/space/acc/info?mid={me}"), -403),
        (format!("/x/space/arc/search?mid={me}"), -403),
        (format!("/x/space/wbi/acc/info?mid={me}&w_rid=0&wts=1"), -352),
        ("/x/web-interface/wbi/search/type?keyword=rust".to_owned(), -352),
    ] {
        assert_eq!(code(path.clone()), json!(said), "{path}");
    }
    let missing = test.get("/x/nowhere");
    assert_eq!((missing.status, missing.json()["code"].clone()), (404, json!(-404)));
}

#[test]
fn without_cookies_only_public_data_is_available() {
    let mut test = start("bilibili");
    let me = mid(&test);
    let bare = |path: &str| send(test.running.url(), "GET", path, &[], "").json();
    for path in [
        "/x/space/myinfo",
        "/x/v2/history/toview",
        "/x/web-interface/history/cursor",
        "/x/relation/followings?vmid=1",
    ] {
        assert_eq!(bare(path)["code"], json!(-101), "{path}");
    }
    assert_eq!(bare("/x/web-interface/nav")["data"], json!({ "isLogin": false }));
    let folders = bare(&format!("/x/v3/fav/folder/created/list-all?up_mid={me}"));
    assert_eq!(folders["data"]["count"], json!(5));
    let private = test.records("folder")[5]["id"].to_string();
    assert_eq!(bare(&format!("/x/v3/fav/resource/list?media_id={private}"))["code"], json!(-403));
    test.running.control().expire(TokenKind::Access);
    assert_eq!(test.json("/x/space/myinfo")["code"], json!(-101));
    test.sign_in();
    assert_eq!(test.json("/x/web-interface/nav")["data"]["isLogin"], json!(true));
}

#[test]
fn risk_control_applies_to_every_endpoint() {
    let test = start("bilibili");
    for (risk, status) in [(-352, 200), (-412, 412), (-799, 200)] {
        test.set(&json!({ "risk": risk }));
        let got = test.get("/x/space/myinfo");
        assert_eq!((got.status, got.json()["code"].clone()), (status, json!(risk)));
    }
    test.set(&json!({ "risk": null }));
    assert_eq!(test.json("/x/space/myinfo")["code"], 0);
}
