//! Collects every text of a definition with its JSON pointer: names, descriptions, keys and schema values
//! at any depth. Attacks have used all of them.

use policy::json::{Kind, Value};

/// The role of a text. Instructions in a name or a default value are more suspicious than in prose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A title or description.
    Prose,
    /// A tool name, a key or a choice: an identifier.
    Name,
    /// A default, an example or any other value.
    Value,
}

#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) pointer: String,
    pub(super) role: Role,
    pub(super) content: String,
}

/// Members without prose: patterns contain odd characters, icons base64.
const TECHNICAL_MEMBERS: &[&str] =
    &["$schema", "$ref", "$id", "$anchor", "type", "format", "pattern", "icons", "mimeType"];
/// Texts read from one definition, so that a huge one cannot stall a scan.
const TEXTS_MAX: usize = 20_000;

pub(super) fn texts(definition: Value<'_>) -> Vec<Text> {
    let mut out = Vec::new();
    walk("", "", definition, &mut out);
    out
}

fn walk(pointer: &str, key: &str, value: Value<'_>, out: &mut Vec<Text>) {
    if out.len() >= TEXTS_MAX {
        return;
    }
    match value.kind() {
        Kind::String => {
            let text = value.as_str().unwrap_or_default().into_owned();
            out.push(Text { pointer: pointer.to_owned(), role: role(key), content: text });
        }
        Kind::Array => {
            for (at, item) in value.items().enumerate() {
                walk(&format!("{pointer}/{at}"), key, item, out);
            }
        }
        Kind::Object => {
            let fields =
                matches!(key, "properties" | "$defs" | "definitions" | "patternProperties");
            for (name, member) in value.entries() {
                walk_member(pointer, &name.text(), fields, member, out);
            }
        }
        _ => {}
    }
}

/// Below `properties` a key is a name that the author chose; elsewhere it is a schema keyword.
fn walk_member(pointer: &str, name: &str, is_field: bool, member: Value<'_>, out: &mut Vec<Text>) {
    let below = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    if is_field || name.contains(' ') || name.len() > 30 {
        out.push(Text { pointer: below.clone(), role: Role::Name, content: name.to_owned() });
    }
    if is_field {
        walk(&below, "", member, out);
    } else if !TECHNICAL_MEMBERS.contains(&name) || member.kind() == Kind::Object {
        walk(&below, name, member, out);
    }
}

fn role(key: &str) -> Role {
    match key {
        "name" | "enum" | "const" | "required" => Role::Name,
        "default" | "example" | "examples" => Role::Value,
        _ => Role::Prose,
    }
}
