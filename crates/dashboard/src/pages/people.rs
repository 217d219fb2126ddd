//! People who may use the dashboard, their roles, and sign-in links for them.

use askama::Template;
use serde::Serialize;
use store::ledger::Note;
use store::registry::Role;

use crate::app::{App, actor};
use crate::page::{Chrome, page, segment};
use crate::pages::sign_in;
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::time::Moment;

/// The weakest first, so that a form that was not looked at gives the least.
const ROLES: [Role; 4] = [Role::Viewer, Role::Auditor, Role::PolicyManager, Role::Admin];

#[derive(Serialize)]
struct PersonRow {
    name: String,
    role: &'static str,
    email: Option<String>,
    is_mapped: bool,
    created_at: Moment,
    #[serde(skip)]
    path: String,
}

#[derive(Template, Serialize)]
#[template(path = "people.html")]
struct PeoplePage {
    #[serde(skip)]
    chrome: Chrome,
    people: Vec<PersonRow>,
    #[serde(skip)]
    roles: [Role; 4],
}

/// The one page that shows a sign-in link.
#[derive(Template, Serialize)]
#[template(path = "link.html")]
struct LinkPage {
    #[serde(skip)]
    chrome: Chrome,
    name: String,
    link: String,
}

pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let people = app.registry.people()?.into_iter().map(|person| PersonRow {
        path: format!("/people/{}", segment(&person.name)),
        role: person.role.as_str(),
        created_at: Moment::of(person.created_at_us, &app.zone),
        email: person.email,
        is_mapped: person.is_mapped,
        name: person.name,
    });
    let people = people.collect();
    page(visit, &PeoplePage { chrome: Chrome::new(app, visit, "People"), people, roles: ROLES })
}

pub(crate) fn add(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (name, role) = (visit.needed_field("name", "the name")?, role(visit)?);
    let email = visit.field("email");
    app.act(&visit.person.name, |registry, now_us| registry.add_person(name, role, email, now_us))?;
    Ok(Response::see_other("/people"))
}

pub(crate) fn set_role(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (name, role) = (visit.name("name"), role(visit)?);
    app.act(&visit.person.name, |registry, now_us| registry.set_role(name, role, now_us))?;
    Ok(Response::see_other("/people"))
}

pub(crate) fn remove(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    app.act(&visit.person.name, |registry, now_us| registry.remove_person(name, now_us))?;
    Ok(Response::see_other("/people"))
}

pub(crate) fn link(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    let by = actor(&visit.person.name);
    let secret = app.registry.create_sign_in_link(name, app.now_us())?;
    app.ledger.note(&Note { act: "sign_in_link", by: &by, about: name, words: "" })?;
    let link = sign_in::address(app, &secret);
    let chrome = Chrome::new(app, visit, format!("Sign-in link for {name}"));
    page(visit, &LinkPage { chrome, name: name.to_owned(), link })
}

fn role(visit: &Visit) -> Result<Role, Problem> {
    let text = visit.needed_field("role", "the role")?;
    Role::parse(text).ok_or_else(|| Problem::invalid(format!("unknown role `{text}`")))
}
