//! Sign-in to MCP servers that want OAuth: finds the authorization server, signs the owner in, and keeps the
//! access token valid. Knows no MCP beyond the address of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ::oauth::client::address::{self, Network};
use store::clock::Clock;
use store::logins::{
    Login, LoginKey, LoginState, Logins, LoginsError, NeedsScope, SCOPE_TRIES_MAX,
};
use store::random::Random;
use store::secret::Secret;
use url::Url;

use crate::http::{Http, Reply, Request};
use crate::tokens::Helper;

mod client;
mod discover;
mod refresh;
mod sign_in;
mod token_request;
mod tokens;

pub use discover::{DiscoverError, Discovered, ServerProbe};
pub use refresh::{HELPER_PREFIX, serve};
pub use sign_in::{
    ClientGiven, Finished, ResourceGiven, ServerSignInError, SignInOptions, Started,
};
pub use tokens::{Bearer, LoginError};

use tokens::LoginRefreshState;

const WAIT_MAX: Duration = Duration::from_secs(20);
/// Metadata documents and token responses are small.
const REPLY_BYTES_MAX: usize = 256 << 10;
/// Between two looks at a login that is awaited.
const USABLE_PAUSE: Duration = Duration::from_millis(250);
const USER_AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));

/// The logins of a home with what is needed to make and refresh them.
pub struct ServerLogins {
    pub store: Logins,
    pub clock: Clock,
    random: Random,
    /// For issuers of public servers: refuses private addresses after it resolved a name.
    public: Http,
    /// For issuers of servers in a private network.
    private: Http,
    helper: Option<Helper>,
    states: Mutex<HashMap<LoginKey, Arc<LoginRefreshState>>>,
    /// The address of the gate's own pages.
    pages: OnceLock<String>,
}

impl ServerLogins {
    pub fn new(
        store: Logins,
        clock: Clock,
        random: Random,
        helper: Option<Helper>,
    ) -> ServerLogins {
        ServerLogins {
            store,
            clock,
            random,
            public: Http::to_public_addresses(),
            private: Http::new(),
            helper,
            states: Mutex::default(),
            pages: OnceLock::new(),
        }
    }

    /// Sets the address of the gate's pages, such as `http://127.0.0.1:4180`.
    pub fn set_pages(&self, base: &str) {
        // A gate listens once.
        let _ = self.pages.set(base.to_owned());
    }

    /// The page where the owner signs in for one grant.
    pub fn page(&self, key: &LoginKey) -> Option<String> {
        let (base, grant) = (self.pages.get()?, key.grant.as_ref()?);
        let query: String = url::form_urlencoded::byte_serialize(grant.as_bytes()).collect();
        Some(format!("{base}/servers/{}/sign-in?grant={query}", key.server))
    }

    fn state_of(&self, key: &LoginKey) -> Arc<LoginRefreshState> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(states.entry(key.clone()).or_default())
    }

    fn now_us(&self) -> i64 {
        self.clock.now().wall_us
    }

    fn http(&self, network: Network) -> &Http {
        match network {
            Network::Public => &self.public,
            Network::Private => &self.private,
        }
    }

    /// Sends a request to an address that a document named. Redirects are not followed.
    async fn send(
        &self,
        request: Request,
        network: Network,
    ) -> Result<Reply, crate::http::HttpError> {
        let request = request
            .header("user-agent", USER_AGENT)
            .wait_max(WAIT_MAX)
            .reply_bytes_max(REPLY_BYTES_MAX);
        self.http(network).send(request).await
    }

    /// Locks a login, waiting while another process refreshes it.
    async fn lock(&self, name: &str) -> Result<store::logins::LockedLogin, LoginsError> {
        let tries =
            crate::tokens::LOCK_WAIT_MAX.as_millis() / crate::tokens::LOCK_PAUSE.as_millis();
        for _ in 0..tries {
            if let Some(locked) = self.store.try_lock(name)? {
                return Ok(locked);
            }
            tokio::time::sleep(crate::tokens::LOCK_PAUSE).await;
        }
        Err(LoginsError::Busy { name: name.to_owned() })
    }

    /// Changes a stored login, if there is one.
    async fn change(
        &self,
        key: &LoginKey,
        change: impl FnOnce(&mut Login),
    ) -> Result<(), LoginsError> {
        let locked = self.lock(&key.file_name()).await?;
        if let Some(mut login) = locked.load()? {
            change(&mut login);
            locked.save(&login)?;
        }
        Ok(())
    }

    /// Waits until a login can be used and lacks no scope. Another process may make it.
    pub async fn until_usable(&self, key: &LoginKey) {
        let mut seen = None;
        loop {
            let version = self.store.version(key);
            if version.is_some() && version != seen {
                let facts = self.store.facts(key).ok().flatten();
                if facts.is_some_and(|facts| facts.is_signed_in() && facts.needs_scope.is_none()) {
                    return;
                }
                seen = version;
            }
            tokio::time::sleep(USABLE_PAUSE).await;
        }
    }

    /// Records that the server refuses the token that it was given last, so that the owner must sign in. A token
    /// that was replaced since does not count.
    pub async fn note_refused(
        &self,
        key: &LoginKey,
        used: &Secret,
        message: &str,
    ) -> Result<(), LoginsError> {
        let since_us = self.now_us();
        self.change(key, |login| {
            if login.tokens.access.as_ref() == Some(used) {
                login.facts.state =
                    LoginState::NeedsSignIn { since_us, message: message.to_owned() };
            }
        })
        .await
    }

    /// Records scopes that the server asked for. They are requested only when the owner signs in again. False: the
    /// owner has signed in for them twice, or they are granted already, so that is not asked again.
    pub async fn note_scopes(
        &self,
        key: &LoginKey,
        scopes: &[String],
    ) -> Result<bool, LoginsError> {
        let now_us = self.now_us();
        let mut is_new = false;
        self.change(key, |login| {
            let missing = ::oauth::client::scope::missing(&login.facts.scopes_granted, scopes);
            let before = login.facts.needs_scope.take();
            let tries = before.as_ref().map_or(0, |before| before.tries);
            is_new = !missing.is_empty() && tries < SCOPE_TRIES_MAX;
            login.facts.needs_scope = if missing.is_empty() {
                before
            } else {
                let since_us = before.map_or(now_us, |before| before.since_us);
                Some(NeedsScope { scopes: missing, since_us, tries })
            };
        })
        .await?;
        Ok(is_new)
    }

    /// Signs out: revokes the tokens at the issuer where it offers that (RFC 7009), then wipes them here. The
    /// report says what the issuer answered.
    pub async fn sign_out(&self, key: &LoginKey) -> Result<SignedOut, LoginsError> {
        let locked = self.lock(&key.file_name()).await?;
        let Some(login) = locked.load().unwrap_or_default() else {
            return Ok(if locked.wipe()? { SignedOut::NotRevoked } else { SignedOut::NotSignedIn });
        };
        let revoked = token_request::revoke(self, &login).await;
        locked.wipe()?;
        Ok(revoked)
    }
}

/// The end of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedOut {
    NotSignedIn,
    Revoked,
    /// The issuer offers no revocation.
    NotRevoked,
    /// The revocation failed; the tokens end by themselves.
    Failed(String),
}

/// Whether a server is in a private network: by its address, or by what its name resolves to.
async fn network_of(server: &Url) -> Network {
    if address::check(server, Network::Public).is_ok() {
        let (Some(host), Some(port)) = (server.host_str(), server.port_or_known_default()) else {
            return Network::Public;
        };
        let host = host.trim_matches(['[', ']']);
        let found = tokio::net::lookup_host((host, port)).await;
        let is_private = found.is_ok_and(|mut all| all.any(|at| address::is_private(at.ip())));
        return if is_private { Network::Private } else { Network::Public };
    }
    Network::Private
}
