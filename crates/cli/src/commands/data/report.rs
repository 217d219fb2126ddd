//! `tollgate report`: the owner's health data as one self-contained page, and as a PDF that an installed
//! browser prints.

mod browser;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use insights::Units;
use insights::health::SURVEY_DAYS;
use store::records::Records;

use super::ReportArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

const FILE: &str = "tollgate-report.html";
/// Baselines need the days before a survey.
const BEFORE_DAYS: i32 = 130;

pub(crate) fn run(args: &ReportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let (_, records) = super::records(context)?;
    let page = page(args, context, &records)?;
    let mut written: Vec<(PathBuf, usize)> = Vec::new();
    if let Some(path) = &args.pdf {
        refuse_existing(path, args.overwrite)?;
        let pdf = browser::print(&page)?;
        write(path, &pdf, args.overwrite)?;
        written.push((path.clone(), pdf.len()));
    }
    if args.html.is_some() || args.pdf.is_none() {
        let path = args.html.clone().unwrap_or_else(|| PathBuf::from(FILE));
        write(&path, page.as_bytes(), args.overwrite)?;
        written.push((path, page.len()));
    }
    for (path, bytes) in written {
        if out.wants_json() {
            out.json(&serde_json::json!({ "file": path, "days": args.days, "bytes": bytes }))?;
        } else {
            out.line(format_args!("{}: report of {} days", path.display(), args.days))?;
        }
    }
    Ok(Ending::Yes)
}

fn page(args: &ReportArgs, context: &Context, records: &Records) -> Result<String> {
    let found = connectors::ALL.iter().find_map(|one| Some((one.name(), one.health?)));
    let (service, load) = found.ok_or_else(|| anyhow!("no service has a report"))?;
    let chosen = crate::services::units(&context.settings()?);
    let units = Units {
        imperial: args.imperial || chosen.imperial,
        kilojoules: args.kilojoules || chosen.kilojoules,
    };
    let days = args.days.max(SURVEY_DAYS) + BEFORE_DAYS;
    let data = load(records, context.clock.now().wall_us, Some(days), units)?;
    let data = data.ok_or_else(|| {
        anyhow!("the mirror has no scored records of {service}\nhint: run `tollgate sync {service}` first")
    })?;
    insights::report::html(&data, args.days).context("cannot write the page")
}

fn refuse_existing(path: &Path, overwrite: bool) -> Result<()> {
    if !overwrite && path.exists() {
        bail!(
            "`{}` exists\nhint: `--overwrite` replaces it; another name keeps it",
            path.display()
        );
    }
    Ok(())
}

/// Complete or absent, and only for the owner.
fn write(path: &Path, bytes: &[u8], overwrite: bool) -> Result<()> {
    refuse_existing(path, overwrite)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let file = platform::private::if_created(&mut options).open(&partial);
    let cannot = || format!("cannot write `{}`", path.display());
    let written = file.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.with_context(cannot)?;
    std::fs::rename(&partial, path).with_context(cannot)
}
