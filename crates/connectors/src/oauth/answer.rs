//! What a token endpoint answers: tokens, or a refusal. The text of an answer is never passed on.

use serde_json::{Map, Value};
use store::accounts::{Account, State};
use store::secret::Secret;

use crate::http::{HttpError, Reply};

const SECOND_US: i64 = 1_000_000;
/// What RFC 6749 leaves to the service, and every service here documents.
const EXPIRES_S_DEFAULT: i64 = 3600;
const EXPIRES_S_MAX: i64 = 400 * 24 * 3600;
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A token response.
pub struct Tokens {
    pub access: Secret,
    pub refresh: Option<Secret>,
    pub expires_s: i64,
    pub scopes: Option<Vec<String>>,
    pub token_type: Option<String>,
}

/// Why there are no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The endpoint's own word for it, such as `invalid_grant`.
    #[error("it answered `{code}`{}", hint(.code))]
    Refused { status: u16, code: String },
    #[error("it answered with status {status}")]
    Status { status: u16 },
    #[error("its answer cannot be used: {0}")]
    Garbled(&'static str),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{0}")]
    Missing(String),
}

impl Refusal {
    /// Is the login gone, by the words the service uses for that? An overloaded service says
    /// anything, so its words do not count then.
    pub fn is_dead(&self, words: &[&str]) -> bool {
        match self {
            Refusal::Refused { status, code } => {
                *status < 500 && *status != 429 && words.contains(&code.as_str())
            }
            _ => false,
        }
    }

    /// Did the service itself speak? Otherwise nobody knows what it has done.
    pub fn was_answered(&self) -> bool {
        !matches!(self, Refusal::Http(_) | Refusal::Garbled(_))
    }

    pub fn code(&self) -> Option<&str> {
        match self {
            Refusal::Refused { code, .. } => Some(code),
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

/// Reads the answer of a token endpoint.
pub fn read(reply: &Reply) -> Result<Tokens, Refusal> {
    let value: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let object = value.as_ref().and_then(Value::as_object);
    // Some services refuse with status 200.
    if let Some(code) = object.and_then(refusal_code) {
        return Err(Refusal::Refused { status: reply.status, code });
    }
    // RFC 6749 5.2: a token endpoint answers 401 to a client it does not know, in whatever words.
    if reply.status == 401 {
        return Err(Refusal::Refused { status: 401, code: "invalid_client".to_owned() });
    }
    if !reply.is_success() {
        return Err(Refusal::Status { status: reply.status });
    }
    Tokens::read(object.ok_or(Refusal::Garbled("it is no JSON object"))?)
}

/// The error word, if it is one: what looks like anything else may quote what we sent.
fn refusal_code(object: &Map<String, Value>) -> Option<String> {
    let code = match object.get("error")? {
        Value::String(code) => code.as_str(),
        // As APIs beside OAuth write it.
        Value::Object(error) => error.get("status").and_then(Value::as_str).unwrap_or_default(),
        // Reddit has a number where others have a word.
        Value::Number(status) if status.as_u64() == Some(401) => "invalid_client",
        _ => "",
    };
    let is_word = !code.is_empty()
        && code.len() <= 64
        && code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    Some(if is_word { code.to_owned() } else { "error".to_owned() })
}

impl Tokens {
    /// Reads a token response, from a service or from a file of the owner's.
    pub fn read(object: &Map<String, Value>) -> Result<Tokens, Refusal> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
        let access = text("access_token").ok_or(Refusal::Garbled("it holds no `access_token`"))?;
        let refresh = text("refresh_token");
        for token in [Some(access), refresh].into_iter().flatten() {
            if token.len() > TOKEN_BYTES_MAX || !token.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(Refusal::Garbled("a token holds what no header can carry"));
            }
        }
        let scopes = text("scope").map(|scope| {
            let words = scope.split([' ', ',']).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        });
        Ok(Tokens {
            access: Secret::new(access),
            refresh: refresh.map(Secret::new),
            expires_s: expires_s(object.get("expires_in")),
            scopes,
            token_type: text("token_type").map(str::to_owned),
        })
    }

    /// Puts the tokens into an account. An answer without a refresh token leaves the one there is.
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
        account.state = State::Live;
    }
}

fn expires_s(value: Option<&Value>) -> i64 {
    let seconds = match value {
        Some(Value::String(text)) => text.trim().parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "clamped below")]
        Some(Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds as i64))
        }
        _ => None,
    };
    seconds.unwrap_or(EXPIRES_S_DEFAULT).clamp(0, EXPIRES_S_MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use bytes::Bytes;
    use hyper::HeaderMap;

    fn answer(status: u16, body: &str) -> Result<Tokens, Refusal> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        read(&Reply { status, headers: HeaderMap::new(), body })
    }

    #[test]
    fn dead_logins_and_outages_are_told_apart() {
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
    fn an_answer_without_a_refresh_token_keeps_the_old_one() {
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
