//! The archives that services send their users on request.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, Result};
use connectors::personal::{ArchiveError, Taken};
use connectors::{Desk, spotify, youtube};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, Table};

type Outcome = Result<BTreeMap<&'static str, Taken>, ArchiveError>;

pub(super) fn spotify(path: &Path, context: &Context, out: &mut Out) -> Result<Ending> {
    import(path, spotify::NAME, spotify::archive::import, context, out)
}

pub(super) fn youtube(path: &Path, context: &Context, out: &mut Out) -> Result<Ending> {
    import(path, youtube::NAME, youtube::archive::import, context, out)
}

fn import(
    path: &Path,
    service: &str,
    take: fn(&Desk, BufReader<File>) -> Outcome,
    context: &Context,
    out: &mut Out,
) -> Result<Ending> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open `{shown}`"))?;
    let stores = context.open()?;
    let desk = stores.desk()?;
    let taken = Progress::during("importing", || take(&desk, BufReader::new(file)))
        .with_context(|| format!("cannot import `{shown}`"))?;
    let written: usize = taken.values().map(|taken| taken.written).sum();
    stores.note("imported", service, &format!("{written} records taken in"))?;
    if out.wants_json() {
        let kinds = taken.iter().map(|(kind, taken)| ((*kind).to_owned(), value(*taken)));
        out.json(&json!({ "kinds": kinds.collect::<serde_json::Map<_, _>>() }))?;
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["what", "rows", "taken", "here before", "left out"]);
    for (kind, taken) in &taken {
        table.row([
            (*kind).to_owned(),
            taken.rows.to_string(),
            taken.written.to_string(),
            here_before(*taken).to_string(),
            taken.odd.to_string(),
        ]);
    }
    out.table(&table)?;
    Ok(Ending::Yes)
}

fn here_before(taken: Taken) -> usize {
    taken.rows.saturating_sub(taken.written + taken.odd)
}

fn value(taken: Taken) -> Value {
    let Taken { rows, written, odd } = taken;
    json!({ "rows": rows, "taken": written, "here_before": here_before(taken), "left_out": odd })
}
