//! The YouTube account: Google's OAuth device flow.

use crate::account::{Account, Client, Endpoint, Field, Probe, Revoke, SignIn};
use crate::http::Retry;

pub const ACCOUNT: Account = Account {
    scopes: &["https://www.googleapis.com/auth/youtube.readonly"],
    sign_in: SignIn::Device {
        device: &["device", "code"],
        token: &["token"],
        client: Client::Post,
    },
    authorize_extra: &[],
    api: Endpoint {
        url: "https://www.googleapis.com/youtube/v3",
        variable: "YOUTUBE_API_BASE_URL",
        also: &["YT_API_BASE"],
        completions: &[("", "/youtube/v3"), ("/www", "/youtube/v3"), ("/youtube", "/v3")],
    },
    oauth: Endpoint {
        url: "https://oauth2.googleapis.com",
        variable: "YOUTUBE_OAUTH_BASE_URL",
        also: &["GOOGLE_OAUTH_BASE"],
        completions: &[],
    },
    values: &[Field {
        name: "api_key",
        title: "API key",
        variable: "YOUTUBE_API_KEY",
        hidden: true,
    }],
    access_token: Some("YOUTUBE_ACCESS_TOKEN"),
    client_id: "YOUTUBE_CLIENT_ID",
    client_secret: "YOUTUBE_CLIENT_SECRET",
    probe: Probe {
        path: &["channels"],
        fixed: &[("part", "id"), ("mine", "true")],
        query: &[],
        cookies: &[],
        person: None,
    },
    revoke: Some(Revoke::Oauth { path: &["revoke"] }),
    dead: &["invalid_grant"],
    refresh_scope: None,
    review: None,
    consent_days_max: None,
    user_agent: concat!("tollgate/", env!("CARGO_PKG_VERSION")),
    signs: None,
    retry: Retry::USUAL,
    limits: &[],
    guide: &[
        "make a project at https://console.cloud.google.com and enable the YouTube Data API v3 in it",
        "under Google Auth Platform add yourself as a test user, or publish the app: while it is in testing, Google ends each login after 7 days",
        "create an OAuth client of the type `TVs and Limited Input devices`",
        "copy its client id and client secret here",
        "an API key of the same project in `YOUTUBE_API_KEY` serves search and public videos without a login",
    ],
};
