//! The OAuth provider of every service; differences between services are data in [`Rules`]. The
//! authorisation page is here, codes and tokens are in `tokens.rs`, device codes in `device.rs`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use url::{Host, Url};

use crate::error::ControlError;
use crate::http::{Request, Response, first};
use crate::rng::Rng;

mod device;
mod rules;
mod token_store;
mod tokens;

pub use rules::{
    Client, ClientAuth, Consent, DeviceRules, Offline, Redirects, Reused, Rotation, Rules,
    TokenKind,
};
use token_store::{Code, TokenStore};
pub(crate) use tokens::Bearer;

/// The lifetime of an authorisation code.
const CODE_LIFE_US: i64 = 60_000_000;

#[derive(Debug)]
pub(crate) struct Provider {
    client: Client,
    page: &'static str,
    device_page: String,
    inner: Mutex<(Rules, TokenStore)>,
}

impl Provider {
    /// `page` is the path of the authorisation page.
    pub(crate) fn new(seed: u64, client: Client, rules: Rules, page: &'static str) -> Provider {
        let store = TokenStore::new(Rng::stream(seed, "tokens", 0));
        Provider { client, page, device_page: String::new(), inner: Mutex::new((rules, store)) }
    }

    /// Adds the address where the owner types the code of a device.
    pub(crate) fn with_device_page(self, device_page: String) -> Provider {
        Provider { device_page, ..self }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The authorisation page.
    pub(crate) fn authorise(&self, request: &Request, now_us: i64) -> Response {
        let form = request.form();
        let params = if request.method == "POST" { &form } else { &request.query };
        let value = |name: &str| first(params, name).unwrap_or_default();
        let mut inner = self.lock();
        let (rules, store) = &mut *inner;
        if value("client_id") != self.client.id || !rules.client_known {
            return page(400, "<p>unknown client</p>");
        }
        let redirect = value("redirect_uri");
        let Some(mut back) = self.registered(redirect) else {
            return page(400, "<p>this redirect address is not registered</p>");
        };
        if !accepts(rules.redirects, &back) {
            return page(400, "<p>this redirect address is not secure</p>");
        }
        let state = value("state");
        if let Err((error, message)) = self.check_request(rules, params) {
            return send_back(back, &[("error", error), ("error_description", &message)], state);
        }
        let decision = match (rules.consent, value("decision")) {
            (Consent::Refused, _) | (Consent::Form, "refuse") => false,
            (Consent::AtOnce, _) | (Consent::Form, "allow") => true,
            (Consent::Form, _) => return self.consent_form(params),
        };
        if !decision {
            return send_back(back, &[("error", "access_denied")], state);
        }
        let code = store.open(Code {
            redirect: redirect.to_owned(),
            scopes: scopes(value("scope")),
            challenge: first(params, "code_challenge").map(str::to_owned),
            offline: match rules.offline {
                Offline::Field(name, wanted) => value(name) == wanted,
                Offline::Always | Offline::Scope(_) => true,
            },
            good_until_us: now_us.saturating_add(CODE_LIFE_US),
        });
        back.query_pairs_mut().append_pair("code", &code).append_pair("scope", value("scope"));
        send_back(back, &[], state)
    }

    fn check_request(
        &self,
        rules: &Rules,
        params: &[(String, String)],
    ) -> Result<(), (&'static str, String)> {
        let value = |name: &str| first(params, name).unwrap_or_default();
        if value("response_type") != "code" {
            return Err(("unsupported_response_type", "only `code` is supported".to_owned()));
        }
        if value("state").chars().count() < rules.state_chars_min {
            let message = format!("state must have at least {} characters", rules.state_chars_min);
            return Err(("invalid_state", message));
        }
        if let Some(unknown) =
            scopes(value("scope")).iter().find(|scope| !self.client.scopes.contains(scope))
        {
            let message = format!("the client is not allowed to request scope `{unknown}`");
            return Err(("invalid_scope", message));
        }
        let challenge = first(params, "code_challenge");
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
    fn consent_form(&self, params: &[(String, String)]) -> Response {
        let field = |(name, value): &(String, String)| {
            let (name, value) = (escape(name), escape(value));
            format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">")
        };
        let fields: Vec<String> =
            params.iter().filter(|(name, _)| name != "decision").map(field).collect();
        let fields = fields.concat();
        let button = |value: &str, label: &str| {
            format!("<button name=\"decision\" value=\"{value}\">{label}</button>")
        };
        page(
            200,
            &format!(
                "<form method=\"post\" action=\"{}\">{fields}<p>Allow this application?</p>{}{}</form>",
                self.page,
                button("allow", "Allow"),
                button("refuse", "Refuse")
            ),
        )
    }

    /// Applies the provider's settings and returns the rest.
    pub(crate) fn set(&self, settings: &Value) -> Result<Value, ControlError> {
        let Value::Object(settings) = settings else {
            return Err(ControlError::Bad("settings must be a JSON object".to_owned()));
        };
        let mut rest = settings.clone();
        self.lock().0.change(&mut rest)?;
        Ok(Value::Object(rest))
    }

    fn lock(&self) -> MutexGuard<'_, (Rules, TokenStore)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accepts(rule: Redirects, back: &Url) -> bool {
    let is_loopback = match back.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        _ => false,
    };
    rule == Redirects::Any || back.scheme() == "https" || is_loopback
}

/// The scopes of a space-separated list.
pub(crate) fn scopes(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn send_back(mut back: Url, pairs: &[(&str, &str)], state: &str) -> Response {
    for (name, value) in pairs {
        back.query_pairs_mut().append_pair(name, value);
    }
    if !state.is_empty() {
        back.query_pairs_mut().append_pair("state", state);
    }
    Response::redirect(back.as_str())
}

fn page(status: u16, body: &str) -> Response {
    let title = "<!doctype html><meta charset=\"utf-8\"><title>Sandbox sign-in</title>";
    Response::text(status, "text/html; charset=utf-8", format!("{title}{body}"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// The error format of RFC 6749.
fn refusal(status: u16, error: &str, message: &str) -> Response {
    Response::json(status, &json!({ "error": error, "error_description": message }))
        .with("cache-control", "no-store".to_owned())
}

#[cfg(test)]
mod tests;
