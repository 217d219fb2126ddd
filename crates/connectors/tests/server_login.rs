//! Sign-in to servers against a stand-in: the rules of other people's failures, with their numbers in the names of the
//! tests here and in `crates/cli/tests/cli` (`sign_in.rs`, `login_races.rs`; through the binary, marked with *). Rules of
//! pure functions are tested in `crates/oauth` and `crates/store/src/logins`, too.
//!
//! | Rule | Tests |
//! | --- | --- |
//! | 1 one refresh for any number of calls and processes | `rule_1_any_number_of_calls_in_two_processes_cause_one_refresh`, `rule_1_parallel_calls_in_two_gates_cause_one_refresh`* |
//! | 2 the store is read for each refresh | `rule_2_a_process_uses_the_token_that_another_has_stored` |
//! | 3 only `invalid_grant` for the current token ends a login | `rule_3_an_invalid_grant_for_the_current_token_ends_the_login_once`, `rule_3_an_outage_of_the_issuer_keeps_the_login` |
//! | 4 stored before use | `rule_4_a_rotated_refresh_token_is_on_disk_before_it_is_used`, `a_kill_around_the_rotation_never_loses_a_login_at_a_server`* |
//! | 5 registrations are kept by issuer | `rule_5_a_second_sign_in_uses_the_same_registration` |
//! | 6 a port is part of no key | `rule_6_another_port_changes_no_key` |
//! | 7 one flow per credential, at the gate's port | `rule_7_each_sign_in_has_its_own_state_and_the_last_one_counts`, `a_running_gate_takes_the_redirect_once_at_its_own_port`* |
//! | 8 `resource` on authorize, token and refresh | `rule_8_the_resource_is_sent_on_authorize_token_and_refresh` |
//! | 9 the issuer is stored with the token | `rule_9_a_refresh_goes_to_the_issuer_of_the_sign_in` |
//! | 10 all metadata addresses, `issuer` byte for byte | `rule_10_the_metadata_of_a_path_issuer_is_found_at_every_address`, `rule_10_a_document_of_another_issuer_or_resource_is_refused` |
//! | 11 no client id is made up | `rule_11_a_refused_registration_asks_for_an_own_client`, `rule_11_a_server_without_registration_says_where_to_make_a_client`* |
//! | 12 one refresh, one retry, then a sign-in | `rule_12_a_token_that_is_refused_at_once_needs_a_sign_in`, `rule_12_a_token_that_another_process_fetched_does_not_count_as_new`, `rule_12_a_server_that_refuses_new_tokens_needs_a_sign_in_without_a_loop`* |
//! | 13 an absent refresh token keeps the old one | `rule_13_a_refresh_without_a_new_refresh_token_keeps_the_old_one` |
//! | 14 both grant types are registered | `rules_14_and_15_a_registration_names_both_grants_and_takes_nulls` |
//! | 15 null members are accepted | `rules_14_and_15_a_registration_names_both_grants_and_takes_nulls` |
//! | 16 scopes grow by the owner's hand, twice at most | `rule_16_a_step_up_waits_for_the_owner_and_asks_twice_at_most`, `rule_16_more_scope_is_a_question_to_the_owner`* |
//! | 17 no way into the network | `rule_17_a_public_server_cannot_send_the_gate_into_the_network` |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where the stage does not stand"
)]

use std::sync::Arc;
use std::time::Duration;

use connectors::http::{HttpError, Request};
use connectors::server_login::{
    ClientGiven, DiscoverError, Discovered, LoginError, ResourceGiven, ServerLogins, ServerProbe,
    ServerSignInError, SignInOptions, SignedOut,
};
use connectors::{BaseUrl, http::Http};
use sandbox::protected_server::{Behaviour, Iss, ProtectedServer, Recorded};
use serde_json::json;
use store::clock::Clock;
use store::home::Home;
use store::logins::{Login, LoginKey, LoginState, Logins};
use store::random::Random;
use store::secret::Secret;
use store::vault::{Vault, run_no_program};
use url::Url;

const REDIRECT: &str = "http://127.0.0.1:4180/oauth/callback";

struct Stage {
    server: ProtectedServer,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(behaviour: Behaviour) -> Stage {
        let server = ProtectedServer::start(behaviour).unwrap();
        Stage { server, folder: tempfile::tempdir().unwrap() }
    }

    async fn signed_in(behaviour: Behaviour) -> Stage {
        let stage = Stage::new(behaviour);
        stage.sign_in(&options()).await.unwrap();
        stage
    }

    /// Separate logins over the same home, which act as another process.
    fn logins(&self) -> Arc<ServerLogins> {
        let home = Home::create(&self.folder.path().join("home")).unwrap();
        let vault = Arc::new(Vault::open_home(&home, &Random::System, run_no_program).unwrap());
        let store = Logins::at(&home, vault, Random::System);
        Arc::new(ServerLogins::new(store, Clock::System, Random::System, None))
    }

    async fn discovered(&self) -> Result<Box<Discovered>, DiscoverError> {
        match self.logins().probe(&Url::parse(&self.server.url()).unwrap()).await? {
            ServerProbe::NeedsSignIn(found) => Ok(found),
            ServerProbe::Open => panic!("it answers without a token"),
        }
    }

    async fn sign_in(&self, options: &SignInOptions) -> Result<(), ServerSignInError> {
        let logins = self.logins();
        let found = self.discovered().await.unwrap();
        let started = logins.begin(&found, options).await?;
        let back = self.server.consent(started.url.as_str()).expect("the request is complete");
        let query = Url::parse(&back).unwrap().query().unwrap().to_owned();
        logins.finish(&query, None).await.map(drop)
    }

    fn login(&self) -> Login {
        self.logins().store.load(&key()).unwrap().unwrap()
    }

    /// Makes the stored token one that has expired.
    fn let_expire(&self) {
        let logins = self.logins();
        let locked = logins.store.try_lock(&key().file_name()).unwrap().unwrap();
        let mut login = locked.load().unwrap().unwrap();
        login.facts.expires_us = Some(logins.clock.now().wall_us - 1);
        locked.save(&login).unwrap();
    }

    fn refreshes(&self) -> usize {
        self.server.count("/token", "refresh_token")
    }

    fn to(&self, path: &str) -> Vec<Recorded> {
        self.server.requests().into_iter().filter(|one| one.path == path).collect()
    }
}

fn key() -> LoginKey {
    LoginKey::shared("s")
}

fn options() -> SignInOptions {
    SignInOptions {
        key: key(),
        client: None,
        scopes: Vec::new(),
        resource: ResourceGiven::Discovered,
        redirect_uri: REDIRECT.to_owned(),
        document: None,
        needs_scopes: false,
        browser: None,
    }
}

#[tokio::test]
async fn rule_1_any_number_of_calls_in_two_processes_cause_one_refresh() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    stage.let_expire();
    let (one, two) = (stage.logins(), stage.logins());
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..50 {
        let logins = Arc::clone(if n % 2 == 0 { &one } else { &two });
        calls.spawn(async move { logins.access(&key()).await.map(|bearer| bearer.token) });
    }
    let tokens: Vec<Secret> = calls.join_all().await.into_iter().map(Result::unwrap).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    assert_eq!(stage.refreshes(), 1);
    assert_eq!(stage.login().facts.state, LoginState::SignedIn);
}

#[tokio::test]
async fn rule_3_an_invalid_grant_for_the_current_token_ends_the_login_once() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    let stale = stage.login();
    stage.let_expire();
    stage.logins().access(&key()).await.unwrap();
    // A program that ignores the lock puts the used token back; the issuer refuses it, and ends its family.
    let logins = stage.logins();
    {
        let locked = logins.store.try_lock("s").unwrap().unwrap();
        let mut login = locked.load().unwrap().unwrap();
        login.tokens.refresh = stale.tokens.refresh;
        login.facts.expires_us = Some(1);
        locked.save(&login).unwrap();
    }
    let error = logins.access(&key()).await.unwrap_err();
    assert!(matches!(error, LoginError::Ended { .. }), "{error}");
    assert!(matches!(stage.login().facts.state, LoginState::NeedsSignIn { .. }));
    // A refused refresh is not repeated.
    let before = stage.refreshes();
    assert!(matches!(logins.access(&key()).await, Err(LoginError::Ended { .. })));
    assert_eq!(stage.refreshes(), before);
    // A new sign-in repairs it.
    stage.sign_in(&options()).await.unwrap();
    logins.access(&key()).await.unwrap();
}

#[tokio::test]
async fn rule_2_a_process_uses_the_token_that_another_has_stored() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    let (one, two) = (stage.logins(), stage.logins());
    let held = one.access(&key()).await.unwrap().token;
    let newer = two.after_401(&key(), &held).await.unwrap().token;
    assert_eq!(stage.refreshes(), 1);
    assert!(one.after_401(&key(), &held).await.unwrap().token == newer);
    assert!(one.access(&key()).await.unwrap().token == newer);
    assert_eq!(stage.refreshes(), 1);
}

#[tokio::test]
async fn rule_3_an_outage_of_the_issuer_keeps_the_login() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    stage.let_expire();
    for status in [500, 502, 503, 429, 404, 403] {
        stage.server.change(|behaviour| behaviour.refresh_status = Some(status));
        let error = stage.logins().access(&key()).await.unwrap_err();
        assert!(matches!(error, LoginError::Outage { .. }), "{status}: {error}");
        assert_eq!(stage.login().facts.state, LoginState::SignedIn, "{status}");
    }
    stage.server.change(|behaviour| behaviour.refresh_status = None);
    stage.logins().access(&key()).await.unwrap();
}

#[tokio::test]
async fn rule_4_a_rotated_refresh_token_is_on_disk_before_it_is_used() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    for n in 1..4 {
        let before = stage.login().tokens.refresh.unwrap();
        stage.let_expire();
        let bearer = stage.logins().access(&key()).await.unwrap();
        let stored = stage.login();
        assert!(stored.tokens.access.unwrap() == bearer.token);
        assert!(stored.tokens.refresh.unwrap() != before);
        assert_eq!(stored.facts.refreshing_us, None);
        assert_eq!(stage.refreshes(), n);
    }
}

#[tokio::test]
async fn rule_5_a_second_sign_in_uses_the_same_registration() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    stage.sign_in(&options()).await.unwrap();
    let other = SignInOptions { key: LoginKey::shared("other"), ..options() };
    stage.sign_in(&other).await.unwrap();
    assert_eq!(stage.to("/register").len(), 1);
}

#[tokio::test]
async fn rule_6_another_port_changes_no_key() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    let moved = SignInOptions {
        redirect_uri: "http://127.0.0.1:9999/oauth/callback".to_owned(),
        ..options()
    };
    stage.sign_in(&moved).await.unwrap();
    let found = stage.logins().store.of_server("s").unwrap();
    assert_eq!(found.len(), 1);
    stage.logins().access(&key()).await.unwrap();
}

#[tokio::test]
async fn rule_7_each_sign_in_has_its_own_state_and_the_last_one_counts() {
    let stage = Stage::new(Behaviour::default());
    let (logins, found) = (stage.logins(), stage.discovered().await.unwrap());
    let first = logins.begin(&found, &options()).await.unwrap();
    let second = logins.begin(&found, &options()).await.unwrap();
    assert!(first.state != second.state);
    let query = |url: &Url| {
        let back = stage.server.consent(url.as_str()).unwrap();
        Url::parse(&back).unwrap().query().unwrap().to_owned()
    };
    let late = logins.finish(&query(&first.url), None).await.unwrap_err();
    assert!(matches!(late, ServerSignInError::Unknown), "{late}");
    let query = query(&second.url);
    // Another process may get the redirect.
    stage.logins().finish(&query, None).await.unwrap();
    let again = logins.finish(&query, None).await.unwrap_err();
    assert!(matches!(again, ServerSignInError::Unknown), "{again}");
}

#[tokio::test]
async fn rule_8_the_resource_is_sent_on_authorize_token_and_refresh() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    let found = stage.discovered().await.unwrap();
    let begun = stage.logins().begin(&found, &options()).await.unwrap();
    let pair = ("resource".into(), stage.server.url().into());
    assert!(begun.url.query_pairs().any(|found| found == pair), "{}", begun.url);
    stage.let_expire();
    stage.logins().access(&key()).await.unwrap();
    let sent = stage.to("/token");
    assert_eq!(sent.len(), 2);
    for one in sent {
        assert_eq!(one.field("resource"), Some(stage.server.url().as_str()));
    }
    // Entra refuses the parameter, or wants another value.
    let strict = Stage::new(Behaviour { refuses_resource: true, ..Behaviour::default() });
    let without = SignInOptions { resource: ResourceGiven::Omitted, ..options() };
    strict.sign_in(&without).await.unwrap();
    strict.let_expire();
    strict.logins().access(&key()).await.unwrap();
    let other = SignInOptions { resource: ResourceGiven::Value("api://x".into()), ..options() };
    let stage = Stage::new(Behaviour::default());
    stage.sign_in(&other).await.unwrap();
    assert_eq!(stage.to("/token")[0].field("resource"), Some("api://x"));
}

#[tokio::test]
async fn rule_9_a_refresh_goes_to_the_issuer_of_the_sign_in() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    stage.server.change(|behaviour| {
        behaviour.has_resource_document = false;
        behaviour.metadata_at = Some("/nowhere");
    });
    stage.let_expire();
    let before = stage.server.requests().len();
    stage.logins().access(&key()).await.unwrap();
    let after = stage.server.requests();
    let paths: Vec<&str> = after[before..].iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["/token"]);
}

#[tokio::test]
async fn rule_10_the_metadata_of_a_path_issuer_is_found_at_every_address() {
    for metadata_at in [
        "/.well-known/oauth-authorization-server/login/oauth",
        "/.well-known/openid-configuration/login/oauth",
        "/login/oauth/.well-known/openid-configuration",
    ] {
        for names_document in [true, false] {
            let stage = Stage::new(Behaviour {
                issuer_path: "/login/oauth",
                metadata_at: Some(metadata_at),
                names_document,
                ..Behaviour::default()
            });
            stage.sign_in(&options()).await.unwrap();
            assert_eq!(stage.login().facts.issuer, stage.server.issuer());
        }
    }
}

#[tokio::test]
async fn rule_10_a_document_of_another_issuer_or_resource_is_refused() {
    let other =
        Behaviour { claimed_issuer: Some("http://127.0.0.1:1".to_owned()), ..Behaviour::default() };
    let error = Stage::new(other).discovered().await.unwrap_err();
    assert!(matches!(error, DiscoverError::Issuer { .. }), "{error}");
    let other =
        Behaviour { resource: Some("https://evil.example/mcp".to_owned()), ..Behaviour::default() };
    let error = Stage::new(other).discovered().await.unwrap_err();
    assert!(matches!(error, DiscoverError::Resource(_)), "{error}");
}

#[tokio::test]
async fn a_server_of_an_older_revision_has_its_own_issuer() {
    for metadata_at in [None, Some("/nowhere")] {
        let stage = Stage::new(Behaviour {
            has_resource_document: false,
            metadata_at,
            ..Behaviour::default()
        });
        stage.sign_in(&options()).await.unwrap();
        assert_eq!(stage.login().facts.issuer, stage.server.issuer());
    }
}

#[tokio::test]
async fn a_server_that_answers_the_handshake_without_a_token_is_found_to_want_one() {
    let stage = Stage::new(Behaviour { opens_handshake: true, ..Behaviour::default() });
    stage.sign_in(&options()).await.unwrap();
    stage.logins().access(&key()).await.unwrap();
}

#[tokio::test]
async fn rule_11_a_refused_registration_asks_for_an_own_client() {
    for registration in [None, Some(403), Some(422)] {
        let stage = Stage::new(Behaviour { registration, ..Behaviour::default() });
        let error = stage.sign_in(&options()).await.unwrap_err();
        assert!(matches!(error, ServerSignInError::NeedsClient { .. }), "{error}");
        assert!(error.to_string().contains("wants its own OAuth client"), "{error}");
        // With one, the sign-in works, and the next one remembers it.
        let client = ClientGiven { id: "mine".to_owned(), secret: Some(Secret::new("s3cret")) };
        let own = SignInOptions { client: Some(client), ..options() };
        stage.sign_in(&own).await.unwrap();
        stage.sign_in(&options()).await.unwrap();
        assert_eq!(stage.login().facts.client_id, "mine");
        let header = stage.to("/token")[1].authorization.clone().unwrap();
        assert!(header.starts_with("Basic "), "{header}");
    }
}

#[tokio::test]
async fn rule_12_a_token_that_is_refused_at_once_needs_a_sign_in() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    let logins = stage.logins();
    let used = logins.access(&key()).await.unwrap().token;
    logins.note_refused(&key(), &Secret::new("older"), "refused").await.unwrap();
    assert_eq!(stage.login().facts.state, LoginState::SignedIn);
    logins.note_refused(&key(), &used, "refused").await.unwrap();
    assert!(matches!(logins.access(&key()).await, Err(LoginError::Ended { .. })));
}

/// A token that another process fetched may be revoked before it is used: only the refusal of a token that was
/// fetched for the same request ends a login.
#[tokio::test]
async fn rule_12_a_token_that_another_process_fetched_does_not_count_as_new() {
    let delay = Duration::from_millis(300);
    let stage = Stage::signed_in(Behaviour { delay, ..Behaviour::default() }).await;
    let used = stage.login().tokens.access.unwrap();
    let first = {
        let (logins, used) = (stage.logins(), used.clone());
        tokio::spawn(async move { logins.after_401(&key(), &used).await })
    };
    while stage.refreshes() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let second = stage.logins().after_401(&key(), &used).await.unwrap();
    let first = first.await.unwrap().unwrap();
    assert!(first.token == second.token);
    assert_eq!((first.is_new, second.is_new), (true, false));
    assert_eq!(stage.refreshes(), 1);
}

#[tokio::test]
async fn rule_13_a_refresh_without_a_new_refresh_token_keeps_the_old_one() {
    let stage = Stage::signed_in(Behaviour { rotates: false, ..Behaviour::default() }).await;
    let before = stage.login().tokens.refresh;
    for _ in 0..2 {
        stage.let_expire();
        stage.logins().access(&key()).await.unwrap();
    }
    assert!(stage.login().tokens.refresh == before && before.is_some());
}

#[tokio::test]
async fn rules_14_and_15_a_registration_names_both_grants_and_takes_nulls() {
    let stage = Stage::signed_in(Behaviour::default()).await;
    let body = stage.to("/register")[0].json.clone().unwrap();
    assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(body["application_type"], "native");
    assert_eq!(body["redirect_uris"], json!([REDIRECT]));
}

#[tokio::test]
async fn rule_16_a_step_up_waits_for_the_owner_and_asks_twice_at_most() {
    let stage = Stage::signed_in(Behaviour {
        challenge_scope: Some("read"),
        granted_scope: Some("read"),
        ..Behaviour::default()
    })
    .await;
    let logins = stage.logins();
    let wanted = ["read".to_owned(), "write".to_owned()];
    for may_ask in [true, true, false] {
        assert_eq!(logins.note_scopes(&key(), &wanted).await.unwrap(), may_ask);
        let needs = stage.login().facts.needs_scope.unwrap();
        assert_eq!(needs.scopes, ["write"]);
        // Nothing was requested on its own.
        assert_eq!(stage.login().facts.scopes_granted, ["read"]);
        stage.sign_in(&options()).await.unwrap();
        let asked = stage.login().facts.scopes_requested;
        assert_eq!(asked, ["read", "write"]);
    }
    stage.server.change(|behaviour| behaviour.granted_scope = None);
    stage.sign_in(&options()).await.unwrap();
    assert_eq!(stage.login().facts.needs_scope, None);
    assert_eq!(stage.login().facts.scopes_granted, ["read", "write"]);
}

#[tokio::test]
async fn rule_17_a_public_server_cannot_send_the_gate_into_the_network() {
    let stage = Stage::new(Behaviour::default());
    let origin = stage.server.url().trim_end_matches("/mcp").to_owned();
    let request = Request::get(&BaseUrl::parse(&origin).unwrap(), &["register"]);
    let error = Http::to_public_addresses().send(request).await.unwrap_err();
    assert!(
        matches!(&error, HttpError::Unreachable { why, .. } if why.contains("private")),
        "{error}"
    );
    assert_eq!(stage.server.requests().len(), 0);
}

#[tokio::test]
async fn a_redirect_of_another_issuer_gives_no_tokens() {
    for (iss, promises_iss, is_good) in [
        (Iss::Absent, false, true),
        (Iss::Right, true, true),
        (Iss::Right, false, true),
        (Iss::Absent, true, false),
        (Iss::Other("https://evil.example".to_owned()), false, false),
        (Iss::Other("https://evil.example".to_owned()), true, false),
    ] {
        let words = format!("{iss:?} {promises_iss}");
        let stage = Stage::new(Behaviour { iss, promises_iss, ..Behaviour::default() });
        assert_eq!(stage.sign_in(&options()).await.is_ok(), is_good, "{words}");
        assert_eq!(stage.to("/token").len(), usize::from(is_good), "{words}");
    }
}

#[tokio::test]
async fn pkce_is_s256_or_nothing() {
    for (challenge_methods, is_good) in
        [(Some(vec!["S256"]), true), (None, true), (Some(vec!["plain"]), false)]
    {
        let stage = Stage::new(Behaviour { challenge_methods, ..Behaviour::default() });
        assert_eq!(stage.discovered().await.is_ok(), is_good);
    }
}

#[tokio::test]
async fn a_client_document_comes_before_registration() {
    let stage = Stage::new(Behaviour { takes_client_documents: true, ..Behaviour::default() });
    let document = Url::parse("https://gate.example/oauth/client.json").unwrap();
    let options = SignInOptions { document: Some(document.clone()), ..options() };
    stage.sign_in(&options).await.unwrap();
    assert_eq!(stage.login().facts.client_id, document.as_str());
    assert_eq!(stage.to("/register").len(), 0);
}

#[tokio::test]
async fn a_sign_in_that_a_page_began_ends_in_the_same_browser_only() {
    let stage = Stage::new(Behaviour::default());
    let (logins, found) = (stage.logins(), stage.discovered().await.unwrap());
    for (browser, is_good) in [(None, false), (Some("other"), false), (Some("mine"), true)] {
        let options = SignInOptions { browser: Some(Secret::new("mine")), ..options() };
        let started = logins.begin(&found, &options).await.unwrap();
        let back = stage.server.consent(started.url.as_str()).unwrap();
        let query = Url::parse(&back).unwrap().query().unwrap().to_owned();
        assert_eq!(logins.finish(&query, browser).await.is_ok(), is_good, "{browser:?}");
    }
}

#[tokio::test]
async fn a_login_without_expiry_or_refresh_token_is_used_until_it_is_refused() {
    let stage = Stage::signed_in(Behaviour {
        expires_s: None,
        gives_refresh_token: false,
        ..Behaviour::default()
    })
    .await;
    let logins = stage.logins();
    let used = logins.access(&key()).await.unwrap().token;
    assert_eq!(stage.login().facts.expires_us, None);
    let error = logins.after_401(&key(), &used).await.unwrap_err();
    assert!(matches!(error, LoginError::Ended { .. }), "{error}");
    assert_eq!(stage.refreshes(), 0);
}

#[tokio::test]
async fn signing_out_revokes_and_wipes() {
    for (has_revocation, expected) in [(true, SignedOut::Revoked), (false, SignedOut::NotRevoked)] {
        let stage = Stage::signed_in(Behaviour { has_revocation, ..Behaviour::default() }).await;
        let logins = stage.logins();
        assert_eq!(logins.sign_out(&key()).await.unwrap(), expected);
        assert_eq!(logins.store.load(&key()).unwrap(), None);
        assert_eq!(logins.sign_out(&key()).await.unwrap(), SignedOut::NotSignedIn);
        assert_eq!(stage.to("/revoke").len(), if has_revocation { 2 } else { 0 });
    }
}
