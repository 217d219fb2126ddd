//! How an account of a service is signed in to: addresses, scopes, what the owner must bring, and
//! where to get it. All of it is data; the flows in `oauth` read it.

use crate::http::Retry;
use crate::pace::Limit;

mod bilibili;
mod check;
mod reddit;
mod spotify;
mod steam;
mod whoop;
mod youtube;

pub use bilibili::BILIBILI;
pub use check::{CheckError, RevokeError, check, revoke};
pub use reddit::REDDIT;
pub use spotify::SPOTIFY;
pub use steam::STEAM;
pub use whoop::WHOOP;
pub use youtube::YOUTUBE;

/// One service's sign-in.
pub struct Account {
    /// Asked for at sign-in, all of them.
    pub scopes: &'static [&'static str],
    pub sign_in: SignIn,
    /// Further fields of the address the owner opens, where a service wants them.
    pub authorize_extra: &'static [(&'static str, &'static str)],
    pub api: Place,
    pub oauth: Place,
    /// What helps besides a sign-in, or instead of one, such as the key of a public API.
    pub values: &'static [Field],
    /// The variable that may hold an access token; it serves where nobody has signed in.
    pub access_token: Option<&'static str>,
    /// Environment variables that may hold what the owner brings.
    pub client_id: &'static str,
    pub client_secret: &'static str,
    /// One harmless call that shows whether the credentials work.
    pub probe: Probe,
    /// How consent is taken back at the service.
    pub revoke: Option<Revoke>,
    /// Refresh errors that mean the login is gone, as `error` has them. Every other failure is an
    /// outage: the tokens are kept.
    pub dead: &'static [&'static str],
    /// Sent as `scope` with a refresh, where the service wants one.
    pub refresh_scope: Option<&'static str>,
    /// A consent that ends by itself, however often its token is refreshed.
    pub consent_days_max: Option<u16>,
    pub user_agent: &'static str,
    /// What stands before the owner's name in it, where the service wants to know in whose name an
    /// application asks.
    pub signs: Option<&'static str>,
    pub retry: Retry,
    /// What the service allows an application, until its own answers say otherwise.
    pub limits: &'static [Limit],
    /// The steps of a first run, one sentence each.
    pub guide: &'static [&'static str],
}

/// The ways in.
pub enum SignIn {
    /// A browser, a redirect and a code. Paths are below the OAuth base.
    Code {
        authorize: &'static [&'static str],
        token: &'static [&'static str],
        client: Client,
        /// Where the browser is sent back to unless the owner says otherwise.
        redirect: &'static str,
        redirect_variable: &'static str,
    },
    /// A code typed on another device (RFC 8628).
    Device { device: &'static [&'static str], token: &'static [&'static str], client: Client },
    /// Values the owner copies from somewhere: an API key, or the cookies of a browser.
    Values(&'static [Field]),
}

impl SignIn {
    /// The values that stand for a sign-in.
    pub fn fields(&self) -> &'static [Field] {
        match self {
            SignIn::Values(fields) => fields,
            _ => &[],
        }
    }

    /// What is asked for below the OAuth base.
    pub fn paths(&self) -> Vec<&'static [&'static str]> {
        match self {
            SignIn::Code { authorize, token, .. } => vec![authorize, token],
            SignIn::Device { device, token, .. } => vec![device, token],
            SignIn::Values(_) => Vec::new(),
        }
    }

    /// How we show who we are at the token endpoint, where there is one.
    pub fn client(&self) -> Option<Client> {
        match self {
            SignIn::Code { client, .. } | SignIn::Device { client, .. } => Some(*client),
            SignIn::Values(_) => None,
        }
    }
}

/// How a client shows that it is itself at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Id and secret in the form.
    Post,
    /// Id and secret in the `Authorization` header.
    Basic,
    /// In the header where the owner has a secret; without one PKCE is proof enough.
    BasicIfSecret,
    /// No secret at all.
    Public,
}

/// A value the owner brings.
pub struct Field {
    /// The key it is kept under.
    pub name: &'static str,
    pub title: &'static str,
    /// The environment variable that may hold it.
    pub variable: &'static str,
    pub hidden: bool,
}

/// An address, the variable that replaces it, and how a short address is completed.
pub struct Place {
    pub url: &'static str,
    pub variable: &'static str,
    /// Other names of it that people know.
    pub also: &'static [&'static str],
    /// `(ends in, add)`: the first that fits is applied; `""` stands for a bare origin.
    pub completions: &'static [(&'static str, &'static str)],
}

/// A call that reads something small. An access token goes along by itself.
pub struct Probe {
    pub path: &'static [&'static str],
    /// What the address carries anyway.
    pub fixed: &'static [(&'static str, &'static str)],
    /// Fields of the account that the address carries, by their names there.
    pub query: &'static [(&'static str, &'static str)],
    /// Fields of the account that go along as cookies.
    pub cookies: &'static [&'static str],
    /// Where the answer names the person, as a JSON pointer: a mirror holds the records of one.
    pub person: Option<&'static str>,
}

/// How consent is taken back.
pub enum Revoke {
    /// A call of the API with the access token.
    Api { method: &'static str, path: &'static [&'static str] },
    /// The token itself in a form, in the client's name (RFC 7009). The path is below the OAuth base.
    Oauth { path: &'static [&'static str] },
}
