//! `tollgate export`: the owner's records as files, wherever the owner wants them.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use connectors::when::{self, Here};
use store::export::{ALL, CsvSafety, Done, Fault, Order, Plan, Reach, Shelf, Step};

use super::ExportArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, count};

pub(crate) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let shelf = shelf(&args.service)?;
    let plan = Plan::new(shelf, &args.kind, args.format.format().as_str())
        .map_err(|fault| with_nearest(fault, shelf, args))?;
    let now_us = context.clock.now().wall_us;
    let (_, records) = super::records(context)?;
    // Only WHOOP's records say on which clock the owner lives.
    let is_whoop = args.service == connectors::whoop::NAME;
    let offset_s = is_whoop.then(|| connectors::whoop::offset_s(&records)).flatten();
    let here = Here { now_us, offset_s: offset_s.unwrap_or(0) };
    let from_us = days(args.start.as_deref(), "--start", here)?.map(|span| span.from_us);
    let to_us = days(args.end.as_deref(), "--end", here)?.map(|span| span.to_us);
    let base = std::env::current_dir().context("cannot tell the current folder")?;
    let tilde = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let path = args.out.clone().unwrap_or_else(|| usual_path(args));
    if path == "-" {
        bail!(
            "an export is a file, so that it is whole or not there\nhint: `--out FILE`; `tollgate sql … --csv` writes to standard output"
        );
    }
    let order = Order {
        path: &path,
        from_us,
        to_us,
        now_us,
        overwrite: args.overwrite,
        csv: if args.safe { CsvSafety::Neutral } else { CsvSafety::AsIs },
        compression: args.compression.compression(),
        reach: Reach::Anywhere { base: &base, tilde: tilde.as_deref() },
    };
    let mut telling = Telling::new();
    let done = plan.write(&records, &order, &mut |step| telling.at(step));
    drop(telling);
    let done = done.map_err(|fault| told(fault, &args.service))?;
    note(args, &done, context)?;
    say(args, &done, out)?;
    Ok(Ending::Yes)
}

fn shelf(service: &str) -> Result<&'static Shelf> {
    connectors::shelves::shelf(service).ok_or_else(|| {
        let known: Vec<String> = connectors::shelves::SHELVES
            .iter()
            .map(|shelf| format!("`{}`", shelf.service))
            .collect();
        anyhow!("there is no data of a service `{service}`\nhint: there is {}", known.join(", "))
    })
}

fn usual_path(args: &ExportArgs) -> String {
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

/// A kind that does not exist: the one that was meant.
fn with_nearest(fault: Fault, shelf: &'static Shelf, args: &ExportArgs) -> anyhow::Error {
    match store::export::nearest_kind(shelf, &args.kind) {
        Some(near) if near != args.kind => {
            anyhow!("{fault}\nhint: did you mean `tollgate export {} {near}`?", args.service)
        }
        _ => told(fault, &args.service),
    }
}

/// The words of a fault, with the command that helps.
fn told(fault: Fault, service: &str) -> anyhow::Error {
    match fault {
        Fault::Empty(what) => anyhow!(
            "there are no {what} of {service} here yet\nhint: `tollgate sync {service}` fetches them"
        ),
        Fault::Exists(path) => anyhow!(
            "`{path}` holds something already\nhint: `--overwrite` replaces it; `--out` names another place"
        ),
        other => other.into(),
    }
}

/// Taking data out is an act of the owner and has its row.
fn note(args: &ExportArgs, done: &Done, context: &Context) -> Result<()> {
    let records: u64 = done.files.iter().map(|file| file.records).sum();
    let words = format!("{} as {}, {records} records", done.kind, done.format.as_str());
    context.open()?.note("export", &args.service, &words)
}

fn say(args: &ExportArgs, done: &Done, out: &mut Out) -> Result<()> {
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

/// How far it has come, over all files of the order.
struct Telling {
    progress: Progress,
    written: Written,
}

impl Telling {
    fn new() -> Telling {
        Telling { progress: Progress::new("exporting"), written: Written::default() }
    }

    fn at(&mut self, step: Step) {
        self.progress.at(self.written.after(step));
    }
}

/// The records of each file so far; files are written side by side and tell of themselves in turns.
#[derive(Default)]
struct Written(Vec<(&'static str, u64)>);

impl Written {
    /// All records that are written after this step.
    fn after(&mut self, step: Step) -> u64 {
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
    fn files_that_tell_of_themselves_in_turns_are_counted_once() {
        let steps =
            [("sleeps", 100, 100), ("cycles", 50, 150), ("sleeps", 200, 250), ("cycles", 90, 290)];
        let mut written = Written::default();
        for (resource, records, all) in steps {
            assert_eq!(written.after(Step { resource, records, records_max: 1_000 }), all);
        }
    }
}
