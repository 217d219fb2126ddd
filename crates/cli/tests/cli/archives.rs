//! Archives of Spotify, YouTube and Reddit through the binary: import, report, and a kill during an import.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use store::home::Home;
use store::records::Records;

use crate::cli_test::CliTest;

fn records(test: &CliTest) -> Records {
    Records::open(&Home::open(&test.home()).unwrap()).unwrap()
}

/// A folder as Reddit's ZIP unpacks to.
fn reddit(test: &CliTest, votes: usize) -> String {
    let folder = test.path("reddit-export");
    fs::create_dir_all(&folder).unwrap();
    let posts = "id,permalink,date,ip,subreddit,gildings,title,url,body\n\
        1abcd2,https://www.reddit.com/r/rust/comments/1abcd2/a/,2023-01-15 12:34:56 UTC,198.51.100.7,rust,0,=A title,,text\n";
    fs::write(folder.join("posts.csv"), posts).unwrap();
    let mut text = "id,permalink,direction\n".to_owned();
    for number in 0..votes {
        writeln!(text, "v{number},https://www.reddit.com/r/rust/comments/v{number}/t/,up").unwrap();
    }
    fs::write(folder.join("post_votes.csv"), text).unwrap();
    folder.display().to_string()
}

#[test]
fn an_import_without_usable_rows_fails() {
    let test = CliTest::new();
    let whoop = |rows: &str| {
        let header =
            "Cycle start time;Cycle end time;Cycle timezone;Day Strain;Energy burned (cal)\n";
        let path = test.path("whoop.zip");
        let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        archive.start_file("cycles.csv", zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(format!("{header}{rows}").as_bytes()).unwrap();
        archive.finish().unwrap();
        path.display().to_string()
    };
    let unread = whoop("9.5.2019 23:00;10.5.2019 23:30;UTC+02:00;12,5;2600\n");
    let output = test.run(&["import", "whoop", &unread]);
    assert_eq!(output.code, 1, "{}", output.all_output());
    assert!(
        output.stderr.contains("nothing was imported: none of the rows can be used"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("`Cycle start time` is not a time"), "{}", output.stderr);
    let output = test.run(&["import", "whoop", &unread, "--json"]);
    assert_eq!((output.code, &output.json()["odd_rows"]), (1, &serde_json::json!(1)));
    let read = whoop("2019-05-09 23:00;2019-05-10 23:30;UTC+02:00;12,5;2600\n");
    for taken in ["1", "0"] {
        let output = test.succeed(&["import", "whoop", &read]);
        assert!(output.stdout.contains(&format!("cycles      1     {taken}")), "{}", output.stdout);
    }
    let strain = test.succeed(&["sql", "select strain from whoop_cycles"]).stdout;
    assert!(strain.contains("12.5"), "{strain}");
    let reddit = test.path("nothing");
    fs::create_dir_all(&reddit).unwrap();
    fs::write(reddit.join("post_votes.csv"), "id,permalink,direction\n,,\n,,\n").unwrap();
    let output = test.run(&["import", "reddit", reddit.to_str().unwrap()]);
    assert_eq!(output.code, 1, "{}", output.all_output());
    assert!(output.stderr.contains("nothing was imported"), "{}", output.stderr);
}

#[test]
fn an_archive_is_imported_shown_queried_and_exported() {
    let test = CliTest::new();
    let folder = reddit(&test, 3);
    let output = test.succeed(&["import", "reddit", &folder]);
    assert!(output.stdout.contains("TAKEN BACK"), "{}", output.stdout);
    let again = test.succeed(&["import", "reddit", &folder, "--json"]).json();
    assert_eq!(again["kinds"]["upvoted"]["rows"], 3);
    assert_eq!(again["kinds"]["upvoted"]["here_before"], 3);
    assert_eq!(again["unreadable_files"], 0);
    let rows =
        test.succeed(&["sql", "select id, subreddit from reddit_upvoted order by id", "--json"]);
    assert!(rows.stdout.contains("t3_v0") && rows.stdout.contains("rust"), "{}", rows.stdout);
    for format in ["csv", "jsonl", "parquet"] {
        let out = test.path(&format!("out-{format}"));
        let out = out.to_str().unwrap();
        test.succeed(&["export", "reddit", "--format", format, "--out", out]);
        assert!(fs::metadata(format!("{out}/upvoted.{format}")).unwrap().len() > 0);
    }
    let posts = fs::read_to_string(test.path("out-csv/posts.csv")).unwrap();
    assert!(posts.contains("t3_1abcd2") && !posts.contains("198.51"), "{posts}");
    let events = test.succeed(&["events", "reddit", "--since", "2000-01-01", "--json"]).json();
    assert_eq!(events["count"], 4);
    test.succeed(&["disconnect", "reddit", "--yes"]);
    assert_eq!(records(&test).count("reddit", "upvoted").unwrap(), 0);
}

#[test]
fn problems_of_an_archive_are_reported() {
    let test = CliTest::new();
    let junk = test.write("junk.zip", "no zip at all");
    let output = test.run(&["import", "youtube", &junk]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("is not a ZIP"), "{}", output.stderr);
    assert!(output.stderr.contains("hint: "), "{}", output.stderr);
    let folder = reddit(&test, 1);
    fs::write(test.path("reddit-export/comments.csv"), "Comment ID,Text\nUg1,hi\n").unwrap();
    let output = test.run(&["import", "reddit", &folder]);
    assert_eq!(output.code, 1, "some of it came: {}", output.all_output());
    assert!(output.stderr.contains("`comments.csv` was left out"), "{}", output.stderr);
    assert!(output.stdout.contains("upvoted"), "{}", output.stdout);
    let output = test.run(&["import", "spotify", &folder]);
    assert!(output.stderr.contains("spotify.com/account/privacy"), "{}", output.stderr);
    let output = test.run(&["import", "youtube"]);
    assert_eq!(output.code, 2);
}

/// SIGKILL during an import: the database is intact, and the same command finishes it.
#[test]
fn an_import_killed_in_the_middle_is_finished_by_the_next() {
    const VOTES: usize = 30_000;
    let test = CliTest::new();
    let folder = reddit(&test, VOTES);
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    let mut was_between = false;
    for _ in 0..3 {
        let before = records(&test).count("reddit", "upvoted").unwrap();
        let mut command = test.command(&["import", "reddit", &folder]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while records(&test).count("reddit", "upvoted").unwrap() == before
            && begun.elapsed() < Duration::from_secs(20)
        {
            sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let records = records(&test);
        records.check().unwrap();
        let count = records.count("reddit", "upvoted").unwrap();
        was_between |= count > 0 && count < VOTES as u64;
    }
    assert!(was_between, "no kill happened during the import");
    let done = test.succeed(&["import", "reddit", &folder, "--json"]).json();
    assert_eq!(done["kinds"]["upvoted"]["rows"], VOTES);
    assert_eq!(records(&test).count("reddit", "upvoted").unwrap(), VOTES as u64);
    let again = test.succeed(&["import", "reddit", &folder, "--json"]).json();
    assert_eq!(again["kinds"]["upvoted"]["taken"], 0);
}
