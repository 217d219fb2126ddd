//! What every page has around its content, and how a page becomes HTML or JSON.

use askama::Template;
use http::StatusCode;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;
use store::registry::{Person, Role};

use crate::access::Access;
use crate::app::App;
use crate::csrf;
use crate::problem::Problem;
use crate::request::{Format, Visit};
use crate::response::Response;

/// The navigation: address, label, and the keyboard letter after `g`.
const NAVIGATION: [(&str, &str); 13] = [
    ("/", "Overview"),
    ("/approvals", "Approvals"),
    ("/audit", "Audit log"),
    ("/servers", "Servers"),
    ("/policies", "Policies"),
    ("/grants", "Grants"),
    ("/accounts", "Accounts"),
    ("/health", "Health"),
    ("/activity", "Activity"),
    ("/catalogue", "Catalogue"),
    ("/stack", "Stack"),
    ("/notifications", "Notifications"),
    ("/people", "People"),
];

/// What surrounds the content of a page.
pub(crate) struct Chrome {
    pub(crate) title: String,
    pub(crate) person: String,
    pub(crate) role: Role,
    /// The field of every form.
    pub(crate) csrf: String,
    pub(crate) navigation: Vec<NavigationItem>,
    pub(crate) icon: &'static str,
    pub(crate) style: &'static str,
    pub(crate) script: &'static str,
    /// How commands for a terminal begin: with the `--home` of this gate if it has one.
    pub(crate) program: String,
}

pub(crate) struct NavigationItem {
    pub(crate) path: &'static str,
    pub(crate) label: &'static str,
    pub(crate) is_current: bool,
    /// Shown behind the label where it is not zero.
    pub(crate) count: usize,
}

impl Chrome {
    pub(crate) fn new(app: &App, visit: &Visit, title: impl Into<String>) -> Chrome {
        let waiting = app.watched().pending_count();
        let first = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
        let here = first(&visit.path);
        let navigation = NAVIGATION
            .into_iter()
            .filter(|(path, _)| is_shown(path, visit.person.role))
            .map(|(path, label)| NavigationItem {
                path,
                label,
                is_current: first(path) == here,
                count: if path == "/approvals" { waiting } else { 0 },
            })
            .collect();
        Chrome {
            title: title.into(),
            person: visit.person.name.clone(),
            role: visit.person.role,
            csrf: csrf::token(&visit.cookie),
            navigation,
            icon: crate::assets::ICON_PATH.as_str(),
            style: crate::assets::STYLE_PATH.as_str(),
            script: crate::assets::SCRIPT_PATH.as_str(),
            program: app.live.command("").trim_end().to_owned(),
        }
    }

    /// Whether the forms that need this access are shown.
    pub(crate) fn may_administer(&self) -> bool {
        Access::Administer.allows(self.role)
    }

    pub(crate) fn may_write_policies(&self) -> bool {
        Access::WritePolicies.allows(self.role)
    }
}

/// Pages that a role may not open are not offered to it.
fn is_shown(path: &str, role: Role) -> bool {
    let is_own_data = matches!(path, "/health" | "/activity");
    !is_own_data || Access::ReadOwnData.allows(role)
}

/// The page in the format that was asked for. Both come from the same value.
pub(crate) fn page(visit: &Visit, view: &(impl Template + Serialize)) -> Result<Response, Problem> {
    render(visit.format, StatusCode::OK, view)
}

pub(crate) fn render(
    format: Format,
    status: StatusCode,
    view: &(impl Template + Serialize),
) -> Result<Response, Problem> {
    match format {
        Format::Html => {
            let text = view.render().map_err(|error| Problem::internal(error.to_string()))?;
            Ok(Response::html(status, text))
        }
        Format::Json => {
            let text =
                serde_json::to_vec(view).map_err(|error| Problem::internal(error.to_string()))?;
            Ok(Response::json(status, text))
        }
    }
}

/// Everything that has a meaning in a path. A dot is escaped, too, so that a name that ends with `.json`
/// is not taken for the JSON twin of another.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'\\')
    .add(b'^')
    .add(b'[')
    .add(b']')
    .add(b'|')
    .add(b'.')
    .add(b'&')
    .add(b'+')
    .add(b';')
    .add(b':')
    .add(b'@')
    .add(b'=')
    .add(b',')
    .add(b'$')
    .add(b'\'');

/// Text between the tags of a `textarea` or another element, where only `&` and `<` have a meaning. A policy has thousands of
/// quotes, and an escaped one takes five bytes.
pub(crate) fn in_textarea(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Escaped text in which names between backticks are set as code.
pub(crate) fn with_code(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, name, after)) = next_code(rest) {
        html.push_str(&escaped(before));
        html.push_str("<code>");
        html.push_str(&escaped(name));
        html.push_str("</code>");
        rest = after;
    }
    html.push_str(&escaped(rest));
    html
}

/// The text before the first pair of backticks, between them, and after.
fn next_code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (name, after) = rest.split_once('`')?;
    Some((before, name, after))
}

fn escaped(text: &str) -> String {
    in_textarea(text).replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

/// A name as one part of a path or as a query value.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// The person of an error page, if there is a session.
pub(crate) fn person_label(person: Option<&Person>) -> String {
    person.map(|person| person.name.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::with_code;

    #[test]
    fn names_between_backticks_are_code_and_nothing_is_markup() {
        let table = [
            ("plain", "plain"),
            ("parameter `to`: `a`", "parameter <code>to</code>: <code>a</code>"),
            ("a ` alone", "a ` alone"),
            ("`<b>` & <i \"'>", "<code>&lt;b&gt;</code> &amp; &lt;i &quot;&#39;&gt;"),
            ("</code>`</code><script>`", "&lt;/code&gt;<code>&lt;/code&gt;&lt;script&gt;</code>"),
            ("``", "<code></code>"),
        ];
        for (text, expected) in table {
            assert_eq!(with_code(text), expected, "{text}");
        }
    }
}
