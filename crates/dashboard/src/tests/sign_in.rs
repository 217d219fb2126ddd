//! Sign-in by passkey and at the team's issuer, sessions, and what an attacker would try with each.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use store::registry::SignInMethod;
use store::settings::oidc::Admitted;

use super::*;
use crate::passkey::tests::{Device, GOOD_FLAGS, HAS_CREDENTIAL, client, credential, data, object};

const LOCALHOST: &str = "localhost:4180";

/// The value of an attribute on a page.
fn attribute(page: &str, name: &str) -> String {
    let start = format!("{name}=\"");
    let at = page.find(&start).unwrap_or_else(|| panic!("no {name}: {page}")) + start.len();
    page[at..].split('"').next().unwrap().to_owned()
}

fn cookie_of(response: &Response) -> Option<String> {
    let set = response.headers.get("set-cookie")?.to_str().ok()?;
    set.strip_prefix("tollgate_session=")?.split(';').next().map(str::to_owned)
}

fn encoded(pairs: &[(&str, Vec<u8>)]) -> String {
    let pairs =
        pairs.iter().map(|(name, value)| format!("{name}={}", URL_SAFE_NO_PAD.encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

impl Stage {
    fn get_at(&self, host: &str, cookie: &str, path: &str) -> Response {
        let cookie = format!("tollgate_session={cookie}");
        self.send(Method::GET, path, &[("host", host), ("cookie", &cookie)], "")
    }

    fn post_at(&self, host: &str, cookie: &str, path: &str, form: &str) -> Response {
        let body = format!("csrf={}&{form}", csrf::token(cookie));
        let (cookie, origin) = (format!("tollgate_session={cookie}"), format!("http://{host}"));
        let headers = [("host", host), ("origin", origin.as_str()), ("cookie", cookie.as_str())];
        self.send(Method::POST, path, &headers, &body)
    }

    /// Adds a passkey as the page of this session would; returns the user handle.
    fn add_passkey(&self, cookie: &str, device: &Device, id: &[u8]) -> Vec<u8> {
        let page = text(&self.get_at(LOCALHOST, cookie, "/your-sign-in"));
        let challenge = URL_SAFE_NO_PAD.decode(attribute(&page, "data-challenge")).unwrap();
        let flags = GOOD_FLAGS | HAS_CREDENTIAL;
        let data = data("localhost", flags, 0, &credential(id, &device.cose()));
        let form = encoded(&[
            ("client_data", client("webauthn.create", &challenge).to_string().into_bytes()),
            ("attestation", object("none", &[0xa0], &data)),
        ]);
        let added =
            self.post_at(LOCALHOST, cookie, "/your-sign-in/passkeys", &format!("name=key&{form}"));
        assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", text(&added));
        URL_SAFE_NO_PAD.decode(attribute(&page, "data-user")).unwrap()
    }

    /// The form of a sign-in with a new challenge.
    fn passkey_form(&self, device: &Device, id: &[u8], handle: &[u8], count: u32) -> String {
        let page = text(&self.get_at(LOCALHOST, "", "/sign-in"));
        let challenge = URL_SAFE_NO_PAD.decode(attribute(&page, "data-challenge")).unwrap();
        let client_data = client("webauthn.get", &challenge).to_string().into_bytes();
        let data = data("localhost", GOOD_FLAGS, count, &[]);
        let signature = device.sign(&data, &client_data);
        encoded(&[
            ("id", id.to_vec()),
            ("client_data", client_data),
            ("authenticator_data", data),
            ("signature", signature),
            ("user_handle", handle.to_vec()),
        ])
    }

    fn send_passkey(&self, form: &str) -> Response {
        let origin = format!("http://{LOCALHOST}");
        let headers = [("host", LOCALHOST), ("origin", origin.as_str())];
        self.send(Method::POST, "/sign-in/passkey", &headers, form)
    }
}

#[tokio::test]
async fn a_passkey_signs_in_until_it_is_removed() {
    let stage = Stage::new();
    let owner = stage.sign_in(Role::Admin);
    let viewer = stage.sign_in(Role::Viewer);
    let (device, other) = (Device::new(), Device::new());
    let handle = stage.add_passkey(&owner, &device, b"one");
    let others_handle = stage.add_passkey(&viewer, &other, b"two");

    let form = stage.passkey_form(&device, b"one", &handle, 5);
    let signed_in = stage.send_passkey(&form);
    assert_eq!(signed_in.status, StatusCode::SEE_OTHER, "{}", text(&signed_in));
    let cookie = cookie_of(&signed_in).unwrap();
    assert_eq!(stage.get_at(LOCALHOST, &cookie, "/").status, StatusCode::OK);
    let session = stage.registry.browser_session(&cookie, stage.now_us()).unwrap().unwrap();
    assert_eq!((session.person.name.as_str(), session.method), (OWNER, SignInMethod::Passkey));

    let refused = |form: &str, why: &str| {
        let response = stage.send_passkey(form);
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{why}");
        assert!(cookie_of(&response).is_none(), "{why}");
        let reason = response.refusal.unwrap_or_default();
        assert!(reason.contains(why), "{reason}");
    };
    refused(&form, "challenge was used before");
    refused(&stage.passkey_form(&device, b"one", &handle, 5), "counter went back");
    refused(&stage.passkey_form(&device, b"one", &others_handle, 9), "another person");
    refused(&stage.passkey_form(&other, b"one", &handle, 9), "signature");
    refused(&stage.passkey_form(&device, b"none", &handle, 9), "not known here");
    refused("id=1", "cannot be read");
    assert_eq!(
        stage.send_passkey(&stage.passkey_form(&device, b"one", &handle, 6)).status,
        StatusCode::SEE_OTHER
    );

    let number = stage.registry.passkeys(OWNER).unwrap()[0].number;
    let path = format!("/your-sign-in/passkeys/{number}/remove");
    assert_eq!(
        stage.post(&viewer, &path, "").status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "not theirs"
    );
    assert_eq!(stage.post(&owner, &path, "").status, StatusCode::SEE_OTHER);
    refused(&stage.passkey_form(&device, b"one", &handle, 10), "not known here, or was removed");
}

#[tokio::test]
async fn a_passkey_form_of_another_session_or_host_is_refused() {
    let stage = Stage::new();
    let (owner, viewer) = (stage.sign_in(Role::Admin), stage.sign_in(Role::Viewer));
    let device = Device::new();
    let page = text(&stage.get_at(LOCALHOST, &owner, "/your-sign-in"));
    let challenge = URL_SAFE_NO_PAD.decode(attribute(&page, "data-challenge")).unwrap();
    let data =
        data("localhost", GOOD_FLAGS | HAS_CREDENTIAL, 0, &credential(b"one", &device.cose()));
    let form = encoded(&[
        ("client_data", client("webauthn.create", &challenge).to_string().into_bytes()),
        ("attestation", object("none", &[0xa0], &data)),
    ]);
    let form = format!("name=key&{form}");
    for (host, cookie) in [(LOCALHOST, &viewer), (HOST, &owner), ("gate.example", &owner)] {
        let answer = stage.post_at(host, cookie, "/your-sign-in/passkeys", &form);
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{host}");
    }
    assert!(stage.registry.passkeys(OWNER).unwrap().is_empty());
    let at_numbers = text(&stage.get(&owner, "/your-sign-in"));
    assert!(at_numbers.contains("Continue at http://localhost:4180"), "{at_numbers}");
    let there = stage.post(&owner, "/your-sign-in/localhost", "");
    let location = there.headers.get("location").unwrap().to_str().unwrap();
    assert!(location.starts_with("http://localhost:4180/sign-in?token="), "{location}");
}

#[tokio::test]
async fn failed_sign_ins_of_an_address_are_bounded_and_a_valid_link_still_works() {
    let stage = Stage::new();
    let headers = [("host", HOST), ("origin", ORIGIN)];
    let attempt =
        |token: &str| stage.send(Method::POST, "/sign-in", &headers, &format!("token={token}"));
    for _ in 0..10 {
        assert_eq!(attempt("tg_link_guessed").status, StatusCode::UNAUTHORIZED);
    }
    // On a slow machine one more may have been forgiven.
    let limited = |send: &dyn Fn() -> Response| {
        let mut responses = std::iter::repeat_with(send).take(1_000);
        responses.find(|response| response.status == StatusCode::TOO_MANY_REQUESTS).unwrap()
    };
    let response = limited(&|| attempt("tg_link_guessed"));
    assert!(response.headers.contains_key("retry-after") && response.refusal.is_none());
    limited(&|| stage.send_passkey("id=1"));
    let link = stage.registry.create_sign_in_link(OWNER, stage.now_us()).unwrap();
    assert_eq!(attempt(link.expose()).status, StatusCode::SEE_OTHER);
    assert_eq!(attempt("tg_link_guessed").status, StatusCode::UNAUTHORIZED, "forgiven");
}

#[tokio::test]
async fn a_cookie_from_before_the_sign_in_is_worth_nothing() {
    let stage = Stage::new();
    let before = stage.sign_in(Role::Viewer);
    for planted in [before.as_str(), "tg_session_chosen_by_an_attacker"] {
        let link = stage.registry.create_sign_in_link(OWNER, stage.now_us()).unwrap();
        let jar = format!("tollgate_session={planted}");
        let headers = [("host", HOST), ("origin", ORIGIN), ("cookie", jar.as_str())];
        let signed_in =
            stage.send(Method::POST, "/sign-in", &headers, &format!("token={}", link.expose()));
        let cookie = cookie_of(&signed_in).unwrap();
        assert_ne!(cookie, planted);
        assert_eq!(stage.get(planted, "/").status, StatusCode::UNAUTHORIZED);
        assert_eq!(stage.get(&cookie, "/").status, StatusCode::OK);
    }
}

#[tokio::test]
async fn sessions_are_listed_and_an_admin_ends_those_of_others() {
    let stage = Stage::new();
    let (owner, viewer) = (stage.sign_in(Role::Admin), stage.sign_in(Role::Viewer));
    let page: Value =
        serde_json::from_str(&text(&stage.get(&viewer, "/your-sign-in.json"))).unwrap();
    assert_eq!(page["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(page["sessions"][0]["is_current"], true);
    assert!(!page.to_string().contains(&viewer), "no cookie on a page");
    let of_other = stage.get(&owner, "/people/a-viewer.json");
    let of_other: Value = serde_json::from_str(&text(&of_other)).unwrap();
    assert_eq!(of_other["sessions"][0]["method"], "link");

    assert_eq!(stage.post(&viewer, "/people/owner/sign-out", "").status, StatusCode::FORBIDDEN);
    assert_eq!(stage.post(&owner, "/people/a-viewer/sign-out", "").status, StatusCode::SEE_OTHER);
    assert_eq!(stage.get(&viewer, "/").status, StatusCode::UNAUTHORIZED);
    assert_eq!(stage.get(&owner, "/").status, StatusCode::OK);

    let id = store::registry::session_id(&owner);
    let ended = stage.post(&owner, &format!("/your-sign-in/sessions/{id}/end"), "");
    assert_eq!(ended.status, StatusCode::SEE_OTHER);
    assert_eq!(stage.get(&owner, "/").status, StatusCode::UNAUTHORIZED);
}

fn team_stage() -> Stage {
    let domains = Admitted { domains: vec!["example.com".to_owned()], ..Admitted::default() };
    let oidc = OidcSettings {
        issuer: "https://id.example".to_owned(),
        client_id: "gate".to_owned(),
        client_secret: None,
        label: "Example".to_owned(),
        redirect_uri: None,
        scopes: Vec::new(),
        roles: vec![(Role::Viewer, domains)],
    };
    let mut settings = Settings::default();
    settings.oidc = Some(oidc);
    Stage::with(settings)
}

impl Stage {
    fn issuer_says(&self, subject: &str, claims: Value) {
        *self.team.0.lock().unwrap() = Some(Claims { subject: subject.to_owned(), all: claims });
    }

    /// Begins a sign-in at the issuer: its state and the cookie of this browser.
    fn begin_team(&self) -> (String, String) {
        let begun = self.send(Method::GET, "/sign-in/oidc", &[("host", HOST)], "");
        assert_eq!(begun.status, StatusCode::SEE_OTHER, "{}", text(&begun));
        let location = begun.headers.get("location").unwrap().to_str().unwrap();
        let state = location.strip_prefix("https://id.example/authorize?state=").unwrap();
        let cookie = begun.headers.get("set-cookie").unwrap().to_str().unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
        (state.to_owned(), cookie.split(';').next().unwrap().to_owned())
    }

    fn finish_team(&self, state: &str, cookie: &str) -> Response {
        let path = format!("/sign-in/oidc/callback?code=c&state={state}");
        self.send(Method::GET, &path, &[("host", HOST), ("cookie", cookie)], "")
    }
}

#[tokio::test]
async fn the_issuer_signs_in_whom_the_mapping_admits() {
    let stage = team_stage();
    stage.issuer_says("1", json!({ "email": "Bob@example.com", "email_verified": true }));
    let (state, browser) = stage.begin_team();
    let signed_in = stage.finish_team(&state, &browser);
    assert_eq!(signed_in.status, StatusCode::OK, "{}", text(&signed_in));
    assert!(text(&signed_in).contains("http-equiv=\"refresh\""), "cookies are Strict");
    let cookie = cookie_of(&signed_in).unwrap();
    assert_eq!(stage.get(&cookie, "/").status, StatusCode::OK);
    assert_eq!(stage.post(&cookie, "/people", "name=x&role=admin").status, StatusCode::FORBIDDEN);
    assert_eq!(stage.get(&cookie, "/people/owner").status, StatusCode::FORBIDDEN);

    // The issuer could not take a passkey away, so there is none.
    assert!(!text(&stage.get_at(LOCALHOST, &cookie, "/your-sign-in")).contains("data-passkey"));
    let added = stage.post_at(LOCALHOST, &cookie, "/your-sign-in/passkeys", "name=key");
    assert_eq!(added.status, StatusCode::UNPROCESSABLE_ENTITY);

    stage.registry.remove_person("bob@example.com", stage.now_us()).unwrap();
    assert_eq!(stage.get(&cookie, "/").status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_redirect_works_once_in_the_browser_that_began_it() {
    let stage = team_stage();
    stage.issuer_says("1", json!({ "email": "bob@example.com", "email_verified": true }));
    let refused = |response: Response, why: &str| {
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{why}");
        assert!(cookie_of(&response).is_none());
        let reason = response.refusal.unwrap_or_default();
        assert!(reason.contains(why), "{reason}");
    };
    refused(stage.finish_team("made-up", "tollgate_team=x"), "not begun here");
    let (state, _) = stage.begin_team();
    refused(stage.finish_team(&state, "tollgate_team=another"), "another browser");
    let (state, browser) = stage.begin_team();
    assert_eq!(stage.finish_team(&state, &browser).status, StatusCode::OK);
    refused(stage.finish_team(&state, &browser), "finished before");
    *stage.team.0.lock().unwrap() = None;
    let (state, browser) = stage.begin_team();
    refused(stage.finish_team(&state, &browser), "the ID token was refused");
}

#[tokio::test]
async fn an_unknown_person_is_refused_and_logged() {
    let stage = team_stage();
    stage.registry.add_person("ann", Role::Auditor, Some("ann@other.example"), 0).unwrap();
    let sign_in = |subject: &str, claims: Value| {
        stage.issuer_says(subject, claims);
        let (state, browser) = stage.begin_team();
        stage.finish_team(&state, &browser)
    };
    let unverified = json!({ "email": "ann@other.example" });
    let stranger = json!({ "email": "eve@evil.example", "email_verified": true });
    for (subject, claims, named) in [("7", unverified, "`7`"), ("8", stranger, "eve@evil.example")]
    {
        let response = sign_in(subject, claims);
        assert_eq!(response.status, StatusCode::FORBIDDEN);
        assert!(cookie_of(&response).is_none());
        assert!(response.refusal.unwrap_or_default().contains(named), "{named}");
    }
    let ann = json!({ "email": "ann@other.example", "email_verified": true });
    let signed_in = sign_in("9", ann.clone());
    let cookie = cookie_of(&signed_in).unwrap();
    let session = stage.registry.browser_session(&cookie, stage.now_us()).unwrap().unwrap();
    assert_eq!((session.person.name.as_str(), session.person.role), ("ann", Role::Auditor));
    assert_eq!(sign_in("10", ann).status, StatusCode::FORBIDDEN, "another account there");
}

#[tokio::test]
async fn an_issuer_is_begun_at_its_own_host_and_not_by_other_sites() {
    let stage = team_stage();
    for headers in
        [vec![("host", LOCALHOST)], vec![("host", HOST), ("sec-fetch-site", "cross-site")]]
    {
        let begun = stage.send(Method::GET, "/sign-in/oidc", &headers, "");
        assert_eq!(begun.headers.get("location").unwrap(), "/sign-in", "{headers:?}");
        assert!(!begun.headers.contains_key("set-cookie"));
    }
    let page = text(&stage.get_at(LOCALHOST, "", "/"));
    assert!(page.contains("href=\"http://127.0.0.1:4180/sign-in\""), "{page}");
    assert!(text(&stage.get("", "/")).contains("href=\"/sign-in/oidc\""));
    let without = Stage::new();
    let begun = without.send(Method::GET, "/sign-in/oidc", &[("host", HOST)], "");
    assert_eq!(begun.status, StatusCode::NOT_FOUND);
}
