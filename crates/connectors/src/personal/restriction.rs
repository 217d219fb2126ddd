//! Remembers which APIs a service has refused to our application, per client id. They are retried
//! after a while, because an application can be granted more access.

use crate::{ConnectorContext, Service};

const TRY_AGAIN_US: i64 = 30 * 86_400 * 1_000_000;

/// Has the service recently refused this to our application?
pub(crate) fn is_known(ctx: &ConnectorContext, service: &Service, what: &str) -> bool {
    let kept = ctx.records.state_get(service.name, &key(ctx, service, what)).ok().flatten();
    let at_us = kept.and_then(|at_us| at_us.parse::<i64>().ok());
    at_us.is_some_and(|at_us| ctx.clock.now().wall_us.saturating_sub(at_us) < TRY_AGAIN_US)
}

pub(crate) fn remember(ctx: &ConnectorContext, service: &Service, what: &str) {
    let at_us = ctx.clock.now().wall_us.to_string();
    let kept = ctx.records.state_put(service.name, &key(ctx, service, what), &at_us);
    if let Err(error) = kept {
        tracing::warn!(service = service.name, %error, "could not store a restriction");
    }
}

fn key(ctx: &ConnectorContext, service: &Service, what: &str) -> String {
    let set = ctx.settings.of(service).and_then(|settings| settings.client_id.clone());
    let kept = || ctx.accounts.summary(service.name).ok()??.client_id;
    format!("restricted {} {what}", kept().or(set).unwrap_or_default())
}
