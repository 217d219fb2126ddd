//! Sign-in of people at the team's issuer (OpenID Connect): finds the issuer, builds the request, exchanges the
//! code and checks the ID token. What a sign-in needs between its two requests is the caller's to keep.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::oauth::client::address::{self, AddressRefused, Network};
use ::oauth::client::callback::{self, AuthorizationRequest, CallbackRefused, ExpectedIssuer};
use ::oauth::client::discovery;
use ::oauth::client::id_token::{self, Claims, Expected, IdTokenRefused};
use ::oauth::client::jwks::{self, SigningKey};
use ::oauth::client::metadata::{AuthorizationServer, MetadataRefused};
use ::oauth::client::registration::AuthMethod;
use ::oauth::pkce;
use hyper::Method;
use serde_json::Value;
use store::clock::Clock;
use store::secret::Secret;
use store::settings::OidcSettings;
use url::Url;

use crate::http::{Http, HttpError, Reply, Request};

const WAIT_MAX: Duration = Duration::from_secs(20);
const REPLY_BYTES_MAX: usize = 256 << 10;
const USER_AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
/// The metadata and keys of an issuer are fetched again when they are older.
const KNOWN_US_MAX: i64 = 3600 * 1_000_000;
const US_PER_SECOND: i64 = 1_000_000;

/// The random values of one sign-in.
#[derive(Clone, Copy, Debug)]
pub struct TeamSignIn<'a> {
    pub redirect_uri: &'a str,
    pub state: &'a str,
    pub nonce: &'a str,
    /// Of PKCE.
    pub verifier: &'a str,
}

/// Why a sign-in failed. Never quotes what the issuer sent.
#[derive(Debug, thiserror::Error)]
pub enum TeamLoginError {
    #[error("the issuer cannot be reached: {0}")]
    Unreachable(#[from] HttpError),
    #[error("the issuer's metadata cannot be used: {0}")]
    Metadata(#[from] MetadataRefused),
    #[error("the issuer's address cannot be used: {0}")]
    Address(#[from] AddressRefused),
    #[error("the issuer publishes no metadata at its address")]
    NoMetadata,
    #[error("the issuer publishes no signing keys")]
    NoKeys,
    #[error("the issuer's redirect was refused: {0}")]
    Callback(#[from] CallbackRefused),
    #[error("the issuer did not accept the code (status {0})")]
    Code(u16),
    #[error("the issuer sent no ID token")]
    NoIdToken,
    #[error("the ID token was refused: {0}")]
    IdToken(#[from] IdTokenRefused),
}

/// What is known of the issuer.
struct KnownIssuer {
    metadata: AuthorizationServer,
    keys: Vec<SigningKey>,
    fetched_us: i64,
}

/// The client of the team's issuer.
pub struct TeamLogin {
    clock: Clock,
    public: Http,
    private: Http,
    known: Mutex<Option<Arc<KnownIssuer>>>,
}

impl TeamLogin {
    pub fn new(clock: Clock) -> TeamLogin {
        TeamLogin {
            clock,
            public: Http::to_public_addresses(),
            private: Http::new(),
            known: Mutex::default(),
        }
    }

    /// Where the browser goes to sign in.
    pub async fn begin(
        &self,
        settings: &OidcSettings,
        sign_in: &TeamSignIn<'_>,
    ) -> Result<Url, TeamLoginError> {
        let known = self.issuer(settings).await?;
        let request = AuthorizationRequest {
            endpoint: &known.metadata.authorization_endpoint,
            client_id: &settings.client_id,
            redirect_uri: sign_in.redirect_uri,
            state: sign_in.state,
            code_challenge: &pkce::challenge(sign_in.verifier),
            scopes: &settings.scopes,
            resource: None,
            nonce: Some(sign_in.nonce),
        };
        Ok(request.url())
    }

    /// Who signed in, by the query of the redirect.
    pub async fn finish(
        &self,
        settings: &OidcSettings,
        sign_in: &TeamSignIn<'_>,
        query: &str,
    ) -> Result<Claims, TeamLoginError> {
        let known = self.issuer(settings).await?;
        let sends_iss = known.metadata.sends_iss;
        let expected = ExpectedIssuer { issuer: &settings.issuer, sends_iss };
        let code = Secret::<String>::new(callback::code(query, &expected)?);
        let token = self.id_token(settings, sign_in, &known.metadata, &code).await?;
        match self.check(settings, sign_in, &known.keys, &token) {
            // The issuer may sign with a key that is newer than what we know. Once: a token that names a key
            // that does not exist must not make us ask for ever.
            Err(IdTokenRefused::UnknownKey) => {
                let fresh = self.fetch(settings).await?;
                Ok(self.check(settings, sign_in, &fresh.keys, &token)?)
            }
            checked => Ok(checked?),
        }
    }

    fn check(
        &self,
        settings: &OidcSettings,
        sign_in: &TeamSignIn<'_>,
        keys: &[SigningKey],
        token: &Secret,
    ) -> Result<Claims, IdTokenRefused> {
        let expected = Expected {
            issuer: &settings.issuer,
            client_id: &settings.client_id,
            nonce: sign_in.nonce,
            now_s: self.now_us().div_euclid(US_PER_SECOND),
        };
        id_token::check(token.expose(), keys, &expected)
    }

    async fn id_token(
        &self,
        settings: &OidcSettings,
        sign_in: &TeamSignIn<'_>,
        metadata: &AuthorizationServer,
        code: &Secret,
    ) -> Result<Secret, TeamLoginError> {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code.expose().as_str()),
            ("redirect_uri", sign_in.redirect_uri),
            ("code_verifier", sign_in.verifier),
        ];
        let supported = metadata.token_auth_methods.as_deref();
        let secret = settings.client_secret.as_ref();
        let mut request = Request::at(Method::POST, &metadata.token_endpoint);
        match (AuthMethod::select(secret.is_some(), None, supported), secret) {
            (AuthMethod::Basic, Some(secret)) => {
                request = request.basic(&settings.client_id, secret);
            }
            (AuthMethod::Post, Some(secret)) => {
                form.push(("client_id", &settings.client_id));
                form.push(("client_secret", secret.expose()));
            }
            _ => form.push(("client_id", &settings.client_id)),
        }
        let reply = self.send(request.form(&form), settings.network()).await?;
        if reply.status != 200 {
            return Err(TeamLoginError::Code(reply.status));
        }
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let token = answer.get("id_token").and_then(Value::as_str);
        token.map(Secret::new).ok_or(TeamLoginError::NoIdToken)
    }

    /// The issuer, from memory if that is recent.
    async fn issuer(&self, settings: &OidcSettings) -> Result<Arc<KnownIssuer>, TeamLoginError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let age_us = |known: &KnownIssuer| self.now_us().saturating_sub(known.fetched_us);
        let is_recent = |known: &Arc<KnownIssuer>| {
            known.metadata.issuer == settings.issuer && (0..=KNOWN_US_MAX).contains(&age_us(known))
        };
        match known.filter(is_recent) {
            Some(known) => Ok(known),
            None => self.fetch(settings).await,
        }
    }

    async fn fetch(&self, settings: &OidcSettings) -> Result<Arc<KnownIssuer>, TeamLoginError> {
        let network = settings.network();
        let metadata = self.metadata(settings, network).await?;
        let at = metadata.jwks_uri.as_ref().ok_or(TeamLoginError::NoKeys)?;
        let document = self.document(at, network).await?.ok_or(TeamLoginError::NoKeys)?;
        let keys = jwks::read(&document);
        if keys.is_empty() {
            return Err(TeamLoginError::NoKeys);
        }
        let known = Arc::new(KnownIssuer { metadata, keys, fetched_us: self.now_us() });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&known));
        Ok(known)
    }

    /// The metadata, whose `issuer` must be that of the settings byte for byte.
    async fn metadata(
        &self,
        settings: &OidcSettings,
        network: Network,
    ) -> Result<AuthorizationServer, TeamLoginError> {
        let issuer = address::parse(&settings.issuer, network)?;
        // The document of OpenID Connect has the signing keys, so it is asked for first.
        for candidate in discovery::issuer_metadata(&issuer).into_iter().rev() {
            if let Some(document) = self.document(&candidate, network).await? {
                return Ok(AuthorizationServer::read(&document, &settings.issuer, network)?);
            }
        }
        Err(TeamLoginError::NoMetadata)
    }

    async fn document(&self, at: &Url, network: Network) -> Result<Option<Value>, TeamLoginError> {
        address::check(at, network)?;
        let reply = self.send(Request::at(Method::GET, at), network).await?;
        if reply.status != 200 {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&reply.body).ok().filter(Value::is_object))
    }

    async fn send(&self, request: Request, network: Network) -> Result<Reply, HttpError> {
        let request = request
            .header("user-agent", USER_AGENT)
            .wait_max(WAIT_MAX)
            .reply_bytes_max(REPLY_BYTES_MAX);
        match network {
            Network::Public => self.public.send(request).await,
            Network::Private => self.private.send(request).await,
        }
    }

    fn now_us(&self) -> i64 {
        self.clock.now().wall_us
    }
}
