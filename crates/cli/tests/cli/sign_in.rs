//! Sign-in to servers through the binary: what `server add` finds, the redirect to a gate, to a listener and
//! pasted, calls with a token, and what the owner is told.

use std::io::Write as _;
use std::net::TcpListener;

use sandbox::protected_server::{Behaviour, ProtectedServer};
use serde_json::{Value, json};

use crate::cli_test::{CliTest, CommandOutput, Up, files_below};
use crate::gate::eventually;
use crate::http;
use crate::sign_in_prompt::prompted;

const ALLOW_ALL: &str = r#"{ "version": "1", "default": "allow" }"#;

fn set_up(behaviour: Behaviour) -> (CliTest, ProtectedServer) {
    let server = ProtectedServer::start(behaviour).unwrap();
    let test = CliTest::new();
    test.succeed(&["server", "add", "s", "--url", &server.url()]);
    (test, server)
}

pub(crate) fn signed_in(behaviour: Behaviour) -> (CliTest, ProtectedServer) {
    let (test, server) = set_up(behaviour);
    sign_in(&test, &server, &[]);
    (test, server)
}

/// Signs in with a pasted redirect.
pub(crate) fn sign_in(test: &CliTest, server: &ProtectedServer, more: &[&str]) -> CommandOutput {
    let mut waiting = prompted(test, &[&["server", "sign-in", "s", "--paste"], more].concat());
    let back = server.consent(&waiting.url).expect("a complete request");
    let mut stdin = waiting.child.stdin.take().unwrap();
    writeln!(stdin, "{back}").unwrap();
    let output = waiting.ended();
    assert_eq!(output.code, 0, "{}", output.all_output());
    output
}

/// A grant on the server that may call everything.
pub(crate) fn grant(test: &CliTest, label: &str) -> String {
    let policy = test.write("allow.json", ALLOW_ALL);
    test.run(&["policy", "set", "all", &policy]);
    let made = test.succeed(&["grant", "create", label, "--server", "s=all", "--json"]);
    made.json()["token"].as_str().unwrap().to_owned()
}

pub(crate) fn call(up: &Up, token: &str) -> Value {
    http::call(&format!("{}/s", up.url()), token, "echo", &json!({})).json()
}

pub(crate) fn login(test: &CliTest) -> Value {
    test.run(&["status", "--json"]).json()["logins"][0].clone()
}

#[test]
fn adding_a_server_says_what_it_accepts_and_signing_in_lists_its_tools() {
    let server = ProtectedServer::start(Behaviour::default()).unwrap();
    let test = CliTest::new();
    let added = test.succeed(&["server", "add", "s", "--url", &server.url()]);
    for words in
        ["requires a sign-in", &server.issuer(), "dynamic registration", "server sign-in s"]
    {
        assert!(added.all_output().contains(words), "{words}: {}", added.all_output());
    }
    let before = login(&test);
    assert_eq!(
        (&before["state"], &before["issuer"]),
        (&json!("needs_sign_in"), &json!(server.issuer()))
    );
    let doctor = test.run(&["doctor"]);
    assert!(doctor.stdout.contains("`tollgate server sign-in s`"), "{}", doctor.stdout);

    let output = sign_in(&test, &server, &["--json"]);
    let report = output.json();
    assert_eq!(report["tools"], 1);
    assert_eq!(report["signed_in"]["mode"], "dynamic registration");
    let after = login(&test);
    assert_eq!(after["state"], "signed_in");
    assert!(after["expires_at"].is_string() && after["refreshed_at"].is_string(), "{after}");
    assert_eq!(after["next"], Value::Null);
    assert!(test.run(&["doctor"]).stdout.contains("signed in, issuer"));

    let (token, up) = (grant(&test, "agent"), test.up(&[]));
    assert_eq!(call(&up, &token)["result"]["content"][0]["text"], "echo ");
}

#[test]
fn the_known_servers_are_listed_with_the_client_that_they_take() {
    let test = CliTest::new();
    let known = test.succeed(&["server", "known", "--json"]).json();
    let of = |name: &str| {
        let mut all = known.as_array().unwrap().iter();
        all.find(|known| known["name"] == name).unwrap_or_else(|| panic!("{name}: {known}")).clone()
    };
    assert_eq!(of("GitHub")["client"], "own client");
    assert!(of("GitHub")["make_client"].as_str().unwrap().starts_with("https://github.com/"));
    assert_eq!(of("Microsoft")["omit_resource"], true);
    assert_eq!(of("Slack")["needs_scopes"], true);
    assert_eq!(of("Linear")["client"], "automatic");
    assert!(test.succeed(&["server", "known"]).stdout.contains("*.dynamics.com"));

    // One with an address is added by its name alone.
    for row in known.as_array().unwrap() {
        let name = row["name"].as_str().unwrap().to_lowercase();
        let Some(url) = row["url"].as_str() else { continue };
        let added = test.succeed(&["server", "add", &name, "--no-connect", "--per-grant"]);
        assert!(added.stderr.contains(url), "{}", added.all_output());
    }
    let servers = test.succeed(&["server", "list", "--json"]).stdout;
    for url in ["https://mcp.linear.app/mcp", "https://api.githubcopilot.com/mcp/"] {
        assert!(servers.contains(url), "{servers}");
    }
    for name in ["microsoft", "unheard-of"] {
        let open = test.run(&["server", "add", name, "--no-connect"]);
        assert!(open.code == 2 && open.stderr.contains("--url URL"), "{}", open.all_output());
    }
    test.succeed(&["server", "remove", "linear"]);
    let own = test.succeed(&["server", "add", "linear", "--no-connect", "--", "true"]);
    assert!(!own.stderr.contains("mcp.linear.app"), "{}", own.all_output());
}

#[test]
fn a_running_gate_takes_the_redirect_once_at_its_own_port() {
    let (test, server) = set_up(Behaviour::default());
    let up = test.up(&[]);
    let waiting = prompted(&test, &["server", "sign-in", "s", "--no-browser"]);
    let back = server.consent(&waiting.url).unwrap();
    let base = up.url().trim_end_matches("/mcp").to_owned();
    assert!(back.starts_with(&format!("{base}/oauth/callback?")), "{back}");
    for (path, status) in [
        ("/oauth/callback", 404),
        ("/oauth/callback?code=x&state=y", 404),
        ("/oauth/callback/", 404),
    ] {
        assert_eq!(http::get(&format!("{base}{path}")).status, status, "{path}");
    }
    let page = http::get(&back);
    assert_eq!(page.status, 200, "{}", page.body);
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    let output = waiting.ended();
    assert_eq!(output.code, 0, "{}", output.all_output());
    let next = format!("next: add {base}/mcp to a client");
    assert!(output.stderr.contains(&next), "{}", output.stderr);
    assert_eq!(http::get(&back).status, 404);
    let log = test.succeed(&["audit", "tail", "-n", "50", "--json"]).stdout;
    assert_eq!(log.matches("server_signed_in").count(), 1, "{log}");
    assert!(log.contains("(sign-in)"), "{log}");
    let token = grant(&test, "agent");
    assert_eq!(call(&up, &token)["result"]["content"][0]["text"], "echo ");
}

#[test]
fn without_a_gate_the_command_listens_itself() {
    let (test, server) = set_up(Behaviour::default());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let waiting = prompted(&test, &["server", "sign-in", "s", "--no-browser", "--port", &port]);
    let back = server.consent(&waiting.url).unwrap();
    let wrong = back.replace("state=", "state=x");
    assert_eq!(http::get(&wrong).status, 404);
    assert_eq!(http::get(&back).status, 200);
    let output = waiting.ended();
    assert_eq!(output.code, 0, "{}", output.all_output());
}

#[test]
fn rule_11_a_server_without_registration_says_where_to_make_a_client() {
    let (test, server) = set_up(Behaviour { registration: Some(403), ..Behaviour::default() });
    let refused = test.run(&["server", "sign-in", "s", "--paste"]);
    assert_eq!(refused.code, 2, "{}", refused.all_output());
    for words in ["wants its own OAuth client", "--client-id", "/oauth/callback"] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
    let secret = test.write("secret", "client-s3cret\n");
    sign_in(&test, &server, &["--client-id", "mine", "--client-secret-file", &secret]);
    std::fs::remove_file(test.path("secret")).unwrap();
    assert_eq!(login(&test)["mode"], "own client");
    for (path, bytes) in files_below(&test.home()) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("client-s3cret"), "{}", path.display());
    }
}

#[test]
fn a_refused_token_is_refreshed_once_and_never_shown() {
    let (test, server) = signed_in(Behaviour { leaks_token: true, ..Behaviour::default() });
    let (token, up) = (grant(&test, "agent"), test.up(&[]));
    let text = call(&up, &token).to_string();
    assert!(text.contains("[secret login]") && !text.contains("access-0123"), "{text}");
    server.expire_access();
    let text = call(&up, &token).to_string();
    assert!(text.contains("[secret login]") && !text.contains("access-0123"), "{text}");
    assert_eq!(server.count("/token", "refresh_token"), 1);
    let shown = test.run(&["status"]).all_output() + &up.stop().stderr;
    assert!(!shown.contains("access-0123") && !shown.contains("refresh-0123"), "{shown}");
    for (path, bytes) in files_below(&test.home()) {
        let text = String::from_utf8_lossy(&bytes);
        let is_clean = !text.contains("access-0123") && !text.contains("refresh-0123");
        assert!(is_clean, "{}", path.display());
    }
}

#[test]
fn rule_12_a_server_that_refuses_new_tokens_needs_a_sign_in_without_a_loop() {
    let (test, server) = signed_in(Behaviour::default());
    let (token, up) = (grant(&test, "agent"), test.up(&[]));
    server.change(|behaviour| behaviour.refuses_tokens = true);
    let before = server.requests().len();
    for _ in 0..5 {
        let answer = call(&up, &token);
        assert_eq!(answer["error"]["code"], -31041, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("needs_sign_in") && message.contains("server sign-in s"),
            "{message}"
        );
        assert_eq!(answer["error"]["data"]["may_have_happened"], false);
    }
    assert_eq!(server.count("/token", "refresh_token"), 1);
    assert!(server.requests().len() - before <= 8, "{:?}", server.requests());
    assert_eq!(login(&test)["state"], "needs_sign_in");
    // An outage differs: the login stays.
    server.change(|behaviour| behaviour.refuses_tokens = false);
    sign_in(&test, &server, &[]);
    server.expire_access();
    server.change(|behaviour| behaviour.refresh_status = Some(503));
    let answer = call(&up, &token);
    assert_eq!(answer["error"]["code"], -31052, "{answer}");
    assert_eq!(login(&test)["state"], "signed_in");
    server.change(|behaviour| behaviour.refresh_status = None);
    assert_eq!(call(&up, &token)["result"]["content"][0]["text"], "echo ");
}

#[test]
fn rule_16_more_scope_is_a_question_to_the_owner() {
    let (test, server) = signed_in(Behaviour {
        challenge_scope: Some("read"),
        call_scope: Some("read write"),
        ..Behaviour::default()
    });
    let (token, up) = (grant(&test, "agent"), test.up(&[]));
    let answer = call(&up, &token);
    assert_eq!(answer["error"]["code"], -31041, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("needs_more_scope"), "{answer}");
    assert_eq!(server.count("/token", "refresh_token"), 0);
    let shown = login(&test);
    assert_eq!(shown["state"], "needs_more_scope");
    assert_eq!(shown["scopes_missing"], json!(["write"]));
    assert!(test.run(&["doctor"]).stdout.contains("needs more scope: write"));
    let log = test.succeed(&["audit", "tail", "-n", "50", "--json"]).stdout;
    assert!(log.contains("needs_more_scope"), "{log}");
    let output = sign_in(&test, &server, &[]);
    assert!(output.stderr.contains("scopes to request: read write"), "{}", output.stderr);
    assert_eq!(call(&up, &token)["result"]["content"][0]["text"], "echo ");
    assert_eq!(login(&test)["state"], "signed_in");
}

#[test]
fn per_grant_each_grant_signs_in_on_its_own() {
    let server =
        ProtectedServer::start(Behaviour { leaks_token: true, ..Behaviour::default() }).unwrap();
    let test = CliTest::new();
    test.succeed(&["server", "add", "s", "--url", &server.url(), "--per-grant"]);
    let (ann, bob) = (grant(&test, "ann"), grant(&test, "bob"));
    sign_in(&test, &server, &["--grant", "ann"]);
    let up = test.up(&[]);
    assert!(call(&up, &ann)["result"].is_object());
    let refused = call(&up, &bob);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("needs_sign_in") && message.contains("/servers/s/sign-in?grant="),
        "{message}"
    );
    sign_in(&test, &server, &["--grant", "bob"]);
    assert!(call(&up, &bob)["result"].is_object());
    test.succeed(&["server", "sign-out", "s", "--grant", "ann"]);
    assert_eq!(call(&up, &ann)["error"]["code"], -31041);
    assert!(call(&up, &bob)["result"].is_object());
}

#[test]
fn a_server_that_lost_its_session_is_initialized_again_with_the_token() {
    let (test, server) = signed_in(Behaviour { has_sessions: true, ..Behaviour::default() });
    let (token, up) = (grant(&test, "agent"), test.up(&[]));
    assert_eq!(call(&up, &token)["result"]["content"][0]["text"], "echo ");
    server.forget_sessions();
    assert_eq!(call(&up, &token)["result"]["content"][0]["text"], "echo ");
    assert_eq!(login(&test)["state"], "signed_in");
}

#[test]
fn a_server_with_http_sse_gets_the_token_and_one_refresh_per_401() {
    let (test, server) = set_up(Behaviour { has_sse: true, ..Behaviour::default() });
    let (token, up) = (grant(&test, "agent"), test.up(&[]));
    let refused = call(&up, &token);
    assert_eq!(refused["error"]["code"], -31041, "{refused}");
    sign_in(&test, &server, &[]);
    assert_eq!(call(&up, &token)["result"]["content"][0]["text"], "echo ");
    let has_posted = |requests: &[sandbox::protected_server::Recorded]| {
        let posts = requests.iter().filter(|one| one.path == "/messages");
        posts.filter(|one| one.authorization.is_some()).count()
    };
    assert!(has_posted(&server.requests()) >= 3, "{:?}", server.requests());

    server.expire_access();
    assert_eq!(call(&up, &token)["result"]["content"][0]["text"], "echo ");
    assert_eq!(server.count("/token", "refresh_token"), 1);
    // The stream ends together with its token. A call that was sent before the gate noticed that is lost.
    server.expire_access();
    server.end_streams();
    eventually("the stream is opened again", || {
        call(&up, &token)["result"]["content"][0]["text"] == "echo "
    });
    assert_eq!(server.count("/token", "refresh_token"), 2);

    server.change(|behaviour| behaviour.refuses_tokens = true);
    let refused = call(&up, &token);
    assert_eq!(refused["error"]["code"], -31041, "{refused}");
    assert_eq!(server.count("/token", "refresh_token"), 3);
    assert_eq!(login(&test)["state"], "needs_sign_in");
}

#[test]
fn removing_a_server_revokes_its_login() {
    let (test, server) = signed_in(Behaviour::default());
    test.succeed(&["server", "remove", "s"]);
    assert!(server.requests().iter().any(|one| one.path == "/revoke"));
    assert!(!test.home().join("logins/s.json").exists());
    let (test, server) = signed_in(Behaviour::default());
    let output = test.succeed(&["server", "sign-out", "s"]);
    assert!(output.stdout.contains("revoked"), "{}", output.stdout);
    assert!(server.requests().iter().any(|one| one.path == "/revoke"));
    assert!(test.succeed(&["server", "sign-out", "s"]).stdout.contains("not signed in to"));
}
