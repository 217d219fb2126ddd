//! Checks an ID token (OpenID Connect Core 3.1.3.7): signature, issuer, audience, times and nonce. The algorithm
//! is that of the issuer's key, so a token cannot choose `none` or an HMAC.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::jwks::SigningKey;
use super::text;
use crate::signature::{Algorithm, EcdsaForm};

/// A longer token is refused unread.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;
/// How far the clock of the issuer may be from ours.
pub const SKEW_SECONDS_MAX: i64 = 60;
/// A token that was issued longer ago is not from this sign-in.
pub const AGE_SECONDS_MAX: i64 = 600;
const SUBJECT_CHARS_MAX: usize = 255;

/// What the token of this sign-in must say.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// Seconds since 1970.
    pub now_s: i64,
}

/// The claims of a token that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    pub subject: String,
    pub all: Value,
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenRefused {
    #[error("it is not a signed token")]
    Malformed,
    #[error("its algorithm is not ES256, EdDSA or RS256")]
    Algorithm,
    #[error("it has a header that must be understood")]
    Critical,
    /// The issuer may have a new key.
    #[error("it names a key that the issuer does not publish")]
    UnknownKey,
    #[error("its signature is not that of the issuer")]
    Signature,
    #[error("it is from another issuer")]
    OtherIssuer,
    #[error("it is for another client")]
    OtherAudience,
    #[error("it has expired")]
    Expired,
    #[error("its time of issue is missing, in the future or too long ago")]
    IssuedAt,
    #[error("its nonce is not that of this sign-in")]
    OtherNonce,
    #[error("it has no usable `sub`")]
    NoSubject,
}

/// The claims of a token, if all of it is as expected.
pub fn check(
    token: &str,
    keys: &[SigningKey],
    expected: &Expected<'_>,
) -> Result<Claims, IdTokenRefused> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(IdTokenRefused::Malformed);
    }
    let mut parts = token.split('.');
    let (Some(head), Some(body), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(IdTokenRefused::Malformed);
    };
    let header = object(head)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| IdTokenRefused::Malformed)?;
    let message = format!("{head}.{body}");
    check_signature(&header, message.as_bytes(), &signature, keys)?;
    let claims = object(body)?;
    check_claims(&claims, expected)?;
    let subject = text(&claims, "sub")
        .filter(|sub| sub.chars().count() <= SUBJECT_CHARS_MAX)
        .ok_or(IdTokenRefused::NoSubject)?;
    Ok(Claims { subject: subject.to_owned(), all: claims })
}

fn object(part: &str) -> Result<Value, IdTokenRefused> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| IdTokenRefused::Malformed)?;
    let value: Option<Value> = serde_json::from_slice(&bytes).ok();
    value.filter(Value::is_object).ok_or(IdTokenRefused::Malformed)
}

fn check_signature(
    header: &Value,
    message: &[u8],
    signature: &[u8],
    keys: &[SigningKey],
) -> Result<(), IdTokenRefused> {
    let algorithm = text(header, "alg").and_then(Algorithm::parse);
    let algorithm = algorithm.ok_or(IdTokenRefused::Algorithm)?;
    if header.get("crit").is_some() {
        return Err(IdTokenRefused::Critical);
    }
    let named = text(header, "kid");
    let mut fitting = keys.iter().filter(|key| {
        let is_named = named.is_none() || key.kid.is_none() || key.kid.as_deref() == named;
        is_named && key.key.algorithm() == algorithm
    });
    let mut is_known = false;
    let is_signed = fitting.any(|key| {
        is_known = true;
        key.key.is_signature_of(message, signature, EcdsaForm::Fixed)
    });
    match (is_signed, is_known) {
        (true, _) => Ok(()),
        (false, true) => Err(IdTokenRefused::Signature),
        (false, false) => Err(IdTokenRefused::UnknownKey),
    }
}

fn check_claims(claims: &Value, expected: &Expected<'_>) -> Result<(), IdTokenRefused> {
    if text(claims, "iss") != Some(expected.issuer) {
        return Err(IdTokenRefused::OtherIssuer);
    }
    check_audience(claims, expected.client_id)?;
    let now_s = expected.now_s;
    let is_over = |exp: i64| now_s >= exp.saturating_add(SKEW_SECONDS_MAX);
    if seconds(claims, "exp").is_none_or(is_over) {
        return Err(IdTokenRefused::Expired);
    }
    let is_begun = |at: i64| at <= now_s.saturating_add(SKEW_SECONDS_MAX);
    let is_recent = |iat: i64| is_begun(iat) && now_s.saturating_sub(iat) <= AGE_SECONDS_MAX;
    if !seconds(claims, "iat").is_some_and(is_recent) {
        return Err(IdTokenRefused::IssuedAt);
    }
    if claims.get("nbf").is_some() && !seconds(claims, "nbf").is_some_and(is_begun) {
        return Err(IdTokenRefused::IssuedAt);
    }
    let nonce = text(claims, "nonce").unwrap_or_default();
    let is_same: bool = nonce.as_bytes().ct_eq(expected.nonce.as_bytes()).into();
    if nonce.is_empty() || !is_same {
        return Err(IdTokenRefused::OtherNonce);
    }
    Ok(())
}

/// Whole seconds; a fraction is cut off.
fn seconds(claims: &Value, name: &str) -> Option<i64> {
    let number = claims.get(name)?;
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))
}

/// The client must be in the audience. With several audiences, `azp` must name it; an `azp` must always fit.
fn check_audience(claims: &Value, client_id: &str) -> Result<(), IdTokenRefused> {
    let audience: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(all)) => {
            let texts: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            texts.ok_or(IdTokenRefused::OtherAudience)?
        }
        _ => return Err(IdTokenRefused::OtherAudience),
    };
    let authorized = claims.get("azp");
    let is_authorized = match authorized {
        Some(azp) => azp.as_str() == Some(client_id),
        None => audience.len() == 1,
    };
    if audience.contains(&client_id) && is_authorized {
        Ok(())
    } else {
        Err(IdTokenRefused::OtherAudience)
    }
}

#[cfg(test)]
mod tests;
