//! Signs in to a server that wants OAuth, for all grants or for one. The page names both before anything begins,
//! and the redirect is accepted from this browser only.

use askama::Template;
use http::StatusCode;
use serde::Serialize;
use store::registry::{Grant, Server};

use crate::ServerSignIn;
use crate::app::App;
use crate::page::{Chrome, page, render};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

#[derive(Template, Serialize)]
#[template(path = "server_sign_in.html")]
struct ServerSignInPage {
    #[serde(skip)]
    chrome: Chrome,
    server: String,
    target: String,
    /// The label of the grant whose login it is; all grants share it otherwise.
    grant: Option<String>,
    #[serde(skip)]
    grant_id: String,
    /// Set once the sign-in has begun.
    started: Option<Started>,
}

#[derive(Serialize)]
struct Started {
    issuer: String,
    scopes: Vec<String>,
    url: String,
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (server, grant) = subject(app, visit, visit.param("grant"))?;
    page(visit, &view(app, visit, &server, grant.as_ref(), None))
}

/// Begins the sign-in. The next page has the link to the issuer: a form may not lead to another site.
pub(crate) fn begin(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (server, grant) = subject(app, visit, visit.field("grant"))?;
    let id = grant.as_ref().map(|grant| grant.id.as_str());
    let begun = app.live.begin_server_sign_in(&server, id, &visit.host);
    let begun = begun.map_err(Problem::invalid)?;
    let ServerSignIn { url, issuer, scopes, cookie } = begun;
    let started = Started { issuer, scopes, url };
    let view = view(app, visit, &server, grant.as_ref(), Some(started));
    Ok(render(visit.format, StatusCode::OK, &view)?.with_callback_cookie(&cookie))
}

fn view(
    app: &App,
    visit: &Visit,
    server: &Server,
    grant: Option<&Grant>,
    started: Option<Started>,
) -> ServerSignInPage {
    let name = &server.name;
    ServerSignInPage {
        chrome: Chrome::new(app, visit, format!("Sign in to {name}")),
        server: name.clone(),
        target: match &server.target {
            store::registry::Target::Url { url, .. } => store::secret_words::shown_url(url),
            _ => String::new(),
        },
        grant: grant.map(|grant| grant.label.clone()),
        grant_id: grant.map(|grant| grant.id.clone()).unwrap_or_default(),
        started,
    }
}

/// The server, and the grant that was named.
fn subject(
    app: &App,
    visit: &Visit,
    grant: Option<&str>,
) -> Result<(Server, Option<Grant>), Problem> {
    let name = visit.name("name");
    let effective = app.effective()?;
    let server = effective
        .servers
        .get(name)
        .filter(|server| matches!(server.target, store::registry::Target::Url { .. }))
        .ok_or_else(|| {
            Problem::not_found(format!("there is no server `{name}` with an address"))
        })?;
    let Some(id) = grant else { return Ok((server.clone(), None)) };
    if !server.options.per_grant {
        return Err(Problem::invalid(format!("all grants share one login at server `{name}`")));
    }
    let found = effective.grants().iter().find(|grant| grant.id == id);
    let found = found.filter(|grant| grant.access(name).is_some());
    let found = found.ok_or_else(|| Problem::not_found("there is no such grant on this server"))?;
    // An account that another person signs in with would answer the calls of this person's agents.
    if let Some(person) = found.person.as_deref().filter(|person| *person != visit.person.name) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            format!(
                "grant `{}` belongs to `{person}`, who alone can sign in for it here\nhint: on the machine of the gate, `tollgate server sign-in {name} --grant {}` works, too",
                found.label, found.label
            ),
        ));
    }
    Ok((server.clone(), Some(found.clone())))
}
