//! Request ids: echoed as written, compared by value.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use policy::json::{Bounds, Doc, Kind, Value, canonical, is_surely_canonical};

/// Bytes of a client's string id between the quotes.
const AGENT_ID_BYTES_MAX: usize = 256;
/// Bytes of a server's id.
const SERVER_ID_BYTES_MAX: usize = 1024;

/// A request id. `1` and `"1"` differ; `"a"` and `"\u0061"` do not.
#[derive(Clone)]
pub struct Id {
    raw: Arc<str>,
    /// The canonical form, if `raw` differs from it.
    normal: Option<Arc<str>>,
}

impl Id {
    /// A client's id: a string of at most 256 bytes, or a 64-bit integer without fraction or
    /// exponent.
    pub fn strict(value: Value<'_>) -> Option<Id> {
        let raw = value.raw();
        let fits = match value.kind() {
            Kind::String => raw.len() <= AGENT_ID_BYTES_MAX + 2,
            Kind::Number => raw.parse::<i64>().is_ok() || raw.parse::<u64>().is_ok(),
            _ => false,
        };
        fits.then(|| Id::spelled(value))
    }

    /// A server's id: any string or number of at most 1024 bytes.
    pub fn lenient(value: Value<'_>) -> Option<Id> {
        let legal = matches!(value.kind(), Kind::String | Kind::Number);
        (legal && value.raw().len() <= SERVER_ID_BYTES_MAX).then(|| Id::spelled(value))
    }

    /// Whether a server's id equals this one; `None` if it is not a valid id.
    pub fn is(&self, value: Value<'_>) -> Option<bool> {
        if is_surely_canonical(value) && value.raw().len() <= SERVER_ID_BYTES_MAX {
            return Some(self.normal() == value.raw());
        }
        Id::lenient(value).map(|id| id == *self)
    }

    fn spelled(value: Value<'_>) -> Id {
        if is_surely_canonical(value) {
            return Id { raw: value.raw().into(), normal: None };
        }
        let mut normal = Vec::new();
        canonical(value, &mut normal);
        let normal = String::from_utf8(normal).ok().filter(|normal| normal != value.raw());
        Id { raw: value.raw().into(), normal: normal.map(Into::into) }
    }

    /// Parses an id from JSON text by the strict rules.
    pub fn parse(raw: &str) -> Option<Id> {
        Doc::read(raw.as_bytes(), &Bounds::ANSWER).ok().and_then(|doc| Id::strict(doc.root()))
    }

    /// An id of the gate as a string: `"ask-7"`.
    pub fn generated(prefix: &str, number: u64) -> Id {
        let plain: String =
            prefix.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
        Id { raw: format!("\"{plain}-{number}\"").into(), normal: None }
    }

    /// An id of the gate as a number.
    pub fn number(number: u64) -> Id {
        Id { raw: number.to_string().into(), normal: None }
    }

    /// The JSON text, as written.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    fn normal(&self) -> &str {
        self.normal.as_deref().unwrap_or(&self.raw)
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.normal() == other.normal()
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.normal().hash(state);
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.raw)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}
