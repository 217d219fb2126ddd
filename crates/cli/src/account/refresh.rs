//! The helper of `connectors::tokens`: one refresh in a process that outlives whoever asked for it.
//!
//! The helper leaves the process tree of its caller before it sends anything. The first process starts a
//! second one and ends; the second waits until it is an orphan, becomes the leader of its own session,
//! starts a third one and ends. The third was never a descendant of the caller, so neither a kill of the
//! caller's group or session nor one of all its descendants reaches it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use connectors::tokens::{Ended, Helper, STALE_VARIABLE, Told, serve};
use rustix::process::{Pid, getppid, setsid};

use super::{RefreshArgs, find, runtime};
use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

/// The command's name. Nobody types it.
pub(crate) const WORD: &str = "__refresh";

/// How many processes are started one by the other before the refresh.
const HOPS: u32 = 2;
/// The process before has nothing to do but end.
const ORPHAN_WAIT_MAX: Duration = Duration::from_secs(10);
const ORPHAN_LOOK_EVERY: Duration = Duration::from_millis(1);

pub(crate) fn refresh(args: &RefreshArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    match left_behind(args) {
        Ok(true) => return Ok(Ending::Yes),
        Ok(false) => {}
        Err(error) => return tell(&could_not(&error), out),
    }
    tell(&refreshed(args, context).unwrap_or_else(|error| could_not(&error)), out)
}

fn refreshed(args: &RefreshArgs, context: &Context) -> Result<Told> {
    let (service, _) = find(&args.service)?;
    let stores = context.open()?;
    let desk = stores.desk()?;
    let stale = std::env::var(STALE_VARIABLE).ok();
    Ok(runtime()?.block_on(serve(&desk, service, stale)))
}

fn tell(told: &Told, out: &mut Out) -> Result<Ending> {
    out.json_line(told)?;
    Ok(Ending::Yes)
}

fn could_not(error: &anyhow::Error) -> Told {
    Told { ended: Ended::CouldNot, words: format!("{error:#}") }
}

/// Waits to be an orphan and starts the next process, if there is to be one; then this one ends.
fn left_behind(args: &RefreshArgs) -> Result<bool> {
    if let Some(parent) = args.after {
        let until = Instant::now() + ORPHAN_WAIT_MAX;
        while getppid().map(Pid::as_raw_pid) == Some(parent) {
            if Instant::now() >= until {
                bail!("the process before this one does not end");
            }
            std::thread::sleep(ORPHAN_LOOK_EVERY);
        }
        // It fails only for the leader of a group, which the first process is and no later one.
        setsid()?;
    }
    let Some(hops) = args.hops.checked_sub(1) else { return Ok(false) };
    let ours = std::env::args_os().skip(1).take_while(|word| word != HOPS_OPTION);
    Command::new(program()?)
        .args(ours)
        .arg(HOPS_OPTION)
        .arg(hops.to_string())
        .arg("--after")
        .arg(std::process::id().to_string())
        .arg(&args.service)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(true)
}

const HOPS_OPTION: &str = "--hops";

/// How to start the helper for a home.
pub(crate) fn helper(home: &Path) -> Option<Helper> {
    let hops = OsString::from(HOPS.to_string());
    let args = vec!["--home".into(), home.into(), WORD.into(), HOPS_OPTION.into(), hops];
    Some(Helper { program: program().ok()?, args })
}

/// The kernel's name for our program stays right when the file is replaced by an upgrade.
fn program() -> std::io::Result<PathBuf> {
    let kernel_name = Path::new("/proc/self/exe");
    if kernel_name.exists() { Ok(kernel_name.to_owned()) } else { std::env::current_exe() }
}
