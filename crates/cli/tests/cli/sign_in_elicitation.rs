//! A grant without a login of its own: the call asks its client to open the page, as its revision says, and works
//! after the sign-in there.

use sandbox::protected_server::{Behaviour, ProtectedServer};
use serde_json::{Value, json};

use crate::cli_test::{CliTest, Up};
use crate::gate::eventually;
use crate::http::{self, Answer};
use crate::oauth_server::{FORM, Owner, form};
use crate::sign_in::{grant, sign_in};

fn set_up() -> (CliTest, ProtectedServer) {
    let server = ProtectedServer::start(Behaviour::default()).unwrap();
    let test = CliTest::new();
    test.succeed(&["server", "add", "s", "--url", &server.url(), "--per-grant"]);
    (test, server)
}

/// What the owner's browser does at the page: reads it, begins, consents at the issuer, and is redirected.
fn sign_in_at_page(page: &str, session: &str, server: &ProtectedServer) -> Answer {
    let (back, browser) = begin_at_page(page, session, server);
    let other = http::get(&back.replace("state=", "state=x"));
    assert_eq!(other.status, 404, "{}", other.body);
    http::ask("GET", &back, &[("Cookie", &browser)], "")
}

/// Everything but the redirect: its address, and the cookie of the browser that began.
fn begin_at_page(page: &str, session: &str, server: &ProtectedServer) -> (String, String) {
    let (base, cookie) = (page.split("/servers/").next().unwrap(), ("Cookie", session));
    let shown = http::ask("GET", page, &[cookie], "");
    assert_eq!(shown.status, 200, "{}", shown.body);
    let field = |name: &str| {
        let start = shown.body.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
        start.split('"').next().unwrap().to_owned()
    };
    let body = form(&[("csrf", &field("csrf")), ("grant", &field("grant"))]);
    let begun =
        http::post(&format!("{base}/servers/s/sign-in"), &[FORM, ("Origin", base), cookie], &body);
    assert_eq!(begun.status, 200, "{}", begun.body);
    let browser = begun.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let link = begun.body.split_once("href=\"http").unwrap().1.split('"').next().unwrap();
    let link = format!("http{}", link.replace("&#38;", "&"));
    (server.consent(&link).expect("a complete request"), browser)
}

/// A modern call of a client that opens URLs.
fn call(url: &str, token: &str, tool: &str, more: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} } },
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let mut params = json!({ "name": tool, "arguments": {}, "_meta": meta });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", tool),
    ];
    http::post(url, &headers, &body.to_string()).json()
}

fn answer(asked: &Value, action: &str) -> Value {
    json!({
        "requestState": asked["result"]["requestState"],
        "inputResponses": { "sign-in": { "action": action } },
    })
}

#[test]
fn a_modern_client_gets_the_page_as_an_input_request_and_its_retry_works() {
    for is_listed in [false, true] {
        let (test, server) = set_up();
        if is_listed {
            sign_in(&test, &server, &[]);
        }
        let token = grant(&test, "ann");
        let up = test.up(&[]);
        let owner = Owner::sign_in(&up);
        let (all, one) = (up.url().to_owned(), format!("{}/s", up.url()));
        for (url, tool) in [(&one, "echo"), (&all, "s__echo")] {
            let asked = call(url, &token, tool, &json!({}));
            assert_eq!(asked["result"]["resultType"], "input_required", "{tool}: {asked}");
            let question = &asked["result"]["inputRequests"]["sign-in"];
            assert_eq!(question["method"], "elicitation/create");
            assert_eq!(question["params"]["mode"], "url");
            let page = question["params"]["url"].as_str().unwrap();
            assert!(page.contains("/servers/s/sign-in?grant="), "{page}");
            assert_eq!(http::get(page).status, 401, "the page needs the owner's session");

            let declined = call(url, &token, tool, &answer(&asked, "decline"));
            let message = declined["error"]["message"].as_str().unwrap();
            assert!(message.contains("did not sign in"), "{declined}");
            let again = call(url, &token, tool, &answer(&asked, "accept"));
            assert!(
                again["error"]["message"].as_str().unwrap().contains("used already"),
                "{again}"
            );
        }
        let asked = call(&all, &token, "s__echo", &json!({}));
        let page = asked["result"]["inputRequests"]["sign-in"]["params"]["url"].as_str().unwrap();
        let finished = std::thread::scope(|scope| {
            // The call waits while the owner signs in.
            let waiting = scope.spawn(|| {
                let mut asked = asked.clone();
                while asked["result"]["resultType"] == "input_required" {
                    asked = call(&all, &token, "s__echo", &answer(&asked, "accept"));
                }
                asked
            });
            let done = sign_in_at_page(page, &owner.cookie, &server);
            assert_eq!(done.status, 200, "{}", done.body);
            waiting.join().unwrap()
        });
        assert_eq!(finished["result"]["content"][0]["text"], "echo ", "{finished}");
        let requests = server.requests();
        let calls = requests.iter().filter_map(|one| one.json.as_ref());
        let calls = calls.filter(|message| message["method"] == "tools/call");
        for message in calls {
            let params = message["params"].to_string();
            assert!(!params.contains("requestState") && !params.contains("inputResponses"));
        }
        let rows = test.succeed(&["audit", "search", "--json"]).stdout;
        assert!(rows.contains("did not sign in"), "{rows}");
    }
}

#[test]
fn a_client_that_opens_no_urls_gets_the_address_as_text() {
    let (test, _server) = set_up();
    let token = grant(&test, "ann");
    let up = test.up(&[]);
    let refused = http::call(&format!("{}/s", up.url()), &token, "echo", &json!({})).json();
    assert_eq!(refused["error"]["code"], -31041, "{refused}");
    let page = refused["error"]["data"]["sign_in_url"].as_str().unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains(page), "{refused}");
}

/// A client of 2025-11-25, with or without URL elicitation.
struct LegacyClient {
    url: String,
    token: String,
    session: String,
}

impl LegacyClient {
    fn connect(up: &Up, path: &str, token: &str, elicitation: &Value) -> LegacyClient {
        let url = format!("{}{path}", up.url());
        let mut client = LegacyClient { url, token: token.to_owned(), session: String::new() };
        let hello = client.send(&json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": { "elicitation": elicitation },
                "clientInfo": { "name": "test", "version": "1" },
            },
        }));
        assert_eq!(hello.status, 200, "{}", hello.body);
        assert!(hello.body.contains("serverInfo"), "{}", hello.body);
        hello.header("mcp-session-id").unwrap().clone_into(&mut client.session);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn headers<'h>(&'h self, bearer: &'h str) -> Vec<(&'h str, &'h str)> {
        let mut headers = vec![
            ("Authorization", bearer),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        if !self.session.is_empty() {
            headers.push(("Mcp-Session-Id", &self.session));
        }
        headers
    }

    fn send(&self, message: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        http::post(&self.url, &self.headers(&bearer), &message.to_string())
    }

    fn call(&self, tool: &str) -> Value {
        let params = json!({ "name": tool, "arguments": {} });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let body = self.send(&message).body;
        let text = body
            .lines()
            .find_map(|line| line.strip_prefix("data: {"))
            .map_or_else(|| body.clone(), |rest| format!("{{{rest}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// The first message with these words on the client's stream.
    fn message_with(&self, words: &str) -> String {
        let bearer = format!("Bearer {}", self.token);
        http::event_with(&self.url, &self.headers(&bearer), words)
    }
}

#[test]
fn a_client_of_2025_11_25_gets_the_page_in_an_error_and_is_notified_of_the_end() {
    for (path, tool) in [("", "s__echo"), ("/s", "echo")] {
        let (test, server) = set_up();
        let token = grant(&test, "ann");
        let up = test.up(&[]);
        let owner = Owner::sign_in(&up);
        let old = LegacyClient::connect(&up, path, &token, &json!({}));
        assert_eq!(old.call(tool)["error"]["code"], -31041);

        let client = LegacyClient::connect(&up, path, &token, &json!({ "form": {}, "url": {} }));
        let refused = client.call(tool);
        assert_eq!(refused["error"]["code"], -32042, "{refused}");
        let elicitation = &refused["error"]["data"]["elicitations"][0];
        assert_eq!(elicitation["mode"], "url");
        let again = client.call(tool);
        assert_eq!(again["error"]["data"]["elicitations"][0], *elicitation, "one sign-in, one id");

        let page = elicitation["url"].as_str().unwrap();
        let done = sign_in_at_page(page, &owner.cookie, &server);
        assert_eq!(done.status, 200, "{}", done.body);
        let complete = client.message_with("notifications/elicitation/complete");
        assert!(complete.contains(elicitation["elicitationId"].as_str().unwrap()), "{complete}");
        eventually("the repeated call works", || {
            client.call(tool)["result"]["content"][0]["text"] == "echo "
        });
        assert_eq!(old.call(tool)["result"]["content"][0]["text"], "echo ");
    }
}

#[test]
fn a_page_that_is_forwarded_binds_no_account() {
    let (test, server) = set_up();
    let token = grant(&test, "ann");
    let up = test.up(&[]);
    let owner = Owner::sign_in(&up);
    let asked = call(&format!("{}/s", up.url()), &token, "echo", &json!({}));
    let page = asked["result"]["inputRequests"]["sign-in"]["params"]["url"].as_str().unwrap();
    assert_eq!(http::get(page).status, 401, "without the owner's session");
    let base = page.split("/servers/").next().unwrap();
    let begin = format!("{base}/servers/s/sign-in");
    let grant_id = page.split_once("grant=").unwrap().1;
    let body = form(&[("csrf", "x"), ("grant", grant_id)]);
    let cookie = ("Cookie", owner.cookie.as_str());
    assert_eq!(http::post(&begin, &[FORM, ("Origin", base)], &body).status, 401);
    assert_eq!(http::post(&begin, &[FORM, ("Origin", base), cookie], &body).status, 403);
    let elsewhere = [FORM, ("Origin", "https://evil.example"), cookie];
    assert_eq!(http::post(&begin, &elsewhere, &body).status, 403);
    assert_eq!(server.count("/token", "authorization_code"), 0);
}

#[test]
fn only_the_person_of_a_grant_signs_in_for_it() {
    let (test, server) = set_up();
    grant(&test, "unused");
    let up = test.up(&[]);
    let ann = Owner::sign_in(&up);
    let bob = ann.add_person(&test, &up, "bob", "admin");
    let vera = ann.add_person(&test, &up, "vera", "viewer");
    let fields = [("label", "ann"), ("server", "s"), ("policy:s", "all")];
    let made = ann.send_form("/grants", "/grants", &fields);
    let token = format!("tg_{}", made.body.split_once("tg_").unwrap().1);
    let token: String =
        token.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let shown = test.succeed(&["grant", "show", "ann", "--json"]).json();
    assert_eq!(shown["person"], "owner", "{shown}");
    let url = format!("{}/s", up.url());
    let ask = || call(&url, &token, "echo", &json!({}));
    let asked = ask();
    let page = asked["result"]["inputRequests"]["sign-in"]["params"]["url"].as_str().unwrap();
    let (path, id) = page.split_once("?grant=").unwrap();
    let path = path.strip_prefix(&ann.base).unwrap();

    // The link is forwarded: to a viewer, and to another admin.
    assert_eq!(bob.send_form("/people", path, &[("grant", id)]).status, 403);
    let (body, cookie) = (form(&[("csrf", "x"), ("grant", id)]), ("Cookie", vera.cookie.as_str()));
    let headers = [FORM, ("Origin", vera.base.as_str()), cookie];
    assert_eq!(http::post(&format!("{}{path}", ann.base), &headers, &body).status, 403);
    eventually("both refusals are rows", || {
        let rows = test.succeed(&["audit", "search", "--json"]).stdout;
        rows.contains("belongs to `owner`") && rows.contains("may not do this")
    });
    // The redirect is forwarded: to another person, and to nobody in particular.
    for browser in ["", bob.cookie.as_str(), "tollgate_sign_in=x"] {
        let (back, _) = begin_at_page(page, &ann.cookie, &server);
        let refused = http::ask("GET", &back, &[("Cookie", browser)], "");
        assert_eq!(refused.status, 403, "{}", refused.body);
    }
    let rows = test.succeed(&["audit", "search", "--json"]).stdout;
    assert!(rows.contains("this sign-in was begun in another browser"), "{rows}");
    assert_eq!(server.count("/token", "authorization_code"), 0, "a code was sent");
    assert_eq!(ask()["result"]["resultType"], "input_required");
    assert_eq!(sign_in_at_page(page, &ann.cookie, &server).status, 200);
    assert_eq!(ask()["result"]["content"][0]["text"], "echo ");
}
