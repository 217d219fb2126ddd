//! The sign-in of a service as data: endpoints, scopes, the values the owner must provide, and where
//! to get them. The flows in `oauth` read it.

use crate::http::Retry;
use crate::rate_limit::RateLimit;

/// One service's sign-in.
pub struct Account {
    /// All requested at sign-in.
    pub scopes: &'static [&'static str],
    pub sign_in: SignIn,
    /// Further parameters of the authorization URL.
    pub authorize_extra: &'static [(&'static str, &'static str)],
    pub api: Endpoint,
    pub oauth: Endpoint,
    /// An optional value, such as the key of a public API.
    pub values: &'static [Field],
    /// The variable that may hold an access token, used while there is no login.
    pub access_token: Option<&'static str>,
    /// Environment variables for the owner's values.
    pub client_id: &'static str,
    pub client_secret: &'static str,
    /// One harmless request that shows whether the credentials work.
    pub probe: Probe,
    /// How consent is revoked at the service.
    pub revoke: Option<Revoke>,
    /// Values of `error` in a refresh response that mean the login has ended. Any other failure is an
    /// outage: the tokens are kept.
    pub dead: &'static [&'static str],
    /// Sent as `scope` with a refresh, if the service requires it.
    pub refresh_scope: Option<&'static str>,
    /// The service reviews applications: shown if it does not know ours.
    pub review: Option<Review>,
    /// The lifetime of a consent, regardless of refreshes.
    pub consent_days_max: Option<u16>,
    pub user_agent: &'static str,
    /// The text before the owner's name in the user agent, if the service requires the name.
    pub signs: Option<&'static str>,
    pub retry: Retry,
    /// The rate limits of an application, until response headers say otherwise.
    pub limits: &'static [RateLimit],
    /// The set-up steps, one sentence each.
    pub guide: &'static [&'static str],
}

/// The kinds of sign-in.
pub enum SignIn {
    /// A browser, a redirect and a code. Paths are below the OAuth base.
    Code {
        authorize: &'static [&'static str],
        token: &'static [&'static str],
        client: Client,
        /// The default redirect URL.
        redirect: &'static str,
        redirect_variable: &'static str,
    },
    /// A code typed on another device (RFC 8628).
    Device { device: &'static [&'static str], token: &'static [&'static str], client: Client },
    /// Values that the owner copies: an API key, or the cookies of a browser.
    Values(&'static [Field]),
}

impl SignIn {
    /// The values that replace a sign-in.
    pub fn fields(&self) -> &'static [Field] {
        match self {
            SignIn::Values(fields) => fields,
            _ => &[],
        }
    }

    /// The paths below the OAuth base.
    pub fn paths(&self) -> Vec<&'static [&'static str]> {
        match self {
            SignIn::Code { authorize, token, .. } => vec![authorize, token],
            SignIn::Device { device, token, .. } => vec![device, token],
            SignIn::Values(_) => Vec::new(),
        }
    }

    /// Client authentication at the token endpoint, if there is one.
    pub fn client(&self) -> Option<Client> {
        match self {
            SignIn::Code { client, .. } | SignIn::Device { client, .. } => Some(*client),
            SignIn::Values(_) => None,
        }
    }
}

/// Client authentication at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Id and secret in the form.
    Post,
    /// Id and secret in the `Authorization` header.
    Basic,
    /// In the header if the owner has a secret; otherwise PKCE alone.
    BasicIfSecret,
    /// No secret at all.
    Public,
}

/// A value that the owner provides.
pub struct Field {
    /// The key it is stored under.
    pub name: &'static str,
    pub title: &'static str,
    /// The environment variable that may hold it.
    pub variable: &'static str,
    pub hidden: bool,
}

/// A URL, the variable that overrides it, and how a short URL is completed.
pub struct Endpoint {
    pub url: &'static str,
    pub variable: &'static str,
    /// Alternative variable names.
    pub also: &'static [&'static str],
    /// `(suffix, addition)`: the first match is applied; `""` means a bare origin.
    pub completions: &'static [(&'static str, &'static str)],
}

/// A small read request. The access token is added automatically.
pub struct Probe {
    pub path: &'static [&'static str],
    /// Fixed query parameters.
    pub fixed: &'static [(&'static str, &'static str)],
    /// Account fields sent as query parameters, by parameter name.
    pub query: &'static [(&'static str, &'static str)],
    /// Account fields sent as cookies.
    pub cookies: &'static [&'static str],
    /// JSON pointer to the person in the response: a mirror holds the records of one person.
    pub person: Option<&'static str>,
}

/// A review that an application must pass at the service.
#[derive(Clone, Copy, Debug)]
pub struct Review {
    pub message: &'static str,
    pub hint: &'static str,
}

/// How consent is revoked.
pub enum Revoke {
    /// An API request with the access token.
    Api { method: &'static str, path: &'static [&'static str] },
    /// The token in a form, with client authentication (RFC 7009). The path is below the OAuth base.
    Oauth { path: &'static [&'static str] },
}
