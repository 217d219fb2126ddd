//! One person for an admin: e-mail, passkeys and sessions, and the end of all of them.

use askama::Template;
use serde::Serialize;
use store::registry::session_id;

use crate::app::App;
use crate::page::{Chrome, page, segment};
use crate::pages::your_sign_in::{PasskeyRow, SessionRow, number};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

#[derive(Template, Serialize)]
#[template(path = "person.html")]
struct PersonPage {
    #[serde(skip)]
    chrome: Chrome,
    name: String,
    role: &'static str,
    email: String,
    is_mapped: bool,
    has_signed_in_at_issuer: bool,
    passkeys: Vec<PasskeyRow>,
    sessions: Vec<SessionRow>,
    #[serde(skip)]
    path: String,
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    let person = app.registry.people()?.into_iter().find(|person| person.name == name);
    let person =
        person.ok_or_else(|| Problem::not_found(format!("there is no person `{name}`")))?;
    let current = session_id(&visit.cookie);
    let passkeys = app.registry.passkeys(name)?;
    let sessions = app.registry.browser_sessions(name, app.now_us())?;
    let view = PersonPage {
        chrome: Chrome::new(app, visit, name),
        role: person.role.as_str(),
        email: person.email.unwrap_or_default(),
        is_mapped: person.is_mapped,
        has_signed_in_at_issuer: person.has_subject,
        passkeys: passkeys.into_iter().map(|one| PasskeyRow::of(one, app)).collect(),
        sessions: sessions.into_iter().map(|one| SessionRow::of(one, &current, app)).collect(),
        path: path_of(name),
        name: person.name,
    };
    page(visit, &view)
}

fn path_of(name: &str) -> String {
    format!("/people/{}", segment(name))
}

pub(crate) fn set_email(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (name, email) = (visit.name("name"), visit.field("email"));
    app.act(&visit.person.name, |registry, now_us| registry.set_email(name, email, now_us))?;
    Ok(Response::see_other(&path_of(name)))
}

pub(crate) fn sign_out(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    app.act(&visit.person.name, |registry, now_us| registry.end_browser_sessions(name, now_us))?;
    Ok(Response::see_other(&path_of(name)))
}

pub(crate) fn remove_passkey(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (name, number) = (visit.name("name"), number(visit)?);
    let by = &visit.person.name;
    app.act(by, |registry, now_us| registry.remove_passkey(name, number, now_us))?;
    Ok(Response::see_other(&path_of(name)))
}
