//! What a service has taken away from an application, as its answers showed. Kept for each client id,
//! and tried again after a while, because an application can be given more.

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
