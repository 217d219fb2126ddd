//! Device sign-in: the owner types a code on another device (RFC 8628).

use std::time::Duration;

use serde_json::{Map, Value};
use store::secret::Secret;
use url::Url;

use super::SignInError;
use super::grant::{Form, Grant};
use super::token_response::{self, TokenRefusal, Tokens};
use crate::account::{Account, SignIn};
use crate::http::Http;
use crate::http::is_loopback;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const INTERVAL_S_DEFAULT: u64 = 5;
const INTERVAL_S_MAX: u64 = 60;
/// The added interval after `slow_down`.
const SLOWER_S: u64 = 5;
const EXPIRES_S_MAX: u64 = 30 * 60;

/// The code to type and the URL to type it at.
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
            return Err(TokenRefusal::Malformed("this service has no device sign-in").into());
        };
        let mut form = Form::empty();
        form.push("scope", &account.scopes.join(" "));
        let reply = grant.post(http, device, form).await?;
        if !reply.is_success() {
            // Parsed for its refusal; a failed response never holds tokens.
            let refusal = token_response::read(&reply).err();
            return Err(refusal.unwrap_or(TokenRefusal::Status { status: reply.status }).into());
        }
        let object: Map<String, Value> = serde_json::from_slice(&reply.body)
            .map_err(|_| TokenRefusal::Malformed("it is not a JSON object"))?;
        DeviceCode::read(&object)
    }

    fn read(object: &Map<String, Value>) -> Result<DeviceCode, SignInError> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
        let seconds = |name: &str| object.get(name).and_then(Value::as_u64);
        // Google writes `url`, the standard `uri`.
        let url = text("verification_uri").or_else(|| text("verification_url"));
        let (Some(device_code), Some(user_code), Some(url)) =
            (text("device_code"), text("user_code"), url)
        else {
            return Err(TokenRefusal::Malformed("it holds no code to type").into());
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

    /// How long the code is valid.
    pub fn expires(&self) -> Duration {
        self.expires
    }

    /// Polls until the owner has typed the code, declined, or the code has expired.
    pub async fn tokens(mut self, http: &Http, grant: &Grant) -> Result<Tokens, SignInError> {
        let expires = self.expires;
        let tokens = self.tokens_within(expires, http, grant).await?;
        tokens.ok_or(SignInError::TimedOut { minutes: expires.as_secs() / 60 })
    }

    /// The same with a time limit; `None` if the code was not typed in that time.
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

/// The increase of the polling interval; `None` if polling must end.
fn next(refusal: &TokenRefusal) -> Option<Duration> {
    match refusal {
        TokenRefusal::Refused { code, .. } if code == "authorization_pending" => {
            Some(Duration::ZERO)
        }
        TokenRefusal::Refused { code, .. } if code == "slow_down" => {
            Some(Duration::from_secs(SLOWER_S))
        }
        // RFC 8628 3.5: back off after a connection failure.
        TokenRefusal::Http(_) => Some(Duration::from_secs(SLOWER_S)),
        TokenRefusal::Status { status } | TokenRefusal::Refused { status, .. }
            if *status >= 500 || *status == 429 =>
        {
            Some(Duration::from_secs(SLOWER_S))
        }
        _ => None,
    }
}

fn ended(refusal: TokenRefusal) -> SignInError {
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
    fn the_verification_url_is_https_or_loopback() {
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
    fn polling_continues_until_a_refusal() {
        let refused = |status, code: &str| TokenRefusal::Refused { status, code: code.to_owned() };
        for (refusal, expected) in [
            (refused(428, "authorization_pending"), Some(0)),
            (refused(403, "slow_down"), Some(5)),
            (refused(503, "error"), Some(5)),
            (TokenRefusal::Status { status: 429 }, Some(5)),
            (refused(403, "access_denied"), None),
            (refused(400, "invalid_grant"), None),
            (refused(401, "invalid_client"), None),
        ] {
            assert_eq!(next(&refusal).map(|slower| slower.as_secs()), expected, "{refusal:?}");
        }
    }
}
