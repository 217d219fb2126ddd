//! Sign-in with a one-time link, and sign-out. The link opens a page with one button, so that a program that
//! previews links does not use it up.

use askama::Template;
use http::header::HOST;
use http::{HeaderMap, Method, StatusCode};
use serde::Serialize;

use crate::app::{App, actor};
use crate::page::render;
use crate::problem::Problem;
use crate::request::{Format, Visit};
use crate::response::Response;
use store::ledger::Note;
use store::registry::BrowserSecret;

pub(crate) const PATH: &str = "/sign-in";

#[derive(Template, Serialize)]
#[template(path = "sign_in.html")]
struct SignInPage {
    #[serde(skip)]
    token: String,
    #[serde(skip)]
    icon: &'static str,
    #[serde(skip)]
    style: &'static str,
}

/// For a browser that signed in to consent and sees no dashboard.
#[derive(Template, Serialize)]
#[template(path = "signed_in.html")]
struct SignedInPage {
    #[serde(skip)]
    icon: &'static str,
    #[serde(skip)]
    style: &'static str,
}

pub(crate) fn needed() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "you are not signed in\nhint: run `tollgate open` on the machine of the gate; it prints a sign-in link",
    )
}

pub(crate) fn respond(
    app: &App,
    method: &Method,
    headers: &HeaderMap,
    query: &[(String, String)],
    form: &[(String, String)],
) -> Result<Response, Problem> {
    let token_of = |pairs: &[(String, String)]| {
        pairs.iter().find(|(name, _)| name == "token").map(|(_, value)| value.clone())
    };
    if *method == Method::GET {
        let Some(token) = token_of(query) else { return Err(needed()) };
        let view = SignInPage {
            token,
            icon: crate::assets::ICON_PATH.as_str(),
            style: crate::assets::STYLE_PATH.as_str(),
        };
        return render(Format::Html, StatusCode::OK, &view);
    }
    let token = token_of(form).unwrap_or_default();
    let Some((person, cookie)) = app.registry.sign_in(&token, app.now_us())? else {
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "this sign-in link was used before or has expired\nhint: run `tollgate open` for a new one",
        ));
    };
    note(app, "signed_in", &person.name)?;
    let issuer = app.live.issuer();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_at_issuer = host.is_some_and(|host| host.eq_ignore_ascii_case(issuer.authority()));
    // Under the public host name there may be no dashboard to go to.
    let is_dashboard_here = !is_at_issuer
        || app.live.settings().public_dashboard
        || app.live.mcp_url().starts_with(issuer.as_str());
    let is_https = is_https(app) || is_at_issuer && issuer.is_https();
    let response = if is_dashboard_here {
        Response::see_other("/")
    } else {
        let view = SignedInPage {
            icon: crate::assets::ICON_PATH.as_str(),
            style: crate::assets::STYLE_PATH.as_str(),
        };
        render(Format::Html, StatusCode::OK, &view)?
    };
    Ok(response.with_cookie(Some(cookie.expose()), is_https))
}

pub(crate) fn sign_out(app: &App, visit: &Visit) -> Result<Response, Problem> {
    app.registry.end_browser_session(&visit.cookie)?;
    note(app, "signed_out", &visit.person.name)?;
    Ok(Response::see_other(PATH).with_cookie(None, is_https(app)))
}

pub(crate) fn sign_out_everywhere(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = &visit.person.name;
    app.act(name, |registry, now_us| registry.end_browser_sessions(name, now_us))?;
    Ok(Response::see_other(PATH).with_cookie(None, is_https(app)))
}

/// The address that signs a person in.
pub(crate) fn address(app: &App, secret: &BrowserSecret) -> String {
    link(&app.live.mcp_url(), secret)
}

/// The same for a gate whose `/mcp` is at this address.
pub fn link(mcp_url: &str, secret: &BrowserSecret) -> String {
    let base = mcp_url.strip_suffix("/mcp").unwrap_or(mcp_url);
    format!("{base}{PATH}?token={}", secret.expose())
}

fn note(app: &App, act: &str, person: &str) -> Result<(), Problem> {
    app.ledger.note(&Note { act, by: &actor(person), about: person, words: "" })?;
    Ok(())
}

fn is_https(app: &App) -> bool {
    app.live.mcp_url().starts_with("https://")
}
