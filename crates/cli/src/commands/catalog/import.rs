//! `catalog import`: reads dumps in one pass.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use store::home::Home;
use store::index::{Index, Source};

use super::CatalogImportArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, count};

/// Extensions of the files that are read from a folder.
const EXTENSIONS: &[&str] = &["json", "jsonl", "ndjson"];

pub(super) fn run(args: &CatalogImportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let sources = sources(&args.files)?;
    let home = Home::create(&context.home_path()?)?;
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let begin = Instant::now();
    let mut progress = Progress::new("reading the dump");
    let imported = Index::import(&home, sources, args.fresh, threads, &mut |so_far| {
        progress.at(so_far.servers + so_far.tools);
    })?;
    drop(progress);
    let seconds = begin.elapsed().as_secs_f64();
    if out.wants_json() {
        out.json(&json!({
            "servers": imported.servers,
            "tools": imported.tools,
            "superseded": imported.superseded,
            "unreadable": imported.unreadable,
            "bytes": imported.bytes,
            "seconds": seconds,
        }))?;
        return Ok(Ending::Yes);
    }
    out.line(format_args!(
        "{} and {} read in {seconds:.1} s",
        count(usize::try_from(imported.servers)?, "server"),
        count(usize::try_from(imported.tools)?, "tool"),
    ))?;
    if imported.superseded > 0 {
        out.say(format_args!("{} older or deleted versions left out", imported.superseded));
    }
    if imported.unreadable > 0 {
        let describe = if imported.unreadable == 1 { "describes" } else { "describe" };
        out.warn(format_args!(
            "skipped {} that {describe} neither a server nor a tool",
            entries(imported.unreadable)
        ));
    }
    out.say("next: `tollgate catalog search WORDS`");
    Ok(Ending::Yes)
}

fn sources(files: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for file in files {
        if file == Path::new("-") {
            sources.push(Source { name: "stdin".to_owned(), read: Box::new(std::io::stdin()) });
        } else if file.is_dir() {
            let inside = dumps_in(file)?;
            if inside.is_empty() {
                bail!("there is no `.json` or `.jsonl` in `{}`", file.display());
            }
            for file in inside {
                sources.push(open(&file)?);
            }
        } else {
            sources.push(open(file)?);
        }
    }
    Ok(sources)
}

/// The dumps of a folder, sorted by name so that the same folder gives the same catalogue.
fn dumps_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read `{shown}`"))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        path.is_file() && EXTENSIONS.contains(&extension)
    });
    files.sort();
    Ok(files)
}

fn open(path: &Path) -> Result<Source> {
    let shown = path.display();
    let file = store::files::open(path).with_context(|| {
        format!("cannot read the dump `{shown}`\nhint: `-` reads standard input")
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Source { name, read: Box::new(file) })
}

/// `1 entry`, `5 entries`.
fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{number} entries") }
}
