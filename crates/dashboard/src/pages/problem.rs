//! The page for everything that went wrong: what, why, and the way back.

use askama::Template;
use http::StatusCode;
use serde::Serialize;
use store::registry::Person;

use crate::page::{person_label, render};
use crate::problem::Problem;
use crate::request::Format;
use crate::response::Response;

#[derive(Template, Serialize)]
#[template(path = "problem.html")]
struct ProblemPage {
    error: String,
    hint: Option<String>,
    /// What was sent can be corrected.
    #[serde(skip)]
    is_form: bool,
    #[serde(skip)]
    title: &'static str,
    #[serde(skip)]
    person: String,
    #[serde(skip)]
    icon: &'static str,
    #[serde(skip)]
    style: &'static str,
}

pub(crate) fn show(problem: &Problem, format: Format, person: Option<&Person>) -> Response {
    let (error, hint) = match problem.message.split_once("\nhint: ") {
        Some((error, hint)) => (error.to_owned(), Some(hint.to_owned())),
        None => (problem.message.clone(), None),
    };
    let view = ProblemPage {
        error,
        hint,
        title: match problem.status {
            StatusCode::UNAUTHORIZED => "Not signed in",
            StatusCode::UNPROCESSABLE_ENTITY => "Not saved",
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Not allowed",
            status => status.canonical_reason().unwrap_or("Error"),
        },
        is_form: problem.status == StatusCode::UNPROCESSABLE_ENTITY,
        person: person_label(person),
        icon: crate::assets::ICON_PATH.as_str(),
        style: crate::assets::STYLE_PATH.as_str(),
    };
    render(format, problem.status, &view)
        .unwrap_or_else(|_| Response::html(problem.status, "this page cannot be shown".to_owned()))
}
