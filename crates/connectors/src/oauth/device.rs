//! Signing in with a code that is typed on another device (RFC 8628).

use std::time::Duration;

use serde_json::{Map, Value};
use store::secret::Secret;
use url::Url;

use super::SignInError;
use super::answer::{self, Refusal, Tokens};
use super::grant::{Form, Grant};
use crate::account::{Account, SignIn};
use crate::http::Http;
use crate::settings::is_loopback;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const INTERVAL_S_DEFAULT: u64 = 5;
const INTERVAL_S_MAX: u64 = 60;
/// What `slow_down` adds.
const SLOWER_S: u64 = 5;
const EXPIRES_S_MAX: u64 = 30 * 60;

/// What the owner types, and where.
pub struct DeviceCode {
    pub user_code: String,
    pub url: Url,
    secret: Secret,
    interval: Duration,
    expires: Duration,
}

impl DeviceCode {
    pub async fn begin(
        http: &Http,
        grant: &Grant,
        account: &Account,
    ) -> Result<DeviceCode, SignInError> {
        let SignIn::Device { device, .. } = &account.sign_in else {
            return Err(Refusal::Garbled("this service has no device sign-in").into());
        };
        let mut form = Form::empty();
        form.push("scope", &account.scopes.join(" "));
        let reply = grant.post(http, device, form).await?;
        if !reply.is_success() {
            // Read for its refusal; an unsuccessful answer never holds tokens.
            let refusal = answer::read(&reply).err();
            return Err(refusal.unwrap_or(Refusal::Status { status: reply.status }).into());
        }
        let object: Map<String, Value> = serde_json::from_slice(&reply.body)
            .map_err(|_| Refusal::Garbled("it is no JSON object"))?;
        DeviceCode::read(&object)
    }

    fn read(object: &Map<String, Value>) -> Result<DeviceCode, SignInError> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
        let seconds = |name: &str| object.get(name).and_then(Value::as_u64);
        // Google says `url` where the standard says `uri`.
        let url = text("verification_uri").or_else(|| text("verification_url"));
        let (Some(device_code), Some(user_code), Some(url)) =
            (text("device_code"), text("user_code"), url)
        else {
            return Err(Refusal::Garbled("it holds no code to type").into());
        };
        let url = Url::parse(url).map_err(|_| SignInError::Address)?;
        if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(&url)) {
            return Err(SignInError::Address);
        }
        let interval_s = seconds("interval").unwrap_or(INTERVAL_S_DEFAULT).clamp(1, INTERVAL_S_MAX);
        let expires_s = seconds("expires_in").unwrap_or(EXPIRES_S_MAX).min(EXPIRES_S_MAX);
        Ok(DeviceCode {
            user_code: user_code.chars().filter(|c| !c.is_control()).take(32).collect(),
            url,
            secret: Secret::new(device_code),
            interval: Duration::from_secs(interval_s),
            expires: Duration::from_secs(expires_s),
        })
    }

    /// How long the code can be typed, from when it was given.
    pub fn expires(&self) -> Duration {
        self.expires
    }

    /// Asks until the owner has typed the code, refused, or waited too long.
    pub async fn tokens(mut self, http: &Http, grant: &Grant) -> Result<Tokens, SignInError> {
        let expires = self.expires;
        let tokens = self.tokens_within(expires, http, grant).await?;
        tokens.ok_or(SignInError::TimedOut { minutes: expires.as_secs() / 60 })
    }

    /// The same for so long at most; nothing when the owner has not typed the code until then.
    pub async fn tokens_within(
        &mut self,
        wait_max: Duration,
        http: &Http,
        grant: &Grant,
    ) -> Result<Option<Tokens>, SignInError> {
        let mut waited = Duration::ZERO;
        while waited < wait_max {
            tokio::time::sleep(self.interval).await;
            waited += self.interval;
            let mut form = Form::of(GRANT_TYPE);
            form.push("device_code", self.secret.expose());
            match grant.tokens(http, form).await {
                Ok(tokens) => return Ok(Some(tokens)),
                Err(refusal) => self.interval += next(&refusal).ok_or_else(|| ended(refusal))?,
            }
        }
        Ok(None)
    }
}

/// How much slower to go on asking; nothing when it is over.
fn next(refusal: &Refusal) -> Option<Duration> {
    match refusal {
        Refusal::Refused { code, .. } if code == "authorization_pending" => Some(Duration::ZERO),
        Refusal::Refused { code, .. } if code == "slow_down" => Some(Duration::from_secs(SLOWER_S)),
        // RFC 8628 3.5: a service in trouble is asked less often.
        Refusal::Http(_) => Some(Duration::from_secs(SLOWER_S)),
        Refusal::Status { status } | Refusal::Refused { status, .. }
            if *status >= 500 || *status == 429 =>
        {
            Some(Duration::from_secs(SLOWER_S))
        }
        _ => None,
    }
}

fn ended(refusal: Refusal) -> SignInError {
    match refusal.code() {
        Some(code @ ("access_denied" | "expired_token")) => {
            SignInError::Declined { code: code.to_owned() }
        }
        _ => refusal.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn the_place_to_type_is_https_or_this_machine() {
        for (url, is_good) in [
            ("https://www.google.com/device", true),
            ("http://127.0.0.1:9/device", true),
            ("http://www.google.com/device", false),
            ("javascript:alert(1)", false),
            ("nothing", false),
        ] {
            let answer = json!({ "device_code": "d", "user_code": "U-C", "verification_url": url });
            let code = DeviceCode::read(answer.as_object().unwrap());
            assert_eq!(code.is_ok(), is_good, "{url}");
        }
    }

    #[test]
    fn the_owner_is_waited_for_and_a_refusal_ends_it() {
        let refused = |status, code: &str| Refusal::Refused { status, code: code.to_owned() };
        for (refusal, expected) in [
            (refused(428, "authorization_pending"), Some(0)),
            (refused(403, "slow_down"), Some(5)),
            (refused(503, "error"), Some(5)),
            (Refusal::Status { status: 429 }, Some(5)),
            (refused(403, "access_denied"), None),
            (refused(400, "invalid_grant"), None),
            (refused(401, "invalid_client"), None),
        ] {
            assert_eq!(next(&refusal).map(|slower| slower.as_secs()), expected, "{refusal:?}");
        }
    }
}
