//! Which members of client info and client capabilities only describe the client. Everything else in them is free
//! text or free JSON that reaches a server with a call.

use policy::json::{Kind, Value};

use crate::capabilities::{APPS, SKILLS, TASKS};
use crate::edit::{self, Member};

/// The longest name or version of a client.
const NAME_BYTES_MAX: usize = 64;
/// Objects and flags that the protocol defines in capabilities, at any depth.
const CAPABILITIES: [&str; 20] = [
    "roots",
    "listChanged",
    "sampling",
    "tools",
    "context",
    "createMessage",
    "elicitation",
    "form",
    "url",
    "create",
    "tasks",
    "list",
    "cancel",
    "requests",
    "extensions",
    "experimental",
    "mimeTypes",
    APPS,
    TASKS,
    SKILLS,
];
const APP_PAGE: &str = "text/html;profile=mcp-app";

/// Whether a member of client info is a short name or version without blanks.
fn is_plain_info(key: &str, value: Value<'_>) -> bool {
    let is_word = |text: &str| {
        text.len() <= NAME_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    matches!(key, "name" | "version") && value.as_str().is_some_and(|text| is_word(&text))
}

/// Whether a member of capabilities has only members and values that the protocol defines.
fn is_plain_capability(key: &str, value: Value<'_>) -> bool {
    if !CAPABILITIES.contains(&key) {
        return false;
    }
    match value.kind() {
        Kind::Bool => true,
        Kind::Object => value.entries().all(|(key, value)| is_plain_capability(&key.text(), value)),
        Kind::Array => value.items().all(|item| item.as_str().is_some_and(|text| text == APP_PAGE)),
        _ => false,
    }
}

/// The members of client info that do more than describe the client, if it has any.
pub fn more_than_info(info: Value<'_>) -> Option<String> {
    others(info, is_plain_info)
}

/// The members of client capabilities that do more than describe the client, if it has any.
pub fn more_than_capabilities(capabilities: Value<'_>) -> Option<String> {
    others(capabilities, is_plain_capability)
}

fn others(object: Value<'_>, is_plain: fn(&str, Value<'_>) -> bool) -> Option<String> {
    if object.kind() != Kind::Object {
        return Some(object.raw().to_owned());
    }
    if object.entries().all(|(key, value)| is_plain(&key.text(), value)) {
        return None;
    }
    let change = |key: &str, value: Value<'_>| {
        if is_plain(key, value) { Member::Drop } else { Member::Keep }
    };
    Some(edit::object(object, change, &[]))
}

/// Client info without members other than name and version.
pub(crate) fn name_and_version(info: Value<'_>) -> String {
    let change = |key: &str, value: Value<'_>| {
        let is_kept = matches!(key, "name" | "version") && value.kind() == Kind::String;
        if is_kept { Member::Keep } else { Member::Drop }
    };
    edit::object(info, change, &[])
}

/// The capabilities without members that the protocol does not define.
pub(crate) fn defined_capabilities(capabilities: Value<'_>) -> String {
    edit::object(capabilities, defined_capability, &[])
}

fn defined_capability(key: &str, value: Value<'_>) -> Member {
    if is_plain_capability(key, value) {
        Member::Keep
    } else if CAPABILITIES.contains(&key) && value.kind() == Kind::Object {
        Member::Replace(edit::object(value, defined_capability, &[]))
    } else {
        Member::Drop
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::*;

    #[test]
    fn capabilities_keep_what_the_protocol_defines() {
        let table = [
            (
                r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}"#,
                r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}"#,
                None,
            ),
            (
                r#"{"experimental":{"to":"mallory"},"roots":{}}"#,
                r#"{"experimental":{},"roots":{}}"#,
                Some(r#"{"experimental":{"to":"mallory"}}"#),
            ),
            (
                r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#,
                r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#,
                None,
            ),
            (
                r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["mallory"]}}}"#,
                r#"{"extensions":{"io.modelcontextprotocol/ui":{}}}"#,
                Some(r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["mallory"]}}}"#),
            ),
            (r#"{"roots":"mallory"}"#, "{}", Some(r#"{"roots":"mallory"}"#)),
            (
                r#"{"roots":{"listChanged":7}}"#,
                r#"{"roots":{}}"#,
                Some(r#"{"roots":{"listChanged":7}}"#),
            ),
        ];
        for (given, defined, more) in table {
            let doc = Doc::read(given.as_bytes(), &Bounds::MESSAGE).unwrap();
            assert_eq!(defined_capabilities(doc.root()), defined, "{given}");
            assert_eq!(more_than_capabilities(doc.root()).as_deref(), more, "{given}");
        }
    }
}
