//! The Bilibili account: cookies of a signed-in browser.

use crate::account::{Account, Endpoint, Field, Probe, SignIn};
use crate::http::Retry;
use crate::rate_limit::RateLimit;

pub const ACCOUNT: Account = Account {
    scopes: &[],
    sign_in: SignIn::Values(&[
        Field {
            name: "SESSDATA",
            title: "cookie SESSDATA",
            variable: "BILIBILI_SESSDATA",
            hidden: true,
        },
        Field {
            name: "bili_jct",
            title: "cookie bili_jct",
            variable: "BILIBILI_BILI_JCT",
            hidden: true,
        },
    ]),
    authorize_extra: &[],
    api: API,
    // Bilibili has no OAuth endpoint; nothing is sent to this address.
    oauth: API,
    // Optional: with it Bilibili treats fewer requests as automated.
    values: &[Field {
        name: "buvid3",
        title: "cookie buvid3",
        variable: "BILIBILI_BUVID3",
        hidden: true,
    }],
    access_token: None,
    client_id: "BILIBILI_CLIENT_ID",
    client_secret: "BILIBILI_CLIENT_SECRET",
    probe: Probe {
        path: &["x", "space", "myinfo"],
        fixed: &[],
        query: &[],
        cookies: &["SESSDATA", "bili_jct", "buvid3"],
        person: None,
    },
    revoke: None,
    dead: &[],
    refresh_scope: None,
    review: None,
    consent_days_max: None,
    user_agent: concat!("Mozilla/5.0 (compatible; tollgate/", env!("CARGO_PKG_VERSION"), ")"),
    signs: None,
    retry: Retry::USUAL,
    limits: &[RateLimit { max: 60, window_s: 60 }],
    guide: &[
        "sign in at https://www.bilibili.com in a browser",
        "open its developer tools, then Storage or Application, then the cookies of bilibili.com",
        "copy the values of SESSDATA and bili_jct here, and set BILIBILI_BUVID3 to that of buvid3 if you like; they end when you sign out there",
    ],
};

const API: Endpoint = Endpoint {
    url: "https://api.bilibili.com",
    variable: "BILIBILI_API_BASE_URL",
    also: &["BILI_API_BASE"],
    completions: &[],
};
