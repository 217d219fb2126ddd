//! Imports of Reddit's data export, alone and together with a sync.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::Config;
use serde_json::{Value, json};
use store::clock::Clock;
use store::records::Window;

use super::import;
use crate::reddit::SERVICE;
use crate::reddit::mirror::MIRROR;
use crate::sync::{SyncRequest, run};
use crate::testing::archives::{ArchiveFiles, owner};
use crate::testing::{Fixture, signed_out_fixture};

const POSTS: &str = "\u{feff}id,permalink,date,ip,subreddit,gildings,title,url,body\r\n\
1abcd2,https://www.reddit.com/r/rust/comments/1abcd2/first/,2023-01-15 12:34:56 UTC,198.51.100.7,rust,0,\"First, really\",https://example.com/,\"two\r\nlines, \"\"quoted\"\"\"\r\n\
1abcd2,https://www.reddit.com/r/rust/comments/1abcd2/first/,2023-01-15 12:34:56 UTC,198.51.100.7,rust,0,\"First, really\",https://example.com/,\"two\r\nlines, \"\"quoted\"\"\"\r\n\
2bc.de,x,2023-01-16 00:00:00 UTC,,rust,0,not an id,,\r\n\
3cdef,/r/rust/comments/3cdef/t/,some day,,rust,0,no date,,\r\n";
const COMMENTS: &[u8] = b"id,permalink,date,ip,subreddit,gildings,link,parent,body,media\n\
k1aaaa,https://www.reddit.com/r/rust/comments/1x/t/k1aaaa/,2022-05-01 08:00:00 UTC,,rust,0,https://www.reddit.com/r/rust/comments/1x/t/,,caf\xe9 \xf0\x9f\xa6\x80,\n";

fn files() -> Vec<(&'static str, &'static [u8])> {
    vec![
        ("posts.csv", POSTS.as_bytes()),
        ("post_headers.csv", b"id,permalink,date,ip,subreddit,gildings,url\n1abcd2,x,2023-01-15 12:34:56 UTC,,rust,0,\n"),
        ("comments.csv", COMMENTS),
        ("saved_posts.csv", b"id,permalink\n5aaa,https://www.reddit.com/r/pics/comments/5aaa/cat/\n"),
        ("saved_comments.csv", b"id,permalink\nk2bb,https://www.reddit.com/r/pics/comments/5aaa/cat/k2bb/\n"),
        ("hidden_posts.csv", b"id,permalink\n6aaa,https://www.reddit.com/r/pics/comments/6aaa/x/\n"),
        ("post_votes.csv", b"id,permalink,direction\n7aaa,/r/pics/comments/7aaa/a/,up\n7aab,/r/pics/comments/7aab/b/,down\n7aac,/r/pics/comments/7aac/c/,none\n"),
        ("comment_votes.csv", b"id,permalink,direction\nk3cc,/r/pics/comments/7aaa/a/k3cc/,up\n"),
        ("subscribed_subreddits.csv", b"subreddit\nrust\nAskHistorians\n"),
        ("messages.csv", b"id,permalink,thread_id,date,ip,from,to,subject,body\n9aaa,https://www.reddit.com/message/messages/9aaa,,2019-02-03 04:05:06 UTC,203.0.113.9,me,you,hello,how are you\n"),
        ("ip_logs.csv", b"date,ip\n2023-01-01,198.51.100.7\n"),
        ("statistics.csv", b"statistic,value\naccount name,me\n"),
    ]
}

#[test]
fn every_table_is_imported_once_and_without_ip_addresses() {
    let (fixture, archives) = (owner(&SERVICE), ArchiveFiles::new());
    let zip = archives.zip("export_me_20261101.zip", &files());
    let first = fixture.import(import, std::slice::from_ref(&zip)).unwrap();
    assert_eq!(first.problem_count, 0, "{:?}", first.problems);
    assert_eq!(Fixture::counts(&first, "posts"), (4, 1, 2, 0));
    for (kind, rows) in [
        ("comments", 1),
        ("saved", 2),
        ("hidden", 1),
        ("upvoted", 2),
        ("downvoted", 1),
        ("subreddits", 2),
        ("messages", 1),
    ] {
        assert_eq!(Fixture::counts(&first, kind), (rows, rows, 0, 0), "{kind}");
    }
    let unpacked = archives.unpacked("unpacked", &files());
    for path in [zip, unpacked] {
        let again = fixture.import(import, &[path]).unwrap();
        assert!(again.kinds.values().all(|taken| taken.written == 0), "{again:?}");
    }
    let post = &fixture.flats("posts")[0];
    assert_eq!(post["id"], "t3_1abcd2");
    assert_eq!(post["title"], "First, really");
    assert_eq!(post["text"], "two\r\nlines, \"quoted\"");
    assert_eq!(post["created_at"], "2023-01-15T12:34:56.000Z");
    assert_eq!(fixture.flats("comments")[0]["text"], "caf\u{fffd} \u{1f980}");
    let saved = fixture.flats("saved");
    assert!(saved.iter().all(|thing| thing["subreddit"] == "pics"), "{saved:?}");
    assert_eq!(fixture.flats("messages")[0]["subject"], "hello");
    let rows = |kind| fixture.ctx.records.window("reddit", kind, &Window::default()).unwrap();
    for kind in ["posts", "messages"] {
        assert!(
            rows(kind).iter().all(|row| !row.raw.contains("198.51") && !row.raw.contains("203.0"))
        );
    }
}

#[test]
fn a_table_with_unknown_columns_is_reported_and_the_rest_is_imported() {
    let (fixture, archives) = (owner(&SERVICE), ArchiveFiles::new());
    let youtube = b"Comment ID,Channel ID,Comment Text\nUg1,UCa,hi\n".as_slice();
    let zip =
        archives.zip("mixed.zip", &[("comments.csv", youtube), ("posts.csv", POSTS.as_bytes())]);
    let imported = fixture.import(import, &[zip]).unwrap();
    assert_eq!(imported.problems[0].0, "comments.csv");
    assert!(imported.problems[0].1.contains("no column `id`"), "{:?}", imported.problems);
    assert_eq!(Fixture::counts(&imported, "posts").1, 1);
}

fn signed_in() -> Fixture {
    fn look(name: &str, url: &str) -> Option<String> {
        Some(match name {
            "REDDIT_API_BASE_URL" => format!("{url}/oauth"),
            "REDDIT_OAUTH_BASE_URL" => format!("{url}/www"),
            "REDDIT_CLIENT_ID" => "sandbox-reddit-client".to_owned(),
            "REDDIT_CLIENT_SECRET" => "sandbox-reddit-secret".to_owned(),
            _ => return None,
        })
    }
    signed_out_fixture(&SERVICE, Config::reddit(7, 20, Clock::System.now().wall_us), look).sign_in()
}

async fn sync(fixture: &Fixture) -> Value {
    let full = SyncRequest { full: true, ..SyncRequest::default() };
    let result = run(&fixture.ctx, &MIRROR, &full, &|_| {}).await.unwrap().value();
    assert_eq!(result["status"], "success", "{result}");
    result
}

/// An archive with one post that Reddit also shows and one that only the archive has.
fn overlapping(fixture: &Fixture, archives: &ArchiveFiles) -> (std::path::PathBuf, String) {
    let saved = fixture.sandbox.control().records("saved").unwrap();
    let posts = saved.iter().filter_map(|thing| thing["data"]["name"].as_str());
    let name = posts.into_iter().find(|name| name.starts_with("t3_")).unwrap().to_owned();
    let text =
        format!("id,permalink\n{},/r/x/comments/y/z/\nonlyhere,/r/x/comments/q/z/\n", &name[3..]);
    (archives.zip("both.zip", &[("saved_posts.csv", text.as_bytes())]), name)
}

#[tokio::test]
async fn synced_items_win_over_archived_ones_in_any_order() {
    for archive_first in [true, false] {
        let (fixture, archives) = (signed_in(), ArchiveFiles::new());
        let (zip, name) = overlapping(&fixture, &archives);
        if archive_first {
            fixture.import(import, std::slice::from_ref(&zip)).unwrap();
        }
        sync(&fixture).await;
        let there = fixture.sandbox.control().records("saved").unwrap().len();
        let imported = fixture.import(import, std::slice::from_ref(&zip)).unwrap();
        let written = usize::from(!archive_first);
        assert_eq!(Fixture::counts(&imported, "saved"), (2, written, 0, 0));
        let kept = fixture.flats("saved");
        assert_eq!(kept.len(), there + 1, "no duplicates");
        let row = fixture.ctx.records.one("reddit", "saved", &name).unwrap().unwrap();
        assert!(!row.raw.contains("from_archive") && row.state.is_none(), "{}", row.raw);
        // Records from the archive remain after another sync.
        let again = sync(&fixture).await;
        assert_eq!(again["resources"]["saved"]["records_removed"], json!(null), "{again}");
        assert!(fixture.ctx.records.one("reddit", "saved", "t3_onlyhere").unwrap().is_some());
    }
}

#[tokio::test]
async fn an_older_archive_does_not_restore_removed_items() {
    let (fixture, archives) = (signed_in(), ArchiveFiles::new());
    let (zip, name) = overlapping(&fixture, &archives);
    sync(&fixture).await;
    fixture.sandbox.control().remove("saved", &name).unwrap();
    sync(&fixture).await;
    fixture.import(import, std::slice::from_ref(&zip)).unwrap();
    assert!(fixture.ctx.records.one("reddit", "saved", &name).unwrap().is_none());
    let list = b"subreddit\nleft_long_ago\n".as_slice();
    let zip = archives.zip("subreddits.zip", &[("subscribed_subreddits.csv", list)]);
    let imported = fixture.import(import, &[zip]).unwrap();
    assert_eq!(Fixture::counts(&imported, "subreddits"), (1, 0, 0, 1));
}
