//! One request, parsed: who sends it, what the path, the query and the form hold, and which format is wanted.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, Request};
use store::registry::Person;

use crate::passkey::Site;
use crate::problem::Problem;

/// The name of the session cookie.
pub(crate) const COOKIE_NAME: &str = "tollgate_session";
/// The name of the cookie that binds a consent page to its browser.
pub(crate) const CONSENT_COOKIE_NAME: &str = "tollgate_consent";
/// The end of an address that asks for JSON.
const JSON_SUFFIX: &str = ".json";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Html,
    Json,
}

/// A request by a person. Values of forms are limited by the size of the body, which the gate bounds.
pub(crate) struct Visit {
    pub(crate) person: Person,
    pub(crate) cookie: String,
    pub(crate) format: Format,
    pub(crate) path: String,
    /// The name under which the gate was reached.
    pub(crate) host: String,
    /// The named parts of the path.
    pub(crate) names: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) form: Vec<(String, String)>,
}

impl Visit {
    /// The host under which the browser sees the dashboard.
    pub(crate) fn site(&self) -> Site {
        Site::named(&self.host)
    }

    /// A named part of the path.
    pub(crate) fn name(&self, key: &str) -> &str {
        value(&self.names, key).unwrap_or_default()
    }

    /// A query parameter that was filled in.
    pub(crate) fn param(&self, key: &str) -> Option<&str> {
        value(&self.query, key).map(str::trim).filter(|text| !text.is_empty())
    }

    /// A form field that was filled in.
    pub(crate) fn field(&self, key: &str) -> Option<&str> {
        filled_in(&self.form, key)
    }

    /// A text as it was typed, with the line ends of the server. Browsers send CRLF.
    pub(crate) fn text_field(&self, key: &str) -> Option<String> {
        value(&self.form, key).map(|text| text.replace("\r\n", "\n"))
    }

    pub(crate) fn needed_field(&self, key: &str, label: &str) -> Result<&str, Problem> {
        self.field(key).ok_or_else(|| Problem::invalid(format!("{label} is missing")))
    }

    /// What was typed, to fill a rejected form with.
    pub(crate) fn typed(&self) -> Typed {
        Typed(self.form.clone())
    }

    /// All values of a field that may be given several times.
    pub(crate) fn fields<'v>(&'v self, key: &'v str) -> impl Iterator<Item = &'v str> {
        self.form.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// The fields of a rejected form. Templates leave out those that hold secrets.
#[derive(Default)]
pub(crate) struct Typed(Vec<(String, String)>);

impl Typed {
    pub(crate) fn text(&self, key: &str) -> &str {
        value(&self.0, key).unwrap_or_default()
    }

    pub(crate) fn is(&self, key: &str, text: &str) -> bool {
        self.0.iter().any(|(name, value)| name == key && value == text)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A value that was filled in.
pub(crate) fn filled_in<'v>(pairs: &'v [(String, String)], key: &str) -> Option<&'v str> {
    value(pairs, key).map(str::trim).filter(|text| !text.is_empty())
}

fn value<'v>(pairs: &'v [(String, String)], key: &str) -> Option<&'v str> {
    pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// The path without its `.json`, and the format that is wanted.
pub(crate) fn path_and_format(request: &Request<Bytes>) -> (String, Format) {
    let (path, format) = split_format(request.uri().path());
    if format == Format::Json {
        return (path.to_owned(), format);
    }
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = match accepts {
        Some(accepts) if accepts.trim_start().starts_with("application/json") => Format::Json,
        _ => Format::Html,
    };
    (path.to_owned(), format)
}

/// A path without its `.json`, and what that suffix asks for.
pub(crate) fn split_format(path: &str) -> (&str, Format) {
    match path.strip_suffix(JSON_SUFFIX) {
        Some("/index") => ("/", Format::Json),
        Some(path) if !path.is_empty() => (path, Format::Json),
        _ => (path, Format::Html),
    }
}

pub(crate) fn pairs(text: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(text).into_owned().collect()
}

/// The fields of a form. Other content types are refused: a simple cross-site request cannot send them all,
/// and our pages send this one.
pub(crate) fn form(headers: &HeaderMap, body: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if body.is_empty() || kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Ok(pairs(body));
    }
    Err(Problem::new(
        http::StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "send a form as application/x-www-form-urlencoded",
    ))
}

/// The session cookie.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<String> {
    cookie_named(headers, COOKIE_NAME)
}

/// A cookie by its name. Two of them have two meanings, so neither counts.
pub(crate) fn cookie_named(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut ours = all
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == wanted)
        .map(|(_, value)| value.to_owned());
    let first = ours.next()?;
    ours.next().is_none().then_some(first)
}
