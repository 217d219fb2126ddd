//! Sign-in with a one-time link, a passkey or the team's issuer, and sign-out. A link opens a page with one
//! button, so that a program that previews links does not use it up.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use serde::Serialize;

use crate::app::{App, actor};
use crate::browser_name;
use crate::page::render;
use crate::pages::problem;
use crate::passkey::{Purpose, Site};
use crate::problem::Problem;
use crate::request::{self, Format, Visit};
use crate::response::Response;
use store::ledger::Note;
use store::registry::{BrowserSecret, Person, SignInMethod};
use store::settings::oidc::CALLBACK_PATH;

mod at_issuer;
mod by_passkey;

pub(crate) const PATH: &str = "/sign-in";
const PASSKEY_PATH: &str = "/sign-in/passkey";
const ISSUER_PATH: &str = "/sign-in/oidc";

/// Whether this address needs no session.
pub(crate) fn is_path(path: &str) -> bool {
    [PATH, PASSKEY_PATH, ISSUER_PATH, CALLBACK_PATH].contains(&path)
}

/// A request of a browser that may not be signed in.
pub(crate) struct Arrival<'r> {
    pub(crate) method: &'r Method,
    pub(crate) path: &'r str,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) query: &'r str,
    pub(crate) form: &'r [(String, String)],
    /// The address of the other end, with its port.
    pub(crate) remote: &'r str,
}

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

/// For a browser without a session: the ways to sign in.
#[derive(Template, Serialize)]
#[template(path = "sign_in_choices.html")]
struct ChoicesPage {
    error: &'static str,
    /// It prints a sign-in link.
    #[serde(skip)]
    command: String,
    #[serde(skip)]
    team: Option<TeamChoice>,
    #[serde(skip)]
    passkey: PasskeyChoice,
    #[serde(skip)]
    icon: &'static str,
    #[serde(skip)]
    style: &'static str,
    #[serde(skip)]
    script: &'static str,
}

struct TeamChoice {
    label: String,
    /// At the host that the issuer redirects to.
    address: String,
}

/// How passkeys work at the host of this request.
pub(crate) enum PasskeyChoice {
    Here {
        challenge: String,
        rp_id: String,
    },
    /// The same gate under a host name.
    At(String),
    /// An address of a machine without a known name.
    NeedsName,
}

/// For a browser that signed in where it sees no dashboard, or comes from another site.
#[derive(Template, Serialize)]
#[template(path = "signed_in.html")]
struct SignedInPage {
    #[serde(skip)]
    is_dashboard_here: bool,
    #[serde(skip)]
    icon: &'static str,
    #[serde(skip)]
    style: &'static str,
}

pub(crate) fn needed(app: &App) -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        format!(
            "you are not signed in\nhint: run `{}` on the machine of the gate; it prints a sign-in link",
            app.open_command()
        ),
    )
}

/// The ways to sign in, for a page that needs a session.
pub(crate) fn choices(app: &App, headers: &HeaderMap) -> Result<Response, Problem> {
    let site = Site::of(headers);
    let settings = app.live.settings();
    let team = settings.oidc.as_ref().map(|oidc| TeamChoice {
        label: oidc.label.clone(),
        address: at_issuer::begin_address(app, oidc, &site),
    });
    let view = ChoicesPage {
        error: "you are not signed in",
        command: app.open_command(),
        team,
        passkey: passkey_choice(app, &site, headers)?,
        icon: crate::assets::ICON_PATH.as_str(),
        style: crate::assets::STYLE_PATH.as_str(),
        script: crate::assets::PASSKEYS_PATH.as_str(),
    };
    render(Format::Html, StatusCode::UNAUTHORIZED, &view)
}

fn passkey_choice(app: &App, site: &Site, headers: &HeaderMap) -> Result<PasskeyChoice, Problem> {
    if let Some(rp_id) = site.rp_id() {
        let challenge = app.make_challenge(Purpose::SignIn { rp_id })?;
        let challenge = URL_SAFE_NO_PAD.encode(challenge);
        return Ok(PasskeyChoice::Here { challenge, rp_id: rp_id.to_owned() });
    }
    let other = site.as_localhost(is_https(app, headers));
    Ok(other.map_or(PasskeyChoice::NeedsName, PasskeyChoice::At))
}

pub(crate) fn respond(app: &App, arrival: &Arrival<'_>) -> Result<Response, Problem> {
    match (arrival.method, arrival.path) {
        (&Method::GET, PATH) => {
            let query = request::pairs(arrival.query.as_bytes());
            let Some(token) = request::filled_in(&query, "token") else {
                return choices(app, arrival.headers);
            };
            let view = SignInPage {
                token: token.to_owned(),
                icon: crate::assets::ICON_PATH.as_str(),
                style: crate::assets::STYLE_PATH.as_str(),
            };
            render(Format::Html, StatusCode::OK, &view)
        }
        (&Method::POST, PATH) => by_link(app, arrival),
        (&Method::POST, PASSKEY_PATH) => by_passkey::finish(app, arrival),
        (&Method::GET, ISSUER_PATH) => at_issuer::begin(app, arrival),
        (&Method::GET, CALLBACK_PATH) => at_issuer::finish(app, arrival),
        _ => Err(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this address does not take this method",
        )),
    }
}

/// A valid link always works, so that the owner is not locked out by the failures of others.
fn by_link(app: &App, arrival: &Arrival<'_>) -> Result<Response, Problem> {
    let token = request::filled_in(arrival.form, "token").unwrap_or_default();
    let browser = browser_name::of(arrival.headers);
    match app.registry.sign_in(token, &browser, app.now_us())? {
        Some((person, cookie)) => signed_in(app, arrival, &person, &cookie, SignInMethod::Link),
        None => Ok(failed(
            app,
            arrival,
            StatusCode::UNAUTHORIZED,
            &format!(
                "this sign-in link was used before or has expired\nhint: run `{}` for a new one",
                app.open_command()
            ),
        )),
    }
}

/// The response to a sign-in that failed. Its reason is in the audit log, unless there were too many.
fn failed(app: &App, arrival: &Arrival<'_>, status: StatusCode, message: &str) -> Response {
    if let Some(response) = too_many(app, arrival) {
        return response;
    }
    app.sign_in_limit.failed(arrival.remote, app.now_us());
    let reason = message.lines().next().unwrap_or_default().to_owned();
    problem::show(&Problem::new(status, message), Format::Html, None)
        .refused(format!("sign-in: {reason}"))
}

/// The response to an address that failed too often.
fn too_many(app: &App, arrival: &Arrival<'_>) -> Option<Response> {
    let seconds = app.sign_in_limit.wait_seconds(arrival.remote, app.now_us())?;
    let message = format!("too many sign-ins failed; try again in {seconds} seconds");
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, message);
    let mut response = problem::show(&problem, Format::Html, None);
    response.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    Some(response)
}

/// Every sign-in has a new cookie, and the session that the browser had before ends: a cookie that someone else
/// put there is worth nothing.
fn signed_in(
    app: &App,
    arrival: &Arrival<'_>,
    person: &Person,
    cookie: &BrowserSecret,
    method: SignInMethod,
) -> Result<Response, Problem> {
    if let Some(before) = request::cookie(arrival.headers) {
        app.registry.end_browser_session(&before)?;
    }
    app.sign_in_limit.succeeded(arrival.remote);
    note(app, "signed_in", &person.name, method.as_str())?;
    let site = Site::of(arrival.headers);
    let issuer = app.live.issuer();
    let is_at_issuer = site.authority().eq_ignore_ascii_case(issuer.authority());
    // Under the public host name there may be no dashboard to go to.
    let is_dashboard_here = !is_at_issuer
        || app.live.settings().public_dashboard
        || app.live.mcp_url().starts_with(issuer.as_str());
    // A redirect that began at another site would not carry the new cookie, so the issuer's gets a page.
    let response = if is_dashboard_here && method != SignInMethod::Issuer {
        Response::see_other("/")
    } else {
        let view = SignedInPage {
            is_dashboard_here,
            icon: crate::assets::ICON_PATH.as_str(),
            style: crate::assets::STYLE_PATH.as_str(),
        };
        render(Format::Html, StatusCode::OK, &view)?
    };
    Ok(response.with_cookie(Some(cookie.expose()), is_https(app, arrival.headers)))
}

pub(crate) fn sign_out(app: &App, visit: &Visit) -> Result<Response, Problem> {
    app.registry.end_browser_session(&visit.cookie)?;
    note(app, "signed_out", &visit.person.name, "")?;
    Ok(Response::see_other(PATH).with_cookie(None, is_gate_https(app)))
}

pub(crate) fn sign_out_everywhere(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = &visit.person.name;
    app.act(name, |registry, now_us| registry.end_browser_sessions(name, now_us))?;
    Ok(Response::see_other(PATH).with_cookie(None, is_gate_https(app)))
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

fn note(app: &App, act: &str, person: &str, message: &str) -> Result<(), Problem> {
    app.ledger.note(&Note { act, by: &actor(person), about: person, words: message })?;
    Ok(())
}

/// Whether this browser reaches the gate by HTTPS: the gate's own, or that of the public URL.
pub(crate) fn is_https(app: &App, headers: &HeaderMap) -> bool {
    let issuer = app.live.issuer();
    let is_at_issuer = Site::of(headers).authority().eq_ignore_ascii_case(issuer.authority());
    is_gate_https(app) || is_at_issuer && issuer.is_https()
}

fn is_gate_https(app: &App) -> bool {
    app.live.mcp_url().starts_with("https://")
}
