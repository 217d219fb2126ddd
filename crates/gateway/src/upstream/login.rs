//! The login of an HTTP server: attaches its token, refreshes it once after a 401, and turns what is left into an
//! error that says what the owner must do.

use std::sync::{Arc, Mutex, PoisonError};

use connectors::server_login::{Bearer, LoginError, ServerLogins};
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{HeaderMap, StatusCode};
use oauth::client::challenge::{Challenge, Need};
use store::logins::LoginKey;
use store::secret::Secret;
use url::Url;

use super::error::UpstreamError;
use super::mask::Mask;

/// The grant that the owner's own requests have. They use the login that all grants share.
const OWNER: &str = "owner";

/// The logins of one server.
#[derive(Clone)]
pub struct ServerLogin {
    pub logins: Arc<ServerLogins>,
    pub server: String,
    /// The address of the server now.
    pub url: Url,
    /// Each grant has its own login.
    pub per_grant: bool,
}

impl ServerLogin {
    /// The login for requests of this grant.
    pub(super) fn of_grant(&self, grant: &str) -> LinkLogin {
        let key = if self.per_grant && grant != OWNER {
            LoginKey::of_grant(&self.server, grant)
        } else {
            LoginKey::shared(&self.server)
        };
        LinkLogin {
            logins: Arc::clone(&self.logins),
            key,
            url: self.url.clone(),
            mask: Mutex::default(),
        }
    }
}

/// The mask of a login, and the secrets it was made of.
type LoginMask = (Arc<Vec<Secret>>, Arc<Mask>);

/// The login that the requests of one link use.
pub(super) struct LinkLogin {
    logins: Arc<ServerLogins>,
    key: LoginKey,
    url: Url,
    mask: Mutex<Option<LoginMask>>,
}

/// A token and its header.
pub(super) struct AttachedToken {
    token: Secret,
    pub(super) header: HeaderValue,
    /// The issuer gave it for this request.
    pub(super) is_new: bool,
}

impl LinkLogin {
    /// Whether there is a login to use. Costs one `stat`.
    pub(super) fn is_known(&self) -> bool {
        self.logins.is_known(&self.key)
    }

    /// The token for a request.
    pub(super) async fn token(&self) -> Result<AttachedToken, UpstreamError> {
        let bearer = self.logins.access(&self.key).await.map_err(|error| self.error(&error))?;
        self.attached(bearer)
    }

    /// Another token for a request that got a 401 with this one.
    pub(super) async fn next_token(
        &self,
        used: &AttachedToken,
    ) -> Result<AttachedToken, UpstreamError> {
        let next = self.logins.after_401(&self.key, &used.token).await;
        self.attached(next.map_err(|error| self.error(&error))?)
    }

    /// Whether a response asks for another token.
    pub(super) fn is_refused(status: StatusCode, headers: &HeaderMap) -> bool {
        let challenge = challenge(headers);
        Challenge::need(status.as_u16(), challenge.as_ref()) == Some(Need::Token)
    }

    /// The server refuses a token that it was given a moment ago: the owner must sign in.
    pub(super) async fn note_refused(&self, used: &AttachedToken) {
        let message = "the server refuses the token that its issuer gave";
        if let Err(error) = self.logins.note_refused(&self.key, &used.token, message).await {
            tracing::warn!(%error, "could not record that a login was refused");
        }
    }

    /// What a refusal means for the owner; none if it has nothing to do with the login.
    pub(super) async fn refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<UpstreamError> {
        let challenge = challenge(headers);
        match Challenge::need(status.as_u16(), challenge.as_ref())? {
            Need::Token => Some(self.sign_in_needed("the server requires a sign-in")),
            Need::MoreScope => {
                let scopes = challenge.map(|challenge| challenge.scopes).unwrap_or_default();
                Some(self.more_scope(&scopes).await)
            }
        }
    }

    async fn more_scope(&self, scopes: &[String]) -> UpstreamError {
        let names = if scopes.is_empty() {
            "more access".to_owned()
        } else {
            format!("`{}`", scopes.join(" "))
        };
        let may_ask = match self.logins.note_scopes(&self.key, scopes).await {
            Ok(may_ask) => may_ask,
            Err(error) => {
                tracing::warn!(%error, "could not record that a server asks for more scopes");
                true
            }
        };
        let page = self.logins.page(&self.key).filter(|_| may_ask);
        let why = if may_ask {
            format!(
                "needs_more_scope: the server asks for {names}; the owner can allow it with {}{}",
                self.command(),
                or_at(page.as_deref())
            )
        } else {
            format!(
                "needs_more_scope: the server asks for {names}, which signing in again did not give; its account may lack the right"
            )
        };
        UpstreamError::SignIn { why, page }
    }

    /// Whether a token was given to the server.
    pub(super) fn is_used(&self) -> bool {
        self.mask.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The secrets of the login, for masking the server's messages.
    pub(super) fn mask(&self) -> Option<Arc<Mask>> {
        let known = self.mask.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(|(_, mask)| Arc::clone(mask))
    }

    /// The token as a header. A server whose address was changed gets none that was made for another address.
    fn attached(&self, bearer: Bearer) -> Result<AttachedToken, UpstreamError> {
        if *bearer.server_url != *self.url.as_str() {
            return Err(self.sign_in_needed("its address has changed since the sign-in"));
        }
        let text = Secret::<String>::new(format!("Bearer {}", bearer.token.expose()));
        let Ok(mut header) = HeaderValue::from_str(text.expose()) else {
            return Err(self.sign_in_needed("its token is not a valid header value"));
        };
        header.set_sensitive(true);
        self.remember_mask(&bearer);
        Ok(AttachedToken { token: bearer.token, header, is_new: bearer.is_new })
    }

    fn remember_mask(&self, bearer: &Bearer) {
        let mut known = self.mask.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_some_and(|(secrets, _)| Arc::ptr_eq(secrets, &bearer.secrets)) {
            return;
        }
        let secrets = bearer.secrets.iter().map(|secret| ("login", secret.expose().as_str()));
        *known = Mask::new(secrets).map(|mask| (Arc::clone(&bearer.secrets), mask));
    }

    fn error(&self, error: &LoginError) -> UpstreamError {
        match error {
            LoginError::NotSignedIn { .. } => self.sign_in_needed("the server requires a sign-in"),
            LoginError::Ended { message, .. } => {
                self.sign_in_needed(&format!("the login has ended ({message})"))
            }
            LoginError::Outage { .. } | LoginError::Store(_) => {
                UpstreamError::never_sent(error.to_string())
            }
        }
    }

    fn sign_in_needed(&self, why: &str) -> UpstreamError {
        let page = self.logins.page(&self.key);
        let open = or_at(page.as_deref());
        let why = format!("needs_sign_in: {why}; the owner runs {}{open}", self.command());
        UpstreamError::SignIn { why, page }
    }

    fn command(&self) -> String {
        let grant = if self.key.grant.is_some() { " --grant LABEL" } else { "" };
        format!("`tollgate server sign-in {}{grant}`", self.key.server)
    }
}

fn or_at(page: Option<&str>) -> String {
    page.map(|page| format!(", or signs in at {page}")).unwrap_or_default()
}

fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(WWW_AUTHENTICATE);
    Challenge::of(values.iter().filter_map(|value| value.to_str().ok()))
}
