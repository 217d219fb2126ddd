//! What one brings to Bilibili: the cookies of a browser that is signed in there.

use super::{Account, Field, Place, Probe, SignIn};
use crate::http::Retry;
use crate::pace::Limit;

pub const BILIBILI: Account = Account {
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
    api: PLACE,
    // There is nothing to sign in at; nothing is ever sent there.
    oauth: PLACE,
    // Not needed, but with it Bilibili takes fewer requests for those of a machine.
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
    consent_days_max: None,
    user_agent: concat!("Mozilla/5.0 (compatible; tollgate/", env!("CARGO_PKG_VERSION"), ")"),
    signs: None,
    retry: Retry::USUAL,
    limits: &[Limit { max: 60, window_s: 60 }],
    guide: &[
        "sign in at https://www.bilibili.com in a browser",
        "open its developer tools, then Storage or Application, then the cookies of bilibili.com",
        "copy the values of SESSDATA and bili_jct here, and set BILIBILI_BUVID3 to that of buvid3 if you like; they end when you sign out there",
    ],
};

const PLACE: Place = Place {
    url: "https://api.bilibili.com",
    variable: "BILIBILI_API_BASE_URL",
    also: &["BILI_API_BASE"],
    completions: &[],
};
