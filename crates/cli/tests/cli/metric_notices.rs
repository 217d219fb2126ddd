//! Rules about metrics through the binary: a synced sandbox account, a running gate, real webhooks.

use std::time::SystemTime;

use jiff::Timestamp;
use sandbox::{Config, Running, Sandbox};
use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::notify::{WAIT_MAX, receiver};

const DAYS: u32 = 80;

fn now_us() -> i64 {
    i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap()
}

/// The recorded nights, the newest first.
fn nights(whoop: &Running) -> Vec<Value> {
    let mut nights = whoop.control().records("sleep").unwrap();
    nights.retain(|sleep| sleep["nap"] == false);
    nights.sort_by_key(|sleep| std::cmp::Reverse(sleep["end"].as_str().unwrap().to_owned()));
    nights
}

/// Whether the newest nights are all there: one each day, scored, in one time zone.
fn is_steady(nights: &[Value]) -> bool {
    let end_s =
        |sleep: &Value| sleep["end"].as_str().unwrap().parse::<Timestamp>().unwrap().as_second();
    let hours = |a: &Value, b: &Value| (end_s(a) - end_s(b)) / 3_600;
    let newest = &nights[..4];
    newest.iter().all(|sleep| sleep["score_state"] == "SCORED")
        && newest.iter().all(|sleep| sleep["timezone_offset"] == newest[0]["timezone_offset"])
        && newest.windows(2).all(|pair| (20..=28).contains(&hours(&pair[0], &pair[1])))
        && now_us() / 1_000_000 - end_s(&newest[0]) < 30 * 3_600
}

/// A member who slept every night of late. Which seeds did depends on the date.
fn steady_sleeper() -> Running {
    let member = |seed| {
        let mut config = Config::whoop(seed, DAYS, now_us());
        config.service.unlimit();
        Sandbox::start(config).unwrap()
    };
    let found = (1..200).map(member).find(|whoop| is_steady(&nights(whoop)));
    found.expect("no member of 200 slept four nights in a row")
}

fn breathe(whoop: &Running, rate: f64) {
    for sleep in nights(whoop).iter().take(3) {
        let mut score = sleep["score"].clone();
        score["respiratory_rate"] = json!(rate);
        let id = sleep["id"].as_str().unwrap();
        whoop.control().edit("sleep", id, &json!({ "score": score })).unwrap();
    }
}

fn connected(whoop: &Running) -> CliTest {
    let mut test = CliTest::new();
    let ready = whoop.control().ready();
    for (variable, value) in [
        ("WHOOP_API_BASE_URL", whoop.url()),
        ("WHOOP_OAUTH_BASE_URL", whoop.url()),
        ("WHOOP_CLIENT_ID", ready["client_id"].as_str().unwrap()),
        ("WHOOP_CLIENT_SECRET", ready["client_secret"].as_str().unwrap()),
    ] {
        test.set(variable, value);
    }
    let tokens = test.write("tokens.json", &whoop.control().tokens().to_string());
    test.succeed(&["connect", "whoop", "--tokens", &tokens]);
    let rules = "[services.whoop]\nnotices = [\"respiratory_rate above for 2 days\", \
                 \"respiratory_rate below for 2 days\"]\n";
    test.write("home/tollgate.toml", rules);
    test
}

#[test]
fn a_metric_that_leaves_its_usual_range_is_said_once_until_it_recovers() {
    let whoop = steady_sleeper();
    let test = connected(&whoop);
    let (names, told) = receiver(&["200 OK"]);
    let (values, detailed) = receiver(&["200 OK"]);
    let (minimal, short) = receiver(&["200 OK"]);
    for (name, url, detail) in [
        ("names", &names, "names"),
        ("values", &values, "arguments"),
        ("minimal", &minimal, "minimal"),
    ] {
        let add = ["notify", "add", "webhook", name, "--url", url, "--detail", detail];
        test.succeed(&[&add[..], &["--only", "insight"]].concat());
    }
    let next_title = || {
        let notice = told.recv_timeout(WAIT_MAX).unwrap().json();
        notice["title"].as_str().unwrap().to_owned()
    };
    let synced_gate = || {
        test.succeed(&["sync", "whoop", "--full"]);
        test.up(&[])
    };

    breathe(&whoop, 29.5);
    let up = synced_gate();
    let notice = told.recv_timeout(WAIT_MAX).unwrap().json();
    assert_eq!(notice["type"], "insight", "{notice}");
    assert_eq!(notice["title"], "WHOOP: Respiratory rate above the usual range for 2 days");
    let text = notice["text"].as_str().unwrap();
    assert!(text.contains("compared with") && text.contains("of the 30 days before"), "{text}");
    assert!(!notice.to_string().contains("29.5"), "no value unless the owner chose it: {notice}");
    let said = detailed.recv_timeout(WAIT_MAX).unwrap().json();
    assert!(said["text"].as_str().unwrap().contains(": 29.5 breaths/min"), "{said}");
    let said = short.recv_timeout(WAIT_MAX).unwrap().json().to_string();
    assert!(!said.contains("espiratory") && !said.contains("WHOOP"), "{said}");
    up.stop();

    // Another sync and another gate say nothing new: the next message is about the other side.
    synced_gate().stop();
    breathe(&whoop, 4.5);
    let up = synced_gate();
    assert_eq!(next_title(), "WHOOP: Respiratory rate below the usual range for 2 days");
    up.stop();
    // It was not above in between, so being above again is news.
    breathe(&whoop, 29.5);
    let up = synced_gate();
    assert_eq!(next_title(), "WHOOP: Respiratory rate above the usual range for 2 days");
    up.stop();
}

#[test]
fn a_rule_that_is_no_sentence_is_refused_with_an_example() {
    let test = CliTest::new();
    std::fs::create_dir_all(test.home()).unwrap();
    test.write("home/tollgate.toml", "[services.whoop]\nnotices = [\"hrv under 3\"]\n");
    let said = test.run(&["doctor"]).all_output();
    assert!(said.contains("hrv below for 3 days"), "{said}");
}
