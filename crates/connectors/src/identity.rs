//! The person whose records a mirror holds. A login of another person must not change them, so a new
//! login is identified before anything is fetched with it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use store::accounts::FileVersion;
use store::records::RecordsError;

use crate::sync::CURRENT;
use crate::{ConnectorContext, Service};

/// The name under which a mirror stores its person and their verified login.
const KEY: &str = "member";
/// The snapshot that names the person in older mirrors.
const PROFILE: &str = "profile";

/// The mirror belongs to another person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this login at `{service}` does not belong to the person whose records are here\nhint: `tollgate connect {service} --replace` deletes them and starts over; `--home DIR` keeps both apart"
)]
pub struct OtherPerson {
    service: &'static str,
}

/// The account files that were verified, so that a check costs one file stat.
#[derive(Default)]
pub(crate) struct VerifiedLogins(Mutex<HashMap<&'static str, FileVersion>>);

/// Whether a login belongs to the mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginOwner {
    /// It belongs to the mirror's person, or the mirror has no person yet.
    Verified,
    /// It must be identified first.
    Unverified,
}

/// The stored person of a mirror.
struct Known {
    person: String,
    /// The login, by the time of its consent, if it was recorded.
    login_us: Option<i64>,
}

/// Compares the person in a response with the mirror's, and records the person with the login. A
/// response without a person changes nothing.
pub(crate) fn verify(
    ctx: &ConnectorContext,
    service: &'static Service,
    answer: &[u8],
) -> Result<(), OtherPerson> {
    let Some(person) = named(service, answer) else { return Ok(()) };
    if let Ok(Some(known)) = known(ctx, service)
        && known.person != person
    {
        return Err(OtherPerson { service: service.name });
    }
    note(ctx, service, &person);
    Ok(())
}

/// Does this response belong to another person? Records nothing.
pub(crate) fn compare(
    ctx: &ConnectorContext,
    service: &'static Service,
    answer: &[u8],
) -> Result<(), OtherPerson> {
    let known = known(ctx, service).ok().flatten();
    match (known, named(service, answer)) {
        (Some(known), Some(person)) if known.person != person => {
            Err(OtherPerson { service: service.name })
        }
        _ => Ok(()),
    }
}

/// Does the login belong to the mirror, without a request?
pub(crate) fn login_owner(ctx: &ConnectorContext, service: &'static Service) -> LoginOwner {
    let Some(stamp) = ctx.accounts.version(service.name) else { return LoginOwner::Verified };
    if ctx.state::<VerifiedLogins>().with(|all| all.get(service.name) == Some(&stamp)) {
        return LoginOwner::Verified;
    }
    let Ok(Some(facts)) = ctx.accounts.summary(service.name) else { return LoginOwner::Verified };
    // A mirror that cannot be read is not written either.
    let Ok(Some(known)) = known(ctx, service) else { return LoginOwner::Verified };
    if known.login_us != Some(facts.created_us) {
        return LoginOwner::Unverified;
    }
    ctx.state::<VerifiedLogins>().with(|all| all.insert(service.name, stamp));
    LoginOwner::Verified
}

fn note(ctx: &ConnectorContext, service: &'static Service, person: &str) {
    let Ok(Some(facts)) = ctx.accounts.summary(service.name) else { return };
    let text = json!([person, facts.created_us]).to_string();
    let noted = match ctx.records.state_get(service.name, KEY) {
        Ok(Some(known)) if known == text => Ok(()),
        _ => ctx.records.state_put(service.name, KEY, &text),
    };
    if let Err(error) = noted {
        tracing::warn!(service = service.name, %error, "could not record the owner of the mirror");
    }
}

fn known(ctx: &ConnectorContext, service: &'static Service) -> Result<Option<Known>, RecordsError> {
    if let Some(text) = ctx.records.state_get(service.name, KEY)?
        && let Ok((person, login_us)) = serde_json::from_str(&text)
    {
        return Ok(Some(Known { person, login_us: Some(login_us) }));
    }
    let row = ctx.records.one(service.name, PROFILE, CURRENT)?;
    let person = row.and_then(|row| named(service, row.raw.as_bytes()));
    Ok(person.map(|person| Known { person, login_us: None }))
}

/// The person in a response to the service's probe.
fn named(service: &Service, answer: &[u8]) -> Option<String> {
    let path = service.account?.probe.person?;
    let answer: Value = serde_json::from_slice(answer).ok()?;
    match answer.pointer(path)? {
        Value::String(name) if !name.is_empty() => Some(name.clone()),
        // An id may be a number or a string.
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if !number.is_i64() && float.fract() == 0.0 => format!("{float:.0}"),
            _ => number.to_string(),
        }),
        _ => None,
    }
}

impl VerifiedLogins {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<&'static str, FileVersion>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
