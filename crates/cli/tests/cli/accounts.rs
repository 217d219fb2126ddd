//! Accounts through the binary: signing in with a browser, a pasted address or a token file, what is
//! shown, what is wiped, and what a kill in the middle of a refresh leaves.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Config, Fault, Running, Sandbox, What, Which};
use serde_json::{Value, json};

use crate::http;
use crate::stage::{Said, Stage, files_below};

const SECRET_FIELDS: [&str; 2] = ["access_token", "refresh_token"];

pub(crate) fn stage() -> (Stage, Running) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now_us = i64::try_from(now.as_micros()).unwrap();
    let sandbox = Sandbox::start(Config::whoop(7, 2, now_us)).unwrap();
    let mut stage = Stage::new();
    let ready = sandbox.control().ready();
    stage.set("WHOOP_API_BASE_URL", sandbox.url());
    stage.set("WHOOP_OAUTH_BASE_URL", sandbox.url());
    stage.set("WHOOP_CLIENT_ID", ready["client_id"].as_str().unwrap());
    stage.set("WHOOP_CLIENT_SECRET", ready["client_secret"].as_str().unwrap());
    (stage, sandbox)
}

pub(crate) fn connected() -> (Stage, Running, Value) {
    let (stage, sandbox) = stage();
    let tokens = sandbox.control().tokens();
    let file = stage.write("tokens.json", &tokens.to_string());
    stage.fine(&["connect", "whoop", "--tokens", &file]);
    std::fs::remove_file(stage.path("tokens.json")).unwrap();
    (stage, sandbox, tokens)
}

fn account(stage: &Stage) -> Value {
    stage.run(&["accounts", "whoop", "--json"]).json()[0].clone()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Where a page sends the browser.
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

/// A `connect` that waits for its owner, and the address it shows.
struct Waiting {
    child: Child,
    talk: BufReader<ChildStderr>,
    url: String,
    heard: String,
}

#[expect(
    clippy::zombie_processes,
    reason = "who is handed the child waits for it; a failed read ends the test"
)]
fn waiting(stage: &Stage, arguments: &[&str]) -> Waiting {
    let mut command = stage.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let (mut url, mut heard) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        assert_ne!(talk.read_line(&mut line).unwrap(), 0, "{heard}");
        heard += &line;
        if line.contains("/oauth/oauth2/auth?") {
            line.trim().clone_into(&mut url);
        }
        if line.contains("paste the whole address") {
            return Waiting { child, talk, url, heard };
        }
    }
}

impl Waiting {
    fn ended(mut self) -> Said {
        drop(self.child.stdin.take());
        self.talk.read_to_string(&mut self.heard).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        Said { code: output.status.code().unwrap_or(-1), stdout, stderr: self.heard }
    }
}

#[test]
fn a_token_file_connects_and_disconnecting_leaves_nothing() {
    let (stage, sandbox, tokens) = connected();
    let shown = account(&stage);
    assert_eq!(shown["state"], "connected");
    assert_eq!(shown["missing_scopes"], json!([]));
    assert_eq!(shown["has_refresh_token"], true);
    assert!(stage.fine(&["accounts", "--check"]).stdout.contains("connected"));
    let said = stage.fine(&["disconnect", "whoop", "--yes", "--json"]).json();
    assert_eq!(said["revoked"], true);
    assert_eq!(said["account_wiped"], true);
    assert_eq!(account(&stage)["state"], "not_connected");
    let counters = sandbox.control().counters();
    assert_eq!(counters.paths["DELETE /developer/v2/user/access"], 1);
    for (file, bytes) in files_below(&stage.home()) {
        for field in SECRET_FIELDS {
            let secret = tokens[field].as_str().unwrap().as_bytes();
            assert!(!bytes.windows(secret.len()).any(|w| w == secret), "{}", file.display());
        }
    }
}

#[test]
fn somebody_else_does_not_sign_in_over_the_owners_records() {
    let (mut stage, sandbox, tokens) = connected();
    stage.fine(&["sync", "whoop", "--full"]);
    let records =
        || stage.fine(&["sql", "select count(*) as n from whoop_cycles", "--json"]).stdout;
    let before = records();
    let now_us = sandbox.control().now_us();
    let other = Sandbox::start(Config::whoop(8, 2, now_us)).unwrap();
    stage.set("WHOOP_API_BASE_URL", other.url());
    stage.set("WHOOP_OAUTH_BASE_URL", other.url());
    let theirs = other.control().tokens().to_string();
    let said = stage.run_with(&["connect", "whoop", "--tokens", "-"], &theirs);
    assert_eq!(said.code, 2, "{}", said.everything());
    assert!(said.stderr.contains("tollgate connect whoop --replace"), "{}", said.stderr);
    assert!(said.stderr.contains("the account there was is kept"), "{}", said.stderr);
    let said = stage.run_with(&["connect", "whoop", "--tokens", "-", "--replace"], &theirs);
    assert_eq!(said.code, 0, "{}", said.everything());
    let records =
        || stage.fine(&["sql", "select count(*) as n from whoop_cycles", "--json"]).stdout;
    assert_ne!(records(), before, "the owner's records are gone");
    stage.fine(&["sync", "whoop", "--full"]);
    for (file, bytes) in files_below(&stage.home()) {
        let secret = tokens["refresh_token"].as_str().unwrap().as_bytes();
        assert!(!bytes.windows(secret.len()).any(|w| w == secret), "{}", file.display());
    }
}

#[test]
fn a_token_response_on_standard_input_connects_too() {
    let (stage, sandbox) = stage();
    let tokens = sandbox.control().tokens().to_string();
    let said = stage.run_with(&["connect", "whoop", "--tokens", "-", "--json"], &tokens);
    assert_eq!(said.code, 0, "{}", said.everything());
    assert_eq!(said.json()["checked"], true);
    assert!(!said.stderr.contains("is not known"), "{}", said.stderr);
    // Without the app the login cannot be refreshed, and that is said while it is easy to mend.
    let mut without = stage;
    without.set("WHOOP_CLIENT_SECRET", "");
    without.set("TOLLGATE_HOME", without.path("another").to_str().unwrap());
    let tokens = sandbox.control().tokens().to_string();
    let said = without.run_with(&["connect", "whoop", "--tokens", "-"], &tokens);
    assert_eq!(said.code, 0, "{}", said.everything());
    assert!(said.stderr.contains("`WHOOP_CLIENT_SECRET` is not known"), "{}", said.stderr);
}

#[test]
fn credentials_that_do_not_work_are_not_kept_and_the_old_ones_are() {
    let (stage, _sandbox) = stage();
    let wrong = json!({ "access_token": "wrong-1", "refresh_token": "wrong-2" }).to_string();
    let said = stage.run_with(&["connect", "whoop", "--tokens", "-"], &wrong);
    assert_eq!(said.code, 2, "{}", said.everything());
    let words =
        "has ended: it answered `invalid_grant`; nothing is kept\nhint: check what you gave";
    assert!(said.stderr.contains(words), "{}", said.stderr);
    assert_eq!(said.stderr.matches("hint: ").count(), 1, "{}", said.stderr);
    assert!(!said.everything().contains("wrong-"), "{}", said.everything());
    assert_eq!(account(&stage)["state"], "not_connected");
    let (stage, _sandbox, _) = connected();
    let said = stage.run_with(&["connect", "whoop", "--tokens", "-"], &wrong);
    assert_eq!(said.code, 2);
    assert!(stage.fine(&["accounts", "--check"]).stdout.contains("connected"));
    for text in ["", "[]", "{}", r#"{"access_token": 7, "refresh_token": "planted-9""#] {
        let said = stage.run_with(&["connect", "whoop", "--tokens", "-"], text);
        assert_eq!(said.code, 2, "{text}");
        assert!(!said.everything().contains("planted-9"), "{}", said.everything());
    }
}

#[test]
fn the_browser_comes_back_and_what_else_knocks_does_not_disturb() {
    let (stage, sandbox) = stage();
    let port = free_port();
    let arguments = ["connect", "whoop", "--no-browser", "--port", &port.to_string(), "--json"];
    let waiting = waiting(&stage, &arguments);
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
    let said = waiting.ended();
    assert_eq!(said.code, 0, "{}", said.everything());
    let told = said.json();
    assert_eq!(told["state"], "connected");
    assert_eq!(told["has_refresh_token"], true);
    assert_eq!(told["missing_scopes"], json!([]));
    assert_eq!(sandbox.control().counters().paths["POST /oauth/oauth2/token"], 1);
}

#[test]
fn a_refused_consent_is_told_and_nothing_is_kept() {
    let (stage, sandbox) = stage();
    sandbox.control().set(&json!({ "consent": "refused" })).unwrap();
    let port = free_port();
    let waiting =
        waiting(&stage, &["connect", "whoop", "--no-browser", "--port", &port.to_string()]);
    let query = location(&waiting.url).split_once('?').unwrap().1.to_owned();
    assert_eq!(http::get(&format!("http://127.0.0.1:{port}/callback?{query}")).status, 400);
    let said = waiting.ended();
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("access_denied"), "{}", said.stderr);
    assert_eq!(account(&stage)["state"], "not_connected");
}

#[test]
fn a_pasted_address_does_where_the_browser_is_elsewhere() {
    let (mut stage, _sandbox) = stage();
    stage.set("WHOOP_REDIRECT_URI", "https://me.example/back");
    let mut waiting = waiting(&stage, &["connect", "whoop", "--no-browser"]);
    let back = location(&waiting.url);
    assert!(back.starts_with("https://me.example/back?"), "{back}");
    let mut stdin = waiting.child.stdin.take().unwrap();
    writeln!(stdin, "not an address\nhttps://me.example/back?code=x&state=y\n\n{back}").unwrap();
    drop(stdin);
    let said = waiting.ended();
    assert_eq!(said.code, 0, "{}", said.everything());
    assert!(said.stdout.contains("whoop is connected: it works"), "{}", said.stdout);
}

#[test]
fn an_occupied_port_is_said_with_the_way_out() {
    let (stage, _sandbox) = stage();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = stage.run(&["connect", "whoop", "--no-browser", "--port", &port]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--port N"), "{}", said.stderr);
}

#[test]
fn what_is_missing_or_unknown_is_said_with_what_to_do() {
    let stage = Stage::new();
    let said = stage.run(&["connect", "whoop", "--no-browser"]);
    assert_eq!(said.code, 2);
    for words in
        ["developer-dashboard.whoop.com", "http://localhost:8000/callback", "WHOOP_CLIENT_ID"]
    {
        assert!(said.stderr.contains(words), "{words}: {}", said.stderr);
    }
    let said = stage.run(&["connect", "fitbit"]);
    assert!(said.stderr.contains("there is `whoop`"), "{}", said.stderr);
    let said = stage.run(&["disconnect", "whoop"]);
    assert!(said.stderr.contains("--yes"), "{}", said.stderr);
    let said = stage.run(&["accounts"]);
    assert_eq!(said.code, 0);
    assert!(said.everything().contains("tollgate connect whoop"), "{}", said.everything());
}

#[test]
fn a_damaged_account_file_is_said_and_left_alone() {
    let (stage, sandbox, _) = connected();
    let file = stage.home().join("accounts/whoop.json");
    std::fs::write(&file, "{\"version\": 1").unwrap();
    let said = stage.run(&["accounts", "--check"]);
    assert_eq!(said.code, 1, "{}", said.everything());
    assert!(said.everything().contains("damaged"), "{}", said.everything());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"version\": 1");
    let tokens = stage.write("tokens.json", &sandbox.control().tokens().to_string());
    stage.fine(&["connect", "whoop", "--tokens", &tokens]);
    assert_eq!(account(&stage)["state"], "connected");
}

#[test]
fn consent_that_cannot_be_taken_back_now_keeps_everything_unless_told() {
    let (stage, sandbox, _) = connected();
    let what = What::Status { code: 503, retry_after: None, reset: None, body: None };
    sandbox.control().fault(Fault::on("/developer/v2/user/access", what));
    let said = stage.run(&["disconnect", "whoop", "--yes"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--no-revoke"), "{}", said.stderr);
    assert_eq!(account(&stage)["state"], "connected");
    stage.fine(&["disconnect", "whoop", "--yes", "--no-revoke"]);
    assert_eq!(account(&stage)["state"], "not_connected");
}

#[test]
fn processes_that_need_a_refresh_at_once_make_one() {
    let (stage, sandbox, _) = connected();
    for round in 1..=3 {
        sandbox.control().expire(Which::Access);
        let children: Vec<Child> = (0..6)
            .map(|_| {
                let mut command = stage.command(&["accounts", "--check"]);
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

/// P28: the provider voids a refresh token at its first use, and the process that used it is killed
/// somewhere around that moment, again and again.
#[test]
fn a_kill_around_the_rotation_never_loses_the_login() {
    let kills: u32 =
        std::env::var("TOLLGATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let (stage, sandbox, _) = connected();
    let mut refreshed = 0;
    // How long it took last time until a refresh was sent, on this machine and under its load.
    let mut usual = Duration::ZERO;
    for n in 0..kills {
        sandbox.control().clear_faults();
        // The answer takes its time, so that kills fall before, into and after it.
        let what = What::Delay { ms: 15 };
        sandbox.control().fault(Fault::on("/oauth/oauth2/token", what));
        sandbox.control().expire(Which::Access);
        let mut command = stage.command(&["accounts", "--check"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let before = sandbox.control().counters().refreshes;
        let begun = Instant::now();
        // Every other kill waits for the refresh; the rest fall anywhere before it, or with it.
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
        // From shortly before it is answered to well after it.
        std::thread::sleep(Duration::from_millis(u64::from(n % 8) * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        refreshed += u32::from(sandbox.control().counters().refreshes > before);
    }
    sandbox.control().clear_faults();
    let said = stage.run(&["accounts", "--check"]);
    assert_eq!(said.code, 0, "{} of {kills} met a refresh\n{}", refreshed, said.everything());
    assert_eq!(sandbox.control().counters().refreshes_at_once_max, 1);
    assert!(refreshed * 3 >= kills, "only {refreshed} of {kills} kills met a refresh");
    println!(
        "P28: {kills} kills, {refreshed} of them around a renewal, 0 logins lost, never two renewals at once"
    );
}

#[test]
fn no_output_and_no_file_shows_a_secret() {
    let (mut stage, sandbox, tokens) = connected();
    stage.set("TOLLGATE_LOG", "debug");
    let client_secret = sandbox.control().ready()["client_secret"].as_str().unwrap().to_owned();
    let mut secrets: Vec<String> =
        SECRET_FIELDS.iter().map(|field| tokens[field].as_str().unwrap().to_owned()).collect();
    secrets.push(client_secret.clone());
    let mut shown = String::new();
    let mut run = |arguments: &[&str]| {
        let said = stage.run(arguments);
        shown += &said.everything();
    };
    run(&["accounts"]);
    run(&["accounts", "--check", "--json"]);
    sandbox.control().expire(Which::Access);
    run(&["accounts", "--check"]);
    let echo = json!({ "error": "invalid_grant", "error_description": secrets.join(" ") });
    let what =
        What::Status { code: 400, retry_after: None, reset: None, body: Some(echo.to_string()) };
    sandbox.control().fault(Fault::on("/oauth/oauth2/token", what));
    sandbox.control().expire(Which::Access);
    run(&["accounts", "--check"]);
    run(&["accounts", "--json"]);
    run(&["doctor"]);
    run(&["status"]);
    run(&["audit", "search", "--json"]);
    for secret in &secrets {
        assert!(!shown.contains(secret.as_str()), "{shown}");
        for (file, bytes) in files_below(&stage.home()) {
            let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!found, "{}", file.display());
        }
    }
    assert!(shown.contains("invalid_grant"), "{shown}");
}
