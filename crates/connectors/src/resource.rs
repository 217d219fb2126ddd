//! Resources of a service: fixed addresses, and templates whose `{values}` are taken from the address.

use std::future::Future;
use std::pin::Pin;

use crate::caller::Caller;
use crate::context::ConnectorContext;

/// Something to read at a fixed address.
pub struct Resource {
    pub uri: &'static str,
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub mime: &'static str,
    pub(crate) read: Read,
}

/// A family of addresses.
pub struct Template {
    /// RFC 6570, level 1: literal text and `{name}`.
    pub uri: &'static str,
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub mime: &'static str,
    pub(crate) read: Read,
}

pub type Reading<'a> = Pin<Box<dyn Future<Output = Contents> + Send + 'a>>;
/// Reads a resource. The strings are the decoded values of the template, in its order.
pub type Read = for<'a> fn(&'a ConnectorContext, &'a Caller, &'a [String]) -> Reading<'a>;

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    Text(String),
    Missing,
}

/// Reads the resource of an address; a fixed one comes before a template that would also match.
pub(crate) async fn read(
    ctx: &ConnectorContext,
    caller: &Caller,
    resources: &'static [Resource],
    templates: &'static [Template],
    uri: &str,
) -> Option<(Contents, &'static str)> {
    if let Some(resource) = resources.iter().find(|resource| resource.uri == uri) {
        return Some(((resource.read)(ctx, caller, &[]).await, resource.mime));
    }
    for template in templates {
        if let Some(values) = values(template.uri, uri) {
            return Some(((template.read)(ctx, caller, &values).await, template.mime));
        }
    }
    None
}

/// The decoded values of `uri` under `template`; `None` if it does not match.
fn values(template: &str, uri: &str) -> Option<Vec<String>> {
    let (mut template, mut uri) = (template, uri);
    let mut values = Vec::new();
    while let Some((literal, rest)) = template.split_once('{') {
        let (_, after) = rest.split_once('}')?;
        uri = uri.strip_prefix(literal)?;
        // A value never holds a character that could be structure; those come percent-encoded.
        let ends_at = match after.chars().next() {
            Some(next) => uri.find(|c| c == next || is_structure(c))?,
            None => uri.find(is_structure).unwrap_or(uri.len()),
        };
        let (value, left) = uri.split_at_checked(ends_at)?;
        values.push(decoded(value).filter(|value| !value.is_empty())?);
        (template, uri) = (after, left);
    }
    (template == uri).then_some(values)
}

fn is_structure(c: char) -> bool {
    matches!(c, '/' | '?' | '#' | '&')
}

/// Percent-decoding into UTF-8; `None` if it is invalid.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |b: Option<u8>| char::from(b?).to_digit(16);
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn templates_give_their_values_and_nothing_else_matches() {
        let check = |template, uri, expected: Option<&[&str]>| {
            let found = values(template, uri);
            let found: Option<Vec<&str>> =
                found.as_ref().map(|values| values.iter().map(String::as_str).collect());
            assert_eq!(found.as_deref(), expected, "{template} {uri}");
        };
        check("x://sleep/{id}", "x://sleep/a%2Fb", Some(&["a/b"]));
        check("x://sleep/{id}", "x://sleep/", None);
        check("x://sleep/{id}", "x://sleep/a/b", None);
        check("x://sleep/{id}", "x://sleep/a%ff", None);
        check("x://sleep/{id}", "x://sleep/a%2", None);
        check("x://sleep/{id}/full", "x://sleep/7/full", Some(&["7"]));
        check("x://{kind}/{day}", "x://cycle/2026-01-02", Some(&["cycle", "2026-01-02"]));
        check("x://{kind}?day={day}", "x://cycle?day=1", Some(&["cycle", "1"]));
        check("x://fixed", "x://fixed", Some(&[]));
        check("x://fixed", "x://fixed/1", None);
    }
}
