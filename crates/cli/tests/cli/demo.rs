//! `tollgate up --demo`: what it prints works, and its home contacts no real service.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::gate::eventually;
use crate::http;
use crate::whoop::{answer, call, lines};

#[test]
fn the_demo_prints_calls_that_work() {
    let test = CliTest::new();
    let up = test.up(&["--demo"]);
    let curl = |name: &str| {
        let line = up.facts[name].as_str().unwrap();
        let words = words_of(line);
        let headers: Vec<(&str, &str)> = words
            .windows(2)
            .filter(|pair| pair[0] == "-H")
            .map(|pair| pair[1].split_once(": ").unwrap())
            .collect();
        let body = words.windows(2).find(|pair| pair[0] == "-d").unwrap();
        assert_eq!(words[2], format!("{}/demo", up.url()), "{line}");
        http::post(&words[2], &headers, &body[1])
    };
    let allowed = curl("allowed");
    assert_eq!(allowed.status, 200);
    assert!(allowed.text().contains("Buy oat milk"), "{}", allowed.body);
    let denied = curl("denied");
    assert_eq!(denied.text(), "[POLICY DENIED] notes are not for agents to delete");
    assert_eq!(
        denied.json()["result"]["_meta"]["tollgate/denial"]["rule"],
        "/tools/delete_note/action"
    );
    assert!(!test.home().exists(), "the real home is not touched");
    assert_eq!(up.stop().code, 0);
}

#[test]
fn the_demo_serves_an_account_of_every_service() {
    let test = CliTest::new();
    let up = test.up(&["--demo"]);
    let token = up.facts["token"].as_str().unwrap();
    for (server, tool, found) in [
        ("whoop", "get_whoop_daily_summary", "/cycle/id"),
        ("spotify", "get_user_saved_tracks", "/items/0/track/name"),
        ("youtube", "get_youtube_subscriptions", "/subscriptions/0/channel_title"),
        ("steam", "get_steam_library", "/hours_total"),
        ("reddit", "get_saved_content", "/saved_content/0/id"),
        ("bilibili", "get_bilibili_watch_history", "/total_count"),
        ("personal", "my_steam_recent_activity", "/recent_games/0/name"),
    ] {
        // Today has no cycle between the owner's midnight and waking.
        let yesterday = json!({ "date": "yesterday", "day": "local" });
        let arguments = if server == "whoop" { yesterday } else { json!({}) };
        let answer = http::call(&format!("{}/{server}", up.url()), token, tool, &arguments);
        let result = &answer.json()["result"];
        assert_eq!(result["isError"], false, "{server}: {}", answer.body);
        let value = result["structuredContent"].pointer(found).unwrap_or(&Value::Null);
        assert!(!value.is_null() && *value != json!(0), "{server}: {}", answer.body);
    }
    let status = http::call(
        &format!("{}/personal", up.url()),
        token,
        "get_personalization_status",
        &json!({}),
    );
    let status_of_all = &status.json()["result"]["structuredContent"];
    let platforms = status_of_all["platforms"].as_object().unwrap().len();
    assert_eq!(status_of_all["active"], platforms, "{}", status.body);
    // The built-in policies apply to demo accounts, too.
    let denied = http::call(&format!("{}/steam", up.url()), token, "buy_game", &json!({}));
    assert!(denied.body.contains("denied_by_default"), "{}", denied.body);
    assert!(up.facts["personal"].as_str().unwrap().contains("/mcp/personal"));
    let home = up.facts["home"].as_str().unwrap();
    let games = ["--home", home, "sql", "select count(*) as n from steam_games", "--json"];
    eventually("the games are mirrored while the gate serves", || {
        let output = test.run(&games);
        output.code == 0 && output.all_output().contains("135")
    });
}

/// The first page that a new user opens has calls of every kind and one that waits.
#[test]
fn a_new_demo_is_filled_with_real_calls_once() {
    let test = CliTest::new();
    let up = test.up(&["--demo"]);
    let home = up.facts["home"].as_str().unwrap().to_owned();
    let list = ["--home", &home, "audit", "tail", "--grant", "assistant", "-n", "100", "--json"];
    let decisions = || {
        let output = test.run(&list);
        let rows = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.map(|row| row["decision"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let count = |decision: &str| decisions().iter().filter(|one| *one == decision).count();
    eventually("one call waits", || count("asked") == 1);
    assert!(count("admitted") >= 10, "{:?}", decisions());
    assert!(count("denied") >= 3 && count("limited") >= 1, "{:?}", decisions());
    let waiting = test.succeed(&["--home", &home, "approvals", "list", "--json"]);
    assert!(waiting.stdout.contains("send_money"), "{}", waiting.stdout);
    assert_eq!(up.stop().code, 0);
    let before = decisions().len();
    let up = test.up(&["--demo"]);
    eventually("the servers were listed again", || {
        let rows =
            test.run(&["--home", &home, "audit", "tail", "-n", "100", "--server", "weather"]);
        rows.stdout.matches("tools/list").count() >= 2
    });
    assert_eq!(decisions().len(), before, "a demo that has calls gets no others");
    drop(up);
}

/// The call that waits when a new demo is opened runs once the owner approves it.
#[test]
fn the_first_waiting_call_of_a_demo_runs_when_it_is_approved() {
    let test = CliTest::new();
    std::fs::create_dir(test.path("home-demo")).unwrap();
    test.write("home-demo/tollgate.toml", "[limits]\napproval_hold_seconds = 0\n");
    let up = test.up(&["--demo"]);
    let home = up.facts["home"].as_str().unwrap().to_owned();
    let waiting = || test.run(&["--home", &home, "approvals", "list", "--json"]).json();
    eventually("one call waits", || waiting().as_array().is_some_and(|all| all.len() == 1));
    let id = waiting()[0]["id"].as_str().unwrap().to_owned();
    test.succeed(&["--home", &home, "approvals", "approve", &id, "--yes"]);
    let list = ["--home", &home, "audit", "tail", "--grant", "assistant", "-n", "3", "--json"];
    eventually("it ran", || {
        let rows = test.run(&list).stdout;
        let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.filter(|row| row["tool"] == "send_money" && row["decision"] == "admitted").count() == 1
    });
    drop(up);
}

/// Its person lives where the owner does, and its home can be named as every hint names it.
#[test]
fn a_demo_runs_on_its_own_home_and_in_the_zone_of_the_machine() {
    let mut test = CliTest::new();
    test.set("TZ", "XXX-3:30");
    drop(test.up(&["--demo"]));
    let home = format!("{}-demo", test.home().display());
    let zones = "select distinct timezone_offset as zone from whoop_cycles";
    let zones = test.succeed(&["--home", &home, "sql", zones, "--json"]).json();
    assert_eq!(zones, json!([{ "zone": "+03:30" }]));
    // The same home again, and not one more of a longer name.
    let up = test.up(&["--home", &home, "--demo"]);
    assert_eq!(up.facts["home"], home.as_str());
    drop(up);
    let fresh = test.path("other-demo").display().to_string();
    let up = test.up(&["--home", &fresh, "--demo"]);
    assert_eq!(up.facts["home"], fresh.as_str());
    drop(up);
    // A real home of such a name stays as it is.
    let real = test.path("real-demo").display().to_string();
    test.succeed(&["--home", &real, "server", "list"]);
    let up = test.up(&["--home", &real, "--demo"]);
    assert_eq!(up.facts["home"], format!("{real}-demo"));
}

#[test]
fn the_sign_in_page_names_the_home_of_the_demo() {
    let test = CliTest::new();
    let up = test.up(&["--demo"]);
    let home = up.facts["home"].as_str().unwrap();
    let page = http::get(&up.url().replace("/mcp", "/"));
    assert!(page.body.contains(&format!("tollgate --home {home} open")), "{}", page.body);
}

/// The words of a line as a shell splits it; only single quotes are used.
fn words_of(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

#[test]
fn the_demo_home_contacts_no_real_service_afterwards() {
    let test = CliTest::new();
    drop(test.up(&["--demo"]));
    let home = format!("{}-demo", test.home().display());
    let output = test.run(&["--home", &home, "sync", "whoop"]);
    assert_eq!(output.code, 2, "{}", output.all_output());
    let words = output.all_output();
    assert!(words.contains("demo home") && words.contains("`up --demo`"), "{words}");
    let tokens = r#"{"access_token":"a","refresh_token":"b"}"#;
    let output = test.run_with(&["--home", &home, "connect", "whoop", "--tokens", "-"], tokens);
    assert_eq!(output.code, 2, "{}", output.all_output());
    assert!(output.stderr.contains("`up --demo`"), "{}", output.stderr);
    // Existing data is readable.
    let count = test.succeed(&["--home", &home, "sql", "select count(*) as n from whoop_cycles"]);
    let cycles = count.stdout.split_whitespace().last().and_then(|n| n.parse::<u32>().ok());
    // 120 days; the last one has no sleep yet between midnight and waking.
    assert!(cycles.is_some_and(|cycles| (115..=121).contains(&cycles)), "{}", count.stdout);
}

/// Other commands on the demo home use its sandboxes while it runs, and explain themselves otherwise.
#[test]
fn commands_in_the_demo_home_use_its_sandboxes() {
    let test = CliTest::new();
    let up = test.up(&["--demo"]);
    let home = format!("{}-demo", test.home().display());
    let input = lines(&[call(1, "get_whoop_baseline", &json!({ "metric": "recovery" }))]);
    let output = test.run_session(&["--home", &home, "stdio", "whoop"], &input);
    let baselines = &answer(&output.stdout, 1)["result"]["structuredContent"]["baselines"];
    for found in baselines.as_array().unwrap() {
        assert!(found["usual"]["high"].as_f64().unwrap() <= 100.0, "{found}");
    }
    let synced = test.succeed(&["--home", &home, "sync", "whoop", "--full", "--json"]).json();
    assert_eq!(synced["status"], "success", "{synced}");
    let checks = || {
        let input = lines(&[call(1, "health_check", &json!({}))]);
        let output = test.run_session(&["--home", &home, "stdio", "whoop"], &input);
        answer(&output.stdout, 1)["result"]["structuredContent"]["checks"].clone()
    };
    assert_eq!(checks()["api_reachable"]["status"], "ok");
    drop(up);
    let output = test.run(&["--home", &home, "sync", "whoop"]);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{}", output.all_output());
    let sentence = "this is the demo home; its accounts are made up";
    assert_eq!(output.stderr.matches(sentence).count(), 1, "{}", output.stderr);
    assert!(
        output.stderr.contains("`up --demo`") && !output.stderr.contains("warning"),
        "{}",
        output.stderr
    );
    let rows = test.succeed(&["--home", &home, "audit", "tail", "-n", "1"]).stdout;
    assert!(rows.contains("sync_failed") && rows.contains(sentence), "{rows}");
    let detail = checks()["api_reachable"]["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(sentence), "{detail}");
    for (nth, tool) in [(1, "get_steam_library"), (2, "setup_spotify_oauth")] {
        let input = lines(&[call(nth, tool, &json!({}))]);
        let output = test.run_session(&["--home", &home, "stdio", "personal"], &input);
        let error = &answer(&output.stdout, nth)["result"]["structuredContent"]["error"];
        assert!(error["message"].as_str().unwrap().starts_with(sentence), "{}", output.stdout);
        assert_eq!(error["retryable"], false, "{error}");
    }
    let doctor = test.run(&["--home", &home, "doctor"]).stdout;
    assert!(!doctor.contains("wrong servers"), "{doctor}");
    assert!(
        doctor.contains(&format!("-> `tollgate --home {home} up --demo` starts it")),
        "{doctor}"
    );
}

#[test]
fn the_demo_explains_itself_as_text() {
    use std::io::{BufRead as _, BufReader};
    let test = CliTest::new();
    let mut command = test.command(&["up", "--demo", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        text.push_str(&line);
        text.push('\n');
        if line.starts_with("The rules:") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_snapshot!(test.blanked(&text));
}

#[test]
fn a_token_from_before_a_demo_restart_still_works() {
    let test = CliTest::new();
    let up = test.up(&["--demo"]);
    let token = up.facts["token"].as_str().unwrap().to_owned();
    assert_eq!(up.stop().code, 0);
    let up = test.up(&["--demo"]);
    assert_ne!(up.facts["token"], token.as_str());
    let answer = http::call(&format!("{}/demo", up.url()), &token, "list_notes", &json!({}));
    assert_eq!(answer.status, 200);
}
