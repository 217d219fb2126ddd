//! The helper of `connectors::tokens`: one refresh in a process that outlives whoever asked for it.

use std::path::Path;

use anyhow::Result;
use connectors::tokens::{Helper, STALE_VARIABLE, serve};

use super::{RefreshArgs, find, runtime};
use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

/// The command's name. Nobody types it.
pub(crate) const WORD: &str = "__refresh";

pub(crate) fn refresh(args: &RefreshArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let (service, _) = find(&args.service)?;
    let stores = context.open()?;
    let desk = stores.desk()?;
    let stale = std::env::var(STALE_VARIABLE).ok();
    let told = runtime()?.block_on(serve(&desk, service, stale));
    out.json_line(&told)?;
    Ok(Ending::Yes)
}

/// How to start the helper for a home. The kernel's name for our program stays right when the file
/// is replaced by an upgrade.
pub(crate) fn helper(home: &Path) -> Option<Helper> {
    let kernel_name = Path::new("/proc/self/exe");
    let program =
        if kernel_name.exists() { kernel_name.to_owned() } else { std::env::current_exe().ok()? };
    Some(Helper { program, args: vec!["--home".into(), home.into(), WORD.into()] })
}
