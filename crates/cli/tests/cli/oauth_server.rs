//! Clients that sign in to a running gate: the challenge, consent, tokens, their end, and what the public
//! address does not serve.

use serde_json::{Value, json};

use crate::cli_test::{CliTest, Up};
use crate::gate::eventually;
use crate::http::{self, Answer};

pub(crate) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(crate) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
pub(crate) const REDIRECT: &str = "http://127.0.0.1:9/callback";
pub(crate) const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{}={}", escaped(name), escaped(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// A gate and a browser that is signed in to it.
pub(crate) struct Owner {
    pub(crate) base: String,
    pub(crate) cookie: String,
    pub(crate) client: String,
}

impl Owner {
    pub(crate) fn sign_in(up: &Up) -> Owner {
        let base = up.url().strip_suffix("/mcp").unwrap().to_owned();
        Owner::with_link(base, up.facts["dashboard"].as_str().unwrap())
    }

    /// Another browser, with another client.
    pub(crate) fn sign_in_again(test: &CliTest, up: &Up) -> Owner {
        Owner::sign_in_as(test, up, "owner")
    }

    pub(crate) fn sign_in_as(test: &CliTest, up: &Up, person: &str) -> Owner {
        let base = up.url().strip_suffix("/mcp").unwrap().to_owned();
        let link = test.succeed(&["open", "--no-browser", "--json", "--person", person]).json();
        Owner::with_link(base, text(&link, "link"))
    }

    /// Sends a form as the page with this form would.
    pub(crate) fn send_form(&self, page: &str, to: &str, pairs: &[(&str, &str)]) -> Answer {
        let cookie = ("Cookie", self.cookie.as_str());
        let shown = http::ask("GET", &format!("{}{page}", self.base), &[cookie], "").body;
        let csrf = shown.split_once("name=\"csrf\" value=\"").unwrap().1.split('"').next().unwrap();
        let mut all = vec![("csrf", csrf)];
        all.extend(pairs);
        let headers = [FORM, ("Origin", self.base.as_str()), cookie];
        http::post(&format!("{}{to}", self.base), &headers, &form(&all))
    }

    /// Adds a person and signs in as that person.
    pub(crate) fn add_person(&self, test: &CliTest, up: &Up, name: &str, role: &str) -> Owner {
        let added = self.send_form("/people", "/people", &[("name", name), ("role", role)]);
        assert!(added.status < 400, "{}", added.body);
        Owner::sign_in_as(test, up, name)
    }

    fn with_link(base: String, link: &str) -> Owner {
        let token = link.split_once("token=").unwrap().1;
        let headers = [FORM, ("Origin", base.as_str())];
        let body = form(&[("token", token)]);
        let answer = http::post(&format!("{base}/sign-in"), &headers, &body);
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let body = json!({
            "client_name": "Editor", "redirect_uris": ["http://127.0.0.1/callback"],
            "token_endpoint_auth_method": "none",
        });
        let json = [("Content-Type", "application/json"), ("Origin", "http://localhost:6274")];
        let answer = http::post(&format!("{base}/register"), &json, &body.to_string());
        assert_eq!(answer.status, 201, "{}", answer.body);
        let client = answer.json()["client_id"].as_str().unwrap().to_owned();
        Owner { base, cookie, client }
    }

    pub(crate) fn query(&self, path: &str) -> String {
        form(&[
            ("response_type", "code"),
            ("client_id", &self.client),
            ("redirect_uri", REDIRECT),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("resource", &format!("{}{path}", self.base)),
            ("state", "s"),
        ])
    }

    /// Consents, and returns the code.
    pub(crate) fn consent(&self, path: &str) -> String {
        let page = format!("{}/authorize?{}", self.base, self.query(path));
        let answer = http::ask("GET", &page, &[("Cookie", &self.cookie)], "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let binding = answer.header("set-cookie").unwrap().split(';').next().unwrap();
        let jar = format!("{}; {binding}", self.cookie);
        let field = |name: &str| {
            let start = answer.body.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
            start.split('"').next().unwrap().replace("&#38;", "&")
        };
        let (csrf, consent, request) = (field("csrf"), field("consent"), field("request"));
        let body = form(&[
            ("csrf", &csrf),
            ("consent", &consent),
            ("request", &request),
            ("server", "demo"),
            ("policy:demo", "demo"),
            ("decision", "allow"),
        ]);
        let headers = [FORM, ("Origin", self.base.as_str()), ("Cookie", &jar)];
        let answer = http::post(&format!("{}/authorize/consent", self.base), &headers, &body);
        assert_eq!(answer.status, 303, "{}", answer.body);
        let to = answer.header("location").unwrap();
        assert!(to.starts_with(REDIRECT) && to.contains("&iss="), "{to}");
        to.split_once("code=").unwrap().1.split('&').next().unwrap().to_owned()
    }

    pub(crate) fn token(&self, pairs: &[(&str, &str)]) -> Answer {
        let mut all = vec![("client_id", self.client.as_str())];
        all.extend(pairs);
        http::post(&format!("{}/token", self.base), &[FORM], &form(&all))
    }

    fn tokens(&self, path: &str) -> Value {
        let code = self.consent(path);
        let answer = self.token(&[
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT),
        ]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap()
}

/// Whether a call with this token passes the authentication.
fn works(url: &str, token: &str) -> bool {
    http::call(url, token, "list_notes", &json!({})).status != 401
}

#[test]
fn every_refused_request_says_where_to_sign_in() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let base = up.url().strip_suffix("/mcp").unwrap();
    for (path, named) in [("/mcp", "/mcp"), ("/mcp/demo", "/mcp/demo"), ("/mcp/%22x", "/mcp")] {
        for method in ["POST", "GET", "DELETE"] {
            for headers in [&[][..], &[("Authorization", "Bearer tg_x")]] {
                let answer = http::ask(method, &format!("{base}{path}"), headers, "");
                assert_eq!(answer.status, 401, "{method} {path}");
                let challenge = answer.header("www-authenticate").unwrap();
                let metadata = format!("{base}/.well-known/oauth-protected-resource{named}\"");
                assert!(
                    challenge.contains(&format!("resource_metadata=\"{metadata}")),
                    "{challenge}"
                );
                assert!(challenge.contains("scope=\"mcp\""), "{challenge}");
            }
        }
    }
    let registry = http::get(&format!("{base}/v0.1/servers"));
    let challenge = registry.header("www-authenticate").unwrap();
    assert!(challenge.contains("/.well-known/oauth-protected-resource/mcp\""), "{challenge}");
    // Its token is no grant, so there is nowhere to sign in.
    let metrics = http::get(&format!("{base}/metrics"));
    assert_eq!(metrics.header("www-authenticate"), Some("Bearer realm=\"tollgate\""));
    let metadata = http::get(&format!("{base}/.well-known/oauth-protected-resource/mcp"));
    assert_eq!(metadata.json()["resource"], format!("{base}/mcp"));
    let document = format!("{base}/.well-known/oauth-protected-resource/mcp");
    let with_token = [("Authorization", "Bearer tg_x"), ("Origin", "http://localhost:6274")];
    let open = http::ask("GET", &document, &with_token, "");
    assert_eq!(open.body, metadata.body, "a document is outside every guard");
    assert_eq!(open.header("access-control-allow-origin"), Some("*"));
    let preflight = http::ask("OPTIONS", &format!("{base}/token"), &[with_token[1]], "");
    assert_eq!(preflight.status, 204);
    assert_eq!(http::post(&format!("{base}/token"), &[with_token[0]], "").status, 404);
}

#[test]
fn a_client_signs_in_calls_refreshes_and_ends_with_its_grant() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let owner = Owner::sign_in(&up);
    let tokens = owner.tokens("/mcp/demo");
    let access = text(&tokens, "access_token").to_owned();
    let at_server = format!("{}/mcp/demo", owner.base);
    assert!(works(&at_server, &access), "at once, without a wait");
    assert!(!works(up.url(), &access), "the token is for another resource");

    let shown = test.succeed(&["grant", "show", "editor-1", "--json"]).json();
    assert_eq!(
        (text(&shown, "kind"), &shown["client"]["audience"]),
        ("oauth", &json!("/mcp/demo"))
    );
    let refresh = text(&tokens, "refresh_token").to_owned();
    let again =
        |token: &str| owner.token(&[("grant_type", "refresh_token"), ("refresh_token", token)]);
    let next = again(&refresh).json();
    assert!(works(&at_server, text(&next, "access_token")));
    assert_ne!(text(&next, "refresh_token"), refresh);

    test.succeed(&["grant", "revoke", "editor-1"]);
    eventually("the revoked grant ends its tokens", || !works(&at_server, &access));
    let refused = again(text(&next, "refresh_token"));
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
    for act in ["grant_created", "oauth_signed_in", "oauth_refreshed", "grant_revoked"] {
        let found = test.succeed(&["audit", "search", act]).stdout;
        assert!(found.contains("editor-1"), "{act}: {found}");
    }
    let all = test.succeed(&["audit", "search", "--json"]).stdout;
    assert!(!all.contains(&access) && !all.contains(&refresh), "a token is in the audit log");
}

#[test]
fn hostile_requests_are_refused_and_recorded() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let owner = Owner::sign_in(&up);
    let code = owner.consent("/mcp");
    let exchange = |code: &str, verifier: &str| {
        owner.token(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", verifier),
        ])
    };
    let tokens = exchange(&code, VERIFIER).json();
    assert!(works(up.url(), text(&tokens, "access_token")));
    assert_eq!(exchange(&code, VERIFIER).status, 400, "a code is used twice");
    eventually("a reused code ends the sign-in", || {
        !works(up.url(), text(&tokens, "access_token"))
    });
    let wrong = exchange(&owner.consent("/mcp"), "wrong-verifier-wrong-verifier-wrong-verifier");
    assert_eq!(wrong.status, 400, "{}", wrong.body);

    let page = |change: (&str, &str)| {
        let query = owner.query("/mcp");
        let changed = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if name == change.0 => form(&[change]),
            _ => pair.to_owned(),
        });
        let url = format!("{}/authorize?{}", owner.base, changed.collect::<Vec<_>>().join("&"));
        http::ask("GET", &url, &[("Cookie", &owner.cookie)], "")
    };
    let look_alike = page(("redirect_uri", "https://evil.example/callback"));
    assert_eq!((look_alike.status, look_alike.header("location")), (400, None));
    let inside = page(("client_id", "https://localhost/client.json"));
    assert_eq!((inside.status, inside.header("location")), (400, None), "{}", inside.body);
    let plain = page(("code_challenge_method", "plain"));
    assert!(plain.header("location").unwrap().contains("error=invalid_request"));
    let headers = [FORM, ("Origin", "https://evil.example"), ("Cookie", owner.cookie.as_str())];
    let forged =
        http::post(&format!("{}/authorize/consent", owner.base), &headers, "decision=allow");
    assert_eq!(forged.status, 403);

    let body =
        json!({ "redirect_uris": ["https://a.example/cb"], "token_endpoint_auth_method": "none" });
    let register = || {
        let json = [("Content-Type", "application/json")];
        http::post(&format!("{}/register", owner.base), &json, &body.to_string()).status
    };
    let flood = (0..250).map(|_| register()).find(|status| *status != 201);
    assert_eq!(flood, Some(429), "registrations are bounded");

    eventually("each refusal is a row", || {
        let rows = test.succeed(&["audit", "search", "--json"]).stdout;
        [
            "used before",
            "`code_verifier` does not match",
            "not one that this client registered",
            "cannot be used",
            "S256",
            "too many applications",
            "Origin",
        ]
        .iter()
        .all(|words| rows.contains(words))
    });
}

#[test]
fn the_public_address_serves_sign_in_and_no_dashboard() {
    let test = CliTest::with_demo();
    let up = test.up(&["--public-url", "https://gate.example"]);
    let base = up.url().strip_suffix("/mcp").unwrap();
    let at =
        |host: &str, path: &str| http::ask("GET", &format!("{base}{path}"), &[("Host", host)], "");
    let local = base.strip_prefix("http://").unwrap();
    for path in ["/", "/grants", "/audit", "/people", "/approvals.json"] {
        assert_eq!(at("gate.example", path).status, 404, "{path}");
        assert_eq!(at(local, path).status, 401, "{path}");
    }
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/openid-configuration"] {
        let document = at("gate.example", path);
        assert_eq!(document.status, 200, "{path}");
        assert!(document.body.contains("https://gate.example"), "{}", document.body);
    }
    assert_eq!(at("gate.example", "/sign-in").status, 401);
    let challenge = at("gate.example", "/mcp");
    let challenge = challenge.header("www-authenticate").unwrap();
    assert!(challenge.contains("https://gate.example/.well-known/"), "{challenge}");
    assert_eq!(at("evil.example", "/.well-known/oauth-protected-resource").status, 403);
    let link = test.succeed(&["open", "--public", "--json"]).json();
    assert!(text(&link, "link").starts_with("https://gate.example/sign-in?token="), "{link}");

    drop(up);
    let settings = "public_url = \"https://gate.example\"\npublic_dashboard = true\n";
    std::fs::write(test.home().join("tollgate.toml"), settings).unwrap();
    let up = test.up(&[]);
    let base = up.url().strip_suffix("/mcp").unwrap();
    let page = http::ask("GET", &format!("{base}/grants"), &[("Host", "gate.example")], "");
    assert_eq!(page.status, 401, "the owner serves the dashboard there, too");
}

#[test]
fn the_doctor_goes_the_way_of_each_client() {
    let test = CliTest::with_demo();
    let none = test.run(&["doctor", "--public"]);
    assert_eq!(none.code, 1);
    assert!(none.stdout.contains("no public address"), "{}", none.stdout);
    let up = test.up(&[]);
    let base = up.url().strip_suffix("/mcp").unwrap().to_owned();
    let walk = test.run(&["doctor", &format!("--public={base}"), "--json"]);
    assert_eq!(walk.code, 1, "the clients in the cloud cannot reach loopback");
    let findings = walk.json();
    let health = |findings: &Value, about: &str| {
        let all = findings.as_array().unwrap().iter();
        let found = all.into_iter().find(|finding| finding["about"] == about).unwrap();
        format!("{} {}", text(found, "health"), text(found, "words"))
    };
    for client in ["VS Code", "Cursor", "Claude Code"] {
        assert!(health(&findings, client).starts_with("good"), "{findings}");
    }
    for client in ["claude.ai", "ChatGPT"] {
        assert!(health(&findings, client).starts_with("wrong stops at step 1 of"), "{findings}");
    }
    drop(up);

    // The gate has another public address than the one that the client was given.
    let up = test.up(&["--public-url", "https://gate.example"]);
    let base = up.url().strip_suffix("/mcp").unwrap().to_owned();
    let walk = test.run(&["doctor", &format!("--public={base}"), "--json"]).json();
    let words = health(&walk, "Claude Code");
    assert!(words.contains("the challenge does not name"), "{words}");
}
