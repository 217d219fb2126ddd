//! The authorization server through its addresses: who may consent, what is refused, and that a yes makes a
//! grant with tokens.

use super::*;
use form_urlencoded::byte_serialize;

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CLIENT: &str = "https://claude.ai/oauth/client.json";
const REDIRECT: &str = "https://claude.ai/api/mcp/auth_callback";

fn escaped(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

fn query_with(changes: &[(&str, &str)]) -> String {
    let challenge = oauth::pkce::challenge(VERIFIER);
    let resource = format!("{ORIGIN}/mcp");
    let mut pairs = vec![
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", REDIRECT),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
        ("resource", resource.as_str()),
        ("state", "xyz"),
    ];
    for (name, value) in changes {
        pairs.retain(|(known, _)| known != name);
        pairs.push((name, value));
    }
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// The value of a hidden field of a page.
fn field(page: &str, name: &str) -> String {
    let start = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
    let value = start.split('"').next().unwrap();
    value.replace("&#38;", "&").replace("&amp;", "&")
}

impl Stage {
    fn with_client() -> Stage {
        let stage = Stage::new();
        let document =
            json!({ "client_id": CLIENT, "client_name": "Claude", "redirect_uris": [REDIRECT] });
        stage.documents.0.lock().unwrap().insert(CLIENT.to_owned(), document.to_string());
        stage.add_server("notes");
        stage
    }

    fn add_server(&self, name: &str) {
        self.add_builtin(name, "demo");
    }

    fn add_builtin(&self, name: &str, service: &str) {
        let target = store::registry::Target::Builtin { service: service.to_owned() };
        let options = store::registry::ServerOptions::default();
        let new = store::registry::NewServer { name: name.to_owned(), target, options };
        self.registry.add_server(&new, &Settings::default().names(), self.now_us()).unwrap();
    }

    fn program(&self, path: &str, content_type: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::builder().method(Method::POST).uri(path);
        let request = request.header("host", HOST).header("content-type", content_type);
        let response = self.dashboard.respond(&request.body(Bytes::from(body.to_owned())).unwrap());
        assert_eq!(response.headers.get("access-control-allow-origin").unwrap(), "*");
        let value = serde_json::from_str(&text(&response)).unwrap_or_default();
        (response.status, value)
    }

    fn token(&self, pairs: &[(&str, &str)]) -> (StatusCode, Value) {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.program("/token", "application/x-www-form-urlencoded", &body)
    }

    fn exchange(&self, code: &str, verifier: &str) -> (StatusCode, Value) {
        self.token(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", REDIRECT),
            ("client_id", CLIENT),
            ("code_verifier", verifier),
        ])
    }

    /// The consent page, and the cookie that binds it.
    fn consent_page(&self, cookie: &str, query: &str) -> (String, String) {
        let response = self.get(cookie, &format!("/authorize?{query}"));
        assert_eq!(response.status, StatusCode::OK, "{}", text(&response));
        let binding = response.headers.get("set-cookie").unwrap().to_str().unwrap();
        let binding = binding.split(['=', ';']).nth(1).unwrap().to_owned();
        (text(&response), binding)
    }

    fn consent(&self, cookie: &str, binding: &str, origin: &str, body: &str) -> Response {
        let jar = format!("tollgate_session={cookie}; tollgate_consent={binding}");
        let headers = [("host", HOST), ("origin", origin), ("cookie", jar.as_str())];
        self.send(Method::POST, "/authorize/consent", &headers, body)
    }

    fn sent_form(page: &str, rest: &str) -> String {
        let hidden = ["csrf", "consent", "request"]
            .map(|name| format!("{name}={}", escaped(&field(page, name))));
        format!("{}&{rest}", hidden.join("&"))
    }

    /// Signs a client in as the owner would, and returns the code.
    fn code(&self, cookie: &str) -> String {
        let (page, binding) = self.consent_page(cookie, &query_with(&[]));
        let form = Stage::sent_form(&page, "server=notes&decision=allow&expires_days=7");
        let response = self.consent(cookie, &binding, ORIGIN, &form);
        assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", text(&response));
        let to = response.headers.get("location").unwrap().to_str().unwrap();
        let to = url::Url::parse(to).unwrap();
        let value = |name: &str| {
            to.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        assert!(to.as_str().starts_with(REDIRECT));
        assert_eq!(value("state").as_deref(), Some("xyz"));
        assert_eq!(value("iss").as_deref(), Some(ORIGIN), "a mix-up can be noticed");
        value("code").unwrap()
    }
}

#[tokio::test]
async fn consent_makes_a_grant_and_a_code_is_worth_tokens_once() {
    let stage = Stage::with_client();
    let cookie = stage.sign_in(Role::Admin);
    let code = stage.code(&cookie);
    let grant = stage.registry.grant("claude-ai-1").unwrap();
    assert_eq!(grant.kind(), "oauth");
    assert_eq!(grant.server_access.first().unwrap().policy.as_deref(), Some("claude-ai-notes-1"));
    assert!(grant.expires_at_us.is_some());
    let page = text(&stage.get(&cookie, "/grants/claude-ai-1"));
    assert!(page.contains(CLIENT) && page.contains("Claude"), "{page}");

    let (status, tokens) = stage.exchange(&code, VERIFIER);
    assert_eq!(status, StatusCode::OK, "{tokens}");
    assert_eq!(tokens["token_type"], "Bearer");
    assert_eq!(tokens["scope"], "mcp");
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let pairs =
        [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", CLIENT)];
    let (status, next) = stage.token(&pairs);
    assert_eq!(status, StatusCode::OK);
    assert_ne!(next["refresh_token"], tokens["refresh_token"]);
    let (status, repeated) = stage.token(&pairs);
    assert_eq!((status, repeated["refresh_token"].is_null()), (StatusCode::OK, true), "a retry");

    let (status, refused) = stage.exchange(&code, VERIFIER);
    assert_eq!(
        (status, refused["error"].as_str()),
        (StatusCode::BAD_REQUEST, Some("invalid_grant"))
    );
    assert!(
        stage.registry.grant("claude-ai-1").is_err(),
        "a code that is used twice ends the grant"
    );
}

/// The host of Claude's document answers addresses of cloud providers with a page for browsers.
#[tokio::test]
async fn a_known_client_signs_in_although_its_host_hands_out_no_document() {
    let stage = Stage::with_client();
    let cookie = stage.sign_in(Role::Admin);
    let known = "https://claude.ai/oauth/mcp-oauth-client-metadata";
    let challenge = "<html>Just a moment...</html>";
    for (hosted, why) in [(None, "it is not there"), (Some(challenge), "is not JSON")] {
        if let Some(page) = hosted {
            stage.documents.0.lock().unwrap().insert(known.to_owned(), page.to_owned());
        }
        let query = query_with(&[("client_id", known)]);
        let (page, binding) = stage.consent_page(&cookie, &query);
        assert!(page.contains("in the copy that tollgate has") && page.contains(why), "{page}");
        let form = Stage::sent_form(&page, "server=notes&decision=allow");
        let response = stage.consent(&cookie, &binding, ORIGIN, &form);
        assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", text(&response));
        let to = url::Url::parse(response.headers["location"].to_str().unwrap()).unwrap();
        let code = to.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let (status, tokens) = stage.token(&[
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", REDIRECT),
            ("client_id", known),
            ("code_verifier", VERIFIER),
        ]);
        assert_eq!(status, StatusCode::OK, "{tokens}");
    }
    // The copy has the redirect addresses of the vendor and no others.
    let query = query_with(&[("client_id", known), ("redirect_uri", "https://claude.ai/other")]);
    let refused = stage.get(&cookie, &format!("/authorize?{query}"));
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    // What the host says counts, also when it takes an address back.
    let document = json!({ "client_id": known, "redirect_uris": ["https://claude.ai/new"] });
    stage.documents.0.lock().unwrap().insert(known.to_owned(), document.to_string());
    let old = stage.get(&cookie, &format!("/authorize?{}", query_with(&[("client_id", known)])));
    assert_eq!(old.status, StatusCode::BAD_REQUEST);
}

/// The names of policies are cut at their end, where the names of these servers differ.
#[tokio::test]
async fn each_server_of_a_consent_gets_a_policy_of_its_own() {
    let stage = Stage::with_client();
    let cookie = stage.sign_in(Role::Admin);
    let [one, two] = ["a", "b"].map(|end| format!("{}{end}", "n".repeat(60)));
    stage.add_server(&one);
    stage.add_server(&two);
    let (page, binding) = stage.consent_page(&cookie, &query_with(&[]));
    let form = Stage::sent_form(&page, &format!("server={one}&server={two}&decision=allow"));
    let response = stage.consent(&cookie, &binding, ORIGIN, &form);
    assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", text(&response));
    let grant = stage.registry.grant("claude-ai-1").unwrap();
    let policies: Vec<_> = grant.server_access.iter().map(|one| one.policy.clone()).collect();
    assert_eq!(policies.len(), 2);
    assert_ne!(policies[0], policies[1]);
}

/// A grant by consent is never an operator grant, so the operator server is not offered and cannot be slipped in.
#[tokio::test]
async fn a_consent_does_not_offer_the_operator_server() {
    let stage = Stage::with_client();
    let cookie = stage.sign_in(Role::Admin);
    stage.add_builtin("boss", "operator");
    let (page, binding) = stage.consent_page(&cookie, &query_with(&[]));
    assert!(page.contains("value=\"notes\"") && !page.contains("value=\"boss\""), "{page}");
    let forms = text(&stage.get(&cookie, "/grants"));
    assert!(forms.contains("value=\"notes\"") && !forms.contains("value=\"boss\""), "{forms}");
    let form = Stage::sent_form(&page, "server=boss&decision=allow");
    let response = stage.consent(&cookie, &binding, ORIGIN, &form);
    assert!(response.status.is_client_error(), "{}", response.status);
    assert!(text(&response).contains("was not offered"), "{}", text(&response));
    assert!(stage.registry.grant("claude-ai-1").is_err());
    assert!(stage.registry.policy("claude-ai-boss-1").is_err(), "a policy is left behind");
}

#[tokio::test]
async fn a_consent_fits_one_session_one_browser_and_one_request() {
    let stage = Stage::with_client();
    let owner = stage.sign_in(Role::Admin);
    let other = stage.sign_in(Role::Admin);
    let viewer = stage.sign_in(Role::Viewer);
    let (page, binding) = stage.consent_page(&owner, &query_with(&[]));
    let good = Stage::sent_form(&page, "server=notes&decision=allow");
    let request = escaped(&field(&page, "request"));
    let changed = good.replace(&request, &escaped(&query_with(&[("state", "other")])));
    let (other_page, _) = stage.consent_page(&other, &query_with(&[]));
    let theirs = Stage::sent_form(&other_page, "server=notes&decision=allow");
    for (what, status, response) in [
        ("no session", 401, stage.consent("tg_session_x", &binding, ORIGIN, &good)),
        ("another session", 403, stage.consent(&other, &binding, ORIGIN, &good)),
        ("a viewer", 403, stage.consent(&viewer, &binding, ORIGIN, &good)),
        ("another browser", 403, stage.consent(&owner, "tg_consent_x", ORIGIN, &good)),
        ("no binding", 403, stage.consent(&owner, "", ORIGIN, &good)),
        ("another origin", 403, stage.consent(&owner, &binding, "https://evil.example", &good)),
        ("another request", 403, stage.consent(&owner, &binding, ORIGIN, &changed)),
        ("the form of another session", 403, stage.consent(&owner, &binding, ORIGIN, &theirs)),
        ("no token", 403, stage.consent(&owner, &binding, ORIGIN, "server=notes&decision=allow")),
    ] {
        assert_eq!(response.status.as_u16(), status, "{what}: {}", text(&response));
        assert!(response.refusal.is_some(), "{what} is recorded");
    }
    assert!(stage.registry.grants().unwrap().is_empty());
    let said_no = good.replace("decision=allow", "decision=deny");
    let response = stage.consent(&owner, &binding, ORIGIN, &said_no);
    let to = response.headers.get("location").unwrap().to_str().unwrap().to_owned();
    assert!(to.starts_with(&format!("{REDIRECT}?error=access_denied&")), "{to}");
    assert!(stage.registry.grants().unwrap().is_empty());
}

#[tokio::test]
async fn nothing_is_sent_or_fetched_without_a_session() {
    let stage = Stage::with_client();
    for path in ["/authorize", "/authorize/consent"] {
        let response =
            stage.send(Method::GET, &format!("{path}?{}", query_with(&[])), &[("host", HOST)], "");
        assert_eq!(response.status, StatusCode::OK);
        let page = text(&response);
        assert!(page.contains("/authorize/consent?response_type=code"), "{page}");
        assert!(!page.contains("Claude"), "{page}");
    }
    assert!(stage.registry.oauth_client(CLIENT, stage.now_us()).unwrap().is_none());
}

#[tokio::test]
async fn hostile_authorization_requests_are_refused_and_never_redirected_elsewhere() {
    let stage = Stage::with_client();
    let cookie = stage.sign_in(Role::Admin);
    let inside = "https://127.0.0.1/client.json";
    let liar = "https://liar.example/client.json";
    let document = json!({ "client_id": CLIENT, "redirect_uris": [REDIRECT] });
    stage.documents.0.lock().unwrap().insert(liar.to_owned(), document.to_string());
    let large = "https://large.example/client.json";
    stage.documents.0.lock().unwrap().insert(large.to_owned(), "x".repeat(6_000));
    for change in [
        ("redirect_uri", "https://evil.example/callback"),
        ("redirect_uri", "https://claude.ai.evil.example/api/mcp/auth_callback"),
        ("redirect_uri", "https://claude.ai/api/mcp/auth_callback/../../x"),
        ("redirect_uri", "https://cl\u{430}ude.ai/api/mcp/auth_callback"),
        ("redirect_uri", "javascript:alert(1)"),
        ("client_id", "client_unknown"),
        ("client_id", inside),
        ("client_id", "http://claude.ai/oauth/client.json"),
        ("client_id", liar),
        ("client_id", large),
        ("client_id", "https://unreachable.example/client.json"),
    ] {
        let response = stage.get(&cookie, &format!("/authorize?{}", query_with(&[change])));
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{change:?}");
        assert!(response.headers.get("location").is_none(), "{change:?}");
        assert!(response.refusal.is_some(), "{change:?} is recorded");
    }
    for (change, error) in [
        (("code_challenge_method", "plain"), "invalid_request"),
        (("code_challenge", ""), "invalid_request"),
        (("response_type", "token"), "unsupported_response_type"),
        (("resource", "https://evil.example/mcp"), "invalid_target"),
    ] {
        let response = stage.get(&cookie, &format!("/authorize?{}", query_with(&[change])));
        let to = response.headers.get("location").unwrap().to_str().unwrap();
        assert!(to.starts_with(&format!("{REDIRECT}?error={error}&")), "{change:?}: {to}");
        assert!(response.refusal.is_some(), "{change:?} is recorded");
    }
}

#[tokio::test]
async fn a_token_request_needs_the_right_verifier_client_and_code() {
    let stage = Stage::with_client();
    let cookie = stage.sign_in(Role::Admin);
    let wrong = "wrong-verifier-wrong-verifier-wrong-verifier";
    for verifier in [wrong, ""] {
        let code = stage.code(&cookie);
        let (status, body) = stage.exchange(&code, verifier);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
    let code = stage.code(&cookie);
    let (status, body) = stage.token(&[
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("client_id", "client_unknown"),
        ("code_verifier", VERIFIER),
    ]);
    assert_eq!((status, &body["error"]), (StatusCode::UNAUTHORIZED, &json!("invalid_client")));
    let (status, body) = stage.exchange("tg_code_guessed", VERIFIER);
    assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")));
}

#[tokio::test]
async fn a_client_registers_signs_in_with_its_secret_and_signs_out() {
    let stage = Stage::with_client();
    let cookie = stage.sign_in(Role::Admin);
    let body =
        json!({ "client_name": "<b>My editor</b>", "redirect_uris": ["http://127.0.0.1/cb"] });
    let (status, client) = stage.program("/register", "application/json", &body.to_string());
    assert_eq!(status, StatusCode::CREATED, "{client}");
    assert_eq!(client["grant_types"], json!(["authorization_code", "refresh_token"]));
    let (id, secret) =
        (client["client_id"].as_str().unwrap(), client["client_secret"].as_str().unwrap());
    let redirect = "http://127.0.0.1:52100/cb";
    let query = query_with(&[("client_id", id), ("redirect_uri", redirect)]);
    let (page, binding) = stage.consent_page(&cookie, &query);
    assert!(
        page.contains("http://127.0.0.1:52100") && page.contains("Any program there"),
        "{page}"
    );
    assert!(!page.contains("<b>My"), "a name is text");
    let form = Stage::sent_form(&page, "server=notes&policy%3Anotes=%3Abuilt-in&decision=allow");
    let response = stage.consent(&cookie, &binding, ORIGIN, &form);
    let to = response.headers.get("location").unwrap().to_str().unwrap();
    let code = to.split_once("code=").unwrap().1.split('&').next().unwrap().to_owned();
    let exchange = |secret: &str, code: &str| {
        stage.token(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("client_id", id),
            ("client_secret", secret),
            ("code_verifier", VERIFIER),
        ])
    };
    assert_eq!(exchange("wrong", &code).1["error"], "invalid_client");
    let (status, tokens) = exchange(secret, &code);
    assert_eq!(status, StatusCode::OK, "{tokens}");
    assert!(stage.registry.grant("b-my-editor-b-1").is_ok());
    let token = tokens["refresh_token"].as_str().unwrap();
    let revoke = |secret: &str| {
        let body = format!("token={token}&client_id={id}&client_secret={secret}");
        stage.program("/revoke", "application/x-www-form-urlencoded", &body).0
    };
    assert_eq!(revoke("wrong"), StatusCode::UNAUTHORIZED);
    assert_eq!(revoke(secret), StatusCode::OK);
    assert!(stage.registry.grant("b-my-editor-b-1").is_err());
}

#[tokio::test]
async fn well_known_documents_are_open_and_name_their_resource() {
    let stage = Stage::new();
    let get = |path: &str| {
        let response = stage.send(
            Method::GET,
            path,
            &[("host", HOST), ("origin", "http://localhost:6274")],
            "",
        );
        assert_eq!(response.status, StatusCode::OK, "{path}");
        serde_json::from_str::<Value>(&text(&response)).unwrap()
    };
    for (path, resource) in [("", "/mcp"), ("/mcp", "/mcp"), ("/mcp/notes", "/mcp/notes")] {
        let document = get(&format!("/.well-known/oauth-protected-resource{path}"));
        assert_eq!(document["resource"], format!("{ORIGIN}{resource}"));
        for kind in ["oauth-authorization-server", "openid-configuration"] {
            let document = get(&format!("/.well-known/{kind}{path}"));
            assert_eq!(document["issuer"], ORIGIN);
            assert_eq!(document["code_challenge_methods_supported"], json!(["S256"]));
        }
    }
    let reach = |path: &str| stage.dashboard.reach(path).unwrap();
    for path in ["/token", "/register", "/revoke", "/.well-known/oauth-protected-resource/mcp"] {
        assert!(reach(path).is_public && reach(path).is_for_programs, "{path}");
    }
    for path in ["/authorize", "/authorize/consent", "/sign-in"] {
        assert!(reach(path).is_public && !reach(path).is_for_programs, "{path}");
    }
    for path in ["/", "/grants", "/audit", "/people", "/events"] {
        assert!(!reach(path).is_public, "{path}");
    }
}
