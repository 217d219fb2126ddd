//! Sign-ins of OAuth clients: a code works once, refresh tokens rotate, and everything ends with the grant.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its fixture should fail loudly")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{ALLOW_ALL, Fixture, NOW_US, SECOND_US};
use oauth::server::{ACCESS_SECONDS_MAX, CODE_SECONDS_MAX, ClientMetadata, SecretUse};
use proptest::prelude::*;
use store::effective::Lookup;
use store::registry::oauth::UNUSED_CLIENTS_MAX;
use store::registry::{
    CodeExchange, FileNames, IssuedTokens, NewSignIn, Registry, ServerAccess, SignInFault,
    SignInTokens,
};

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const REDIRECT: &str = "https://claude.ai/api/mcp/auth_callback";
const CLIENT: &str = "https://claude.ai/oauth/client";

type Change = fn(&mut CodeExchange<'_>);
type End = fn(&Registry);

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.add_builtin("notes");
    fixture.put_policy("p", ALLOW_ALL).unwrap();
    fixture
}

fn new_sign_in() -> NewSignIn {
    NewSignIn {
        label_base: "claude-ai".to_owned(),
        server_access: vec![ServerAccess {
            server: "notes".to_owned(),
            policy: Some("p".to_owned()),
        }],
        expires_at_us: None,
        client_id: CLIENT.to_owned(),
        client_name: "Claude".to_owned(),
        audience: "/mcp".to_owned(),
        redirect_uri: REDIRECT.to_owned(),
        code_challenge: oauth::pkce::challenge(VERIFIER),
    }
}

fn code(registry: &Registry, now_us: i64) -> String {
    let made = registry.create_sign_in(&new_sign_in(), &FileNames::default(), now_us).unwrap();
    made.1.expose().to_owned()
}

fn exchange(code: &str) -> CodeExchange<'_> {
    CodeExchange {
        code,
        client_id: CLIENT,
        redirect_uri: Some(REDIRECT),
        verifier: VERIFIER,
        audience: Some("/mcp"),
    }
}

fn signed_in(registry: &Registry, now_us: i64) -> IssuedTokens {
    let code = code(registry, now_us);
    registry.exchange_code(&exchange(&code), now_us).unwrap().ok().unwrap()
}

fn fault(tokens: SignInTokens) -> Option<SignInFault> {
    tokens.err()
}

fn refresh(registry: &Registry, token: &str, now_us: i64) -> SignInTokens {
    registry.refresh_sign_in(token, CLIENT, None, now_us).unwrap()
}

fn is_active(fixture: &Fixture, token: &str, now_us: i64) -> bool {
    matches!(fixture.effective().lookup(token, now_us), Lookup::Active(_))
}

#[test]
fn consent_makes_a_grant_whose_tokens_are_bound_to_a_resource() {
    let fixture = fixture();
    let tokens = signed_in(&fixture.registry, NOW_US);
    assert_eq!(tokens.label, "claude-ai-1");
    assert_eq!(tokens.access_seconds, ACCESS_SECONDS_MAX);
    let grant = fixture.registry.grant("claude-ai-1").unwrap();
    assert_eq!(grant.kind(), "oauth");
    assert_eq!(grant.client.unwrap().id, CLIENT);
    let effective = fixture.effective();
    assert!(matches!(effective.lookup(tokens.access.expose(), NOW_US), Lookup::Active(_)));
    let live: Vec<_> = effective.live_tokens(NOW_US).collect();
    assert_eq!(live.first().unwrap().audience.as_deref(), Some("/mcp"));
    let end_us = NOW_US + ACCESS_SECONDS_MAX * SECOND_US;
    assert!(!is_active(&fixture, tokens.access.expose(), end_us), "an access token expires");
    let refresh = tokens.refresh.unwrap();
    assert!(!is_active(&fixture, refresh.expose(), NOW_US), "a refresh token opens nothing");
    assert_eq!(signed_in(&fixture.registry, NOW_US).label, "claude-ai-2");
}

#[test]
fn a_code_is_exchanged_once_by_its_client_with_its_verifier() {
    let fixture = fixture();
    let registry = &fixture.registry;
    let table: [(Change, i64, SignInFault); 6] = [
        (
            |one| one.verifier = "wrong-verifier-wrong-verifier-wrong-verifier",
            0,
            SignInFault::WrongVerifier,
        ),
        (|one| one.verifier = "", 0, SignInFault::WrongVerifier),
        (|one| one.client_id = "client_other", 0, SignInFault::OtherClient),
        (|one| one.redirect_uri = Some("https://evil.example/"), 0, SignInFault::OtherRedirect),
        (|one| one.audience = Some("/mcp/notes"), 0, SignInFault::OtherResource),
        (|_| (), CODE_SECONDS_MAX * SECOND_US, SignInFault::Expired),
    ];
    for (change, later_us, expected) in table {
        let code = code(registry, NOW_US);
        let mut one = exchange(&code);
        change(&mut one);
        assert_eq!(fault(registry.exchange_code(&one, NOW_US + later_us).unwrap()), Some(expected));
        let again = registry.exchange_code(&exchange(&code), NOW_US).unwrap();
        assert_eq!(
            fault(again),
            Some(SignInFault::CodeReused),
            "a failed exchange uses the code up"
        );
    }
    let unknown = registry.exchange_code(&exchange("tg_code_guessed"), NOW_US).unwrap();
    assert_eq!(fault(unknown), Some(SignInFault::Unknown));
}

#[test]
fn a_second_use_of_a_code_revokes_what_the_first_gave() {
    let fixture = fixture();
    let registry = &fixture.registry;
    let code = code(registry, NOW_US);
    let tokens = registry.exchange_code(&exchange(&code), NOW_US).unwrap().ok().unwrap();
    assert!(is_active(&fixture, tokens.access.expose(), NOW_US));
    let again = registry.exchange_code(&exchange(&code), NOW_US + 1).unwrap();
    assert_eq!(fault(again), Some(SignInFault::CodeReused));
    assert!(!is_active(&fixture, tokens.access.expose(), NOW_US + 1));
    let next = refresh(registry, tokens.refresh.unwrap().expose(), NOW_US + 2);
    assert_eq!(fault(next), Some(SignInFault::GrantEnded));
}

#[test]
fn a_grant_that_is_revoked_rotated_or_expired_ends_its_tokens() {
    let ends: [(&str, End); 3] = [
        ("revoked", |registry| registry.revoke_grant("claude-ai-1", NOW_US).unwrap()),
        ("rotated", |registry| {
            registry.rotate_grant("claude-ai-1", 3600, NOW_US).unwrap();
        }),
        ("expired", |registry| {
            registry.set_expiry("claude-ai-1", Some(NOW_US + 1), NOW_US).unwrap();
        }),
    ];
    for (word, end) in ends {
        let fixture = fixture();
        let tokens = signed_in(&fixture.registry, NOW_US);
        end(&fixture.registry);
        assert!(!is_active(&fixture, tokens.access.expose(), NOW_US + 1), "{word}");
        let next = refresh(&fixture.registry, tokens.refresh.unwrap().expose(), NOW_US + 1);
        assert!(next.is_err(), "{word}");
    }
}

#[test]
fn a_client_can_sign_out_and_only_itself() {
    let fixture = fixture();
    let registry = &fixture.registry;
    let tokens = signed_in(registry, NOW_US);
    let refresh_token = tokens.refresh.unwrap();
    let revoke =
        |token: &str, client: &str| registry.revoke_sign_in(token, client, NOW_US).unwrap();
    assert_eq!(revoke(refresh_token.expose(), "client_other"), None);
    assert_eq!(revoke("tg_refresh_guessed", CLIENT), None);
    assert!(is_active(&fixture, tokens.access.expose(), NOW_US));
    assert_eq!(revoke(tokens.access.expose(), CLIENT).as_deref(), Some("claude-ai-1"));
    assert!(!is_active(&fixture, tokens.access.expose(), NOW_US));
    assert!(refresh(registry, refresh_token.expose(), NOW_US).is_err());
}

#[test]
fn a_grant_without_an_exchanged_code_is_revoked_at_the_next_sign_in() {
    let fixture = fixture();
    let registry = &fixture.registry;
    code(registry, NOW_US);
    assert_eq!(registry.grant("claude-ai-1").unwrap().kind(), "oauth");
    let later_us = NOW_US + CODE_SECONDS_MAX * SECOND_US;
    assert_eq!(signed_in(registry, later_us).label, "claude-ai-1", "the label is free again");
}

#[test]
fn registrations_are_bounded_and_expire_unless_used() {
    let fixture = fixture();
    let registry = &fixture.registry;
    let metadata = ClientMetadata {
        name: "x".to_owned(),
        redirect_uris: vec![REDIRECT.to_owned()],
        secret_use: SecretUse::ClientSecretPost,
        echoed: serde_json::Map::new(),
    };
    let register = |now_us| registry.register_oauth_client(&metadata, now_us).unwrap();
    let used = register(NOW_US).unwrap();
    let client = registry.oauth_client(&used.id, NOW_US).unwrap().unwrap();
    let secret = used.secret.unwrap();
    assert!(client.is_proven_by(Some(secret.expose())));
    assert!(!client.is_proven_by(None) && !client.is_proven_by(Some("x")));
    let sign_in = NewSignIn { client_id: used.id.clone(), ..new_sign_in() };
    registry.create_sign_in(&sign_in, &FileNames::default(), NOW_US).unwrap();

    let first = register(NOW_US).unwrap();
    for _ in 1..UNUSED_CLIENTS_MAX {
        register(NOW_US + 1).unwrap();
    }
    assert!(register(NOW_US + 2).is_none(), "a flood is refused");
    let later_us = NOW_US + 601 * SECOND_US;
    assert!(registry.oauth_client(&first.id, later_us).unwrap().is_some());
    assert!(register(later_us).is_some(), "an old unused registration makes space");
    assert!(registry.oauth_client(&first.id, later_us).unwrap().is_none());
    let next_day_us = NOW_US + 86_400 * SECOND_US;
    assert!(register(next_day_us).is_some());
    assert!(registry.oauth_client(&used.id, next_day_us).unwrap().is_some(), "it was used");
}

/// The obvious model: every refresh token with the time it was replaced, and whether the sign-in has ended.
#[derive(Default)]
struct Model {
    replaced_at_us: Vec<Option<i64>>,
    has_ended: bool,
}

impl Model {
    /// Whether there are tokens, and whether a refresh token is among them.
    fn present(&mut self, index: usize, now_us: i64) -> Option<bool> {
        if self.has_ended {
            return None;
        }
        let token = self.replaced_at_us.get_mut(index).unwrap();
        match *token {
            None => {
                *token = Some(now_us);
                self.replaced_at_us.push(None);
                Some(true)
            }
            Some(at_us) if now_us - at_us <= 60 * SECOND_US => Some(false),
            Some(_) => {
                self.has_ended = true;
                None
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rotation_is_that_of_the_obvious_model(steps in prop::collection::vec((0_usize..6, 0_i64..50), 1..25)) {
        let fixture = fixture();
        let first = signed_in(&fixture.registry, NOW_US);
        let mut secrets = vec![first.refresh.unwrap()];
        let mut access = vec![first.access];
        let mut model = Model { replaced_at_us: vec![None], has_ended: false };
        let mut now_us = NOW_US;
        for (back, seconds) in steps {
            now_us += seconds * SECOND_US;
            // Mostly one of the newest tokens.
            let index = secrets.len().saturating_sub(1 + back);
            let got = refresh(&fixture.registry, secrets.get(index).unwrap().expose(), now_us);
            let expected = model.present(index, now_us);
            prop_assert_eq!(got.as_ref().ok().map(|tokens| tokens.refresh.is_some()), expected);
            if let Ok(tokens) = got {
                secrets.extend(tokens.refresh);
                access.push(tokens.access);
            }
            let newest = access.last().unwrap();
            prop_assert_eq!(is_active(&fixture, newest.expose(), now_us), !model.has_ended);
        }
    }
}
