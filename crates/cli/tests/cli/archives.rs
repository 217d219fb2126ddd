//! Archives of Spotify, YouTube and Reddit through the binary: what comes in, what is shown of it,
//! and what a kill in the middle leaves.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use store::home::Home;
use store::records::Records;

use crate::stage::Stage;

fn records(stage: &Stage) -> Records {
    Records::open(&Home::open(&stage.home()).unwrap()).unwrap()
}

/// A folder as Reddit's ZIP unpacks to.
fn reddit(stage: &Stage, votes: usize) -> String {
    let folder = stage.path("reddit-export");
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
fn an_import_that_takes_nothing_says_so_and_is_no_success() {
    let stage = Stage::new();
    let whoop = |rows: &str| {
        let header =
            "Cycle start time;Cycle end time;Cycle timezone;Day Strain;Energy burned (cal)\n";
        let path = stage.path("whoop.zip");
        let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        archive.start_file("cycles.csv", zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(format!("{header}{rows}").as_bytes()).unwrap();
        archive.finish().unwrap();
        path.display().to_string()
    };
    let unread = whoop("9.5.2019 23:00;10.5.2019 23:30;UTC+02:00;12,5;2600\n");
    let said = stage.run(&["import", "whoop", &unread]);
    assert_eq!(said.code, 1, "{}", said.everything());
    assert!(
        said.stderr.contains("nothing was taken in: none of the rows can be used"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("`Cycle start time` is not a time"), "{}", said.stderr);
    let said = stage.run(&["import", "whoop", &unread, "--json"]);
    assert_eq!((said.code, &said.json()["odd_rows"]), (1, &serde_json::json!(1)));
    let read = whoop("2019-05-09 23:00;2019-05-10 23:30;UTC+02:00;12,5;2600\n");
    for taken in ["1", "0"] {
        let said = stage.fine(&["import", "whoop", &read]);
        assert!(said.stdout.contains(&format!("cycles      1     {taken}")), "{}", said.stdout);
    }
    let strain = stage.fine(&["sql", "select strain from whoop_cycles"]).stdout;
    assert!(strain.contains("12.5"), "{strain}");
    let reddit = stage.path("nothing");
    fs::create_dir_all(&reddit).unwrap();
    fs::write(reddit.join("post_votes.csv"), "id,permalink,direction\n,,\n,,\n").unwrap();
    let said = stage.run(&["import", "reddit", reddit.to_str().unwrap()]);
    assert_eq!(said.code, 1, "{}", said.everything());
    assert!(said.stderr.contains("nothing was taken in"), "{}", said.stderr);
}

#[test]
fn an_archive_is_taken_in_shown_asked_and_taken_out() {
    let stage = Stage::new();
    let folder = reddit(&stage, 3);
    let said = stage.fine(&["import", "reddit", &folder]);
    assert!(said.stdout.contains("TAKEN BACK"), "{}", said.stdout);
    let again = stage.fine(&["import", "reddit", &folder, "--json"]).json();
    assert_eq!(again["kinds"]["upvoted"]["rows"], 3);
    assert_eq!(again["kinds"]["upvoted"]["here_before"], 3);
    assert_eq!(again["unreadable_files"], 0);
    let rows =
        stage.fine(&["sql", "select id, subreddit from reddit_upvoted order by id", "--json"]);
    assert!(rows.stdout.contains("t3_v0") && rows.stdout.contains("rust"), "{}", rows.stdout);
    for format in ["csv", "jsonl", "parquet"] {
        let out = stage.path(&format!("out-{format}"));
        let out = out.to_str().unwrap();
        stage.fine(&["export", "reddit", "--format", format, "--out", out]);
        assert!(fs::metadata(format!("{out}/upvoted.{format}")).unwrap().len() > 0);
    }
    let posts = fs::read_to_string(stage.path("out-csv/posts.csv")).unwrap();
    assert!(posts.contains("t3_1abcd2") && !posts.contains("198.51"), "{posts}");
    let events = stage.fine(&["events", "reddit", "--since", "2000-01-01", "--json"]).json();
    assert_eq!(events["count"], 4);
    stage.fine(&["disconnect", "reddit", "--yes"]);
    assert_eq!(records(&stage).count("reddit", "upvoted").unwrap(), 0);
}

#[test]
fn what_is_wrong_with_an_archive_is_said() {
    let stage = Stage::new();
    let junk = stage.write("junk.zip", "no zip at all");
    let said = stage.run(&["import", "youtube", &junk]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("is not a ZIP"), "{}", said.stderr);
    assert!(said.stderr.contains("hint: "), "{}", said.stderr);
    let folder = reddit(&stage, 1);
    fs::write(stage.path("reddit-export/comments.csv"), "Comment ID,Text\nUg1,hi\n").unwrap();
    let said = stage.run(&["import", "reddit", &folder]);
    assert_eq!(said.code, 1, "some of it came: {}", said.everything());
    assert!(said.stderr.contains("`comments.csv` was left out"), "{}", said.stderr);
    assert!(said.stdout.contains("upvoted"), "{}", said.stdout);
    let said = stage.run(&["import", "spotify", &folder]);
    assert!(said.stderr.contains("spotify.com/account/privacy"), "{}", said.stderr);
    let said = stage.run(&["import", "youtube"]);
    assert_eq!(said.code, 2);
}

/// SIGKILL in the middle of an import: what is there is whole, and the same command finishes it.
#[test]
fn an_import_killed_in_the_middle_is_finished_by_the_next() {
    const VOTES: usize = 30_000;
    let stage = Stage::new();
    let folder = reddit(&stage, VOTES);
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    let mut was_between = false;
    for _ in 0..3 {
        let before = records(&stage).count("reddit", "upvoted").unwrap();
        let mut command = stage.command(&["import", "reddit", &folder]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while records(&stage).count("reddit", "upvoted").unwrap() == before
            && begun.elapsed() < Duration::from_secs(20)
        {
            sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let records = records(&stage);
        records.check().unwrap();
        let count = records.count("reddit", "upvoted").unwrap();
        was_between |= count > 0 && count < VOTES as u64;
    }
    assert!(was_between, "no kill fell into the import");
    let done = stage.fine(&["import", "reddit", &folder, "--json"]).json();
    assert_eq!(done["kinds"]["upvoted"]["rows"], VOTES);
    assert_eq!(records(&stage).count("reddit", "upvoted").unwrap(), VOTES as u64);
    let again = stage.fine(&["import", "reddit", &folder, "--json"]).json();
    assert_eq!(again["kinds"]["upvoted"]["taken"], 0);
}
