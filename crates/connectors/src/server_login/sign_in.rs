//! One sign-in: the client at the issuer, the address to open, and the redirect that ends it. The redirect may
//! reach another process than the one that began.

use ::oauth::client::callback::{self, AuthorizationRequest, CallbackRefused, ExpectedIssuer};
use ::oauth::client::registration::{AuthMethod, ClientMode, RegistrationRefused};
use ::oauth::client::scope::{self, Sources};
use ::oauth::pkce;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::logins::{
    AttemptOutcome, Login, LoginFacts, LoginKey, LoginState, LoginTokens, LoginsError, NeedsScope,
};
use store::random::RandomError;
use store::secret::Secret;
use url::Url;

use super::client::{DOCUMENT, OWN};
use super::token_request::{self, TokenClient};
use super::{Discovered, ServerLogins, refresh};
use crate::http::HttpError;
use crate::oauth::token_response::TokenRefusal;
use ::oauth::client::address::Network;

const STATE_BYTES: usize = 24;
const VERIFIER_BYTES: usize = 32;

/// What the owner chose for a sign-in.
#[derive(Clone, Debug)]
pub struct SignInOptions {
    pub key: LoginKey,
    /// A client that the owner made at the service.
    pub client: Option<ClientGiven>,
    /// Instead of those that the server names.
    pub scopes: Vec<String>,
    pub resource: ResourceGiven,
    /// Where the browser returns to.
    pub redirect_uri: String,
    /// The address of the gate's client metadata document, if it has a public one.
    pub document: Option<Url>,
    /// Whether this server is known to refuse a request without scopes.
    pub needs_scopes: bool,
    /// A value that the browser must present with the redirect, for a sign-in that a page began.
    pub browser: Option<Secret>,
}

#[derive(Clone, Debug)]
pub struct ClientGiven {
    pub id: String,
    pub secret: Option<Secret>,
}

/// The `resource` parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResourceGiven {
    /// As the server's metadata says.
    #[default]
    Discovered,
    /// Left out, for issuers that refuse it.
    Omitted,
    Value(String),
}

/// A sign-in that waits for its redirect.
#[derive(Debug)]
pub struct Started {
    /// The address to open.
    pub url: Url,
    /// Identifies the sign-in.
    pub state: Secret,
    pub mode: ClientMode,
    pub scopes: Vec<String>,
}

/// A sign-in that has ended well.
#[derive(Clone, Debug)]
pub struct Finished {
    pub key: LoginKey,
    pub issuer: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerSignInError {
    #[error("the server wants its own OAuth client{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    NeedsClient { why: Option<RegistrationRefused> },
    #[error("cannot register a client: {0}")]
    Register(HttpError),
    #[error("this address does not belong to a pending sign-in, or it was used before")]
    Unknown,
    #[error("this sign-in was begun in another browser")]
    OtherBrowser,
    #[error("the redirect is not used: {0}")]
    Callback(#[from] CallbackRefused),
    #[error("cannot get tokens: {0}")]
    Tokens(#[from] TokenRefusal),
    #[error(transparent)]
    Store(#[from] LoginsError),
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// What the exchange needs, stored until the redirect.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PendingAttempt {
    server: String,
    grant: Option<String>,
    url: String,
    issuer: String,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    sends_iss: bool,
    is_private: bool,
    mode: ClientMode,
    client_id: String,
    client_secret: Option<String>,
    auth_method: AuthMethod,
    resource: Option<String>,
    scopes: Vec<String>,
    redirect_uri: String,
    verifier: String,
    /// The digest of the browser's value.
    browser: Option<String>,
}

impl ServerLogins {
    /// Begins a sign-in: chooses or registers the client and stores what the redirect needs.
    pub async fn begin(
        &self,
        found: &Discovered,
        options: &SignInOptions,
    ) -> Result<Started, ServerSignInError> {
        let before = self.store.facts(&options.key)?;
        let scopes = scopes(found, options, before.as_ref());
        let client = self.client(found, options, &scopes).await?;
        let (state, verifier) = (self.random_text(STATE_BYTES)?, self.random_text(VERIFIER_BYTES)?);
        let resource = match &options.resource {
            ResourceGiven::Discovered => Some(found.resource.clone()),
            ResourceGiven::Omitted => None,
            ResourceGiven::Value(value) => Some(value.clone()),
        };
        let request = AuthorizationRequest {
            endpoint: &found.issuer.authorization_endpoint,
            client_id: &client.client_id,
            redirect_uri: &options.redirect_uri,
            state: state.expose(),
            code_challenge: &pkce::challenge(verifier.expose()),
            scopes: &scopes,
            resource: resource.as_deref(),
            nonce: None,
        };
        let url = request.url();
        let mode = match client.mode.as_str() {
            OWN => ClientMode::Own,
            DOCUMENT => ClientMode::Document,
            _ => ClientMode::Dynamic,
        };
        let supported = found.issuer.token_auth_methods.as_deref();
        let attempt = PendingAttempt {
            server: options.key.server.clone(),
            grant: options.key.grant.clone(),
            url: found.server.to_string(),
            issuer: found.issuer.issuer.clone(),
            token_endpoint: found.issuer.token_endpoint.to_string(),
            revocation_endpoint: found.issuer.revocation_endpoint.as_ref().map(Url::to_string),
            sends_iss: found.issuer.sends_iss,
            is_private: found.network == Network::Private,
            mode,
            auth_method: AuthMethod::select(
                client.client_secret.is_some(),
                Some(&client.auth_method),
                supported,
            ),
            client_id: client.client_id,
            client_secret: client.client_secret.map(|secret| secret.expose().clone()),
            resource,
            scopes: scopes.clone(),
            redirect_uri: options.redirect_uri.clone(),
            verifier: verifier.expose().clone(),
            browser: options.browser.as_ref().map(|value| digest(value.expose())),
        };
        let text = zeroize::Zeroizing::new(serde_json::to_string(&attempt).unwrap_or_default());
        self.store.begin_attempt(&options.key, state.expose(), &text, self.now_us())?;
        Ok(Started { url, state, mode, scopes })
    }

    /// Ends a sign-in with the query of its redirect. The outcome is left for the command that waits.
    pub async fn finish(
        &self,
        query: &str,
        browser: Option<&str>,
    ) -> Result<Finished, ServerSignInError> {
        let state = callback::state(query).ok_or(ServerSignInError::Unknown)?;
        let stored = self.store.take_attempt(&state, self.now_us())?;
        let stored = stored.ok_or(ServerSignInError::Unknown)?;
        let finished = self.exchange(stored.text.expose(), query, browser).await;
        let outcome = AttemptOutcome {
            is_signed_in: finished.is_ok(),
            message: finished.as_ref().err().map(ToString::to_string).unwrap_or_default(),
        };
        if let Err(error) = self.store.finish_attempt(&state, &outcome) {
            tracing::warn!(%error, "could not store the outcome of a sign-in");
        }
        finished
    }

    async fn exchange(
        &self,
        attempt: &str,
        query: &str,
        browser: Option<&str>,
    ) -> Result<Finished, ServerSignInError> {
        let attempt: PendingAttempt =
            serde_json::from_str(attempt).map_err(|_| ServerSignInError::Unknown)?;
        if attempt.browser.is_some() && attempt.browser != browser.map(digest) {
            return Err(ServerSignInError::OtherBrowser);
        }
        let expected = ExpectedIssuer { issuer: &attempt.issuer, sends_iss: attempt.sends_iss };
        let code = Secret::<String>::new(callback::code(query, &expected)?);
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code.expose().as_str()),
            ("redirect_uri", &attempt.redirect_uri),
            ("code_verifier", &attempt.verifier),
        ];
        if let Some(resource) = &attempt.resource {
            form.push(("resource", resource));
        }
        let client_secret = attempt.client_secret.as_deref().map(Secret::new);
        let client = TokenClient {
            client_id: &attempt.client_id,
            client_secret: client_secret.as_ref(),
            auth_method: attempt.auth_method,
            network: if attempt.is_private { Network::Private } else { Network::Public },
        };
        let tokens = token_request::tokens(self, &attempt.token_endpoint, &client, &form).await;
        let tokens = tokens.inspect_err(|refusal| {
            if attempt.mode == ClientMode::Dynamic {
                self.forget_unknown_client(&attempt.issuer, refusal);
            }
        })?;
        let key = LoginKey { server: attempt.server.clone(), grant: attempt.grant.clone() };
        let locked = self.lock(&key.file_name()).await?;
        let before = locked.load().unwrap_or_default();
        let mut login = self.new_login(&attempt, client_secret.clone(), before.as_ref());
        refresh::apply(tokens, &mut login, self.now_us());
        forget_granted(&mut login);
        locked.save(&login)?;
        Ok(Finished { key, issuer: attempt.issuer.clone() })
    }

    fn new_login(
        &self,
        attempt: &PendingAttempt,
        client_secret: Option<Secret>,
        before: Option<&Login>,
    ) -> Login {
        let needs_scope = before.and_then(|before| before.facts.needs_scope.clone());
        let needs_scope =
            needs_scope.map(|needs| NeedsScope { tries: needs.tries.saturating_add(1), ..needs });
        Login {
            facts: LoginFacts {
                server: attempt.server.clone(),
                grant: attempt.grant.clone(),
                url: attempt.url.clone(),
                issuer: attempt.issuer.clone(),
                token_endpoint: attempt.token_endpoint.clone(),
                revocation_endpoint: attempt.revocation_endpoint.clone(),
                is_private: attempt.is_private,
                mode: attempt.mode.as_str().to_owned(),
                client_id: attempt.client_id.clone(),
                auth_method: attempt.auth_method.as_str().to_owned(),
                resource: attempt.resource.clone(),
                scopes_requested: attempt.scopes.clone(),
                // An issuer that grants exactly the requested scopes need not list them.
                scopes_granted: attempt.scopes.clone(),
                expires_us: None,
                created_us: self.now_us(),
                refreshed_us: None,
                refreshing_us: None,
                state: LoginState::SignedIn,
                needs_scope,
            },
            tokens: LoginTokens { client_secret, access: None, refresh: None },
        }
    }

    /// Records that a server wants a sign-in, for `status` and `doctor`. A login that works stays.
    pub async fn note_needed(
        &self,
        key: &LoginKey,
        found: &Discovered,
        mode: &str,
    ) -> Result<(), LoginsError> {
        let locked = self.lock(&key.file_name()).await?;
        if locked.load().ok().flatten().is_some() {
            return Ok(());
        }
        let facts = LoginFacts {
            server: key.server.clone(),
            grant: key.grant.clone(),
            url: found.server.to_string(),
            issuer: found.issuer.issuer.clone(),
            token_endpoint: found.issuer.token_endpoint.to_string(),
            revocation_endpoint: None,
            is_private: found.network == Network::Private,
            mode: mode.to_owned(),
            client_id: String::new(),
            auth_method: String::new(),
            resource: None,
            scopes_requested: Vec::new(),
            scopes_granted: Vec::new(),
            expires_us: None,
            created_us: self.now_us(),
            refreshed_us: None,
            refreshing_us: None,
            state: LoginState::NeedsSignIn {
                since_us: self.now_us(),
                message: "not signed in".to_owned(),
            },
            needs_scope: None,
        };
        locked.save(&Login { facts, tokens: LoginTokens::default() })
    }

    fn random_text(&self, bytes: usize) -> Result<Secret, RandomError> {
        let mut raw = zeroize::Zeroizing::new(vec![0; bytes]);
        self.random.fill(&mut raw)?;
        Ok(Secret::new(URL_SAFE_NO_PAD.encode(raw.as_slice())))
    }

    /// A value for the cookie of the browser that begins a sign-in on a page.
    pub fn browser_value(&self) -> Result<Secret, RandomError> {
        self.random_text(STATE_BYTES)
    }
}

/// What to request: what the owner named, else what the server names. A login that was asked for more keeps what it
/// has.
fn scopes(found: &Discovered, options: &SignInOptions, before: Option<&LoginFacts>) -> Vec<String> {
    let mut scopes = scope::select(&Sources {
        named: &options.scopes,
        challenged: &found.challenge.scopes,
        resource: found.resource_scopes.as_deref(),
        issuer: found.issuer.scopes_supported.as_deref(),
        is_required: options.needs_scopes,
    });
    let needed = before.and_then(|before| Some((before, before.needs_scope.as_ref()?)));
    if let Some((before, needed)) = needed.filter(|_| options.scopes.is_empty()) {
        scopes = scope::union(&scope::union(&before.scopes_granted, &needed.scopes), &scopes);
    }
    scopes
}

/// Scopes that the issuer has granted are no longer missing.
fn forget_granted(login: &mut Login) {
    let granted = &login.facts.scopes_granted;
    login.facts.needs_scope = login
        .facts
        .needs_scope
        .take()
        .filter(|needs| !scope::missing(granted, &needs.scopes).is_empty());
}

fn digest(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}
