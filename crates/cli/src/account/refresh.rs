//! The helper of `connectors::tokens`: one refresh in a process that outlives its caller.
//!
//! The helper leaves the process tree of its caller before it sends anything. The first process starts a
//! second one and ends; the second waits until it is an orphan, becomes the leader of its own session,
//! starts a third one and ends. The third was never a descendant of the caller, so neither a kill of the
//! caller's group or session nor one of all its descendants reaches it.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use connectors::server_login::{self, HELPER_PREFIX};
use connectors::tokens::{RefreshOutcome, RefreshReport, STALE_VARIABLE, serve};

use super::{RefreshArgs, find, runtime};
use crate::context::{Context, HOPS_OPTION};
use crate::failure::Ending;
use crate::output::Out;

/// The parent process only has to exit.
const ORPHAN_WAIT_MAX: Duration = Duration::from_secs(10);

pub(crate) fn refresh(args: &RefreshArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    match start_next(args) {
        Ok(true) => return Ok(Ending::Yes),
        Ok(false) => {}
        Err(error) => return print(&could_not(&error), out),
    }
    print(&refreshed(args, context).unwrap_or_else(|error| could_not(&error)), out)
}

fn refreshed(args: &RefreshArgs, context: &Context) -> Result<RefreshReport> {
    let stores = context.open()?;
    if let Some(login) = args.service.strip_prefix(HELPER_PREFIX) {
        let stale = std::env::var(STALE_VARIABLE).ok();
        let logins = stores.logins();
        return Ok(runtime()?.block_on(server_login::serve(&logins, login, stale)));
    }
    let (service, _) = find(&args.service)?;
    let ctx = stores.connector_context()?;
    let stale = std::env::var(STALE_VARIABLE).ok();
    Ok(runtime()?.block_on(serve(&ctx, service, stale)))
}

fn print(told: &RefreshReport, out: &mut Out) -> Result<Ending> {
    out.json_line(told)?;
    Ok(Ending::Yes)
}

fn could_not(error: &anyhow::Error) -> RefreshReport {
    RefreshReport { ended: RefreshOutcome::CouldNot, message: format!("{error:#}") }
}

/// Waits until this process is an orphan and starts the next one if hops are left. True: this process
/// has nothing more to do.
fn start_next(args: &RefreshArgs) -> Result<bool> {
    if let Some(parent) = args.after {
        platform::detach::leave(parent, ORPHAN_WAIT_MAX)?;
    }
    let Some(hops) = args.hops.checked_sub(1) else { return Ok(false) };
    let ours = std::env::args_os().skip(1).take_while(|word| word != HOPS_OPTION);
    let mut next = Command::new(platform::programs::own()?);
    next.args(ours)
        .arg(HOPS_OPTION)
        .arg(hops.to_string())
        .arg("--after")
        .arg(std::process::id().to_string())
        .arg(&args.service)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    platform::detach::start(&mut next)?;
    Ok(true)
}
