//! `tollgate export`: writes the owner's records to files.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use connectors::sync::Mirror;
use connectors::when::{self, Here};
use store::export::{
    ALL, CsvSafety, ExportError, ExportJob, ExportOptions, ExportResult, ExportStep, PathScope,
    ServiceExports,
};

use super::DataExportArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, count};

pub(crate) fn run(args: &DataExportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let mirror = mirror(&args.service)?;
    let exports = mirror.export;
    let plan = ExportJob::new(exports, &args.kind, args.format.format().as_str())
        .map_err(|fault| with_nearest(fault, exports, args))?;
    let now_us = context.clock.now().wall_us;
    let (_, records) = super::records(context)?;
    let offset_s = mirror.offset_s.and_then(|offset_s| offset_s(&records));
    let here = Here { now_us, offset_s: offset_s.unwrap_or(0) };
    let from_us = days(args.start.as_deref(), "--start", here)?.map(|span| span.from_us);
    let to_us = days(args.end.as_deref(), "--end", here)?.map(|span| span.to_us);
    let base = std::env::current_dir().context("cannot tell the current folder")?;
    let tilde = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let path = args.out.clone().unwrap_or_else(|| usual_path(args));
    if path == "-" {
        bail!(
            "an export cannot go to standard output, because it must be complete or absent\nhint: `--out FILE`; `tollgate sql … --csv` writes to standard output"
        );
    }
    let order = ExportOptions {
        path: &path,
        from_us,
        to_us,
        now_us,
        overwrite: args.overwrite,
        csv: if args.safe { CsvSafety::Neutral } else { CsvSafety::AsIs },
        compression: args.compression.compression(),
        reach: PathScope::Anywhere { base: &base, tilde: tilde.as_deref() },
    };
    let mut progress = ExportProgress::new();
    let done = plan.write(&records, &order, &mut |step| progress.at(step));
    drop(progress);
    let done = done.map_err(|fault| with_hint(fault, &args.service))?;
    note(args, &done, context)?;
    report(args, &done, out)?;
    Ok(Ending::Yes)
}

fn mirror(service: &str) -> Result<&'static Mirror> {
    connectors::mirror(service).ok_or_else(|| {
        let known: Vec<String> =
            connectors::mirrors().map(|mirror| format!("`{}`", mirror.service)).collect();
        anyhow!("unknown service `{service}`\nhint: known are {}", known.join(", "))
    })
}

fn usual_path(args: &DataExportArgs) -> String {
    let (service, kind) = (&args.service, &args.kind);
    if kind == ALL {
        format!("{service}-all")
    } else {
        format!("{service}-{kind}.{}", args.format.format().as_str())
    }
}

fn days(text: Option<&str>, option: &str, here: Here) -> Result<Option<when::Span>> {
    let Some(text) = text else { return Ok(None) };
    when::days(text, here).map(Some).ok_or_else(|| {
        anyhow!("`{option} {text}` is not a day\nhint: write it as 2026-04-01, or as `today` or `yesterday`")
    })
}

/// For an unknown kind: suggests the most similar one.
fn with_nearest(
    fault: ExportError,
    exports: &'static ServiceExports,
    args: &DataExportArgs,
) -> anyhow::Error {
    match store::export::nearest_kind(exports, &args.kind) {
        Some(near) if near != args.kind => {
            anyhow!("{fault}\nhint: did you mean `tollgate export {} {near}`?", args.service)
        }
        _ => with_hint(fault, &args.service),
    }
}

/// The error with the command that helps.
fn with_hint(fault: ExportError, service: &str) -> anyhow::Error {
    match fault {
        ExportError::Empty(what) => anyhow!(
            "there are no {what} of {service} here yet\nhint: `tollgate sync {service}` fetches them"
        ),
        ExportError::Exists(path) => anyhow!(
            "`{path}` is not empty\nhint: `--overwrite` replaces it; `--out` names another path"
        ),
        other => other.into(),
    }
}

/// An export is an action of the owner and has an audit row.
fn note(args: &DataExportArgs, done: &ExportResult, context: &Context) -> Result<()> {
    let records: u64 = done.files.iter().map(|file| file.records).sum();
    let message = format!("{} as {}, {records} records", done.kind, done.format.as_str());
    context.open()?.note("export", &args.service, &message)
}

fn report(args: &DataExportArgs, done: &ExportResult, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        return out.json(&done.value(args.start.as_deref(), args.end.as_deref()));
    }
    for file in &done.files {
        let records = count(usize::try_from(file.records).unwrap_or(usize::MAX), "record");
        let resource = file.resource;
        out.line(format_args!("{resource}: {records}, {} bytes in `{}`", file.bytes, file.path))?;
    }
    Ok(())
}

/// Progress over all files of the export.
struct ExportProgress {
    progress: Progress,
    written: Written,
}

impl ExportProgress {
    fn new() -> ExportProgress {
        ExportProgress { progress: Progress::new("exporting"), written: Written::default() }
    }

    fn at(&mut self, step: ExportStep) {
        self.progress.at(self.written.after(step));
    }
}

/// The records of each file so far; files are written concurrently and report in turns.
#[derive(Default)]
struct Written(Vec<(&'static str, u64)>);

impl Written {
    /// The records written in total after this step.
    fn after(&mut self, step: ExportStep) -> u64 {
        match self.0.iter_mut().find(|(resource, _)| *resource == step.resource) {
            Some((_, records)) => *records = step.records,
            None => self.0.push((step.resource, step.records)),
        }
        self.0.iter().map(|(_, records)| records).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_progress_of_several_files_is_counted_once() {
        let steps =
            [("sleeps", 100, 100), ("cycles", 50, 150), ("sleeps", 200, 250), ("cycles", 90, 290)];
        let mut written = Written::default();
        for (resource, records, all) in steps {
            assert_eq!(written.after(ExportStep { resource, records, records_max: 1_000 }), all);
        }
    }
}
