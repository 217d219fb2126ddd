//! An answer that is put together from texts which lie ready, in both of the spellings it is shown in.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use policy::json::{Bounds, Doc, write_quoted_object, write_string};

/// Objects that are remembered, and how long each may be: a few megabytes at the very most.
const OBJECTS_MAX: usize = 256;
const OBJECT_BYTES_MAX: usize = 4 << 10;
/// An object is looked for by its first bytes, where its id stands.
const KEY_BYTES: usize = 48;

/// Compact JSON, and the same as it stands inside a JSON string.
#[derive(Debug, Default, PartialEq)]
pub struct Written {
    plain: String,
    quoted: Vec<u8>,
}

/// Objects that were checked and quoted before. The same days are asked for again and again, and what
/// is still the same text need not be gone through anew.
#[derive(Default)]
pub(crate) struct Quoted(Mutex<HashMap<Box<str>, Known>>);

struct Known {
    plain: Box<str>,
    quoted: Box<[u8]>,
}

impl Written {
    pub(crate) fn with_capacity(bytes: usize) -> Written {
        // The quotes of JSON are a quarter of it or less.
        let quoted = Vec::with_capacity(bytes + bytes / 4);
        Written { plain: String::with_capacity(bytes), quoted }
    }

    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// Without the quotes around it.
    pub fn quoted(&self) -> &[u8] {
        &self.quoted
    }

    /// How long it is in both spellings.
    pub(crate) fn bytes(&self) -> usize {
        self.plain.len() + self.quoted.len()
    }

    /// Adds a piece of JSON.
    pub(crate) fn push(&mut self, piece: &str) {
        self.plain.push_str(piece);
        quote(piece, &mut self.quoted);
    }

    /// Adds a piece and an object after it, if the object is one: what was damaged where it lay must
    /// not break the answer around it.
    pub(crate) fn push_object(&mut self, before: &str, object: &str, known: &Quoted) -> bool {
        let begin = self.quoted.len();
        quote(before, &mut self.quoted);
        let is_object = known.quote(object, &mut self.quoted);
        if is_object {
            self.plain.push_str(before);
            self.plain.push_str(object);
        } else {
            self.quoted.truncate(begin);
        }
        is_object
    }
}

impl Quoted {
    fn quote(&self, object: &str, out: &mut Vec<u8>) -> bool {
        let key = object.get(..KEY_BYTES).unwrap_or_default();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(key).filter(|known| *known.plain == *object) {
            out.extend_from_slice(&same.quoted);
            return true;
        }
        let begin = out.len();
        if !quote_object(object, out) {
            return false;
        }
        if object.len() <= OBJECT_BYTES_MAX {
            if known.len() >= OBJECTS_MAX {
                known.clear();
            }
            let quoted = out.get(begin..).unwrap_or_default().into();
            known.insert(key.into(), Known { plain: object.into(), quoted });
        }
        true
    }
}

fn quote_object(object: &str, out: &mut Vec<u8>) -> bool {
    if write_quoted_object(object, out) {
        return true;
    }
    let doc = Doc::read_shallow(object.as_bytes(), &Bounds::ANSWER, 0);
    let is_object = object.starts_with('{') && doc.is_ok();
    if is_object {
        quote(object, out);
    }
    is_object
}

fn quote(piece: &str, out: &mut Vec<u8>) {
    let begin = out.len();
    write_string(piece, out);
    // The quotes at its ends are for the whole.
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

    fn written(objects: &[&str], known: &Quoted) -> Written {
        let mut written = Written::default();
        written.push("{\"records\":[");
        for (at, object) in objects.iter().enumerate() {
            let before = if at == 0 { "" } else { "," };
            assert!(written.push_object(before, object, known), "{object}");
        }
        written.push("]}");
        written
    }

    #[test]
    fn both_spellings_say_the_same_the_second_time_too() {
        let known = Quoted::default();
        for _ in 0..2 {
            let written = written(&WHOLE, &known);
            assert_eq!(written.plain(), format!("{{\"records\":[{}]}}", WHOLE.join(",")));
            let quoted = format!("\"{}\"", std::str::from_utf8(written.quoted()).unwrap());
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), written.plain());
        }
    }

    #[test]
    fn what_was_damaged_since_is_found() {
        let known = Quoted::default();
        let before = written(&WHOLE, &known);
        let long = WHOLE.last().unwrap();
        let cut = long.get(..long.len() - 3).unwrap();
        let bad =
            ["[1]", "", r#"{"a":1}}"#, r#"{"a":1,"b"}"#, "{\"a\":\"\u{1}\"}", "{\"a\":\"x}", cut];
        for damaged in bad {
            let mut written = written(&WHOLE, &known);
            assert!(!written.push_object(",", damaged, &known), "{damaged}");
            assert_eq!(written, before);
        }
    }

    #[test]
    fn a_record_that_changed_is_shown_as_it_is_and_few_are_remembered() {
        let known = Quoted::default();
        for number in 0..2 * OBJECTS_MAX {
            let object = format!(r#"{{"id":"{}","number":{number}}}"#, "x".repeat(KEY_BYTES));
            assert_eq!(written(&[&object], &known), written(&[&object], &Quoted::default()));
            let object = format!(r#"{{"id":"{number:0>KEY_BYTES$}"}}"#);
            written(&[&object], &known);
            assert!(known.0.lock().unwrap().len() <= OBJECTS_MAX);
        }
    }
}
