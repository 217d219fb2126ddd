//! `tollgate report`: the owner's health data as one self-contained page. To make a PDF, print the page.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use insights::Units;

use super::ReportArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

const FILE: &str = "tollgate-report.html";

pub(crate) fn run(args: &ReportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let (_, records) = super::records(context)?;
    let report = connectors::ALL.iter().find_map(|connector| connector.report);
    let report = report.ok_or_else(|| anyhow!("no service has a report"))?;
    let units = Units { imperial: args.imperial, kilojoules: args.kilojoules };
    let page = (report.html)(&records, context.clock.now().wall_us, args.days, units)?;
    let path = args.html.clone().unwrap_or_else(|| PathBuf::from(FILE));
    write(&path, &page, args.overwrite)?;
    if out.wants_json() {
        out.json(&serde_json::json!({ "file": path, "days": args.days, "bytes": page.len() }))?;
    } else {
        out.line(format_args!("{}: report of {} days", path.display(), args.days))?;
    }
    Ok(Ending::Yes)
}

/// Complete or absent, and only for the owner.
fn write(path: &Path, page: &str, overwrite: bool) -> Result<()> {
    if !overwrite && path.exists() {
        bail!(
            "`{}` exists\nhint: `--overwrite` replaces it; `--html` names another",
            path.display()
        );
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&partial);
    let cannot = || format!("cannot write `{}`", path.display());
    let written =
        file.and_then(|mut file| file.write_all(page.as_bytes()).and_then(|()| file.sync_all()));
    written.with_context(cannot)?;
    std::fs::rename(&partial, path).with_context(cannot)
}
