//! The Steam account: a Web API key and the owner's SteamID64.

use crate::account::{Account, Endpoint, Field, Probe, SignIn};
use crate::http::Retry;
use crate::rate_limit::RateLimit;

pub const ACCOUNT: Account = Account {
    scopes: &[],
    sign_in: SignIn::Values(&[
        Field { name: "api_key", title: "Web API key", variable: "STEAM_API_KEY", hidden: true },
        Field {
            name: "user_id",
            title: "SteamID64 (17 digits)",
            variable: "STEAM_USER_ID",
            hidden: false,
        },
    ]),
    authorize_extra: &[],
    api: API,
    // Steam has no OAuth endpoint; nothing is sent to this address.
    oauth: API,
    values: &[],
    access_token: None,
    client_id: "STEAM_CLIENT_ID",
    client_secret: "STEAM_CLIENT_SECRET",
    probe: Probe {
        path: &["ISteamUser", "GetPlayerSummaries", "v0002", ""],
        fixed: &[("format", "json")],
        query: &[("key", "api_key"), ("steamids", "user_id")],
        cookies: &[],
        person: None,
    },
    revoke: None,
    dead: &[],
    refresh_scope: None,
    review: None,
    consent_days_max: None,
    user_agent: concat!("tollgate/", env!("CARGO_PKG_VERSION")),
    signs: None,
    retry: Retry::USUAL,
    limits: &[RateLimit { max: 100_000, window_s: 86_400 }],
    guide: &[
        "get a key at https://steamcommunity.com/dev/apikey; an account that never bought anything gets none",
        "your SteamID64 is the number of 17 digits in the account details of Steam",
        "for libraries and achievements set `Game details` to public under Privacy Settings",
    ],
};

const API: Endpoint = Endpoint {
    url: "https://api.steampowered.com",
    variable: "STEAM_API_BASE_URL",
    also: &["STEAM_API_BASE"],
    completions: &[],
};
