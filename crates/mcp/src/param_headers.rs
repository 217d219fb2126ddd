//! `Mcp-Param-*`: headers that mirror arguments, as a tool's schema requests. The body is
//! authoritative; a header that differs is refused.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use policy::json::{Bounds, Doc, Kind, Value, canonical};

use crate::error::ProtocolError;
use crate::header_value;
use crate::id::Id;

pub const EXTENSION: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// Larger integers are not mirrored, because JavaScript cannot represent them exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;
/// Deeper subschemas are not searched.
const SCHEMA_DEPTH_MAX: usize = 64;

/// Keywords whose subschemas do not apply to every argument.
const CONDITIONAL: [&str; 18] = [
    "items",
    "prefixItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "patternProperties",
    "dependentSchemas",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "$defs",
    "definitions",
];
/// Those of them that map names to subschemas.
const BY_NAME: [&str; 4] = ["patternProperties", "dependentSchemas", "$defs", "definitions"];

/// The headers that one tool's schema requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParamHeaders {
    declared: Vec<Declared>,
    fault: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Declared {
    /// The path of the argument.
    path: Vec<String>,
    header: HeaderName,
    numeric: bool,
}

impl ParamHeaders {
    /// Finds them in a tool's `inputSchema`.
    pub fn of_schema(input_schema: Value<'_>) -> ParamHeaders {
        let mut search = Search { found: ParamHeaders::default(), number: None };
        let fault = search.schema(input_schema, &[], true).err();
        let mut found = search.found;
        if fault.is_some() {
            found.declared.clear();
        }
        found.fault = search.number.or(fault);
        found
    }

    pub fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }

    /// Why the schema's declarations are invalid, if they are. A declared `number` is invalid, but
    /// its header is checked and written all the same.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Checks the headers of a call against its arguments. An argument that is absent, null, an
    /// array or an object has no header. An unexpected header is refused: a server that reads it
    /// would see another call than the policy judged.
    pub fn check(
        &self,
        arguments: Option<Value<'_>>,
        headers: &HeaderMap,
        id: &Id,
    ) -> Result<(), ProtocolError> {
        let check = |declared| Self::check_one(declared, arguments, headers);
        self.declared.iter().try_for_each(check).map_err(|refused| refused.with_id(id))
    }

    fn check_one(
        declared: &Declared,
        arguments: Option<Value<'_>>,
        headers: &HeaderMap,
    ) -> Result<(), ProtocolError> {
        let header = declared.header.as_str();
        let argument = declared.argument(arguments);
        let expected = argument.and_then(header_text);
        let (argument, expected, value) =
            match (argument.zip(expected), header_value::single(headers, header)?) {
                (None, None) => return Ok(()),
                (Some((argument, expected)), Some(value)) => (argument, expected, value),
                (Some(_), None) => {
                    let words = format!("the header `{header}` of an argument is missing");
                    return Err(ProtocolError::mismatch(words));
                }
                (None, Some(_)) => {
                    let words = format!("the header `{header}` matches no argument of the body");
                    return Err(ProtocolError::mismatch(words));
                }
            };
        let Some(decoded) = header_value::decode(value) else {
            return Err(ProtocolError::mismatch(format!(
                "the base64 of the header `{header}` is invalid"
            )));
        };
        let same_number = || {
            let both = declared.numeric && argument.kind() == Kind::Number;
            both && plain_number(&decoded).is_some_and(|number| number == expected)
        };
        if decoded == expected || same_number() {
            return Ok(());
        }
        let words = format!("the header `{header}` does not match its argument in the body");
        Err(ProtocolError::mismatch(words))
    }

    /// The headers for a call with these arguments.
    pub fn write(&self, arguments: Option<Value<'_>>) -> Vec<(HeaderName, HeaderValue)> {
        let header = |declared: &Declared| {
            let text = header_text(declared.argument(arguments)?)?;
            Some((declared.header.clone(), header_value::encode(&text)))
        };
        self.declared.iter().filter_map(header).collect()
    }
}

impl Declared {
    fn argument<'d>(&self, arguments: Option<Value<'d>>) -> Option<Value<'d>> {
        self.path.iter().try_fold(arguments?, |value, key| value.get(key))
    }
}

/// The header value of an argument, if it has one.
fn header_text(argument: Value<'_>) -> Option<String> {
    match argument.kind() {
        Kind::String => argument.as_str().map(Into::into),
        Kind::Bool => Some(argument.raw().to_owned()),
        Kind::Number => number_text(argument),
        Kind::Null | Kind::Array | Kind::Object => None,
    }
}

/// Numbers as JavaScript and RFC 8785 write them.
fn number_text(number: Value<'_>) -> Option<String> {
    let double: f64 = number.raw().parse().ok()?;
    let whole_beyond = double.fract() == 0.0 && double.abs() > WHOLE_MAX;
    if whole_beyond || !double.is_finite() {
        return None;
    }
    let mut out = Vec::new();
    canonical(number, &mut out);
    String::from_utf8(out).ok()
}

/// The canonical text of a number without exponent.
fn plain_number(text: &str) -> Option<String> {
    let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).ok()?;
    let plain = !text.contains(['e', 'E']) && doc.root().raw() == text;
    if plain && doc.root().kind() == Kind::Number { number_text(doc.root()) } else { None }
}

struct Search {
    found: ParamHeaders,
    /// The first declared `number`: invalid, but unambiguous.
    number: Option<String>,
}

impl Search {
    fn schema(&mut self, schema: Value<'_>, path: &[String], always: bool) -> Result<(), String> {
        if path.len() > SCHEMA_DEPTH_MAX {
            return Ok(());
        }
        if let Some(name) = schema.get(EXTENSION) {
            self.declare(schema, name, path, always)?;
        }
        let properties = schema.get("properties").into_iter().flat_map(Value::entries);
        for (key, child) in properties {
            self.schema(child, &below(path, &key.text()), always)?;
        }
        for keyword in CONDITIONAL {
            let Some(inside) = schema.get(keyword) else { continue };
            let path = below(path, keyword);
            match inside.kind() {
                Kind::Array => {
                    inside.items().try_for_each(|branch| self.schema(branch, &path, false))?;
                }
                Kind::Object if BY_NAME.contains(&keyword) => inside
                    .entries()
                    .try_for_each(|(_, branch)| self.schema(branch, &path, false))?,
                _ => self.schema(inside, &path, false)?,
            }
        }
        Ok(())
    }

    fn declare(
        &mut self,
        schema: Value<'_>,
        name: Value<'_>,
        path: &[String],
        always: bool,
    ) -> Result<(), String> {
        if !always || path.is_empty() {
            return Err(format!("`{EXTENSION}` is allowed only on a plain chain of properties"));
        }
        let name = name.as_str().filter(|name| !name.is_empty());
        let header = name.and_then(|name| format!("{PREFIX}{name}").parse::<HeaderName>().ok());
        let Some(header) = header else {
            return Err(format!("`{EXTENSION}` must be a valid HTTP header name"));
        };
        let kind = schema.get("type").and_then(Value::as_str);
        let words =
            || format!("`{EXTENSION}` is allowed only on a string, an integer or a boolean");
        let numeric = match kind.as_deref() {
            Some("string" | "boolean") => false,
            Some("integer") => true,
            Some("number") => {
                self.number.get_or_insert_with(words);
                true
            }
            _ => return Err(words()),
        };
        if self.found.declared.iter().any(|declared| declared.header == header) {
            return Err(format!("two properties have the same `{EXTENSION}`"));
        }
        self.found.declared.push(Declared { path: path.to_vec(), header, numeric });
        Ok(())
    }
}

fn below(path: &[String], key: &str) -> Vec<String> {
    let mut longer = path.to_vec();
    longer.push(key.to_owned());
    longer
}
