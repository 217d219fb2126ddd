//! `tollgate events SERVICE`: what changed since a time or a cursor.

use anyhow::{Result, bail};
use clap::Args;
use connectors::sync::EventsRequest;
use serde_json::Value;

use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Table, visible};

#[derive(Args)]
pub(crate) struct EventsArgs {
    /// Whose data, such as whoop or spotify
    #[arg(value_name = "SERVICE")]
    service: String,
    /// After this time, or after the cursor of an earlier result
    #[arg(long, value_name = "WHEN|CURSOR")]
    since: String,
    /// Before this time [default: now]
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Only these resources: cycles,sleeps
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    resources: Option<Vec<String>>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 500)]
    limit: i64,
}

pub(crate) fn run(args: &EventsArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let mirror = super::mirror(&args.service)?;
    let stores = context.open()?;
    let time = |text: &String| super::time_text(text.clone(), stores.now_us());
    let (since, until) = (time(&args.since), args.until.as_ref().map(time));
    let ctx = stores.connector_context()?;
    let asked = EventsRequest {
        since: &since,
        until: until.as_deref(),
        resources: args.resources.as_deref(),
        limit: args.limit,
    };
    let found = match (mirror.events)(&ctx, &asked) {
        Ok(found) => found,
        Err(fault) => {
            bail!("{}\nhint: `tollgate events {} --since yesterday`", fault.message, args.service)
        }
    };
    if out.wants_json() {
        out.json(&found)?;
        return Ok(Ending::Yes);
    }
    let text = |event: &Value, key: &str| {
        visible(event.get(key).and_then(Value::as_str).unwrap_or_default())
    };
    let mut table = Table::new(&["changed", "what", "id"]);
    let events = found.get("events").and_then(Value::as_array);
    for event in events.into_iter().flatten() {
        table.row([text(event, "updated_at"), text(event, "resource"), text(event, "id")]);
    }
    out.table(&table)?;
    if let Some(next) = found.get("next_cursor").and_then(Value::as_str) {
        out.say(format_args!("more: tollgate events {} --since {next}", args.service));
    }
    Ok(Ending::Yes)
}
