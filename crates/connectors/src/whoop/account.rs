//! The WHOOP account.

use crate::account::{Account, Client, Endpoint, Probe, Revoke, SignIn};
use crate::http::Retry;
use crate::rate_limit::RateLimit;

pub const ACCOUNT: Account = Account {
    scopes: &[
        "read:profile",
        "read:body_measurement",
        "read:cycles",
        "read:recovery",
        "read:sleep",
        "read:workout",
        // Without it WHOOP issues no refresh token and the login expires within the hour.
        "offline",
    ],
    sign_in: SignIn::Code {
        authorize: &["auth"],
        token: &["token"],
        // WHOOP answers `invalid_client` to a secret anywhere but in the form.
        client: Client::Post,
        redirect: "http://localhost:8000/callback",
        redirect_variable: "WHOOP_REDIRECT_URI",
    },
    authorize_extra: &[],
    api: Endpoint {
        url: "https://api.prod.whoop.com/developer/v2",
        variable: "WHOOP_API_BASE_URL",
        also: &[],
        completions: &[("", "/developer/v2"), ("/developer", "/v2")],
    },
    oauth: Endpoint {
        url: "https://api.prod.whoop.com/oauth/oauth2",
        variable: "WHOOP_OAUTH_BASE_URL",
        also: &[],
        completions: &[("", "/oauth/oauth2"), ("/oauth", "/oauth2")],
    },
    values: &[],
    access_token: None,
    client_id: "WHOOP_CLIENT_ID",
    client_secret: "WHOOP_CLIENT_SECRET",
    probe: Probe {
        path: &["user", "profile", "basic"],
        fixed: &[],
        query: &[],
        cookies: &[],
        person: Some("/user_id"),
    },
    revoke: Some(Revoke::Api { method: "DELETE", path: &["user", "access"] }),
    // WHOOP answers `invalid_request` to an unknown refresh token, and `invalid_scope` when a
    // granted scope was later switched off for the app.
    dead: &["invalid_grant", "invalid_request", "invalid_scope"],
    refresh_scope: Some("offline"),
    review: None,
    consent_days_max: None,
    user_agent: concat!("tollgate/", env!("CARGO_PKG_VERSION")),
    signs: None,
    retry: Retry::USUAL,
    limits: &[RateLimit { max: 100, window_s: 60 }, RateLimit { max: 10_000, window_s: 86_400 }],
    guide: &[
        "sign in at https://developer-dashboard.whoop.com with your WHOOP account and create an app",
        "tick every read scope there; `offline` is asked for by tollgate and needs no tick there",
        "register the redirect address shown below, letter for letter",
        "copy the app's client id and client secret here",
    ],
};
