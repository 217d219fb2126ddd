//! Takeout in its formats and languages.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::Config;
use serde_json::{Value, json};
use store::clock::Clock;

use super::import;
use crate::sync::{SyncRequest, run};
use crate::testing::archives::{ArchiveFiles, owner};
use crate::testing::{Fixture, signed_out_fixture};
use crate::youtube::SERVICE;
use crate::youtube::mirror::MIRROR;

fn cell(product: &str, body: &str, caption: &str) -> String {
    format!(
        "<div class=\"outer-cell mdl-cell mdl-cell--12-col mdl-shadow--2dp\"><div class=\"mdl-grid\">\
         <div class=\"header-cell mdl-cell mdl-cell--12-col\"><p class=\"mdl-typography--title\">{product}<br></p></div>\
         <div class=\"content-cell mdl-cell mdl-cell--6-col mdl-typography--body-1\">{body}</div>\
         <div class=\"content-cell mdl-cell mdl-cell--6-col mdl-typography--body-1 mdl-typography--text-right\"></div>\
         <div class=\"content-cell mdl-cell mdl-cell--12-col mdl-typography--caption\"><b>Products:</b><br>&emsp;{product}<br>{caption}</div>\
         </div></div>"
    )
}

fn page(cells: &[String]) -> String {
    format!(
        "<html><head><title>My Activity</title><style>.a > .b {{ content: '<div'; }}</style></head>\
         <body><div class=\"mdl-grid\">{}</div></body></html>",
        cells.concat()
    )
}

fn watched(title: &str, video: &str, at: &str) -> String {
    format!(
        "Watched&nbsp;<a href=\"https://www.youtube.com/watch?v={video}\">{title}</a><br>\
         <a href=\"https://www.youtube.com/channel/UCabcdefghijklmnopqrstuv\">A &amp; B</a><br>{at}<br>"
    )
}

fn json_history() -> Value {
    json!([
        { "header": "YouTube", "title": "Watched Rust & crabs",
          "titleUrl": "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
          "subtitles": [{ "name": "A & B", "url": "https://www.youtube.com/channel/UCabcdefghijklmnopqrstuv" }],
          "time": "2023-11-05T20:15:30.678Z", "products": ["YouTube"] },
        { "header": "YouTube", "title": "Searched for chess",
          "titleUrl": "https://www.youtube.com/results?search_query=chess+openings",
          "time": "2024-01-03T03:04:05.678Z" },
        { "header": "YouTube", "title": "Watched a video that has been removed", "time": "2024-01-03T03:04:05Z" },
        { "header": "YouTube", "title": "Watched Elsewhere", "titleUrl": "https://youtube.com.example.org/watch?v=dQw4w9WgXcQ",
          "time": "2024-01-03T03:04:05Z" },
    ])
}

#[test]
fn the_history_is_the_same_as_html_and_as_json() {
    let html = page(&[
        cell(
            "YouTube",
            &watched("Rust &amp; crabs", "dQw4w9WgXcQ", "Nov 5, 2023, 9:15:30\u{202f}PM CET"),
            "",
        ),
        cell(
            "YouTube",
            "Searched for&nbsp;<a href=\"https://www.youtube.com/results?search_query=chess+openings\">chess openings</a><br>Jan 3, 2024, 3:04:05 AM UTC<br>",
            "",
        ),
        cell(
            "YouTube",
            "Watched a video that has been removed<br>Nov 5, 2023, 9:15:30 PM CET<br>",
            "",
        ),
        cell(
            "YouTube",
            &watched("An ad", "ADSADSADS12", "6 Nov 2023, 08:00:00 UTC"),
            "<b>Details:</b><br>&emsp;From Google Ads<br>",
        ),
        cell("YouTube", &watched("No date", "nodatenodat", "at some point"), ""),
    ]);
    let history = json_history().to_string();
    let html_file =
        ("Takeout/YouTube and YouTube Music/history/watch-history.html", html.as_bytes());
    let json_file =
        ("Takeout/YouTube und YouTube Music/Verlauf/Wiedergabeverlauf.json", history.as_bytes());
    for first_is_html in [true, false] {
        let (fixture, archives) = (owner(&SERVICE), ArchiveFiles::new());
        let of_html = archives.zip("html.zip", &[html_file]);
        let of_json = archives
            .zip("json.zip", &[json_file, ("Takeout/Chrome/Bookmarks.json", b"{\"roots\":[{}]}")]);
        let order = if first_is_html { [of_html, of_json] } else { [of_json, of_html] };
        for path in &order {
            fixture.import(import, std::slice::from_ref(path)).unwrap();
        }
        let watches = fixture.flats("watches");
        assert_eq!(watches.len(), 2, "{watches:?}");
        assert_eq!(watches[0]["title"], "Rust & crabs");
        assert_eq!(watches[0]["channel"], "A & B");
        assert_eq!(watches[0]["video_id"], "dQw4w9WgXcQ");
        assert_eq!(watches[0]["watched_at"], "2023-11-05T20:15:30.678Z", "the finer time wins");
        assert_eq!(watches[1]["details"], "From Google Ads");
        assert_eq!(fixture.flats("searches").len(), 1);
        assert_eq!(fixture.flats("searches")[0]["query"], "chess openings");
        let again = fixture.import(import, &order).unwrap();
        assert_eq!(Fixture::counts(&again, "watches"), (4, 0, 1, 0));
    }
}

#[test]
fn a_german_archive_of_several_parts_is_recognised_by_content() {
    let (fixture, archives) = (owner(&SERVICE), ArchiveFiles::new());
    let root = "Takeout/YouTube und YouTube Music";
    let verlauf = page(&[cell(
        "YouTube",
        "<a href=\"https://www.youtube.com/watch?v=abcdefghijk\">Schach</a>&nbsp;angesehen<br>\
         <a href=\"https://www.youtube.com/channel/UCabcdefghijklmnopqrstuv\">Kanal</a><br>05.11.2023, 21:15:30 MEZ<br>",
        "",
    )]);
    let abos = "Kanal-ID,Kanal-URL,Kanaltitel\r\n\
        UCabcdefghijklmnopqrstuv,http://www.youtube.com/channel/UCabcdefghijklmnopqrstuv,\"Kanal, der erste\"\r\n";
    let lists = "Playlist-ID,Neue Videos oben,Erstellungszeitpunkt,Aktualisierungszeitpunkt,Reihenfolge,Sichtbarkeit,Playlist-Titel (Original),Sprache des Playlist-Titels\n\
        PLbpi6ZahtOH6Blw3RGYpWkSByi_T7Rygb,False,2020-01-01T00:00:00+00:00,2021-01-01T00:00:00+00:00,Manual,Private,Auto / Reise,de\n\
        LLabcdefghijklmnopqrstuv,False,2019-01-01T00:00:00+00:00,2021-01-01T00:00:00+00:00,Manual,Private,Videos die ich mag,de\n";
    let entries = "Video-ID,Zeitstempel der Erstellung\n\
        abcdefghijk,2020-02-02T10:00:00+00:00\nmnopqrstuvw,2020-02-03T10:00:00+00:00\nabcdefghijk,2020-02-04T10:00:00+00:00\n\n\n";
    let likes = "Video-ID,Zeitstempel der Erstellung\nlikelikelik,2022-02-02T10:00:00+00:00\n";
    let later = "Video-ID,Zeitstempel der Erstellung\nlaterlaterl,2022-03-02T10:00:00+00:00\n";
    let name = |file: &str| format!("{root}/{file}");
    let one = archives.zip(
        "takeout-001.zip",
        &[
            (&name("Playlists/Auto _ Reise-Videos.csv"), entries.as_bytes()),
            (&name("Playlists/Videos die ich mag-Videos.csv"), likes.as_bytes()),
            (&name("Playlists/Später ansehen-Videos.csv"), later.as_bytes()),
        ],
    );
    let two = archives.zip(
        "takeout-002.zip",
        &[
            (&name("Verlauf/Wiedergabeverlauf.html"), verlauf.as_bytes()),
            (&name("Abos/Abos.csv"), abos.as_bytes()),
            (&name("Playlists/Playlists.csv"), lists.as_bytes()),
            ("Takeout/archive_browser.html", b"<html><body><p>Ihr Archiv</p></body></html>"),
        ],
    );
    let imported = fixture.import(import, &[one, two]).unwrap();
    assert_eq!(imported.problem_count, 0, "{:?}", imported.problems);
    assert_eq!(fixture.flats("watches")[0]["watched_at"], "2023-11-05T20:15:30Z");
    assert_eq!(fixture.flats("watches")[0]["title"], "Schach");
    assert_eq!(fixture.flats("subscriptions")[0]["channel_title"], "Kanal, der erste");
    assert_eq!(fixture.flats("likes")[0]["video_id"], "likelikelik");
    assert_eq!(fixture.flats("playlists").len(), 2);
    let items = fixture.flats("playlist_items");
    let of = |title: &str| {
        let all = items.iter().filter(|item| item["playlist"] == title);
        all.map(|item| item["video_id"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of("Auto _ Reise"), ["abcdefghijk", "mnopqrstuvw", "abcdefghijk"]);
    assert!(items.iter().any(|item| item["playlist_id"] == "PLbpi6ZahtOH6Blw3RGYpWkSByi_T7Rygb"));
    assert_eq!(of("Später ansehen"), ["laterlaterl"]);
}

#[test]
fn older_tables_have_the_playlist_above_its_entries() {
    let (fixture, archives) = (owner(&SERVICE), ArchiveFiles::new());
    let old = b"Playlist Id,Channel Id,Time Created,Time Updated,Title,Description,Visibility\n\
        PLold00000000000000000000000000000,UCabcdefghijklmnopqrstuv,2012-01-01 00:00:00 UTC,2013-01-01 00:00:00 UTC,Road trip,,Private\n\n\
        Video Id,Time Added\nabcdefghijk,2012-02-01 00:00:00 UTC\n";
    let file = archives.file("Road trip.csv", old);
    fixture.import(import, &[file]).unwrap();
    let item = &fixture.flats("playlist_items")[0];
    assert_eq!(item["playlist_id"], "PLold00000000000000000000000000000");
    assert_eq!(item["playlist"], "Road trip");
    assert_eq!(item["added_at"], "2012-02-01T00:00:00Z");
}

#[test]
fn a_truncated_page_yields_its_complete_entries() {
    let (fixture, archives) = (owner(&SERVICE), ArchiveFiles::new());
    let whole = page(&[
        cell("YouTube", &watched("One", "aaaaaaaaaaa", "5 Nov 2023, 20:15:30 UTC"), ""),
        cell("YouTube", &watched("Two", "bbbbbbbbbbb", "5 Nov 2023, 20:16:30 UTC"), ""),
    ]);
    let cut = whole.find("bbbbbbbbbbb").unwrap() + 20;
    let file = archives.file("watch-history.html", &whole.as_bytes()[..cut]);
    let imported = fixture.import(import, &[file]).unwrap();
    assert_eq!(Fixture::counts(&imported, "watches").1, 1);
}

#[tokio::test]
async fn an_import_adds_missing_records_and_keeps_synced_ones() {
    fn look(name: &str, url: &str) -> Option<String> {
        Some(match name {
            "YOUTUBE_API_BASE_URL" => format!("{url}/www"),
            "YOUTUBE_OAUTH_BASE_URL" => format!("{url}/oauth2"),
            "YOUTUBE_CLIENT_ID" => "sandbox-youtube-client".to_owned(),
            "YOUTUBE_CLIENT_SECRET" => "sandbox-youtube-secret".to_owned(),
            _ => return None,
        })
    }
    let config = Config::youtube(7, 5, Clock::System.now().wall_us);
    let (fixture, archives) =
        (signed_out_fixture(&SERVICE, config, look).sign_in(), ArchiveFiles::new());
    let channel = fixture.sandbox.control().records("subscription").unwrap()[0].clone();
    let channel = channel["snippet"]["resourceId"]["channelId"].as_str().unwrap().to_owned();
    let text = format!(
        "Channel Id,Channel Url,Channel Title\n\
         {channel},http://www.youtube.com/channel/{channel},As it was\n\
         UCabcdefghijklmnopqrstuv,http://www.youtube.com/channel/UCabcdefghijklmnopqrstuv,Left since\n"
    );
    let later =
        b"Video ID,Playlist Video Creation Timestamp\nlaterlaterl,2022-03-02T10:00:00+00:00\n";
    let files: [(&str, &[u8]); 2] =
        [("subscriptions.csv", text.as_bytes()), ("Watch later-videos.csv", later)];
    let zip = archives.zip("takeout.zip", &files);
    let first = fixture.import(import, std::slice::from_ref(&zip)).unwrap();
    assert_eq!(Fixture::counts(&first, "subscriptions"), (2, 2, 0, 0));
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(result["resources"]["subscriptions"]["records_removed"], 1, "{result}");
    let row = fixture.ctx.records.one("youtube", "subscriptions", &channel).unwrap().unwrap();
    assert!(!row.raw.contains("As it was"), "{}", row.raw);
    // The API does not offer the watch-later list, so it stays.
    let later = |fixture: &Fixture| {
        fixture
            .flats("playlist_items")
            .iter()
            .filter(|item| item["video_id"] == "laterlaterl")
            .count()
    };
    assert_eq!(later(&fixture), 1);
    let again = fixture.import(import, &[zip]).unwrap();
    assert_eq!(Fixture::counts(&again, "subscriptions"), (2, 0, 0, 1));
    assert_eq!(Fixture::counts(&again, "playlist_items"), (1, 0, 0, 0));
    assert_eq!(later(&fixture), 1);
}
