//! The signed-in person's own passkeys and sessions.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use store::registry::{ListedPasskey, ListedSession, NewPasskey, session_id};

use crate::app::App;
use crate::page::{Chrome, page};
use crate::pages::sign_in;
use crate::passkey::{Purpose, new_credential};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::time::Moment;

pub(crate) const PATH: &str = "/your-sign-in";

#[derive(Serialize)]
pub(crate) struct PasskeyRow {
    pub(crate) number: i64,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) created_at: Moment,
    pub(crate) used_at: Option<Moment>,
}

impl PasskeyRow {
    pub(crate) fn of(passkey: ListedPasskey, app: &App) -> PasskeyRow {
        PasskeyRow {
            number: passkey.number,
            name: passkey.name,
            host: passkey.rp_id,
            created_at: Moment::of(passkey.created_at_us, &app.zone),
            used_at: passkey.used_at_us.map(|at_us| Moment::of(at_us, &app.zone)),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct SessionRow {
    pub(crate) id: String,
    pub(crate) browser: String,
    pub(crate) method: &'static str,
    pub(crate) created_at: Moment,
    pub(crate) used_at: Moment,
    pub(crate) is_current: bool,
}

impl SessionRow {
    pub(crate) fn of(session: ListedSession, current: &str, app: &App) -> SessionRow {
        SessionRow {
            is_current: session.id == current,
            id: session.id,
            browser: session.browser,
            method: session.method.as_str(),
            created_at: Moment::of(session.created_at_us, &app.zone),
            used_at: Moment::of(session.used_at_us, &app.zone),
        }
    }
}

/// What the script needs to make a passkey.
struct NewPasskeyForm {
    challenge: String,
    rp_id: String,
    user_handle: String,
    /// Passkeys that exist, so that a device does not get a second one.
    known: String,
}

#[derive(Template, Serialize)]
#[template(path = "your_sign_in.html")]
struct YourSignInPage {
    #[serde(skip)]
    chrome: Chrome,
    passkeys: Vec<PasskeyRow>,
    sessions: Vec<SessionRow>,
    #[serde(skip)]
    is_mapped: bool,
    #[serde(skip)]
    new: Option<NewPasskeyForm>,
    /// The same gate under a host name, where passkeys work.
    #[serde(skip)]
    localhost: Option<String>,
    #[serde(skip)]
    script: &'static str,
    #[serde(skip)]
    path: &'static str,
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = &visit.person.name;
    let passkeys = app.registry.passkeys(name)?;
    let site = visit.site();
    let new = match site.rp_id() {
        Some(rp_id) if !visit.person.is_mapped => Some(form(app, visit, rp_id, &passkeys)?),
        _ => None,
    };
    let current = session_id(&visit.cookie);
    let sessions = app.registry.browser_sessions(name, app.now_us())?;
    let localhost = site.as_localhost(app.live.mcp_url().starts_with("https://"));
    let view = YourSignInPage {
        chrome: Chrome::new(app, visit, "Your sign-in"),
        passkeys: passkeys.into_iter().map(|one| PasskeyRow::of(one, app)).collect(),
        sessions: sessions.into_iter().map(|one| SessionRow::of(one, &current, app)).collect(),
        is_mapped: visit.person.is_mapped,
        new,
        localhost: localhost.clone(),
        script: crate::assets::PASSKEYS_PATH.as_str(),
        path: PATH,
    };
    let response = page(visit, &view)?;
    // The form that continues at the other host is redirected there.
    Ok(match localhost {
        Some(origin) => response.with_form_target(&origin),
        None => response,
    })
}

fn form(
    app: &App,
    visit: &Visit,
    rp_id: &str,
    known: &[ListedPasskey],
) -> Result<NewPasskeyForm, Problem> {
    let challenge = app.make_challenge(Purpose::Register { cookie: &visit.cookie })?;
    let here = known.iter().filter(|passkey| passkey.rp_id == rp_id);
    let known: Vec<String> = here.map(|passkey| URL_SAFE_NO_PAD.encode(&passkey.id)).collect();
    Ok(NewPasskeyForm {
        challenge: URL_SAFE_NO_PAD.encode(challenge),
        rp_id: rp_id.to_owned(),
        user_handle: URL_SAFE_NO_PAD.encode(app.registry.user_handle(&visit.person.name)?),
        known: known.join(" "),
    })
}

pub(crate) fn add_passkey(app: &App, visit: &Visit) -> Result<Response, Problem> {
    if visit.person.is_mapped {
        return Err(Problem::invalid(
            "your team's issuer decides whether you may sign in, so you have no passkeys here",
        ));
    }
    let bytes = |key: &str| {
        let text = visit.needed_field(key, "the passkey of the browser")?;
        let unreadable = |_| Problem::invalid("the passkey of the browser cannot be read");
        URL_SAFE_NO_PAD.decode(text).map_err(unreadable)
    };
    let (client_data, attestation) = (bytes("client_data")?, bytes("attestation")?);
    let name = visit.needed_field("name", "the name of the passkey")?;
    let site = visit.site();
    let rp_id = site.rp_id().unwrap_or_default();
    let place = (&app.challenges, Purpose::Register { cookie: &visit.cookie }, &site);
    let new = new_credential(place, &client_data, &attestation, app.now_us()).map_err(|why| {
        Problem::invalid(format!("this passkey was not added: {why}\nhint: load the page again"))
    })?;
    let passkey = NewPasskey {
        id: &new.id,
        name,
        rp_id,
        public_key: &new.public_key,
        sign_count: new.sign_count,
    };
    let person = &visit.person.name;
    app.act(person, |registry, now_us| registry.add_passkey(person, &passkey, now_us))?;
    Ok(Response::see_other(PATH))
}

pub(crate) fn remove_passkey(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (person, number) = (&visit.person.name, number(visit)?);
    app.act(person, |registry, now_us| registry.remove_passkey(person, number, now_us))?;
    Ok(Response::see_other(PATH))
}

/// The number of a passkey in the path.
pub(crate) fn number(visit: &Visit) -> Result<i64, Problem> {
    let number = visit.name("number").parse();
    number.map_err(|_| Problem::not_found("there is no passkey with this number"))
}

pub(crate) fn end_session(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (person, id) = (&visit.person.name, visit.name("id"));
    app.act(person, |registry, now_us| registry.end_listed_session(person, id, now_us))?;
    Ok(Response::see_other(PATH))
}

/// Continues under the host name of this machine, with a link of its own: cookies belong to a host.
pub(crate) fn continue_at_localhost(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let is_https = app.live.mcp_url().starts_with("https://");
    let origin = visit.site().as_localhost(is_https).ok_or_else(|| {
        Problem::invalid("this is not an address of this machine, so it has no other name here")
    })?;
    let secret = app.registry.create_sign_in_link(&visit.person.name, app.now_us())?;
    Ok(Response::see_other(&sign_in::link(&origin, &secret)))
}
