//! Accounts through the binary: sign-in with a browser, a pasted address or a token file, status, wiping, and
//! kills during a refresh.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Config, Fault, FaultKind, Running, Sandbox, TokenKind};
use serde_json::{Value, json};

use crate::cli_test::{CliTest, files_below};
use crate::http;
use crate::sign_in_prompt::prompted;

const SECRET_FIELDS: [&str; 2] = ["access_token", "refresh_token"];

pub(crate) fn set_up() -> (CliTest, Running) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now_us = i64::try_from(now.as_micros()).unwrap();
    let sandbox = Sandbox::start(Config::whoop(7, 2, now_us)).unwrap();
    let mut test = CliTest::new();
    let ready = sandbox.control().ready();
    test.set("WHOOP_API_BASE_URL", sandbox.url());
    test.set("WHOOP_OAUTH_BASE_URL", sandbox.url());
    test.set("WHOOP_CLIENT_ID", ready["client_id"].as_str().unwrap());
    test.set("WHOOP_CLIENT_SECRET", ready["client_secret"].as_str().unwrap());
    (test, sandbox)
}

pub(crate) fn connected() -> (CliTest, Running, Value) {
    let (test, sandbox) = set_up();
    let tokens = sandbox.control().tokens();
    let file = test.write("tokens.json", &tokens.to_string());
    test.succeed(&["connect", "whoop", "--tokens", &file]);
    std::fs::remove_file(test.path("tokens.json")).unwrap();
    (test, sandbox, tokens)
}

fn account(test: &CliTest) -> Value {
    test.run(&["accounts", "whoop", "--json"]).json()[0].clone()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The redirect of a page.
fn location(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let is_it = |line: &&str| line.to_ascii_lowercase().starts_with("location: ");
    let line = answer.lines().find(is_it).unwrap_or_else(|| panic!("{answer}"));
    line.split_once(": ").unwrap().1.trim().to_owned()
}

#[test]
fn a_token_file_connects_and_disconnecting_leaves_nothing() {
    let (test, sandbox, tokens) = connected();
    let shown = account(&test);
    assert_eq!(shown["state"], "connected");
    assert_eq!(shown["missing_scopes"], json!([]));
    assert_eq!(shown["has_refresh_token"], true);
    assert!(test.succeed(&["accounts", "--check"]).stdout.contains("connected"));
    let printed = test.succeed(&["disconnect", "whoop", "--yes", "--json"]).json();
    assert_eq!(printed["revoked"], true);
    assert_eq!(printed["account_wiped"], true);
    assert_eq!(account(&test)["state"], "not_connected");
    let counters = sandbox.control().counters();
    assert_eq!(counters.paths["DELETE /developer/v2/user/access"], 1);
    for (file, bytes) in files_below(&test.home()) {
        for field in SECRET_FIELDS {
            let secret = tokens[field].as_str().unwrap().as_bytes();
            assert!(!bytes.windows(secret.len()).any(|w| w == secret), "{}", file.display());
        }
    }
}

#[test]
fn another_person_cannot_sign_in_over_the_owners_records() {
    let (mut test, sandbox, tokens) = connected();
    test.succeed(&["sync", "whoop", "--full"]);
    let records =
        || test.succeed(&["sql", "select count(*) as n from whoop_cycles", "--json"]).stdout;
    let before = records();
    let now_us = sandbox.control().now_us();
    let other = Sandbox::start(Config::whoop(8, 2, now_us)).unwrap();
    test.set("WHOOP_API_BASE_URL", other.url());
    test.set("WHOOP_OAUTH_BASE_URL", other.url());
    let theirs = other.control().tokens().to_string();
    let printed = test.run_with(&["connect", "whoop", "--tokens", "-"], &theirs);
    assert_eq!(printed.code, 2, "{}", printed.all_output());
    assert!(printed.stderr.contains("tollgate connect whoop --replace"), "{}", printed.stderr);
    assert!(printed.stderr.contains("the previous account is kept"), "{}", printed.stderr);
    let printed = test.run_with(&["connect", "whoop", "--tokens", "-", "--replace"], &theirs);
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    let records =
        || test.succeed(&["sql", "select count(*) as n from whoop_cycles", "--json"]).stdout;
    assert_ne!(records(), before, "the owner's records are gone");
    test.succeed(&["sync", "whoop", "--full"]);
    for (file, bytes) in files_below(&test.home()) {
        let secret = tokens["refresh_token"].as_str().unwrap().as_bytes();
        assert!(!bytes.windows(secret.len()).any(|w| w == secret), "{}", file.display());
    }
}

#[test]
fn a_token_response_on_standard_input_connects_too() {
    let (test, sandbox) = set_up();
    let tokens = sandbox.control().tokens().to_string();
    let printed = test.run_with(&["connect", "whoop", "--tokens", "-", "--json"], &tokens);
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    assert_eq!(printed.json()["checked"], true);
    assert!(!printed.stderr.contains("is not known"), "{}", printed.stderr);
    // Without the app the login cannot be refreshed, which is reported at once.
    let mut without = test;
    without.set("WHOOP_CLIENT_SECRET", "");
    without.set("TOLLGATE_HOME", without.path("another").to_str().unwrap());
    let tokens = sandbox.control().tokens().to_string();
    let printed = without.run_with(&["connect", "whoop", "--tokens", "-"], &tokens);
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    assert!(printed.stderr.contains("`WHOOP_CLIENT_SECRET` is not known"), "{}", printed.stderr);
}

#[test]
fn failing_credentials_are_not_saved_and_the_old_ones_stay() {
    let (test, _sandbox) = set_up();
    let wrong = json!({ "access_token": "wrong-1", "refresh_token": "wrong-2" }).to_string();
    let printed = test.run_with(&["connect", "whoop", "--tokens", "-"], &wrong);
    assert_eq!(printed.code, 2, "{}", printed.all_output());
    let words = "has ended: it answered `invalid_grant`; nothing was saved\nhint: check the values you entered";
    assert!(printed.stderr.contains(words), "{}", printed.stderr);
    assert_eq!(printed.stderr.matches("hint: ").count(), 1, "{}", printed.stderr);
    assert!(!printed.all_output().contains("wrong-"), "{}", printed.all_output());
    assert_eq!(account(&test)["state"], "not_connected");
    let (test, _sandbox, _) = connected();
    let printed = test.run_with(&["connect", "whoop", "--tokens", "-"], &wrong);
    assert_eq!(printed.code, 2);
    assert!(test.succeed(&["accounts", "--check"]).stdout.contains("connected"));
    for text in ["", "[]", "{}", r#"{"access_token": 7, "refresh_token": "planted-9""#] {
        let printed = test.run_with(&["connect", "whoop", "--tokens", "-"], text);
        assert_eq!(printed.code, 2, "{text}");
        assert!(!printed.all_output().contains("planted-9"), "{}", printed.all_output());
    }
}

#[test]
fn the_browser_redirect_works_despite_other_requests() {
    let (test, sandbox) = set_up();
    let port = free_port();
    let arguments = ["connect", "whoop", "--no-browser", "--port", &port.to_string(), "--json"];
    let waiting = prompted(&test, &arguments);
    let base = format!("http://127.0.0.1:{port}");
    let back = location(&waiting.url);
    assert!(back.starts_with(&format!("http://localhost:{port}/callback?")), "{back}");
    let query = back.split_once('?').unwrap().1;
    for path in [
        "/favicon.ico".to_owned(),
        "/".to_owned(),
        format!("/other?{query}"),
        "/callback".to_owned(),
        "/callback?code=stolen&state=0123456789abcdef".to_owned(),
        "/callback?error=access_denied".to_owned(),
    ] {
        assert_eq!(http::get(&format!("{base}{path}")).status, 404, "{path}");
    }
    assert_eq!(http::get(&format!("{base}/callback?{query}")).status, 200);
    let printed = waiting.ended();
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    let told = printed.json();
    assert_eq!(told["state"], "connected");
    assert_eq!(told["has_refresh_token"], true);
    assert_eq!(told["missing_scopes"], json!([]));
    assert_eq!(sandbox.control().counters().paths["POST /oauth/oauth2/token"], 1);
}

#[test]
fn a_refused_consent_is_reported_and_nothing_is_saved() {
    let (test, sandbox) = set_up();
    sandbox.control().set(&json!({ "consent": "refused" })).unwrap();
    let port = free_port();
    let waiting =
        prompted(&test, &["connect", "whoop", "--no-browser", "--port", &port.to_string()]);
    let query = location(&waiting.url).split_once('?').unwrap().1.to_owned();
    assert_eq!(http::get(&format!("http://127.0.0.1:{port}/callback?{query}")).status, 400);
    let printed = waiting.ended();
    assert_eq!(printed.code, 2);
    assert!(printed.stderr.contains("access_denied"), "{}", printed.stderr);
    assert_eq!(account(&test)["state"], "not_connected");
}

#[test]
fn a_pasted_address_works_for_a_browser_on_another_machine() {
    let (mut test, _sandbox) = set_up();
    test.set("WHOOP_REDIRECT_URI", "https://me.example/back");
    let mut waiting = prompted(&test, &["connect", "whoop", "--no-browser"]);
    let back = location(&waiting.url);
    assert!(back.starts_with("https://me.example/back?"), "{back}");
    let mut stdin = waiting.child.stdin.take().unwrap();
    writeln!(stdin, "not an address\nhttps://me.example/back?code=x&state=y\n\n{back}").unwrap();
    drop(stdin);
    let printed = waiting.ended();
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    assert!(printed.stdout.contains("whoop is connected: it works"), "{}", printed.stdout);
}

#[test]
fn an_occupied_port_is_reported_with_a_fix() {
    let (test, _sandbox) = set_up();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let printed = test.run(&["connect", "whoop", "--no-browser", "--port", &port]);
    assert_eq!(printed.code, 2);
    assert!(printed.stderr.contains("--port N"), "{}", printed.stderr);
}

#[test]
fn missing_and_unknown_values_are_reported_with_a_fix() {
    let test = CliTest::new();
    let printed = test.run(&["connect", "whoop", "--no-browser"]);
    assert_eq!(printed.code, 2);
    for words in
        ["developer-dashboard.whoop.com", "http://localhost:8000/callback", "WHOOP_CLIENT_ID"]
    {
        assert!(printed.stderr.contains(words), "{words}: {}", printed.stderr);
    }
    let printed = test.run(&["connect", "fitbit"]);
    assert!(printed.stderr.contains("there is `whoop`"), "{}", printed.stderr);
    let printed = test.run(&["disconnect", "whoop"]);
    assert!(printed.stderr.contains("--yes"), "{}", printed.stderr);
    let printed = test.run(&["accounts"]);
    assert_eq!(printed.code, 0);
    assert!(printed.all_output().contains("tollgate connect whoop"), "{}", printed.all_output());
}

#[test]
fn a_damaged_account_file_is_reported_and_not_changed() {
    let (test, sandbox, _) = connected();
    let file = test.home().join("accounts/whoop.json");
    std::fs::write(&file, "{\"version\": 1").unwrap();
    let printed = test.run(&["accounts", "--check"]);
    assert_eq!(printed.code, 1, "{}", printed.all_output());
    assert!(printed.all_output().contains("damaged"), "{}", printed.all_output());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"version\": 1");
    let tokens = test.write("tokens.json", &sandbox.control().tokens().to_string());
    test.succeed(&["connect", "whoop", "--tokens", &tokens]);
    assert_eq!(account(&test)["state"], "connected");
}

#[test]
fn a_failed_revocation_keeps_everything_without_no_revoke() {
    let (test, sandbox, _) = connected();
    let what = FaultKind::Status { code: 503, retry_after: None, reset: None, body: None };
    sandbox.control().fault(Fault::on("/developer/v2/user/access", what));
    let printed = test.run(&["disconnect", "whoop", "--yes"]);
    assert_eq!(printed.code, 2);
    assert!(printed.stderr.contains("--no-revoke"), "{}", printed.stderr);
    assert_eq!(account(&test)["state"], "connected");
    test.succeed(&["disconnect", "whoop", "--yes", "--no-revoke"]);
    assert_eq!(account(&test)["state"], "not_connected");
}

#[test]
fn concurrent_refreshes_make_one_request() {
    let (test, sandbox, _) = connected();
    for round in 1..=3 {
        sandbox.control().expire(TokenKind::Access);
        let children: Vec<Child> = (0..6)
            .map(|_| {
                let mut command = test.command(&["accounts", "--check"]);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command.spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let counters = sandbox.control().counters();
        assert_eq!((counters.refreshes, counters.refreshes_at_once_max), (round, 1));
    }
}

/// P28: the provider voids a refresh token at its first use, and the process that used it is repeatedly killed
/// around that moment.
#[test]
fn a_kill_around_the_rotation_never_loses_the_login() {
    let kills: u32 =
        std::env::var("TOLLGATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let (test, sandbox, _) = connected();
    let mut refreshed = 0;
    // The time until a refresh was sent in the last round.
    let mut usual = Duration::ZERO;
    for n in 0..kills {
        sandbox.control().clear_faults();
        // A delayed response, so that kills happen before, during and after it.
        let what = FaultKind::Delay { ms: 15 };
        sandbox.control().fault(Fault::on("/oauth/oauth2/token", what));
        sandbox.control().expire(TokenKind::Access);
        let mut command = test.command(&["accounts", "--check"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let before = sandbox.control().counters().refreshes;
        let begun = Instant::now();
        // Every other kill waits for the refresh; the others happen anywhere before it.
        let waits = n % 2 == 0;
        let wait = if waits { Duration::from_secs(10) } else { usual * (n % 5) / 4 };
        let mut runs = true;
        while sandbox.control().counters().refreshes == before && begun.elapsed() < wait && runs {
            std::thread::sleep(Duration::from_millis(1));
            runs = child.try_wait().unwrap().is_none();
        }
        if waits {
            usual = begun.elapsed();
        }
        // From shortly before the response to well after it.
        std::thread::sleep(Duration::from_millis(u64::from(n % 8) * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        refreshed += u32::from(sandbox.control().counters().refreshes > before);
    }
    sandbox.control().clear_faults();
    let printed = test.run(&["accounts", "--check"]);
    assert_eq!(printed.code, 0, "{} of {kills} met a refresh\n{}", refreshed, printed.all_output());
    assert_eq!(sandbox.control().counters().refreshes_at_once_max, 1);
    assert!(refreshed * 3 >= kills, "only {refreshed} of {kills} kills met a refresh");
    println!(
        "P28: {kills} kills, {refreshed} of them around a renewal, 0 logins lost, never two renewals at once"
    );
}

#[test]
fn no_output_and_no_file_shows_a_secret() {
    let (mut test, sandbox, tokens) = connected();
    test.set("TOLLGATE_LOG", "debug");
    let client_secret = sandbox.control().ready()["client_secret"].as_str().unwrap().to_owned();
    let mut secrets: Vec<String> =
        SECRET_FIELDS.iter().map(|field| tokens[field].as_str().unwrap().to_owned()).collect();
    secrets.push(client_secret.clone());
    let mut shown = String::new();
    let mut run = |arguments: &[&str]| {
        let printed = test.run(arguments);
        shown += &printed.all_output();
    };
    run(&["accounts"]);
    run(&["accounts", "--check", "--json"]);
    sandbox.control().expire(TokenKind::Access);
    run(&["accounts", "--check"]);
    let echo = json!({ "error": "invalid_grant", "error_description": secrets.join(" ") });
    let what = FaultKind::Status {
        code: 400,
        retry_after: None,
        reset: None,
        body: Some(echo.to_string()),
    };
    sandbox.control().fault(Fault::on("/oauth/oauth2/token", what));
    sandbox.control().expire(TokenKind::Access);
    run(&["accounts", "--check"]);
    run(&["accounts", "--json"]);
    run(&["doctor"]);
    run(&["status"]);
    run(&["audit", "search", "--json"]);
    for secret in &secrets {
        assert!(!shown.contains(secret.as_str()), "{shown}");
        for (file, bytes) in files_below(&test.home()) {
            let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!found, "{}", file.display());
        }
    }
    assert!(shown.contains("invalid_grant"), "{shown}");
}
