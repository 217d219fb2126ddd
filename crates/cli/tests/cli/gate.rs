//! A gate that runs: the demonstration, decisions, approvals, changes while it runs, and its end.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::http;
use crate::stage::{Stage, Up};
use crate::whoop::{answer, call, lines};

/// The id of the one approval that waits, as soon as there is one.
pub(crate) fn wait_for_approval(stage: &Stage) -> String {
    let mut id = String::new();
    eventually("an approval waits", || {
        let waiting = stage.fine(&["approvals", "list", "--json"]).json();
        waiting[0]["id"].as_str().unwrap_or_default().clone_into(&mut id);
        !id.is_empty()
    });
    id
}

/// Asks until it is so; a gate notices changes a few times a second.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_demonstration_hands_over_calls_that_do_as_they_say() {
    let stage = Stage::new();
    let up = stage.up(&["--demo"]);
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
    assert!(!stage.home().exists(), "the real home is not touched");
    assert_eq!(up.stop().code, 0);
}

#[test]
fn the_demonstration_serves_a_pretend_account_of_every_service() {
    let stage = Stage::new();
    let up = stage.up(&["--demo"]);
    let token = up.facts["token"].as_str().unwrap();
    for (server, tool, found) in [
        // Whatever the hour: in the first minutes after waking it has no strain yet.
        ("whoop", "get_whoop_daily_summary", "/cycle/id"),
        ("spotify", "get_user_saved_tracks", "/items/0/track/name"),
        ("youtube", "get_youtube_subscriptions", "/subscriptions/0/channel_title"),
        ("steam", "get_steam_library", "/hours_total"),
        ("reddit", "get_saved_content", "/saved_content/0/id"),
        ("bilibili", "get_bilibili_watch_history", "/total_count"),
        ("personal", "my_steam_recent_activity", "/recent_games/0/name"),
    ] {
        let arguments = if server == "whoop" { json!({ "date": "today" }) } else { json!({}) };
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
    assert_eq!(status.json()["result"]["structuredContent"]["active"], 5, "{}", status.body);
    // The built-in rules hold for pretended accounts too.
    let denied = http::call(&format!("{}/steam", up.url()), token, "buy_game", &json!({}));
    assert!(denied.body.contains("denied_by_default"), "{}", denied.body);
    assert!(up.facts["personal"].as_str().unwrap().contains("/mcp/personal"));
    let home = up.facts["home"].as_str().unwrap();
    let games = ["--home", home, "sql", "select count(*) as n from steam_games", "--json"];
    eventually("the games are mirrored while the gate serves", || {
        let said = stage.run(&games);
        said.code == 0 && said.everything().contains("135")
    });
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
fn the_home_of_a_demonstration_asks_no_real_service_afterwards() {
    let stage = Stage::new();
    drop(stage.up(&["--demo"]));
    let home = format!("{}-demo", stage.home().display());
    let said = stage.run(&["--home", &home, "sync", "whoop"]);
    assert_eq!(said.code, 2, "{}", said.everything());
    let words = said.everything();
    assert!(words.contains("demo home") && words.contains("`up --demo`"), "{words}");
    let tokens = r#"{"access_token":"a","refresh_token":"b"}"#;
    let said = stage.run_with(&["--home", &home, "connect", "whoop", "--tokens", "-"], tokens);
    assert_eq!(said.code, 2, "{}", said.everything());
    assert!(said.stderr.contains("`up --demo`"), "{}", said.stderr);
    // What is there may be read.
    let count = stage.fine(&["--home", &home, "sql", "select count(*) as n from whoop_cycles"]);
    let cycles = count.stdout.split_whitespace().last().and_then(|n| n.parse::<u32>().ok());
    // 120 days, of which the last has no night yet between midnight and waking.
    assert!(cycles.is_some_and(|cycles| (115..=121).contains(&cycles)), "{}", count.stdout);
}

/// Other commands in the home of the demonstration ask its sandboxes while it runs, and say one sentence
/// when it does not.
#[test]
fn commands_in_the_home_of_a_demonstration_ask_its_sandboxes() {
    let stage = Stage::new();
    let up = stage.up(&["--demo"]);
    let home = format!("{}-demo", stage.home().display());
    let synced = stage.fine(&["--home", &home, "sync", "whoop", "--full", "--json"]).json();
    assert_eq!(synced["status"], "success", "{synced}");
    let checks = || {
        let input = lines(&[call(1, "health_check", &json!({}))]);
        let said = stage.speak(&["--home", &home, "stdio", "whoop"], &input);
        answer(&said.stdout, 1)["result"]["structuredContent"]["checks"].clone()
    };
    assert_eq!(checks()["api_reachable"]["status"], "ok");
    drop(up);
    let said = stage.run(&["--home", &home, "sync", "whoop"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.everything());
    let sentence = "this is the demo home";
    assert_eq!(said.stderr.matches(sentence).count(), 1, "{}", said.stderr);
    assert!(
        said.stderr.contains("up --demo") && !said.stderr.contains("warning"),
        "{}",
        said.stderr
    );
    let detail = checks()["api_reachable"]["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(sentence), "{detail}");
}

#[test]
fn the_demonstration_says_all_of_it_to_people() {
    use std::io::{BufRead as _, BufReader};
    let stage = Stage::new();
    let mut command = stage.command(&["up", "--demo", "--listen", "127.0.0.1:0"]);
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
    assert_snapshot!(stage.blanked(&text));
}

#[test]
fn a_token_pasted_before_a_restart_of_the_demonstration_goes_on_working() {
    let stage = Stage::new();
    let up = stage.up(&["--demo"]);
    let token = up.facts["token"].as_str().unwrap().to_owned();
    assert_eq!(up.stop().code, 0);
    let up = stage.up(&["--demo"]);
    assert_ne!(up.facts["token"], token.as_str());
    let answer = http::call(&format!("{}/demo", up.url()), &token, "list_notes", &json!({}));
    assert_eq!(answer.status, 200);
}

#[test]
fn limits_hold_and_say_when_to_come_back() {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    for n in 1..=5 {
        let answer = http::call(&url, &token, "add_note", &json!({ "text": n.to_string() }));
        assert_eq!(answer.json()["result"]["isError"], false, "{}", answer.body);
    }
    let answer = http::call(&url, &token, "add_note", &json!({ "text": "6" })).json();
    let denial = &answer["result"]["_meta"]["tollgate/denial"];
    assert_eq!(denial["code"], "rate_limited");
    assert!(denial["retry_after_seconds"].as_u64().is_some_and(|wait| (1..=60).contains(&wait)));
}

#[test]
fn a_parked_call_is_shown_whole_and_goes_through_when_approved() {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    let ask = move || {
        http::call(&url, &token, "send_money", &json!({ "to": "Ada \u{1b}[2J", "amount": 50.10 }))
    };
    let waiting = std::thread::spawn(ask.clone());
    let id = wait_for_approval(&stage);
    let mut story = stage.story(&[&["approvals", "list"], &["approvals", "show", &id]]);
    story = regex::Regex::new(r"\d+m \d+s").unwrap().replace_all(&story, "[LEFT]").into_owned();
    assert_snapshot!(story);
    let approved = stage.story(&[&["approvals", "approve", "--yes", &id]]);
    // The waiting call uses the approval as soon as it can; the second answer comes after that.
    let answer = waiting.join().unwrap();
    let again = stage.story(&[
        &["approvals", "approve", "--yes", &id],
        &["approvals", "approve", "--yes", "ap-999-000000"],
    ]);
    assert_snapshot!("an_approval_is_answered_once", format!("{approved}\n{again}"));
    assert_eq!(answer.json()["result"]["structuredContent"]["sent"], json!(50.1));

    let waiting = std::thread::spawn(ask.clone());
    let id = wait_for_approval(&stage);
    let said = stage.fine(&["approvals", "approve", "--yes", &id, "--for", "10m"]).stdout;
    assert_eq!(said, "approved for 10m: send_money on `demo` for `alice`, with these arguments\n");
    assert_eq!(waiting.join().unwrap().json()["result"]["isError"], false);
    assert_eq!(ask().json()["result"]["isError"], false, "the same call goes through again");
    stage.fine(&["approvals", "deny", &id, "--because", "not today"]);
    let denied = ask();
    assert!(denied.text().contains("not today"), "{}", denied.body);
    assert_eq!(denied.json()["result"]["_meta"]["tollgate/denial"]["code"], "approval_denied");
}

#[test]
fn a_waiting_call_is_not_denied_and_its_agent_is_handed_no_command() {
    let stage = Stage::with_demo();
    stage.write("home/tollgate.toml", "[limits]\napproval_hold_seconds = 1\n");
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    let waits = http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 50 }));
    let text = waits.text();
    assert!(text.starts_with("[WAITING FOR APPROVAL] "), "{text}");
    assert!(text.contains("to decide (approval `ap-") && text.contains(" min "), "{text}");
    assert!(text.contains("has not run") && text.contains("send the same call again"), "{text}");
    for word in ["DENIED", "tollgate", "approvals", "--yes"] {
        assert!(!waits.body.replace("tollgate/denial", "").contains(word), "{}", waits.body);
    }
    let denial = &waits.json()["result"]["_meta"]["tollgate/denial"];
    assert_eq!(denial["code"], "approval_pending");
    assert!(denial["approval_id"].as_str().is_some_and(|id| id.starts_with("ap-")), "{denial}");
}

#[test]
fn an_approval_of_any_arguments_serves_the_tool_for_a_while_and_is_shown_as_such() {
    let stage = Stage::with_demo();
    stage.write("home/tollgate.toml", "[limits]\napproval_hold_seconds = 1\n");
    let (alice, bob) = (stage.grant("alice"), stage.grant("bob"));
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    let pay = |token: &str, amount: u32| {
        http::call(&url, token, "send_money", &json!({ "to": "Ada", "amount": amount })).json()
    };
    let is_error = |answer: &serde_json::Value| answer["result"]["isError"].as_bool().unwrap();
    assert!(is_error(&pay(&alice, 50)) && is_error(&pay(&alice, 51)));
    let id = wait_for_approval(&stage);
    let alone = stage.run(&["approvals", "approve", &id, "--yes", "--any-arguments"]);
    assert_eq!(alone.code, 2, "it goes with --for: {}", alone.stderr);
    let said =
        stage.fine(&["approvals", "approve", &id, "--yes", "--for", "10m", "--any-arguments"]);
    assert_eq!(
        said.stdout,
        "approved for 10m: send_money on `demo` for `alice`, with any arguments\n"
    );
    for amount in [50, 51, 52] {
        assert!(!is_error(&pay(&alice, amount)), "{amount}");
    }
    assert!(is_error(&pay(&bob, 52)), "another grant is not covered");
    let list = stage.fine(&["approvals", "list", "--all"]).stdout;
    assert!(list.contains("approved, any arguments"), "{list}");
    assert!(stage.fine(&["approvals", "show", &id]).stdout.contains("approved, any arguments"));
    assert_eq!(stage.fine(&["approvals", "show", &id, "--json"]).json()["any_arguments"], true);
    let audit = stage.fine(&["audit", "search", "approval_decided"]).stdout;
    assert!(audit.contains("any arguments, for 600 s"), "{audit}");
    stage.fine(&["approvals", "deny", &id, "--because", "enough"]);
    for amount in [50, 51, 53] {
        assert!(is_error(&pay(&alice, amount)), "{amount}");
    }
}

#[test]
fn a_program_watches_and_decides_by_lines() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    let mut watch = stage.command(&["approvals", "watch", "--json", "--yes"]);
    let mut watch = watch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut says = watch.stdin.take().unwrap();
    let mut hears = BufReader::new(watch.stdout.take().unwrap()).lines();
    let call = std::thread::spawn(move || {
        http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 50 }))
    });
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&hears.next().unwrap().unwrap()).unwrap() };
    let waiting = next();
    assert_eq!((&waiting["event"], &waiting["subject"]), (&json!("waiting"), &json!("send_money")));
    writeln!(says, "y {}", waiting["id"].as_str().unwrap()).unwrap();
    // The call may have used the yes before the next look.
    let decided = next();
    assert!(["approved", "used"].contains(&decided["event"].as_str().unwrap()), "{decided}");
    assert_eq!(decided["id"], waiting["id"]);
    assert_eq!(call.join().unwrap().json()["result"]["isError"], false);
    writeln!(says, "q").unwrap();
    assert!(watch.wait().unwrap().success());
}

#[test]
fn status_knows_a_running_gate_from_a_dead_one() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let up = stage.up(&[]);
    let status = stage.fine(&["status", "--json"]).json();
    assert_eq!(status["running"], true);
    assert_eq!(status["gates"][0]["pid"], up.pid());
    assert_eq!(status["gates"][0]["url"], up.url());
    assert_snapshot!(stage.told(&["status", "-n", "3"]));
    let bob = stage.fine(&["grant", "create", "bob", "--server", "demo=demo", "--json"]).json();
    assert_eq!(
        bob["url"],
        format!("{}/demo", up.url()),
        "what to paste leads to the gate that runs"
    );
    stage.fine(&["grant", "revoke", "bob"]);
    drop(up); // killed, not stopped
    let said = stage.run(&["status", "--json"]);
    assert_eq!(said.code, 1);
    assert_eq!(said.json()["running"], false);
    assert_eq!(said.json()["grants"], json!({ "active": 1, "expired": 0, "revoked": 1 }));
}

#[test]
fn what_the_owner_changes_counts_without_a_restart() {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    let list = |token: &str| http::call(&url, token, "list_notes", &json!({}));
    assert_eq!(list(&token).status, 200);
    let closed = stage.write("p.json", r#"{"version":"1","default":"deny"}"#);
    let open = stage.write("o.json", r#"{"version":"1","default":"allow"}"#);
    // Not soon: the very next call after a command is judged by what the command wrote.
    for round in 0..4 {
        stage.fine(&["policy", "set", "demo", &closed]);
        assert!(list(&token).text().starts_with("[POLICY DENIED]"), "round {round}");
        stage.fine(&["policy", "set", "demo", &open]);
        assert!(!list(&token).text().starts_with("[POLICY DENIED]"), "round {round}");
        let label = format!("bob-{round}");
        let new = stage.grant(&label);
        assert_eq!(list(&new).status, 200, "a new grant, round {round}");
        stage.fine(&["grant", "revoke", &label]);
        assert_eq!(list(&new).status, 401, "a revoked grant, round {round}");
    }
}

#[test]
fn the_settings_file_is_read_again_and_a_broken_one_changes_nothing() {
    let stage = Stage::with_demo();
    let made = stage.fine(&["grant", "token", "--json"]).json();
    let (token, hash) = (made["token"].as_str().unwrap(), made["token_sha256"].as_str().unwrap());
    let up = stage.up(&[]);
    let url = format!("{}/more", up.url());
    let list = || http::call(&url, token, "list_notes", &json!({}));
    assert_eq!(list().status, 401);
    let settings = format!(
        "[servers.more]\nbuiltin = \"demo\"\n[policies.open]\nfile = \"open.json\"\n\
         [grants.bob]\ntoken_sha256 = \"{hash}\"\nservers = {{ more = \"open\" }}\n"
    );
    let put = |name: &str, text: &str| std::fs::write(stage.home().join(name), text).unwrap();
    put("open.json", r#"{"version":"1","default":"allow"}"#);
    put("tollgate.toml", &settings);
    eventually("the grant of the file works", || list().status == 200);
    put("tollgate.toml", &settings.replace("builtin", "bulitin"));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(list().status, 200, "a broken file leaves what was in force");
    let status = stage.fine(&["status", "--json"]).json();
    let broken = status["settings_error"].as_str().unwrap_or_default();
    assert!(status["running"] == true && broken.contains("tollgate.toml`: line "), "{status}");
    put("tollgate.toml", &settings);
    put("open.json", r#"{"version":"1","default":"deny"}"#);
    eventually("a changed policy file counts", || list().text().starts_with("[POLICY DENIED]"));
    let said = up.stop();
    assert!(said.stderr.contains("what was in force stays"), "{}", said.stderr);
}

#[test]
fn a_stop_settles_what_is_in_flight_and_leaves_a_whole_log() {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    let waiting = std::thread::spawn(move || {
        std::panic::catch_unwind(|| {
            http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 50 }))
        })
    });
    wait_for_approval(&stage);
    let begin = Instant::now();
    let said = up.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(begin.elapsed() < Duration::from_secs(6), "a stop takes 5 s at most");
    let _ = waiting.join();
    assert_eq!(stage.run(&["audit", "verify"]).code, 0);
    let open = stage.fine(&["audit", "search", "--decision", "admitted", "--json"]).stdout;
    for line in open.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_ne!(entry["outcome"], Value::Null, "{entry}");
    }
}

#[test]
fn a_second_gate_on_the_same_port_says_who_has_it() {
    let stage = Stage::with_demo();
    let up = stage.up(&[]);
    let address =
        up.url().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    assert_snapshot!(stage.told(&["up", "--listen", &address]));
}

#[test]
fn a_public_address_needs_tls() {
    let stage = Stage::new();
    assert_snapshot!(stage.told(&["up", "--listen", "0.0.0.0:0"]));
}

#[test]
fn a_limit_of_a_grant_ends_with_it_and_stays_with_a_new_token() {
    let stage = Stage::with_demo();
    let note = |up: &Up, token: &str| {
        let url = format!("{}/demo", up.url());
        let answer = http::call(&url, token, "add_note", &json!({ "text": "milk" }));
        !answer.text().contains("five notes a minute")
    };
    let up = stage.up(&[]);
    let token = stage.grant("alice");
    let passed: Vec<bool> = (0..6).map(|_| note(&up, &token)).collect();
    assert_eq!(passed, [true, true, true, true, true, false]);
    let rotated = stage.fine(&["grant", "rotate", "alice", "--json"]).json();
    assert!(!note(&up, rotated["token"].as_str().unwrap()), "a new token is no new grant");
    drop(up);
    let up = stage.up(&[]);
    assert!(!note(&up, &token), "a restart is none either");
    stage.fine(&["grant", "revoke", "alice"]);
    let token = stage.grant("alice");
    let passed: Vec<bool> = (0..6).map(|_| note(&up, &token)).collect();
    assert_eq!(passed, [true, true, true, true, true, false], "a new grant counts from nothing");
}
