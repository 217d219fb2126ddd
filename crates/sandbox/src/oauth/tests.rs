//! The provider without a socket: codes, PKCE, client authentication, rotation, devices.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    Client, ClientAuth, Consent, DeviceRules, Offline, Provider, Rotation, Rules, TokenKind,
};
use crate::http::{Request, Response};

const BACK: &str = "http://127.0.0.1:9/callback";

fn rules() -> Rules {
    Rules {
        offline: Offline::Scope("offline"),
        state_chars_min: 8,
        device: Some(DeviceRules {
            life_s: 1_800,
            interval_s: 5,
            pending_status: 428,
            refused_status: 403,
            pending: None,
            lets_in: true,
        }),
        ..Rules::default()
    }
}

fn provider(rules: Rules) -> Provider {
    let client = Client {
        id: "app".into(),
        secret: "hush".into(),
        redirects: vec![BACK.into()],
        scopes: vec!["read".into(), "offline".into()],
    };
    Provider::new(1, client, rules, "/auth")
}

fn ask(method: &str, query: &[(&str, &str)], form: &[(&str, &str)], bearer: &str) -> Request {
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    let mut headers = hyper::HeaderMap::new();
    headers.insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
    if !bearer.is_empty() {
        headers.insert("authorization", bearer.parse().unwrap());
    }
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    Request {
        method: method.into(),
        path: "/".into(),
        query: owned(query),
        headers,
        body: body.into(),
    }
}

fn said(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap().to_owned()
}

/// A parameter of the redirect.
fn returned(response: &Response, name: &str) -> Option<String> {
    let (_, to) = response.headers.iter().find(|(name, _)| *name == "location")?;
    let url = url::Url::parse(to).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn authorise(provider: &Provider, more: &[(&str, &str)]) -> Response {
    let mut query = vec![
        ("response_type", "code"),
        ("client_id", "app"),
        ("redirect_uri", BACK),
        ("scope", "read offline"),
        ("state", "12345678"),
    ];
    query.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
    query.extend(more);
    provider.authorise(&ask("GET", &query, &[], ""), 0)
}

fn token(provider: &Provider, form: &[(&str, &str)], now_us: i64) -> Response {
    let mut form = form.to_vec();
    form.extend([("client_id", "app"), ("client_secret", "hush")]);
    provider.token(&ask("POST", &[], &form, ""), now_us)
}

fn exchange(provider: &Provider, code: &str, more: &[(&str, &str)]) -> Response {
    let mut form =
        vec![("grant_type", "authorization_code"), ("code", code), ("redirect_uri", BACK)];
    form.extend(more);
    token(provider, &form, 0)
}

fn refresh(provider: &Provider, refresh: &str) -> Response {
    token(provider, &[("grant_type", "refresh_token"), ("refresh_token", refresh)], 0)
}

fn error(response: &Response) -> (u16, String) {
    (response.status, text(&said(response), "error"))
}

fn good(provider: &Provider, access: &str, now_us: i64) -> bool {
    provider.authenticate(&ask("GET", &[], &[], &format!("Bearer {access}")), now_us).is_some()
}

#[test]
fn a_code_is_valid_once() {
    let provider = provider(rules());
    let response = authorise(&provider, &[]);
    assert_eq!(response.status, 302);
    assert_eq!(returned(&response, "state").as_deref(), Some("12345678"));
    let code = returned(&response, "code").unwrap();
    let body = said(&exchange(&provider, &code, &[]));
    assert_eq!(text(&body, "token_type"), "bearer");
    assert_eq!(text(&body, "scope"), "read offline");
    assert!(good(&provider, &text(&body, "access_token"), 0));
    assert_eq!(error(&exchange(&provider, &code, &[])), (400, "invalid_grant".into()));
}

#[test]
fn errors_of_a_request_go_to_the_client_or_stay_on_the_page() {
    let provider = provider(rules());
    for (change, error) in [
        (("state", "short"), "invalid_state"),
        (("scope", "read write"), "invalid_scope"),
        (("response_type", "token"), "unsupported_response_type"),
        (("code_challenge", "x"), "invalid_request"),
    ] {
        let response = authorise(&provider, &[change]);
        assert_eq!(returned(&response, "error").as_deref(), Some(error), "{change:?}");
        assert_eq!(returned(&response, "code"), None);
    }
    for change in [("client_id", "other"), ("redirect_uri", "http://127.0.0.1:9/other")] {
        let response = authorise(&provider, &[change]);
        assert_eq!((response.status, returned(&response, "error")), (400, None), "{change:?}");
    }
}

#[test]
fn a_pkce_challenge_is_checked() {
    let provider = provider(rules());
    let verifier = "a-verifier-of-the-length-that-is-asked-for-0123456789";
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    let pkce = [("code_challenge", challenge.as_str()), ("code_challenge_method", "S256")];
    let code = || returned(&authorise(&provider, &pkce), "code").unwrap();
    let right = exchange(&provider, &code(), &[("code_verifier", verifier)]);
    assert_eq!(right.status, 200);
    let wrong = exchange(&provider, &code(), &[("code_verifier", "wrong")]);
    assert_eq!(error(&wrong), (400, "invalid_grant".into()));
    assert_eq!(error(&exchange(&provider, &code(), &[])), (400, "invalid_grant".into()));
}

#[test]
fn the_secret_must_be_where_the_rules_say() {
    let basic = format!("Basic {}", STANDARD.encode("app:hush"));
    let form = [("grant_type", "refresh_token"), ("refresh_token", "unknown")];
    let in_body = [("client_id", "app"), ("client_secret", "hush")];
    for (rule, header, body) in [
        (ClientAuth::Body, "invalid_client", "invalid_grant"),
        (ClientAuth::Basic, "invalid_grant", "invalid_client"),
        (ClientAuth::Either, "invalid_grant", "invalid_grant"),
    ] {
        let provider = provider(Rules { client_auth: rule, ..rules() });
        let with_header = provider.token(&ask("POST", &[], &form, &basic), 0);
        assert_eq!(error(&with_header).1, header, "{rule:?}");
        let with_body = provider.token(&ask("POST", &[], &[form, in_body].concat(), ""), 0);
        assert_eq!(error(&with_body).1, body, "{rule:?}");
    }
}

#[test]
fn a_refresh_invalidates_tokens_by_the_rules() {
    for (rotation, old_access, old_refresh, new_refresh) in [
        (Rotation::Strict, false, false, true),
        (Rotation::Gentle, true, true, true),
        (Rotation::Kept, true, true, false),
    ] {
        let provider = provider(Rules { rotation, ..rules() });
        let first = provider.grant(vec!["offline".into()], 0);
        let second = said(&refresh(&provider, &text(&first, "refresh_token")));
        assert!(good(&provider, &text(&second, "access_token"), 0));
        assert_eq!(second.get("refresh_token").is_some(), new_refresh, "{rotation:?}");
        assert_eq!(good(&provider, &text(&first, "access_token"), 0), old_access, "{rotation:?}");
        let again = refresh(&provider, &text(&first, "refresh_token"));
        assert_eq!(again.status == 200, old_refresh, "{rotation:?}");
    }
}

#[test]
fn a_used_token_gets_the_configured_error() {
    let provider = provider(rules());
    provider.set(&serde_json::json!({ "reused": "invalid_request" })).unwrap();
    assert_eq!(error(&refresh(&provider, "unknown")), (400, "invalid_request".into()));
}

#[test]
fn without_offline_access_there_is_no_refresh_token() {
    let provider = provider(rules());
    assert!(provider.grant(vec!["read".into()], 0).get("refresh_token").is_none());
}

#[test]
fn tokens_expire_by_time_and_by_control() {
    let provider = provider(rules());
    let tokens = provider.grant(vec!["offline".into()], 0);
    let access = text(&tokens, "access_token");
    assert!(good(&provider, &access, 3_599_999_999));
    assert!(!good(&provider, &access, 3_600_000_000));
    provider.expire(TokenKind::Access);
    assert!(!good(&provider, &access, 0));
    assert_eq!(refresh(&provider, &text(&tokens, "refresh_token")).status, 200);
}

#[test]
fn the_owner_can_decide_on_a_page() {
    let provider = provider(Rules { consent: Consent::Form, ..rules() });
    let page = authorise(&provider, &[("state", "\"<12345678>")]);
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(html.contains("value=\"&quot;&lt;12345678>\""), "{html}");
    let allowed = authorise(&provider, &[("decision", "allow")]);
    assert!(returned(&allowed, "code").is_some());
    let refused = authorise(&provider, &[("decision", "refuse")]);
    assert_eq!(returned(&refused, "error").as_deref(), Some("access_denied"));
}

#[test]
fn a_device_waits_for_the_owners_decision() {
    let provider = provider(rules());
    let request = ask("POST", &[], &[("client_id", "app"), ("scope", "offline")], "");
    let start = said(&provider.device_code(&request, 0));
    let code = text(&start, "device_code");
    let grant = "urn:ietf:params:oauth:grant-type:device_code";
    let poll = |at_s: i64| {
        token(&provider, &[("grant_type", grant), ("device_code", &code)], at_s * 1_000_000)
    };
    assert_eq!(error(&poll(0)), (428, "authorization_pending".into()));
    assert_eq!(error(&poll(1)), (403, "slow_down".into()));
    assert_eq!(error(&poll(10)), (428, "authorization_pending".into()));
    provider.decide_device(&text(&start, "user_code"), true).unwrap();
    assert_eq!(poll(20).status, 200);
    assert_eq!(error(&poll(30)), (400, "invalid_grant".into()));
}
