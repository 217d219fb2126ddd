//! What the answers of a service showed and is worth remembering: what it has taken away from an
//! application, kept for each client id and tried again after a while, because an application can be
//! given more; and the owner's name there.

use crate::{Desk, Service};

const TRY_AGAIN_US: i64 = 30 * 86_400 * 1_000_000;

/// Has the service refused this for our application lately?
pub(crate) fn is_known(desk: &Desk, service: &Service, what: &str) -> bool {
    let kept = desk.records.state_get(service.name, &key(desk, service, what)).ok().flatten();
    let at_us = kept.and_then(|at_us| at_us.parse::<i64>().ok());
    at_us.is_some_and(|at_us| desk.clock.now().wall_us.saturating_sub(at_us) < TRY_AGAIN_US)
}

pub(crate) fn remember(desk: &Desk, service: &Service, what: &str) {
    let at_us = desk.clock.now().wall_us.to_string();
    let kept = desk.records.state_put(service.name, &key(desk, service, what), &at_us);
    if let Err(error) = kept {
        tracing::warn!(service = service.name, %error, "a restriction is not remembered");
    }
}

fn key(desk: &Desk, service: &Service, what: &str) -> String {
    let set = desk.settings.of(service).and_then(|settings| settings.client_id.clone());
    let kept = || desk.accounts.facts(service.name).ok()??.client_id;
    format!("restricted {} {what}", kept().or(set).unwrap_or_default())
}

const OWNER: &str = "owner name";

/// The owner's name at a service, once an answer has told it.
pub(crate) fn owner_name(desk: &Desk, service: &Service) -> Option<String> {
    desk.records.state_get(service.name, OWNER).ok().flatten()
}

/// Remembers it where it is new. What no header can carry is no name.
pub(crate) fn remember_owner(desk: &Desk, service: &Service, name: &str) {
    let is_name =
        (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_name || owner_name(desk, service).as_deref() == Some(name) {
        return;
    }
    if let Err(error) = desk.records.state_put(service.name, OWNER, name) {
        tracing::warn!(service = service.name, %error, "the owner's name is not remembered");
    }
}
