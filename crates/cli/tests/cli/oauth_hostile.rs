//! Attacks on the sign-in of clients, on the consent page, and on sign-ins at servers, through a running gate. Each is
//! refused, and each is a row of the audit log.

use std::net::TcpListener;

use sandbox::protected_server::{Behaviour, Iss, ProtectedServer};
use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::gate::eventually;
use crate::http::{self, Answer};
use crate::oauth_server::{CHALLENGE, FORM, Owner, REDIRECT, VERIFIER, form};
use crate::sign_in_prompt::prompted;

/// The rows so far contain these words.
fn recorded(test: &CliTest, words: &str) {
    eventually(words, || test.succeed(&["audit", "search", "--json"]).stdout.contains(words));
}

/// An authorization request with some parameters replaced; an empty value leaves one out.
fn authorize(owner: &Owner, changes: &[(&str, &str)]) -> Answer {
    let resource = format!("{}/mcp", owner.base);
    let mut pairs = vec![
        ("response_type", "code"),
        ("client_id", owner.client.as_str()),
        ("redirect_uri", REDIRECT),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("resource", resource.as_str()),
        ("state", "s"),
    ];
    for (name, value) in changes {
        pairs.retain(|(known, _)| known != name);
        if !value.is_empty() {
            pairs.push((name, value));
        }
    }
    let url = format!("{}/authorize?{}", owner.base, form(&pairs));
    http::ask("GET", &url, &[("Cookie", &owner.cookie)], "")
}

#[test]
fn no_response_goes_to_an_unregistered_redirect() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let owner = Owner::sign_in(&up);
    for redirect in [
        "https://evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://127.0.0.1:9@evil.example/callback",
        "http://localhost:9/callback",
        "http://127.0.0.1:9/callback/",
        "http://127.0.0.1:9/callback/../evil",
        "http://127.0.0.1:9/callback?next=https://evil.example",
        "http://127.0.0.1:9/callback#x",
        "https://127.0.0.1:9/callback",
        "//evil.example/callback",
        "javascript:alert(1)",
    ] {
        // Not even with an error: that would be an open redirect.
        for broken in
            [("code_challenge", CHALLENGE), ("code_challenge", ""), ("response_type", "x")]
        {
            let answer = authorize(&owner, &[("redirect_uri", redirect), broken]);
            assert_eq!((answer.status, answer.header("location")), (400, None), "{redirect}");
        }
    }
    recorded(&test, "not one that this client registered");
    for redirect in [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://evil.example/callback",
        "https://a@evil.example/callback",
        "https://evil.example/callback#x",
        "https://evil.example",
    ] {
        let body = json!({ "redirect_uris": [redirect], "token_endpoint_auth_method": "none" });
        let json = [("Content-Type", "application/json")];
        let answer = http::post(&format!("{}/register", owner.base), &json, &body.to_string());
        let is_bare = redirect == "https://evil.example";
        assert_eq!(answer.status, if is_bare { 201 } else { 400 }, "{redirect}: {}", answer.body);
    }
    recorded(&test, "/register refused with invalid_redirect_uri");
}

#[test]
fn a_request_without_s256_gets_no_code_and_no_token() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let owner = Owner::sign_in(&up);
    for changes in [
        [("code_challenge", ""), ("code_challenge_method", "")],
        [("code_challenge", ""), ("code_challenge_method", "S256")],
        [("code_challenge", CHALLENGE), ("code_challenge_method", "")],
        [("code_challenge", VERIFIER), ("code_challenge_method", "plain")],
        [("code_challenge", "short"), ("code_challenge_method", "S256")],
    ] {
        let answer = authorize(&owner, &changes);
        let to = answer.header("location").unwrap_or_default();
        assert!(to.starts_with(REDIRECT) && to.contains("error=invalid_request"), "{to}");
        assert!(!to.contains("code="), "{to}");
    }
    recorded(&test, "S256");
    // The verifier cannot be left out at the end either.
    let code = owner.consent("/mcp");
    let answer = owner.token(&[("grant_type", "authorization_code"), ("code", &code)]);
    assert_eq!(answer.status, 400, "{}", answer.body);
    recorded(&test, "code_verifier");
}

#[test]
fn a_code_belongs_to_one_client_and_works_once() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let (owner, other) = (Owner::sign_in(&up), Owner::sign_in_again(&test, &up));
    let exchange = |by: &Owner, code: &str| {
        let code =
            [("grant_type", "authorization_code"), ("code", code), ("code_verifier", VERIFIER)];
        by.token(&code)
    };
    let code = owner.consent("/mcp");
    assert_eq!(exchange(&other, &code).status, 400);
    recorded(&test, "belongs to another client");
    let code = owner.consent("/mcp");
    assert_eq!(exchange(&owner, &code).status, 200);
    assert_eq!(exchange(&owner, &code).status, 400);
    recorded(&test, "the code was used before");
}

#[test]
fn a_client_document_that_points_inward_is_never_fetched() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let owner = Owner::sign_in(&up);
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    inside.set_nonblocking(true).unwrap();
    let port = inside.local_addr().unwrap().port();
    for id in [
        format!("https://127.0.0.1:{port}/client.json"),
        format!("https://localhost:{port}/client.json"),
        format!("https://[::1]:{port}/client.json"),
        format!("https://[::ffff:127.0.0.1]:{port}/client.json"),
        format!("https://2130706433:{port}/client.json"),
        format!("http://127.0.0.1:{port}/client.json"),
        "https://10.0.0.1/client.json".to_owned(),
        "https://192.168.0.1/client.json".to_owned(),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://[fd00::1]/client.json".to_owned(),
        "https://100.64.0.1/client.json".to_owned(),
    ] {
        let answer = authorize(&owner, &[("client_id", &id)]);
        assert_eq!((answer.status, answer.header("location")), (400, None), "{id}");
    }
    assert!(inside.accept().is_err(), "the gate connected to an address inside");
    recorded(&test, "the document of this application cannot be used");
    // A stranger cannot even make it look.
    let resource = format!("{}/mcp", owner.base);
    let query = form(&[("client_id", "https://client.example/c.json"), ("resource", &resource)]);
    let strange = http::get(&format!("{}/authorize?{query}", owner.base));
    assert!(!strange.body.contains("client.example/c.json\""), "{}", strange.body);
}

/// A consent page as it was shown to one browser.
struct Shown {
    cookies: String,
    fields: Vec<(String, String)>,
}

impl Shown {
    fn to(owner: &Owner) -> Shown {
        let page = format!("{}/authorize?{}", owner.base, owner.query("/mcp"));
        let answer = http::ask("GET", &page, &[("Cookie", &owner.cookie)], "");
        let binding = answer.header("set-cookie").unwrap().split(';').next().unwrap();
        let field = |name: &str| {
            let start = answer.body.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
            (name.to_owned(), start.split('"').next().unwrap().replace("&#38;", "&"))
        };
        let mut fields = vec![field("csrf"), field("consent"), field("request")];
        for (name, value) in [("server", "demo"), ("policy:demo", "demo"), ("decision", "allow")] {
            fields.push((name.to_owned(), value.to_owned()));
        }
        Shown { cookies: format!("{}; {binding}", owner.cookie), fields }
    }

    fn send(&self, owner: &Owner, origin: &str, changes: &[(&str, &str)]) -> Answer {
        let changed = |name: &str| changes.iter().find(|(known, _)| *known == name);
        let pairs: Vec<(&str, &str)> = self
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), changed(name).map_or(value.as_str(), |c| c.1)))
            .collect();
        let mut headers = vec![FORM, ("Cookie", self.cookies.as_str())];
        if !origin.is_empty() {
            headers.push(("Origin", origin));
        }
        http::post(&format!("{}/authorize/consent", owner.base), &headers, &form(&pairs))
    }
}

fn grants(test: &CliTest) -> usize {
    let all: Value = test.succeed(&["grant", "list", "--json"]).json();
    all.as_array().map_or(0, Vec::len)
}

#[test]
fn consent_is_given_on_its_own_page_in_its_own_browser_and_once() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let (owner, other) = (Owner::sign_in(&up), Owner::sign_in_again(&test, &up));
    let base = owner.base.clone();
    let (mine, theirs) = (Shown::to(&owner), Shown::to(&other));

    // Forged by another site, or without what the page holds.
    for origin in ["https://evil.example", "null", ""] {
        assert_eq!(mine.send(&owner, origin, &[]).status, 403, "{origin}");
    }
    recorded(&test, "was not sent by a page of this gate");
    for (name, value) in [("csrf", "x"), ("consent", "x"), ("request", "client_id=other")] {
        assert_eq!(mine.send(&owner, &base, &[(name, value)]).status, 403, "{name}");
    }
    // Another session's page, and a page in another browser.
    let of_theirs = |name: &str| {
        let found = theirs.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap()
    };
    let mixed = [("csrf", of_theirs("csrf")), ("consent", of_theirs("consent"))];
    assert_eq!(mine.send(&owner, &base, &mixed).status, 403);
    let unbound = Shown { cookies: owner.cookie.clone(), fields: mine.fields.clone() };
    assert_eq!(unbound.send(&owner, &base, &[]).status, 403);
    let binding = theirs.cookies.split("; ").nth(1).unwrap();
    let forwarded =
        Shown { cookies: format!("{}; {binding}", owner.cookie), fields: mine.fields.clone() };
    assert_eq!(forwarded.send(&owner, &base, &[]).status, 403);
    recorded(&test, "belongs to another request, browser or session");
    // A link that is forwarded to a person without a session shows nothing and does nothing.
    let page = format!("{base}/authorize/consent?{}", owner.query("/mcp"));
    let strange = http::get(&page);
    assert!(!strange.body.contains("Editor") && !strange.body.contains("name=\"consent\""));
    let stranger = Shown { cookies: "x=y".to_owned(), fields: mine.fields.clone() };
    assert_eq!(stranger.send(&owner, &base, &[]).status, 401);
    // To a person who may not allow access, and to another admin, who has a session of another browser.
    let vera = owner.add_person(&test, &up, "vera", "viewer");
    let shown = http::ask("GET", &page, &[("Cookie", &vera.cookie)], "");
    assert!(shown.status == 403 && !shown.body.contains("name=\"consent\""), "{}", shown.body);
    recorded(&test, "the role `viewer` may not allow access");
    let bob = owner.add_person(&test, &up, "bob", "admin");
    let binding = mine.cookies.split("; ").nth(1).unwrap();
    let cookies = format!("{}; {binding}", bob.cookie);
    assert_eq!(Shown { cookies, fields: mine.fields.clone() }.send(&owner, &base, &[]).status, 403);
    assert_eq!(grants(&test), 0);

    let answer = mine.send(&owner, &base, &[]);
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert_eq!(grants(&test), 1);
    let again = mine.send(&owner, &base, &[]);
    assert_eq!((again.status, again.header("location")), (403, None), "{}", again.body);
    recorded(&test, "this consent page was answered before");
    assert_eq!(grants(&test), 1);
}

#[test]
fn an_answer_of_another_issuer_is_refused_at_the_callback() {
    let issuer = "https://evil.example".to_owned();
    let behaviour =
        Behaviour { iss: Iss::Other(issuer), promises_iss: true, ..Behaviour::default() };
    let server = ProtectedServer::start(behaviour).unwrap();
    let test = CliTest::new();
    test.succeed(&["server", "add", "s", "--url", &server.url()]);
    let _up = test.up(&[]);
    // Mixed up, and without the promised `iss`.
    for iss in [None, Some(Iss::Absent)] {
        if let Some(iss) = iss {
            server.change(|behaviour| behaviour.iss = iss);
        }
        let waiting = prompted(&test, &["server", "sign-in", "s", "--no-browser"]);
        let back = server.consent(&waiting.url).unwrap();
        assert_eq!(http::get(&back).status, 400);
        let ended = waiting.ended();
        assert_eq!(ended.code, 2, "{}", ended.all_output());
        assert_eq!(server.count("/token", "authorization_code"), 0, "the code was sent somewhere");
    }
    recorded(&test, "(sign-in)");
    let rows = test.succeed(&["audit", "search", "--json"]).stdout;
    for words in ["it comes from another issuer", "it lacks `iss`"] {
        assert!(rows.contains(words), "{words}: {rows}");
    }
    assert!(!rows.contains("code-0123"), "a code is in the audit log");
}
