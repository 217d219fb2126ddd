//! Sign-in at the team's issuer: the redirect there, and the redirect back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use oauth::client::callback;
use oauth::client::id_token::Claims;
use store::registry::{Identity, IdentitySignIn, SignInMethod};
use store::settings::OidcSettings;
use store::settings::oidc::{CALLBACK_PATH, verified_email};
use url::Url;

use super::{Arrival, ISSUER_PATH, failed, is_https, signed_in, too_many};
use crate::app::App;
use crate::browser_name;
use crate::passkey::Site;
use crate::problem::Problem;
use crate::request;
use crate::response::Response;
use crate::team_sign_ins::{PendingTeamSignIn, TEAM_SIGN_IN_SECONDS_MAX};

/// Binds a sign-in to the browser that began it.
const COOKIE_NAME: &str = "tollgate_team";
/// 256 bits.
const RANDOM_BYTES: usize = 32;

/// Where the issuer redirects to: one fixed address, as issuers want it.
fn redirect_uri(app: &App, oidc: &OidcSettings) -> String {
    if let Some(given) = &oidc.redirect_uri {
        return given.clone();
    }
    let settings = app.live.settings();
    let public = settings.public_url.as_ref().filter(|_| settings.public_dashboard);
    let mcp_url = app.live.mcp_url();
    let own = mcp_url.strip_suffix("/mcp").unwrap_or(&mcp_url);
    format!("{}{CALLBACK_PATH}", public.map_or(own, |public| public.as_str()))
}

/// Where a sign-in begins: a path, or the address at the host that the issuer redirects to.
pub(super) fn begin_address(app: &App, oidc: &OidcSettings, site: &Site) -> String {
    let redirect = redirect_uri(app, oidc);
    let base = redirect.strip_suffix(CALLBACK_PATH).unwrap_or_default();
    if is_at(site, &redirect) { ISSUER_PATH.to_owned() } else { format!("{base}{}", super::PATH) }
}

fn is_at(site: &Site, redirect: &str) -> bool {
    Url::parse(redirect).is_ok_and(|url| site.authority() == url.authority())
}

pub(super) fn begin(app: &App, arrival: &Arrival<'_>) -> Result<Response, Problem> {
    let settings = app.live.settings();
    let oidc = settings.oidc.as_ref().ok_or_else(no_issuer)?;
    if let Some(response) = too_many(app, arrival) {
        return Ok(response);
    }
    let site = arrival.headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    let redirect_uri = redirect_uri(app, oidc);
    if site.is_some_and(|site| site == "cross-site")
        || !is_at(&Site::of(arrival.headers), &redirect_uri)
    {
        return Ok(Response::see_other(super::PATH));
    }
    let now_us = app.now_us();
    // Each begun sign-in counts until it succeeds, so that they cannot be begun without end.
    app.sign_in_limit.failed(arrival.remote, now_us);
    let [state, nonce, verifier, browser] = random_texts(app)?;
    let pending = PendingTeamSignIn::new(&redirect_uri, [nonce, verifier], &browser, now_us);
    let url = app.team.begin(oidc, &pending.as_sign_in(&state)).map_err(|error| {
        let message = format!("signing in with {} is not possible now: {error}", oidc.label);
        Problem::new(StatusCode::BAD_GATEWAY, message)
    })?;
    app.team_sign_ins.put(state, pending, now_us);
    let secure = if is_https(app, arrival.headers) { "; Secure" } else { "" };
    // The redirect comes from another site, so `Strict` would drop it.
    let cookie = format!(
        "{COOKIE_NAME}={browser}; Path={CALLBACK_PATH}; Max-Age={TEAM_SIGN_IN_SECONDS_MAX}; HttpOnly; SameSite=Lax{secure}"
    );
    Ok(Response::see_other(&url).with_callback_cookie(&cookie))
}

pub(super) fn finish(app: &App, arrival: &Arrival<'_>) -> Result<Response, Problem> {
    let settings = app.live.settings();
    let oidc = settings.oidc.as_ref().ok_or_else(no_issuer)?;
    if let Some(response) = too_many(app, arrival) {
        return Ok(response);
    }
    let claims = match claims(app, oidc, arrival) {
        Ok(claims) => claims,
        Err(why) => {
            let message = format!(
                "signing in with {} failed: {why}\nhint: begin again at {}",
                oidc.label,
                super::PATH
            );
            return Ok(failed(app, arrival, StatusCode::UNAUTHORIZED, &message));
        }
    };
    let email = verified_email(&claims.all);
    let identity = Identity {
        issuer: &oidc.issuer,
        subject: &claims.subject,
        email: email.as_deref(),
        mapped: oidc.role_of(&claims.all),
    };
    let browser = browser_name::of(arrival.headers);
    let result = app.change(&app.registry, |registry, now_us| {
        registry.sign_in_with_identity(&identity, &browser, now_us)
    })?;
    let why = match result {
        IdentitySignIn::SignedIn(person, cookie) => {
            return signed_in(app, arrival, &person, &cookie, SignInMethod::Issuer);
        }
        IdentitySignIn::Unknown => "no admin added you, and no role is mapped to you",
        IdentitySignIn::OtherSubject => "your e-mail address belongs to another account there",
        IdentitySignIn::NameTaken => "your name is taken here, or cannot be used",
    };
    let who = email.as_deref().unwrap_or(&claims.subject);
    let message = format!(
        "{} knows you as `{}`, but you may not use this dashboard: {why}\nhint: ask an admin of this gate",
        oidc.label,
        shown(who)
    );
    Ok(failed(app, arrival, StatusCode::FORBIDDEN, &message))
}

/// Who signed in. The sign-in in progress is gone after this, whatever comes of it.
fn claims(app: &App, oidc: &OidcSettings, arrival: &Arrival<'_>) -> Result<Claims, String> {
    let unknown = "it was not begun here, has expired or was finished before";
    let state = callback::state(arrival.query).ok_or(unknown)?;
    let pending = app.team_sign_ins.take(&state, app.now_us()).ok_or(unknown)?;
    let browser = request::cookie_named(arrival.headers, COOKIE_NAME).unwrap_or_default();
    if !pending.is_of(&browser) {
        return Err("it was begun in another browser".to_owned());
    }
    app.sign_in_limit.take_back(arrival.remote);
    app.team.finish(oidc, &pending.as_sign_in(&state), arrival.query)
}

fn no_issuer() -> Problem {
    Problem::not_found("no issuer is set up\nhint: `[oidc]` in tollgate.toml")
}

fn random_texts(app: &App) -> Result<[String; 4], Problem> {
    let mut texts: [String; 4] = Default::default();
    for text in &mut texts {
        *text = URL_SAFE_NO_PAD.encode(app.random_bytes::<RANDOM_BYTES>()?);
    }
    Ok(texts)
}

fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    text.chars().filter(|c| !c.is_control()).take(CHARS_MAX).collect()
}
