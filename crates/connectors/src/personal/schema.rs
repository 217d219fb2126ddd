//! Pieces of JSON Schema that many rows share. They are macros, because `concat!` takes only literals.

/// An input schema: its properties, then the names that are required, both as JSON text.
macro_rules! takes {
    ($properties:expr) => {
        concat!(
            r#"{"type":"object","properties":{"#,
            $properties,
            r#"},"additionalProperties":false}"#
        )
    };
    ($properties:expr, $required:expr) => {
        concat!(
            r#"{"type":"object","properties":{"#,
            $properties,
            r#"},"required":["#,
            $required,
            r#"],"additionalProperties":false}"#
        )
    };
}

/// An output schema.
macro_rules! gives {
    ($properties:expr, $required:expr) => {
        concat!(
            r#"{"type":"object","properties":{"#,
            $properties,
            r#"},"required":["#,
            $required,
            r#"]}"#
        )
    };
}

/// A secret that older agents send along. It is taken and ignored.
macro_rules! ignored_secret {
    ($name:literal) => {
        concat!(
            "\"",
            $name,
            r#"":{"type":["string","null"],"deprecated":true,"description":"Ignored: credentials are kept by tollgate and never pass through a conversation."}"#
        )
    };
}

/// A whole number with a default and bounds that are kept to silently.
macro_rules! number {
    ($name:literal, $default:literal, $min:literal, $max:literal, $words:literal) => {
        concat!(
            "\"",
            $name,
            r#"":{"type":["integer","null"],"default":"#,
            $default,
            r#","minimum":"#,
            $min,
            r#","maximum":"#,
            $max,
            r#","description":""#,
            $words,
            r#""}"#
        )
    };
}

/// A text that may be left out.
macro_rules! text {
    ($name:literal, $words:literal) => {
        concat!("\"", $name, r#"":{"type":["string","null"],"description":""#, $words, r#""}"#)
    };
}

/// A text that must be given.
macro_rules! needed {
    ($name:literal, $words:literal) => {
        concat!("\"", $name, r#"":{"type":"string","description":""#, $words, r#""}"#)
    };
}

pub(crate) use {gives, ignored_secret, needed, number, takes, text};

/// What a tool answers that says one sentence.
pub(crate) const SENTENCE: &str = gives!(r#""result":{"type":"string"}"#, r#""result""#);
pub(crate) const NOTHING: &str = takes!("");

/// How a login stands, in status only.
pub(crate) const STANDING: &str = gives!(
    r#""status":{"type":"string"},"message":{"type":"string"},"token_info":{"type":"object","properties":{"has_tokens":{"type":"boolean"},"state":{"enum":["not_configured","valid","expiring_soon","expired","ended"]},"has_access_token":{"type":"boolean"},"has_refresh_token":{"type":"boolean"},"is_expired":{"type":"boolean"},"expires_in_seconds":{"type":["integer","null"]},"expires_in_minutes":{"type":["integer","null"]},"expires_at":{"type":["string","null"]},"refreshed_at":{"type":["string","null"]},"scopes":{"type":"array","items":{"type":"string"}},"consent_ends_at":{"type":["string","null"]},"consent_days_left":{"type":["integer","null"]}},"required":["has_tokens","state"]}"#,
    r#""status","token_info""#
);

/// What came of a refresh.
pub(crate) const REFRESHED: &str = gives!(
    r#""status":{"type":"string"},"message":{"type":"string"},"token_refreshed":{"type":"boolean"},"expires_in_seconds":{"type":["integer","null"]},"expires_at":{"type":["string","null"]}"#,
    r#""status","message","token_refreshed""#
);
