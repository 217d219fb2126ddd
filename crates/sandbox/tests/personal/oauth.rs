//! Sign-in with Spotify, Reddit and Google: codes, refreshes with and without a new token, expiring consents,
//! devices.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sandbox::TokenKind;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::service_test::{DAY_US, ServiceTest, start};
use crate::wire::{Got, send};

const BACK: &str = "http://127.0.0.1:8765/callback";

/// A service's authorization page, token endpoint and a small API path.
struct SignInPaths {
    name: &'static str,
    page: &'static str,
    token: &'static str,
    read: &'static str,
    scope: &'static str,
    /// The parameter that requests a refresh token.
    offline: &'static str,
}

const SIGN_INS: &[SignInPaths] = &[
    SignInPaths {
        name: "spotify",
        page: "/accounts/authorize",
        token: "/accounts/api/token",
        read: "/api/v1/me",
        scope: "user-read-private",
        offline: "",
    },
    SignInPaths {
        name: "reddit",
        page: "/www/api/v1/authorize",
        token: "/www/api/v1/access_token",
        read: "/oauth/api/v1/me",
        scope: "identity",
        offline: "&duration=permanent",
    },
    SignInPaths {
        name: "youtube",
        page: "/accounts/o/oauth2/v2/auth",
        token: "/oauth2/token",
        read: "/www/youtube/v3/channels?part=id&mine=true",
        scope: "https://www.googleapis.com/auth/youtube.readonly",
        offline: "&access_type=offline",
    },
];

impl SignInPaths {
    fn client(&self) -> String {
        format!("sandbox-{}-client", self.name)
    }

    fn basic(&self) -> String {
        STANDARD.encode(format!("sandbox-{0}-client:sandbox-{0}-secret", self.name))
    }

    fn page(&self, test: &ServiceTest, back: &str, more: &str) -> Got {
        let path = format!(
            "{}?response_type=code&client_id={}&redirect_uri={back}&scope={}&state=abcdefgh{more}",
            self.page,
            self.client(),
            self.scope
        );
        send(test.running.url(), "GET", &path, &[("user-agent", "Mozilla/5.0")], "")
    }

    fn code(&self, test: &ServiceTest, more: &str) -> String {
        let page = self.page(test, BACK, more);
        assert_eq!(page.status, 302, "{}: {}", self.name, page.text());
        let to = url::Url::parse(page.header("location").unwrap()).unwrap();
        to.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned()
    }

    fn exchange(&self, test: &ServiceTest, code: &str) -> Got {
        let form = format!("grant_type=authorization_code&code={code}&redirect_uri={BACK}");
        test.post(self.token, Some(&self.basic()), &form)
    }

    fn refresh(&self, test: &ServiceTest, token: &Value) -> Got {
        let form = format!("grant_type=refresh_token&refresh_token={}", token.as_str().unwrap());
        test.post(self.token, Some(&self.basic()), &form)
    }
}

#[test]
fn a_code_becomes_tokens_and_a_refresh_keeps_the_old_refresh_token() {
    for way in SIGN_INS {
        let mut test = start(way.name);
        let first = way.exchange(&test, &way.code(&test, way.offline)).json();
        assert!(first["refresh_token"].is_string(), "{}", way.name);
        test.bear(first["access_token"].as_str().unwrap());
        assert_eq!(test.get(way.read).status, 200, "{}", way.name);
        test.running.control().expire(TokenKind::Access);
        assert_eq!(test.get(way.read).status, 401, "{}", way.name);
        let second = way.refresh(&test, &first["refresh_token"]).json();
        assert!(second.get("refresh_token").is_none(), "{}", way.name);
        test.bear(second["access_token"].as_str().unwrap());
        assert_eq!(test.get(way.read).status, 200, "{}", way.name);
        assert_eq!(way.refresh(&test, &first["refresh_token"]).status, 200, "{}", way.name);
        let counters = test.running.control().counters();
        assert_eq!((counters.refreshes, counters.refreshes_granted), (2, 2), "{}", way.name);
    }
}

#[test]
fn refresh_tokens_rotate_and_expire_as_configured() {
    for way in SIGN_INS {
        let test = start(way.name);
        test.set(&json!({ "rotation": "strict" }));
        let first = test.running.control().tokens();
        let second = way.refresh(&test, &first["refresh_token"]).json();
        assert_ne!(second["refresh_token"], first["refresh_token"], "{}", way.name);
        let again = way.refresh(&test, &first["refresh_token"]);
        assert_eq!(
            (again.status, again.json()["error"].clone()),
            (400, json!("invalid_grant")),
            "{}",
            way.name
        );
        test.set(&json!({ "refusal_status": 200 }));
        let odd = way.refresh(&test, &first["refresh_token"]);
        assert_eq!(
            (odd.status, odd.json()["error"].clone()),
            (200, json!("invalid_grant")),
            "{}",
            way.name
        );
        test.running.control().expire(TokenKind::Refresh);
        assert!(way.refresh(&test, &second["refresh_token"]).json().get("access_token").is_none());
        test.set(&json!({ "client_known": false }));
        let status = way.refresh(&test, &second["refresh_token"]).status;
        assert_eq!(status, if way.name == "spotify" { 200 } else { 401 }, "{}", way.name);
        assert_eq!(way.page(&test, BACK, "").status, 400, "{}", way.name);
    }
}

#[test]
fn a_wrong_client_gets_the_error_of_its_service() {
    for (way, status, said) in [
        (&SIGN_INS[0], 400, json!("invalid_client")),
        (&SIGN_INS[1], 401, json!(401)),
        (&SIGN_INS[2], 401, json!("invalid_client")),
    ] {
        let test = start(way.name);
        let got = test.post(way.token, Some("YTpi"), "grant_type=refresh_token&refresh_token=x");
        assert_eq!((got.status, got.json()["error"].clone()), (status, said), "{}", way.name);
    }
}

#[test]
fn a_refresh_token_must_be_requested() {
    for way in SIGN_INS.iter().filter(|way| !way.offline.is_empty()) {
        let test = start(way.name);
        let tokens = way.exchange(&test, &way.code(&test, "")).json();
        assert!(tokens["access_token"].is_string() && tokens.get("refresh_token").is_none());
    }
}

#[test]
fn spotify_refuses_localhost_and_accepts_pkce_instead_of_a_secret() {
    let (way, test) = (&SIGN_INS[0], start("spotify"));
    for (back, status) in [
        ("http://localhost:8888/callback", 400),
        ("http://example.com/callback", 400),
        ("http://127.0.0.1:8888/callback", 302),
        ("http://[::1]:8888/callback", 302),
        ("https://example.com/callback", 302),
    ] {
        assert_eq!(way.page(&test, back, "").status, status, "{back}");
    }
    let verifier = "a-verifier-that-is-long-enough-to-be-one-of-them";
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let code = way.code(&test, &format!("&code_challenge_method=S256&code_challenge={challenge}"));
    let client = way.client();
    let form = format!(
        "grant_type=authorization_code&code={code}&redirect_uri={BACK}&client_id={client}&code_verifier={verifier}"
    );
    let first = test.post(way.token, None, &form).json();
    let refresh = |token: &Value| {
        let form = format!(
            "grant_type=refresh_token&client_id={client}&refresh_token={}",
            token.as_str().unwrap()
        );
        test.post(way.token, None, &form)
    };
    let second = refresh(&first["refresh_token"]).json();
    assert!(second["refresh_token"].is_string());
    assert_eq!(refresh(&first["refresh_token"]).json()["error"], "invalid_grant");
    assert_eq!(refresh(&second["refresh_token"]).status, 200);
}

#[test]
fn a_spotify_consent_expires_after_six_months_despite_refreshes() {
    let (way, test) = (&SIGN_INS[0], start("spotify"));
    let tokens = test.running.control().tokens();
    let refresh = || way.refresh(&test, &tokens["refresh_token"]);
    test.running.control().advance(179 * DAY_US);
    assert_eq!(refresh().status, 200);
    test.running.control().advance(DAY_US);
    assert_eq!(
        (refresh().status, refresh().json()["error"].clone()),
        (400, json!("invalid_grant"))
    );
}

#[test]
fn google_reports_the_lifetime_of_a_consent_and_revokes_it() {
    let (way, test) = (&SIGN_INS[2], start("youtube"));
    test.set(&json!({ "refresh_life_s": 604_800 }));
    let tokens = test.running.control().tokens();
    assert_eq!(tokens["refresh_token_expires_in"], 604_800);
    let revoke = |token: &Value| {
        test.post("/oauth2/revoke", None, &format!("token={}", token.as_str().unwrap())).status
    };
    assert_eq!(revoke(&tokens["refresh_token"]), 200);
    assert_eq!(revoke(&tokens["refresh_token"]), 400);
    assert_eq!(way.refresh(&test, &tokens["refresh_token"]).status, 400);
    let reddit = crate::service_test::start("reddit");
    let tokens = reddit.running.control().tokens();
    let form = format!("token={}", tokens["refresh_token"].as_str().unwrap());
    let revoke = |basic: Option<&str>| reddit.post("/www/api/v1/revoke_token", basic, &form).status;
    assert_eq!(
        [revoke(None), revoke(Some(&SIGN_INS[1].basic())), revoke(Some(&SIGN_INS[1].basic()))],
        [401, 204, 204]
    );
    assert_eq!(SIGN_INS[1].refresh(&reddit, &tokens["refresh_token"]).status, 400);
}

/// A pending device sign-in with Google.
struct Device<'a> {
    test: &'a ServiceTest,
    start: Value,
}

impl<'a> Device<'a> {
    fn new(test: &'a ServiceTest) -> Device<'a> {
        let form = format!("client_id=sandbox-youtube-client&scope={}", SIGN_INS[2].scope);
        Device { test, start: test.post("/oauth2/device/code", None, &form).json() }
    }

    fn poll(&self) -> (u16, String) {
        let form = format!(
            "client_id=sandbox-youtube-client&client_secret=sandbox-youtube-secret&device_code={}\
             &grant_type=urn:ietf:params:oauth:grant-type:device_code",
            self.start["device_code"].as_str().unwrap()
        );
        let got = self.test.post("/oauth2/token", None, &form);
        let said = got.json()["error"].as_str().unwrap_or("let in").to_owned();
        self.test.running.control().advance(6_000_000);
        (got.status, said)
    }
}

#[test]
fn a_device_sign_in_waits_and_is_allowed_denied_or_expired() {
    let test = start("youtube");
    let pending = (428, "authorization_pending".to_owned());
    test.set(&json!({ "device_pending": 2 }));
    let device = Device::new(&test);
    assert!(device.start["verification_url"].as_str().unwrap().ends_with("/google/device"));
    assert_eq!([device.poll(), device.poll()], [pending.clone(), pending.clone()]);
    assert_eq!(device.poll(), (200, "let in".to_owned()));
    assert_eq!(device.poll(), (400, "invalid_grant".to_owned()));

    test.set(&json!({ "device_pending": 1, "device_lets_in": false }));
    let device = Device::new(&test);
    assert_eq!(
        [device.poll(), device.poll()],
        [pending.clone(), (403, "access_denied".to_owned())]
    );

    test.set(&json!({ "device_pending": null, "device_interval_s": 10 }));
    let device = Device::new(&test);
    assert_eq!([device.poll(), device.poll()], [pending.clone(), (403, "slow_down".to_owned())]);
    test.running.control().advance(2_000 * 1_000_000);
    assert_eq!(device.poll(), (400, "invalid_grant".to_owned()));

    let device = Device::new(&test);
    let page = |code: &str| test.post("/google/device", None, &format!("user_code={code}")).status;
    let code = device.start["user_code"].as_str().unwrap();
    assert_eq!([page("nonsense"), page(&code.to_lowercase())], [400, 200]);
    assert_eq!(device.poll().0, 200);
    let odd = test.post("/oauth2/device/code", None, "client_id=sandbox-youtube-client&scope=mail");
    assert_eq!((odd.status, odd.json()["error"].clone()), (400, json!("invalid_scope")));
}
