//! The client's rules: where to find an authorization server, what to believe of its documents, what to send,
//! and which response to accept.

pub mod address;
pub mod callback;
pub mod challenge;
pub mod discovery;
pub mod id_token;
pub mod jwks;
pub mod metadata;
pub mod registration;
pub mod scope;

/// The value of a member that must be a string. `null` counts as absent.
pub(crate) fn text<'v>(object: &'v serde_json::Value, name: &str) -> Option<&'v str> {
    object.get(name).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty())
}

/// The strings of an array member. `null` and other types count as absent.
pub(crate) fn texts(object: &serde_json::Value, name: &str) -> Option<Vec<String>> {
    let items = object.get(name)?.as_array()?;
    Some(items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
}
