//! Name and version of a client, stored in one string without losing the boundary.

use policy::json::Value;

/// Characters kept of a name or a version: both are in every audit row.
const PART_CHARACTERS_MAX: usize = 256;

/// The name and the version of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientInfo {
    /// `name version`, or the name alone.
    text: String,
    name_bytes: usize,
}

impl ClientInfo {
    /// Parses `clientInfo`.
    pub fn of(info: Value<'_>) -> ClientInfo {
        let part = |key: &str| {
            let text = info.get(key).and_then(Value::as_str).unwrap_or_default();
            text.chars().take(PART_CHARACTERS_MAX).collect::<String>()
        };
        let (mut text, version) = (part("name"), part("version"));
        let name_bytes = text.len();
        if !version.is_empty() {
            text.push(' ');
            text.push_str(&version);
        }
        ClientInfo { text, name_bytes }
    }

    /// Name and version separated by a space, for rules.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn name(&self) -> &str {
        self.text.get(..self.name_bytes).unwrap_or_default()
    }

    pub fn version(&self) -> Option<&str> {
        self.text.get(self.name_bytes + 1..).filter(|version| !version.is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::*;

    #[test]
    fn name_and_version_are_separated_whatever_they_contain() {
        let long = "x".repeat(300);
        let table = [
            (r#"{"name":"Claude Code","version":"2.0"}"#.to_owned(), "Claude Code", Some("2.0")),
            (r#"{"name":"Claude Code"}"#.to_owned(), "Claude Code", None),
            (r#"{"name":"a","version":"1.0 beta"}"#.to_owned(), "a", Some("1.0 beta")),
            (r#"{"name":"a","version":""}"#.to_owned(), "a", None),
            (r#"{"version":"1"}"#.to_owned(), "", Some("1")),
            (r#"{"name":7}"#.to_owned(), "", None),
            (format!(r#"{{"name":"{long}"}}"#), long.get(..256).unwrap(), None),
        ];
        for (info, name, version) in table {
            let doc = Doc::read(info.as_bytes(), &Bounds::MESSAGE).unwrap();
            let client = ClientInfo::of(doc.root());
            assert_eq!((client.name(), client.version()), (name, version), "{info}");
        }
    }
}
