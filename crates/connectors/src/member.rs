//! Whose records a mirror holds. A login of somebody else must neither add to them nor take from
//! them, so a login that is new here is asked for its name before anything is fetched with it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use store::accounts::Stamp;
use store::records::RecordsError;

use crate::sync::CURRENT;
use crate::{Desk, Service};

/// Under this name a mirror keeps whose it is and which login was found to be theirs.
const KEY: &str = "member";
/// The snapshot that names the person in mirrors that were made before.
const PROFILE: &str = "profile";

/// The records here are another person's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this login at `{service}` is not of the person whose records are here\nhint: `tollgate connect {service} --replace` deletes them and starts over; `--home DIR` keeps both apart"
)]
pub struct OtherPerson {
    service: &'static str,
}

/// The account files that were looked at already, so that it costs one look at the folder.
#[derive(Default)]
pub(crate) struct Greeted(Mutex<HashMap<&'static str, Stamp>>);

/// How a login stands to the mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquainted {
    /// It is theirs, or there is nobody it could be mistaken for.
    Yes,
    /// It must be asked for its name first.
    NotYet,
}

/// What a mirror knows of its person.
struct Known {
    person: String,
    /// The login by the moment of its consent; none when it was not noted.
    login_us: Option<i64>,
}

/// Compares the person that an answer names with the one of the mirror, and notes them together
/// with the login. An answer that names nobody says nothing.
pub(crate) fn greet(
    desk: &Desk,
    service: &'static Service,
    answer: &[u8],
) -> Result<(), OtherPerson> {
    let Some(person) = named(service, answer) else { return Ok(()) };
    if let Ok(Some(known)) = known(desk, service)
        && known.person != person
    {
        return Err(OtherPerson { service: service.name });
    }
    note(desk, service, &person);
    Ok(())
}

/// Would this answer be somebody else's? Notes nothing.
pub(crate) fn compare(
    desk: &Desk,
    service: &'static Service,
    answer: &[u8],
) -> Result<(), OtherPerson> {
    let known = known(desk, service).ok().flatten();
    match (known, named(service, answer)) {
        (Some(known), Some(person)) if known.person != person => {
            Err(OtherPerson { service: service.name })
        }
        _ => Ok(()),
    }
}

/// Does the login belong to the mirror, as far as is known without asking?
pub(crate) fn acquainted(desk: &Desk, service: &'static Service) -> Acquainted {
    let Some(stamp) = desk.accounts.stamp(service.name) else { return Acquainted::Yes };
    if desk.greeted.with(|all| all.get(service.name) == Some(&stamp)) {
        return Acquainted::Yes;
    }
    let Ok(Some(facts)) = desk.accounts.facts(service.name) else { return Acquainted::Yes };
    // A mirror that cannot be read takes nothing in either.
    let Ok(Some(known)) = known(desk, service) else { return Acquainted::Yes };
    if known.login_us != Some(facts.created_us) {
        return Acquainted::NotYet;
    }
    desk.greeted.with(|all| all.insert(service.name, stamp));
    Acquainted::Yes
}

fn note(desk: &Desk, service: &'static Service, person: &str) {
    let Ok(Some(facts)) = desk.accounts.facts(service.name) else { return };
    let text = json!([person, facts.created_us]).to_string();
    let noted = match desk.records.state_get(service.name, KEY) {
        Ok(Some(known)) if known == text => Ok(()),
        _ => desk.records.state_put(service.name, KEY, &text),
    };
    if let Err(error) = noted {
        tracing::warn!(service = service.name, %error, "whose records these are is not noted");
    }
}

fn known(desk: &Desk, service: &'static Service) -> Result<Option<Known>, RecordsError> {
    if let Some(text) = desk.records.state_get(service.name, KEY)?
        && let Ok((person, login_us)) = serde_json::from_str(&text)
    {
        return Ok(Some(Known { person, login_us: Some(login_us) }));
    }
    let row = desk.records.one(service.name, PROFILE, CURRENT)?;
    let person = row.and_then(|row| named(service, row.raw.as_bytes()));
    Ok(person.map(|person| Known { person, login_us: None }))
}

/// Who an answer to the service's probe speaks of.
fn named(service: &Service, answer: &[u8]) -> Option<String> {
    let place = service.account?.probe.person?;
    let answer: Value = serde_json::from_slice(answer).ok()?;
    match answer.pointer(place)? {
        Value::String(name) if !name.is_empty() => Some(name.clone()),
        // A whole number is the same person however it is written.
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if !number.is_i64() && float.fract() == 0.0 => format!("{float:.0}"),
            _ => number.to_string(),
        }),
        _ => None,
    }
}

impl Greeted {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<&'static str, Stamp>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
