//! A JSON response built from stored JSON texts, both plain and quoted as a JSON string.

use policy::json::{Bounds, Doc, write_string};

/// Compact JSON, and the same escaped for a JSON string.
#[derive(Debug, Default, PartialEq)]
pub struct JsonText {
    plain: String,
    quoted: Vec<u8>,
}

impl JsonText {
    pub(crate) fn with_capacity(bytes: usize) -> JsonText {
        // Escaping adds a quarter or less.
        let quoted = Vec::with_capacity(bytes + bytes / 4);
        JsonText { plain: String::with_capacity(bytes), quoted }
    }

    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// Without the quotes around it.
    pub fn quoted(&self) -> &[u8] {
        &self.quoted
    }

    /// Adds a piece of JSON.
    pub(crate) fn push(&mut self, piece: &str) {
        self.plain.push_str(piece);
        quote(piece, &mut self.quoted);
    }

    /// Adds a piece and an object after it, if the object is valid JSON: a damaged record must not
    /// break the response.
    pub(crate) fn push_object(&mut self, before: &str, object: &str) -> bool {
        let doc = Doc::read_shallow(object.as_bytes(), &Bounds::ANSWER, 0);
        let is_object = object.starts_with('{') && doc.is_ok();
        if is_object {
            self.push(before);
            self.push(object);
        }
        is_object
    }
}

fn quote(piece: &str, out: &mut Vec<u8>) {
    let begin = out.len();
    write_string(piece, out);
    // Without the outer quotes.
    out.pop();
    out.remove(begin);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const WHOLE: [&str; 5] = [
        r#"{"a":1}"#,
        "{}",
        r#"{"b":"}"}"#,
        r#"{"c": "\u00e9\n", "d":[]}"#,
        r#"{"id":"ac1c044b-ebb8-43cc-9139-958213d0f15e","is_longer_than_a_key":true}"#,
    ];

    fn written(objects: &[&str]) -> JsonText {
        let mut written = JsonText::default();
        written.push("{\"records\":[");
        for (at, object) in objects.iter().enumerate() {
            let before = if at == 0 { "" } else { "," };
            assert!(written.push_object(before, object), "{object}");
        }
        written.push("]}");
        written
    }

    #[test]
    fn both_forms_agree() {
        let written = written(&WHOLE);
        assert_eq!(written.plain(), format!("{{\"records\":[{}]}}", WHOLE.join(",")));
        let quoted = format!("\"{}\"", std::str::from_utf8(written.quoted()).unwrap());
        assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), written.plain());
    }

    #[test]
    fn a_damaged_object_is_left_out() {
        let before = written(&WHOLE);
        let long = WHOLE.last().unwrap();
        let cut = long.get(..long.len() - 3).unwrap();
        let bad =
            ["[1]", "", r#"{"a":1}}"#, r#"{"a":1,"b"}"#, "{\"a\":\"\u{1}\"}", "{\"a\":\"x}", cut];
        for damaged in bad {
            let mut written = written(&WHOLE);
            assert!(!written.push_object(",", damaged), "{damaged}");
            assert_eq!(written, before);
        }
    }
}
