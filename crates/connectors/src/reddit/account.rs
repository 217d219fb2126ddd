//! The Reddit account: OAuth with an application that Reddit has approved.

use crate::account::{Account, Client, Endpoint, Probe, Review, Revoke, SignIn};
use crate::http::Retry;
use crate::rate_limit::RateLimit;

pub const ACCOUNT: Account = Account {
    scopes: &["identity", "history", "mysubreddits", "privatemessages"],
    sign_in: SignIn::Code {
        authorize: &["api", "v1", "authorize"],
        token: &["api", "v1", "access_token"],
        client: Client::Basic,
        redirect: "http://localhost:8888/callback",
        redirect_variable: "REDDIT_REDIRECT_URI",
    },
    // Without it there is no refresh token and the login expires within a day.
    authorize_extra: &[("duration", "permanent")],
    api: Endpoint {
        url: "https://oauth.reddit.com",
        variable: "REDDIT_API_BASE_URL",
        also: &["REDDIT_OAUTH_BASE"],
        completions: &[],
    },
    oauth: Endpoint {
        url: "https://www.reddit.com",
        variable: "REDDIT_OAUTH_BASE_URL",
        also: &["REDDIT_WWW_BASE"],
        completions: &[],
    },
    values: &[],
    access_token: Some("REDDIT_ACCESS_TOKEN"),
    client_id: "REDDIT_CLIENT_ID",
    client_secret: "REDDIT_CLIENT_SECRET",
    probe: Probe { path: &["api", "v1", "me"], fixed: &[], query: &[], cookies: &[], person: None },
    revoke: Some(Revoke::Oauth { path: &["api", "v1", "revoke_token"] }),
    dead: &["invalid_grant"],
    refresh_scope: None,
    review: Some(REVIEW),
    consent_days_max: None,
    // Reddit requires `platform:name:version (by /u/owner)` and forbids false user agents.
    user_agent: concat!("cli:tollgate:v", env!("CARGO_PKG_VERSION")),
    signs: Some("by /u/"),
    retry: Retry::USUAL,
    limits: &[RateLimit { max: 100, window_s: 60 }],
    guide: &[
        "since November 2025 Reddit must approve an application first: apply at https://support.reddithelp.com, Responsible Builder Policy",
        "once approved, create an app of the type `web app` at https://www.reddit.com/prefs/apps",
        "register the redirect address shown below, letter for letter",
        "copy the client id (below the app's name) and the secret here",
    ],
};

/// Reddit has reviewed applications since November 2025.
pub(super) const REVIEW: Review = Review {
    message: "Reddit does not know the application; since November 2025 it gives none without approval",
    hint: "ask Reddit for approval (https://support.reddithelp.com, Responsible Builder Policy), then run `tollgate connect reddit`; your own data can also be requested at https://www.reddit.com/settings/data-request",
};
