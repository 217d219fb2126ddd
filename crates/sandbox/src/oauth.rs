//! One OAuth provider for every service: what differs between them is data in [`Rules`]. The
//! authorisation page is here, codes and tokens are in `tokens.rs`, device codes in `device.rs`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use url::Url;

use crate::chance::Chance;
use crate::control::Trouble;
use crate::http::{Asked, Reply, first};

mod books;
mod device;
mod tokens;

use books::{Books, Code};
pub(crate) use tokens::Holder;

/// An authorisation code is good for this long.
const CODE_LIFE_US: i64 = 60_000_000;

/// The application that is registered with the service.
#[derive(Clone, Debug)]
pub struct Client {
    pub id: String,
    pub secret: String,
    /// Registered redirect addresses; empty takes any.
    pub redirects: Vec<String>,
    /// What the application may ask for.
    pub scopes: Vec<String>,
}

/// Where the client secret has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    Body,
    Basic,
    Either,
}

/// What a refresh does to the tokens before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Both old tokens are void at once.
    Strict,
    /// A new refresh token comes, and the old ones stay good.
    Gentle,
    /// No new refresh token comes; the old one stays.
    Kept,
}

/// How a refresh token that is void, used or unknown is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reused {
    InvalidGrant,
    InvalidRequest,
}

impl Reused {
    fn code(self) -> &'static str {
        match self {
            Reused::InvalidGrant => "invalid_grant",
            Reused::InvalidRequest => "invalid_request",
        }
    }
}

/// What the owner does on the authorisation page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Agrees before the page is seen.
    AtOnce,
    /// Decides on a page with two buttons.
    Form,
    Refused,
}

/// Which tokens to make useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Access,
    Refresh,
    All,
}

/// How one service does OAuth.
#[derive(Clone, Debug)]
pub struct Rules {
    pub client_auth: ClientAuth,
    /// A code that was asked for with a PKCE challenge needs no secret.
    pub pkce_replaces_secret: bool,
    pub rotation: Rotation,
    pub reused: Reused,
    pub consent: Consent,
    /// Without this scope no refresh token is given; none means always given.
    pub offline_scope: Option<&'static str>,
    pub state_chars_min: usize,
    pub expires_in_s: i64,
    pub device: Option<DeviceRules>,
}

/// How one service does sign-in by a code typed elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRules {
    pub life_s: i64,
    pub interval_s: i64,
    /// Status while the owner has not decided, and when the client asks too often or was refused.
    pub pending_status: u16,
    pub refused_status: u16,
}

#[derive(Debug)]
pub(crate) struct Provider {
    client: Client,
    page: &'static str,
    device_page: String,
    inner: Mutex<(Rules, Books)>,
}

impl Provider {
    /// `page` is the path of the authorisation page.
    pub(crate) fn new(seed: u64, client: Client, rules: Rules, page: &'static str) -> Provider {
        let books = Books::new(Chance::of(seed, "tokens", 0));
        let device_page = "https://example.com/device".to_owned();
        Provider { client, page, device_page, inner: Mutex::new((rules, books)) }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The page that a browser is sent to.
    pub(crate) fn authorise(&self, asked: &Asked, now_us: i64) -> Reply {
        let form = asked.form();
        let said = if asked.method == "POST" { &form } else { &asked.query };
        let value = |name: &str| first(said, name).unwrap_or_default();
        if value("client_id") != self.client.id {
            return page(400, "<p>unknown client</p>");
        }
        let redirect = value("redirect_uri");
        let Some(mut back) = self.registered(redirect) else {
            return page(400, "<p>this redirect address is not registered</p>");
        };
        let state = value("state");
        let mut inner = self.lock();
        let (rules, books) = &mut *inner;
        if let Err((error, words)) = self.check_request(rules, said) {
            return send_back(back, &[("error", error), ("error_description", &words)], state);
        }
        let decision = match (rules.consent, value("decision")) {
            (Consent::Refused, _) | (Consent::Form, "refuse") => false,
            (Consent::AtOnce, _) | (Consent::Form, "allow") => true,
            (Consent::Form, _) => return self.ask(said),
        };
        if !decision {
            return send_back(back, &[("error", "access_denied")], state);
        }
        let code = books.open(Code {
            redirect: redirect.to_owned(),
            scopes: words(value("scope")),
            challenge: first(said, "code_challenge").map(str::to_owned),
            good_until_us: now_us.saturating_add(CODE_LIFE_US),
        });
        back.query_pairs_mut().append_pair("code", &code).append_pair("scope", value("scope"));
        send_back(back, &[], state)
    }

    fn check_request(
        &self,
        rules: &Rules,
        said: &[(String, String)],
    ) -> Result<(), (&'static str, String)> {
        let value = |name: &str| first(said, name).unwrap_or_default();
        if value("response_type") != "code" {
            return Err(("unsupported_response_type", "only `code` is known".to_owned()));
        }
        if value("state").chars().count() < rules.state_chars_min {
            let words = format!("state must have at least {} characters", rules.state_chars_min);
            return Err(("invalid_state", words));
        }
        if let Some(unknown) =
            words(value("scope")).iter().find(|scope| !self.client.scopes.contains(scope))
        {
            let words = format!("the client is not allowed to request scope `{unknown}`");
            return Err(("invalid_scope", words));
        }
        let challenge = first(said, "code_challenge");
        if challenge.is_some() && value("code_challenge_method") != "S256" {
            return Err(("invalid_request", "the challenge method must be S256".to_owned()));
        }
        Ok(())
    }

    fn registered(&self, redirect: &str) -> Option<Url> {
        let known = self.client.redirects.is_empty()
            || self.client.redirects.iter().any(|known| known == redirect);
        Url::parse(redirect).ok().filter(|_| known)
    }

    /// A page with two buttons that post the same request back, with the decision.
    fn ask(&self, said: &[(String, String)]) -> Reply {
        let field = |(name, value): &(String, String)| {
            let (name, value) = (escape(name), escape(value));
            format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">")
        };
        let fields: Vec<String> =
            said.iter().filter(|(name, _)| name != "decision").map(field).collect();
        let fields = fields.concat();
        let button = |value: &str, words: &str| {
            format!("<button name=\"decision\" value=\"{value}\">{words}</button>")
        };
        page(
            200,
            &format!(
                "<form method=\"post\" action=\"{}\">{fields}<p>Let this application in?</p>{}{}</form>",
                self.page,
                button("allow", "Allow"),
                button("refuse", "Refuse")
            ),
        )
    }

    /// Takes the settings that are the provider's and gives back the rest.
    pub(crate) fn set(&self, settings: &Value) -> Result<Value, Trouble> {
        let Value::Object(settings) = settings else {
            return Err(Trouble::Bad("settings are a JSON object".to_owned()));
        };
        let mut rest = settings.clone();
        let mut inner = self.lock();
        let rules = &mut inner.0;
        if let Some(seconds) = rest.shift_remove("expires_in_s") {
            let seconds = seconds.as_i64();
            rules.expires_in_s =
                seconds.ok_or_else(|| Trouble::Bad("`expires_in_s` is a number".to_owned()))?;
        }
        if let Some(consent) = rest.shift_remove("consent") {
            rules.consent = match consent.as_str() {
                Some("at_once") => Consent::AtOnce,
                Some("form") => Consent::Form,
                Some("refused") => Consent::Refused,
                _ => return Err(bad("consent", "`at_once`, `form` or `refused`")),
            };
        }
        if let Some(reused) = rest.shift_remove("reused") {
            rules.reused = match reused.as_str() {
                Some("invalid_grant") => Reused::InvalidGrant,
                Some("invalid_request") => Reused::InvalidRequest,
                _ => return Err(bad("reused", "`invalid_grant` or `invalid_request`")),
            };
        }
        if let Some(rotation) = rest.shift_remove("rotation") {
            rules.rotation = match rotation.as_str() {
                Some("strict") => Rotation::Strict,
                Some("gentle") => Rotation::Gentle,
                Some("kept") => Rotation::Kept,
                _ => return Err(bad("rotation", "`strict`, `gentle` or `kept`")),
            };
        }
        Ok(Value::Object(rest))
    }

    fn lock(&self) -> MutexGuard<'_, (Rules, Books)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bad(name: &str, choices: &str) -> Trouble {
    Trouble::Bad(format!("`{name}` is {choices}"))
}

/// The scopes of a list with blanks between.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn send_back(mut back: Url, pairs: &[(&str, &str)], state: &str) -> Reply {
    for (name, value) in pairs {
        back.query_pairs_mut().append_pair(name, value);
    }
    if !state.is_empty() {
        back.query_pairs_mut().append_pair("state", state);
    }
    Reply::redirect(back.as_str())
}

fn page(status: u16, body: &str) -> Reply {
    let title = "<!doctype html><meta charset=\"utf-8\"><title>Sandbox sign-in</title>";
    Reply::text(status, "text/html; charset=utf-8", format!("{title}{body}"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// The error form of RFC 6749.
fn refusal(status: u16, error: &str, words: &str) -> Reply {
    Reply::json(status, &json!({ "error": error, "error_description": words }))
        .with("cache-control", "no-store".to_owned())
}

#[cfg(test)]
mod tests;
