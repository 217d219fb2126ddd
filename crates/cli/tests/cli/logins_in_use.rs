//! Logins at servers while a gate runs: a token goes only to the address that was signed in to, what only the owner
//! can do is on the dashboard and sent as a notice, and logins that nothing can use any more are revoked.

use sandbox::protected_server::{Behaviour, ProtectedServer};
use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::gate::eventually;
use crate::http;
use crate::notify::{WAIT_MAX, receiver};
use crate::oauth_server::Owner;
use crate::sign_in::{call, grant, sign_in};

fn page(owner: &Owner, path: &str) -> http::Answer {
    let cookie = ("Cookie", owner.cookie.as_str());
    http::ask("GET", &format!("{}{path}", owner.base), &[cookie], "")
}

fn is_revoked(server: &ProtectedServer) -> bool {
    server.requests().iter().any(|one| one.path == "/revoke")
}

fn rows(test: &CliTest) -> String {
    test.succeed(&["audit", "search", "--json"]).stdout
}

#[test]
fn a_token_goes_only_to_the_address_that_was_signed_in_to() {
    let server = ProtectedServer::start(Behaviour::default()).unwrap();
    let other = ProtectedServer::start(Behaviour::default()).unwrap();
    let test = CliTest::new();
    test.succeed(&["server", "add", "other", "--no-connect", "--", "true"]);
    let set_address = |url: &str| {
        let settings = format!("[servers.s]\nurl = \"{url}\"\n");
        std::fs::write(test.home().join("tollgate.toml"), settings).unwrap();
    };
    set_address(&server.url());
    sign_in(&test, &server, &[]);
    let token = grant(&test, "agent");
    assert_eq!(call(&test.up(&[]), &token)["result"]["content"][0]["text"], "echo ");

    set_address(&other.url());
    let up = test.up(&[]);
    for _ in 0..2 {
        let refused = call(&up, &token);
        assert_eq!(refused["error"]["code"], -31041, "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("address has changed since the sign-in"), "{message}");
    }
    test.run(&["scan", "s"]);
    let sent = other.requests();
    assert!(sent.iter().all(|one| one.authorization.is_none()), "{sent:?}");
    let login = test.run(&["status", "--json"]).json()["logins"][0].clone();
    assert_eq!(login["state"], "needs_sign_in", "{login}");
    assert!(test.run(&["doctor"]).stdout.contains("address has changed"));
    drop(up);

    // The login is still there for its own address.
    set_address(&server.url());
    assert_eq!(call(&test.up(&[]), &token)["result"]["content"][0]["text"], "echo ");
    set_address(&other.url());
    sign_in(&test, &other, &[]);
    assert_eq!(call(&test.up(&[]), &token)["result"]["content"][0]["text"], "echo ");
}

#[test]
fn what_only_the_owner_can_do_is_on_the_dashboard_and_sent_as_a_notice() {
    let server = ProtectedServer::start(Behaviour {
        challenge_scope: Some("read"),
        call_scope: Some("read write"),
        ..Behaviour::default()
    })
    .unwrap();
    let test = CliTest::new();
    test.succeed(&["server", "add", "s", "--url", &server.url()]);
    sign_in(&test, &server, &[]);
    let token = grant(&test, "agent");
    let (hook, notices) = receiver(&["200 OK"]);
    test.succeed(&["notify", "add", "webhook", "hook", "--url", &hook]);
    let up = test.up(&[]);
    let owner = Owner::sign_in(&up);
    let attention = || page(&owner, "/index.json").json()["attention"].clone();
    assert_eq!(attention(), json!([]));
    let of_server = || page(&owner, "/servers/s.json").json()["logins"][0].clone();
    assert_eq!(of_server()["state"], "signed in");

    // The server asks for more: nothing is requested before the owner says so.
    assert_eq!(call(&up, &token)["error"]["code"], -31041);
    assert_eq!(attention()[0]["what"], "Allow s more", "{}", attention());
    assert_eq!(attention()[0]["path"], "/servers/s/sign-in");
    assert_eq!(of_server()["why"], "the server asks for write");
    assert!(page(&owner, "/").body.contains("href=\"/servers/s/sign-in\">Allow s more"));
    assert!(page(&owner, "/servers/s").body.contains("needs more scope"));
    let notice = notices.recv_timeout(WAIT_MAX).unwrap().json();
    assert_eq!(
        (&notice["type"], &notice["title"]),
        (&json!("account"), &json!("s wants more access"))
    );
    assert_eq!(notice["link"], format!("{}/servers/s/sign-in", owner.base));
    sign_in(&test, &server, &[]);
    assert!(call(&up, &token)["result"].is_object());
    assert_eq!(attention(), json!([]));

    // The login ends.
    server.change(|behaviour| behaviour.refuses_tokens = true);
    assert_eq!(call(&up, &token)["error"]["code"], -31041);
    assert_eq!(attention()[0]["what"], "Sign in to s", "{}", attention());
    let notice = notices.recv_timeout(WAIT_MAX).unwrap().json();
    assert_eq!(notice["title"], "Sign in to s again", "{notice}");
    let vera = owner.add_person(&test, &up, "vera", "viewer");
    let shown = page(&vera, "/servers/s").body;
    assert!(shown.contains("needs sign-in") && !shown.contains("/servers/s/sign-in"), "{shown}");
}

#[test]
fn a_server_that_is_removed_on_the_dashboard_is_signed_out() {
    let server = ProtectedServer::start(Behaviour::default()).unwrap();
    let test = CliTest::new();
    test.succeed(&["server", "add", "s", "--url", &server.url()]);
    sign_in(&test, &server, &[]);
    let up = test.up(&[]);
    let owner = Owner::sign_in(&up);
    assert!(owner.send_form("/servers/s", "/servers/s/remove", &[]).status < 400);
    assert!(is_revoked(&server));
    assert!(!test.home().join("logins/s.json").exists());
    let rows = rows(&test);
    assert!(rows.contains("server_signed_out") && rows.contains("owner (dashboard)"), "{rows}");
}

#[test]
fn the_login_of_a_revoked_grant_is_revoked() {
    let server = ProtectedServer::start(Behaviour::default()).unwrap();
    let test = CliTest::new();
    test.succeed(&["server", "add", "s", "--url", &server.url(), "--per-grant"]);
    let (_ann, bob) = (grant(&test, "ann"), grant(&test, "bob"));
    sign_in(&test, &server, &["--grant", "ann"]);
    sign_in(&test, &server, &["--grant", "bob"]);
    let up = test.up(&[]);
    test.succeed(&["grant", "revoke", "ann"]);
    eventually("the login of ann is revoked", || is_revoked(&server));
    eventually("a row says so", || rows(&test).contains("its grant was revoked"));
    let kept = test.run(&["status", "--json"]).json()["logins"].clone();
    let labels: Vec<&Value> = kept.as_array().unwrap().iter().map(|one| &one["grant"]).collect();
    // The first one is for the owner's own requests.
    assert_eq!(labels, [&Value::Null, &json!("bob")], "{kept}");
    assert_eq!(call(&up, &bob)["result"]["content"][0]["text"], "echo ");
}
