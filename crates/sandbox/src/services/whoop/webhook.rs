//! A webhook as WHOOP signs it: HMAC-SHA256 over the time and the raw body, with the client secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::Whoop;
use crate::error::ControlError;
use crate::rng::Rng;
use crate::webhook::Message;

/// Builds a signed webhook. `type` and `id` are required. `trace_id`, `secret` and `timestamp_ms` can be set to send a
/// duplicate, a wrong signature or an old message.
pub(super) fn message(whoop: &Whoop, about: &Value, now_us: i64) -> Result<Message, ControlError> {
    let text = |name: &str| about.get(name).and_then(Value::as_str);
    let needed = |name: &str| {
        text(name).ok_or_else(|| ControlError::Bad(format!("`{name}` is required, a string")))
    };
    let trace = Rng::stream(whoop.seed, "trace", now_us).uuid();
    let body = json!({
        "user_id": whoop.person.user_id,
        "id": needed("id")?,
        "type": needed("type")?,
        "trace_id": text("trace_id").unwrap_or(&trace),
    })
    .to_string();
    let at_ms = about.get("timestamp_ms").and_then(Value::as_i64).unwrap_or(now_us / 1_000);
    let secret = text("secret").unwrap_or(&whoop.provider.client().secret);
    let headers = vec![
        ("x-whoop-signature", sign(secret, at_ms, &body)),
        ("x-whoop-signature-timestamp", at_ms.to_string()),
    ];
    Ok(Message { headers, body })
}

fn sign(secret: &str, at_ms: i64, body: &str) -> String {
    // A key of any length is fine for HMAC.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(at_ms.to_string().as_bytes());
    mac.update(body.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::sign;

    #[test]
    fn the_signature_is_that_of_another_program() {
        // printf '1700000000000{"id":"a"}' | openssl dgst -sha256 -hmac key -binary | base64
        assert_eq!(
            sign("key", 1_700_000_000_000, r#"{"id":"a"}"#),
            "S8N7zlt891MCeLkz+GYJ3mPR0IaoxRpba6svyglseWE="
        );
    }
}
