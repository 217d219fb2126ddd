//! Sign-in with a passkey: finds it by its id, checks what the authenticator signed, and begins a session.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use store::registry::{SignInMethod, StoredPasskey};
use subtle::ConstantTimeEq as _;

use super::{Arrival, failed, signed_in, too_many};
use crate::app::App;
use crate::browser_name;
use crate::passkey::{PasskeyRefused, Purpose, Signed, Site, assertion};
use crate::problem::Problem;
use crate::request;
use crate::response::Response;

pub(super) fn finish(app: &App, arrival: &Arrival<'_>) -> Result<Response, Problem> {
    if let Some(response) = too_many(app, arrival) {
        return Ok(response);
    }
    match check(app, arrival)? {
        Ok((id, sign_count)) => {
            let browser = browser_name::of(arrival.headers);
            let begun =
                app.registry.sign_in_with_passkey(&id, sign_count, &browser, app.now_us())?;
            match begun {
                Some((person, cookie)) => {
                    signed_in(app, arrival, &person, &cookie, SignInMethod::Passkey)
                }
                None => Ok(refuse(app, arrival, "its counter went back: it may have been copied")),
            }
        }
        Err(message) => Ok(refuse(app, arrival, &message)),
    }
}

fn refuse(app: &App, arrival: &Arrival<'_>, message: &str) -> Response {
    let message = format!(
        "this passkey was not accepted: {message}\nhint: load the page again, or run `{}` for a sign-in link",
        app.open_command()
    );
    failed(app, arrival, StatusCode::UNAUTHORIZED, &message)
}

/// The id and the counter of the passkey that signed, or why it is refused.
fn check(app: &App, arrival: &Arrival<'_>) -> Result<Result<(Vec<u8>, u32), String>, Problem> {
    let field = |name: &str| {
        let text = request::filled_in(arrival.form, name)?;
        URL_SAFE_NO_PAD.decode(text).ok()
    };
    let parts = (field("id"), field("client_data"), field("authenticator_data"));
    let (Some(id), Some(client_data), Some(authenticator_data)) = parts else {
        return Ok(Err(PasskeyRefused::Malformed.to_string()));
    };
    let (Some(signature), Some(user_handle)) = (field("signature"), field("user_handle")) else {
        return Ok(Err(PasskeyRefused::Malformed.to_string()));
    };
    let site = Site::of(arrival.headers);
    let Some(rp_id) = site.rp_id() else {
        return Ok(Err(PasskeyRefused::OtherHost.to_string()));
    };
    let Some(stored) = app.registry.passkey(&id)? else {
        return Ok(Err("it is not known here, or was removed".to_owned()));
    };
    if let Some(message) = mismatch(&stored, rp_id, &user_handle) {
        return Ok(Err(message.to_owned()));
    }
    let signed = Signed {
        client_data: &client_data,
        authenticator_data: &authenticator_data,
        signature: &signature,
    };
    let place = (&app.challenges, Purpose::SignIn { rp_id }, &site);
    let checked = assertion(place, &signed, &stored.public_key, app.now_us());
    Ok(checked.map(|sign_count| (id, sign_count)).map_err(|refused| refused.to_string()))
}

fn mismatch(stored: &StoredPasskey, rp_id: &str, user_handle: &[u8]) -> Option<&'static str> {
    let is_theirs: bool = stored.user_handle.ct_eq(user_handle).into();
    if stored.user_handle.is_empty() || !is_theirs {
        return Some("it belongs to another person");
    }
    (stored.rp_id != rp_id).then_some("it belongs to another host")
}
