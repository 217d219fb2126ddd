//! Requests to the token and revocation endpoints.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::refusal::{ErrorCode, Refusal};
use super::{Pairs, SCOPE, needed, single};

/// How a client names itself at the token endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    pub id: String,
    pub secret: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub enum TokenRequest<'p> {
    Code {
        code: &'p str,
        redirect_uri: Option<&'p str>,
        verifier: &'p str,
        resource: Option<&'p str>,
    },
    Refresh {
        token: &'p str,
        resource: Option<&'p str>,
    },
}

impl ClientCredentials {
    /// From the Authorization header or the form, never both.
    pub fn of(authorization: Option<&str>, form: &Pairs) -> Result<ClientCredentials, Refusal> {
        let wrong = |description: &'static str| Refusal::new(ErrorCode::InvalidClient, description);
        let in_form = single(form, "client_id")?;
        let secret = single(form, "client_secret")?.map(str::to_owned);
        let Some(header) = authorization else {
            let id = in_form.ok_or_else(|| wrong("`client_id` is missing"))?;
            return Ok(ClientCredentials { id: id.to_owned(), secret });
        };
        let (id, password) =
            basic(header).ok_or_else(|| wrong("the Authorization header is not `Basic`"))?;
        if secret.is_some() || in_form.is_some_and(|named| named != id) {
            return Err(wrong("the client names itself in two ways"));
        }
        Ok(ClientCredentials { id, secret: Some(password).filter(|password| !password.is_empty()) })
    }
}

impl<'p> TokenRequest<'p> {
    pub fn parse(form: &'p Pairs) -> Result<TokenRequest<'p>, Refusal> {
        let resource = single(form, "resource")?;
        match needed(form, "grant_type")? {
            "authorization_code" => Ok(TokenRequest::Code {
                code: needed(form, "code")?,
                redirect_uri: single(form, "redirect_uri")?,
                verifier: needed(form, "code_verifier")?,
                resource,
            }),
            "refresh_token" => {
                Ok(TokenRequest::Refresh { token: needed(form, "refresh_token")?, resource })
            }
            _ => Err(Refusal::new(
                ErrorCode::UnsupportedGrantType,
                "`grant_type` is `authorization_code` or `refresh_token`",
            )),
        }
    }
}

/// The token that a revocation request names (RFC 7009).
pub fn revoked_token(form: &Pairs) -> Result<&str, Refusal> {
    needed(form, "token")
}

/// The response with new tokens.
#[must_use]
pub fn tokens(access: &str, refresh: Option<&str>, expires_in_seconds: i64) -> Value {
    let mut body = json!({
        "access_token": access,
        "token_type": "Bearer",
        "expires_in": expires_in_seconds,
        "scope": SCOPE,
    });
    if let (Some(refresh), Some(members)) = (refresh, body.as_object_mut()) {
        members.insert("refresh_token".to_owned(), refresh.into());
    }
    body
}

/// Both parts are form-encoded before they are joined (RFC 6749, 2.3.1).
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, value) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
    let (id, secret) = pair.split_once(':')?;
    let decoded = |text: &str| {
        let pair = format!("v={text}");
        let mut parsed = url::form_urlencoded::parse(pair.as_bytes());
        parsed.next().map(|(_, value)| value.into_owned())
    };
    Some((decoded(id)?, decoded(secret)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_client_names_itself_in_one_way() {
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let named = |header: Option<&str>, pairs: &[(&str, &str)]| {
            let found = ClientCredentials::of(header, &form(pairs)).ok()?;
            Some((found.id, found.secret.unwrap_or_default()))
        };
        let pair = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        assert_eq!(named(None, &[("client_id", "c")]), pair("c", ""));
        assert_eq!(named(None, &[("client_id", "c"), ("client_secret", "s")]), pair("c", "s"));
        assert_eq!(named(Some(&basic("c:s")), &[]), pair("c", "s"));
        assert_eq!(named(Some(&basic("c%3Ad:s%26+t")), &[]), pair("c:d", "s& t"));
        assert_eq!(named(Some(&basic("c:")), &[("client_id", "c")]), pair("c", ""));
        assert_eq!(named(Some(&basic("c:s")), &[("client_id", "d")]), None);
        assert_eq!(named(Some(&basic("c:s")), &[("client_secret", "s")]), None);
        assert_eq!(named(Some("Bearer x"), &[("client_id", "c")]), None);
        assert_eq!(named(Some("Basic ?"), &[]), None);
        assert_eq!(named(None, &[]), None);
    }

    #[test]
    fn a_token_request_names_what_it_exchanges() {
        let code = |pairs: &[(&str, &str)]| {
            TokenRequest::parse(&form(pairs)).err().map(|refusal| refusal.code.as_str())
        };
        let exchange = ("grant_type", "authorization_code");
        assert_eq!(code(&[exchange, ("code", "c"), ("code_verifier", "v")]), None);
        assert_eq!(code(&[exchange, ("code", "c")]), Some("invalid_request"));
        assert_eq!(code(&[exchange, ("code_verifier", "v")]), Some("invalid_request"));
        assert_eq!(code(&[("grant_type", "refresh_token"), ("refresh_token", "r")]), None);
        assert_eq!(code(&[("grant_type", "refresh_token")]), Some("invalid_request"));
        assert_eq!(code(&[("grant_type", "password")]), Some("unsupported_grant_type"));
        assert_eq!(code(&[]), Some("invalid_request"));
        let twice = [exchange, ("code", "c"), ("code", "d"), ("code_verifier", "v")];
        assert_eq!(code(&twice), Some("invalid_request"));
    }
}
