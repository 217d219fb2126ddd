//! The Spotify account: OAuth under the rules of 2026.

use crate::account::{Account, Client, Endpoint, Probe, SignIn};
use crate::http::Retry;
use crate::rate_limit::RateLimit;

pub const ACCOUNT: Account = Account {
    scopes: &[
        "user-read-private",
        "user-read-email",
        "user-library-read",
        // Since February 2026 following needs the library scope.
        "user-library-modify",
        "user-read-recently-played",
        "user-read-playback-position",
        "user-top-read",
        "user-follow-read",
        "user-follow-modify",
        "playlist-read-private",
        "playlist-read-collaborative",
        "playlist-modify-public",
        "playlist-modify-private",
    ],
    sign_in: SignIn::Code {
        authorize: &["authorize"],
        token: &["api", "token"],
        client: Client::BasicIfSecret,
        // Spotify refuses `localhost` and allows 127.0.0.1.
        redirect: "http://127.0.0.1:8888/callback",
        redirect_variable: "SPOTIFY_REDIRECT_URI",
    },
    authorize_extra: &[("show_dialog", "true")],
    api: Endpoint {
        url: "https://api.spotify.com/v1",
        variable: "SPOTIFY_API_BASE_URL",
        also: &["SPOTIFY_API_BASE"],
        completions: &[("", "/v1"), ("/api", "/v1")],
    },
    oauth: Endpoint {
        url: "https://accounts.spotify.com",
        variable: "SPOTIFY_OAUTH_BASE_URL",
        also: &["SPOTIFY_ACCOUNTS_BASE"],
        completions: &[],
    },
    values: &[],
    access_token: Some("SPOTIFY_ACCESS_TOKEN"),
    client_id: "SPOTIFY_CLIENT_ID",
    client_secret: "SPOTIFY_CLIENT_SECRET",
    probe: Probe { path: &["me"], fixed: &[], query: &[], cookies: &[], person: None },
    revoke: None,
    dead: &["invalid_grant"],
    refresh_scope: None,
    review: None,
    consent_days_max: Some(180),
    user_agent: concat!("tollgate/", env!("CARGO_PKG_VERSION")),
    signs: None,
    retry: Retry::USUAL,
    limits: &[RateLimit { max: 180, window_s: 30 }],
    guide: &[
        "sign in at https://developer.spotify.com/dashboard; the owner of an app needs Premium",
        "create an app (one for each developer, for at most five users) and tick `Web API`",
        "register the redirect address shown below, letter for letter; `localhost` is refused there",
        "under User Management add the account whose data you want, if it is not your own",
        "copy the app's client id here; its secret is not needed",
    ],
};
