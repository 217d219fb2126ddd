//! The owner's mirrored data for pages: opened once per request, with the units of the settings, or the next
//! step where there is none.

use std::sync::Arc;

use connectors::{ConnectorContext, LoadHealth};
use insights::Units;
use insights::health::HealthData;
use serde::Serialize;

use crate::app::App;
use crate::problem::Problem;

/// Why a page is empty, and the one next step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Empty {
    #[serde(rename = "words")]
    pub(crate) message: String,
    /// A command to copy.
    pub(crate) command: String,
}

impl Empty {
    pub(crate) fn new(message: impl Into<String>, command: impl Into<String>) -> Empty {
        Empty { message: message.into(), command: command.into() }
    }
}

pub(crate) fn units(app: &App) -> Units {
    let shown_in = app.live.settings().shown_in;
    Units { imperial: shown_in.imperial, kilojoules: shown_in.kilojoules }
}

pub(crate) fn context(app: &App) -> Result<Arc<ConnectorContext>, Empty> {
    app.live
        .connectors()
        .ok_or_else(|| Empty::new("The accounts cannot be opened.", app.live.command("doctor")))
}

/// The last `days` days of health data, or all of it.
pub(crate) fn health(app: &App, days: Option<i32>) -> Result<Result<HealthData, Empty>, Problem> {
    let ctx = match context(app) {
        Ok(ctx) => ctx,
        Err(empty) => return Ok(Err(empty)),
    };
    let with_health = connectors::ALL.iter().find_map(|one| Some((one.service, one.health?)));
    let Some((service, load)): Option<(_, LoadHealth)> = with_health else {
        return Ok(Err(Empty::new("No service has health data.", app.live.command("accounts"))));
    };
    let loaded = load(&ctx.records, app.now_us(), days, units(app));
    let loaded = loaded.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(loaded.ok_or_else(|| empty(app, &ctx, service.name, service.title)))
}

/// The next step of a service without data: connect it, or sync it.
pub(crate) fn empty(app: &App, ctx: &ConnectorContext, name: &str, title: &str) -> Empty {
    let is_connected = ctx.accounts.summary(name).is_ok_and(|found| found.is_some());
    if is_connected {
        let message =
            format!("{title} is connected, but nothing that can be shown is mirrored yet.");
        return Empty::new(message, app.live.command(&format!("sync {name}")));
    }
    let command = app.live.command(&format!("connect {name}"));
    Empty::new(format!("{title} is not connected."), command)
}
