//! Revokes consent at the service and wipes the account and its records here.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use connectors::credentials::revoke;
use serde_json::json;

use super::{DisconnectArgs, find, runtime};
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, visible};

pub(crate) fn disconnect(
    args: &DisconnectArgs,
    context: &Context,
    out: &mut Out,
) -> Result<Ending> {
    let (service, _) = find(&args.service)?;
    let name = service.name;
    let stores = context.open()?;
    let ctx = stores.connector_context()?;
    if !args.yes && !confirmed(name, args.keep_data, out)? {
        out.say("nothing was changed");
        return Ok(Ending::No);
    }
    let begun = stores.begin("disconnect", name)?;
    let revoked = if args.no_revoke {
        false
    } else {
        let revoked = runtime()?.block_on(revoke(&ctx, service));
        if revoked.is_err() {
            stores.undone(&begun);
        }
        revoked.map_err(|error| anyhow!(
            "cannot revoke consent at `{name}`: {error}; nothing was wiped\nhint: try again later, or wipe here only with `tollgate disconnect {name} --no-revoke`"
        ))?
    };
    let wiped = ctx.accounts.lock(name)?.wipe()?;
    let records = if args.keep_data { None } else { Some(ctx.records.forget(name)?) };
    stores.done(&begun, if revoked { "consent revoked" } else { "" })?;
    if records.is_some() && is_not_empty(&ctx.exports) {
        let shown = ctx.exports.display();
        out.say(format_args!("exports of agents stay in `{shown}`; delete them yourself"));
    }
    if out.wants_json() {
        out.json(&json!({
            "service": name,
            "revoked": revoked,
            "account_wiped": wiped,
            "records_wiped": records,
        }))?;
        return Ok(Ending::Yes);
    }
    let consent = if revoked { "consent revoked, " } else { "" };
    let account = if wiped { "account wiped" } else { "there was no account" };
    let records = match records {
        Some(records) => format!("{records} records wiped"),
        None => "records kept".to_owned(),
    };
    out.line(format_args!("{name}: {consent}{account}, {records}"))?;
    Ok(Ending::Yes)
}

fn is_not_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

fn confirmed(name: &str, keep_data: bool, out: &Out) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("this cannot be undone; no terminal to ask on, so add `--yes`");
    }
    let records = if keep_data { "" } else { " and every record fetched from it" };
    out.say(format_args!("wipe the account at {}{records}? type yes:", visible(name)));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "yes"))
}
