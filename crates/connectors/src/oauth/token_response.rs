//! Parses a response of the token endpoint: tokens or a refusal. Its text is never passed on.

use serde_json::{Map, Value};
use store::accounts::{Account, AccountState};
use store::secret::Secret;

use crate::http::{HttpError, Reply};

const SECOND_US: i64 = 1_000_000;
/// The default lifetime, which RFC 6749 leaves to the service.
const EXPIRES_S_DEFAULT: i64 = 3600;
const EXPIRES_S_MAX: i64 = 400 * 24 * 3600;
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A token response.
pub struct Tokens {
    pub access: Secret,
    pub refresh: Option<Secret>,
    pub expires_s: i64,
    /// The lifetime, if the response names one.
    pub expires_given_s: Option<i64>,
    pub scopes: Option<Vec<String>>,
    pub token_type: Option<String>,
}

/// Why there are no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// The endpoint's error code, such as `invalid_grant`.
    #[error("it answered `{code}`{}", hint(.code))]
    Refused { status: u16, code: String },
    #[error("it answered with status {status}")]
    Status { status: u16 },
    #[error("its response cannot be used: {0}")]
    Malformed(&'static str),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{0}")]
    Missing(String),
}

impl TokenRefusal {
    /// Has the login ended, by one of the service's error codes for that? The codes of a failing
    /// service (5xx) do not count.
    pub fn is_dead(&self, codes: &[&str]) -> bool {
        match self {
            TokenRefusal::Refused { status, code } => {
                *status < 500 && *status != 429 && codes.contains(&code.as_str())
            }
            _ => false,
        }
    }

    /// Does the service not know the application (any more)?
    pub fn is_unknown_client(&self) -> bool {
        self.code() == Some("invalid_client")
    }

    /// Did the service respond? Otherwise it is unknown whether the request had an effect.
    pub fn was_answered(&self) -> bool {
        !matches!(self, TokenRefusal::Http(_) | TokenRefusal::Malformed(_))
    }

    pub fn code(&self) -> Option<&str> {
        match self {
            TokenRefusal::Refused { code, .. } => Some(code),
            _ => None,
        }
    }
}

fn hint(code: &str) -> &'static str {
    match code {
        "invalid_client" => ": the client id or secret is not the one of the app",
        "invalid_scope" => ": the app may not ask for one of the scopes; look at its settings",
        "redirect_uri_mismatch" => ": the redirect address is not the registered one",
        _ => "",
    }
}

/// Parses the response of a token endpoint.
pub fn read(reply: &Reply) -> Result<Tokens, TokenRefusal> {
    let value: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let object = value.as_ref().and_then(Value::as_object);
    // Some services refuse with status 200.
    if let Some(code) = object.and_then(refusal_code) {
        return Err(TokenRefusal::Refused { status: reply.status, code });
    }
    // RFC 6749 5.2: a token endpoint answers 401 to an unknown client, with any text.
    if reply.status == 401 {
        return Err(TokenRefusal::Refused { status: 401, code: "invalid_client".to_owned() });
    }
    if !reply.is_success() {
        return Err(TokenRefusal::Status { status: reply.status });
    }
    Tokens::read(object.ok_or(TokenRefusal::Malformed("it is not a JSON object"))?)
}

/// The error code, if it is a single word: any other text may quote our request.
fn refusal_code(object: &Map<String, Value>) -> Option<String> {
    let code = match object.get("error")? {
        Value::String(code) => code.as_str(),
        // The form of non-OAuth APIs.
        Value::Object(error) => error.get("status").and_then(Value::as_str).unwrap_or_default(),
        // Reddit sends a number instead of a word.
        Value::Number(status) if status.as_u64() == Some(401) => "invalid_client",
        _ => "",
    };
    let is_word = !code.is_empty()
        && code.len() <= 64
        && code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    Some(if is_word { code.to_owned() } else { "error".to_owned() })
}

impl Tokens {
    /// Parses a token response, from a service or from a file of the owner.
    pub fn read(object: &Map<String, Value>) -> Result<Tokens, TokenRefusal> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
        let access =
            text("access_token").ok_or(TokenRefusal::Malformed("it holds no `access_token`"))?;
        let refresh = text("refresh_token");
        for token in [Some(access), refresh].into_iter().flatten() {
            if token.len() > TOKEN_BYTES_MAX || !token.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(TokenRefusal::Malformed("a token is not a valid header value"));
            }
        }
        let scopes = text("scope").map(|scope| {
            let scopes = scope.split([' ', ',']).filter(|word| !word.is_empty());
            scopes.map(str::to_owned).collect()
        });
        Ok(Tokens {
            access: Secret::new(access),
            refresh: refresh.map(Secret::new),
            expires_s: expires_s(object.get("expires_in")).unwrap_or(EXPIRES_S_DEFAULT),
            expires_given_s: expires_s(object.get("expires_in")),
            scopes,
            token_type: text("token_type").map(str::to_owned),
        })
    }

    /// Stores the tokens in an account. Without a new refresh token the old one is kept.
    pub fn apply(self, account: &mut Account, now_us: i64) {
        account.access = Some(self.access);
        if self.refresh.is_some() {
            account.refresh = self.refresh;
        }
        if let Some(scopes) = self.scopes {
            account.scopes = scopes;
        }
        if let Some(token_type) = self.token_type {
            account.token_type = token_type;
        }
        account.expires_us = Some(now_us.saturating_add(self.expires_s.saturating_mul(SECOND_US)));
        account.refreshed_us = Some(now_us);
        account.refreshing_us = None;
        account.state = AccountState::Live;
    }
}

fn expires_s(value: Option<&Value>) -> Option<i64> {
    let seconds: Option<i64> = match value {
        Some(Value::String(text)) => text.trim().parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "clamped below")]
        Some(Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds as i64))
        }
        _ => None,
    };
    seconds.map(|seconds| seconds.clamp(0, EXPIRES_S_MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use bytes::Bytes;
    use hyper::HeaderMap;

    fn answer(status: u16, body: &str) -> Result<Tokens, TokenRefusal> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        read(&Reply { status, headers: HeaderMap::new(), body })
    }

    #[test]
    fn an_ended_login_differs_from_an_outage() {
        let dead = ["invalid_grant", "invalid_request"];
        for (status, body, expected) in [
            (400, r#"{"error":"invalid_grant"}"#, true),
            (401, r#"{"error":"invalid_request","error_description":"x"}"#, true),
            (200, r#"{"error":"invalid_grant"}"#, true),
            (401, r#"{"error":"invalid_client"}"#, false),
            (429, r#"{"error":"invalid_grant"}"#, false),
            (503, r#"{"error":"invalid_grant"}"#, false),
            (500, "<html>", false),
            (400, "nothing", false),
            (200, "<html>", false),
            (200, "{}", false),
        ] {
            let refusal = answer(status, body).err().unwrap();
            assert_eq!(refusal.is_dead(&dead), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_refusal_never_quotes_more_than_a_word() {
        for body in
            [r#"{"error":"token s3cr3t-T0ken is bad"}"#, r#"{"error":{"message":"s3cr3t"}}"#]
        {
            let refusal = answer(400, body).err().unwrap().to_string();
            assert!(!refusal.contains("s3cr3t"), "{refusal}");
        }
    }

    #[test]
    fn a_response_without_a_refresh_token_keeps_the_old_one() {
        let mut account = Account::new("x", 0);
        account.refresh = Some(Secret::new("old"));
        account.scopes = vec!["a".to_owned()];
        let tokens = answer(200, r#"{"access_token":"new","expires_in":"60"}"#).ok().unwrap();
        tokens.apply(&mut account, 1_000_000);
        assert_eq!(account.refresh.unwrap().expose(), "old");
        assert_eq!(account.access.unwrap().expose(), "new");
        assert_eq!(account.expires_us, Some(61_000_000));
        assert_eq!(account.scopes, ["a"]);
    }

    #[test]
    fn odd_expiries_are_bounded() {
        for (value, expected) in [
            ("3600", 3600),
            ("\"60\"", 60),
            ("59.9", 59),
            ("-5", 0),
            ("1e300", EXPIRES_S_MAX),
            ("null", EXPIRES_S_DEFAULT),
            ("[]", EXPIRES_S_DEFAULT),
        ] {
            let body = format!(r#"{{"access_token":"a","expires_in":{value}}}"#);
            assert_eq!(answer(200, &body).ok().unwrap().expires_s, expected, "{value}");
        }
    }

    #[test]
    fn a_token_that_would_split_a_header_is_refused() {
        assert!(answer(200, r#"{"access_token":"a\r\nX: y"}"#).is_err());
        assert!(answer(200, r#"{"access_token":"a","refresh_token":"b c"}"#).is_err());
    }
}
