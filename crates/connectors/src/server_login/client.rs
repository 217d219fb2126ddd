//! The client at an issuer: one of the owner, a document, or a registration that is kept.

use ::oauth::client::registration::{self, AuthMethod, ClientMode, RegisteredClient};
use hyper::Method;
use store::logins::{KnownClient, LoginsError};
use store::secret::Secret;
use url::Url;

use super::{Discovered, ServerLogins, ServerSignInError, SignInOptions};
use crate::http::Request;
use crate::oauth::token_response::TokenRefusal;

/// Modes as they are stored.
pub(super) const OWN: &str = "own";
const DYNAMIC: &str = "dynamic";
pub(super) const DOCUMENT: &str = "document";

impl ServerLogins {
    /// Whether the owner gave a client for this issuer.
    pub fn has_own_client(&self, issuer: &str) -> Result<bool, LoginsError> {
        Ok(self.store.client(issuer)?.is_some_and(|client| client.mode == OWN))
    }

    /// The client at the issuer: the owner's, the one known from before, a document, or a new registration. Never
    /// an empty one.
    pub(super) async fn client(
        &self,
        found: &Discovered,
        options: &SignInOptions,
        scopes: &[String],
    ) -> Result<KnownClient, ServerSignInError> {
        let issuer = &found.issuer;
        if let Some(given) = &options.client {
            let client = KnownClient {
                issuer: issuer.issuer.clone(),
                mode: OWN.to_owned(),
                client_id: given.id.clone(),
                client_secret: given.secret.clone(),
                auth_method: String::new(),
                redirect_uris: vec![options.redirect_uri.clone()],
                secret_expires_s: None,
            };
            self.store.set_client(&client)?;
            return Ok(client);
        }
        let has_document = options.document.is_some();
        let mode = registration::mode(issuer, has_document);
        if let Some(known) = self.store.client(&issuer.issuer)?
            && self.is_usable(&known, options, mode)
        {
            return Ok(known);
        }
        match (mode, &options.document, &issuer.registration_endpoint) {
            (Some(ClientMode::Document), Some(document), _) => Ok(KnownClient {
                issuer: issuer.issuer.clone(),
                mode: DOCUMENT.to_owned(),
                client_id: document.to_string(),
                client_secret: None,
                auth_method: AuthMethod::None.as_str().to_owned(),
                redirect_uris: vec![options.redirect_uri.clone()],
                secret_expires_s: None,
            }),
            (Some(ClientMode::Dynamic), _, Some(endpoint)) => {
                self.register(found, endpoint, options, scopes).await
            }
            _ => Err(ServerSignInError::NeedsClient { why: None }),
        }
    }

    /// A client of the owner always; a registered one while the issuer prefers no document, it may return to this
    /// address, and its secret is valid.
    fn is_usable(
        &self,
        known: &KnownClient,
        options: &SignInOptions,
        mode: Option<ClientMode>,
    ) -> bool {
        let now_s = self.now_us() / 1_000_000;
        known.mode == OWN
            || (mode != Some(ClientMode::Document)
                && known.redirect_uris.contains(&options.redirect_uri)
                && known.secret_expires_s.is_none_or(|at| at > now_s))
    }

    async fn register(
        &self,
        found: &Discovered,
        endpoint: &Url,
        options: &SignInOptions,
        scopes: &[String],
    ) -> Result<KnownClient, ServerSignInError> {
        let redirect_uris = vec![options.redirect_uri.clone()];
        let body = registration::request(&redirect_uris, &found.issuer, scopes);
        let request = Request::at(Method::POST, endpoint).json(&body);
        let reply = self.send(request, found.network).await.map_err(ServerSignInError::Register)?;
        let registered = RegisteredClient::read(reply.status, &reply.body)
            .map_err(|why| ServerSignInError::NeedsClient { why: Some(why) })?;
        let client = KnownClient {
            issuer: found.issuer.issuer.clone(),
            mode: DYNAMIC.to_owned(),
            client_id: registered.client_id,
            client_secret: registered.client_secret.map(Secret::new),
            auth_method: registered.auth_method.unwrap_or_default(),
            redirect_uris,
            secret_expires_s: registered.secret_expires_s,
        };
        self.store.set_client(&client)?;
        Ok(client)
    }

    /// An issuer that no longer knows a registered client gets a new registration next time.
    pub(super) fn forget_unknown_client(&self, issuer: &str, refusal: &TokenRefusal) {
        if refusal.is_unknown_client()
            && let Err(error) = self.store.forget_client(issuer)
        {
            tracing::warn!(%error, "could not forget a client that its issuer does not know");
        }
    }
}
