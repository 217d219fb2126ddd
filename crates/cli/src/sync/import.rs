//! `tollgate import`: takes in what the owner has elsewhere, and leaves it as it is there.

mod archive;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::Subcommand;
use connectors::whoop::legacy::{self, Login, Taken};
use connectors::whoop::takeout::{self, Imported, Tally};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, Table, visible};
use archive::ArchiveArgs;

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// The data export of the WHOOP app: a ZIP
    Whoop {
        #[arg(value_name = "FILE.zip")]
        file: PathBuf,
    },
    /// What Spotify sends on request: the extended streaming history, or the account data
    Spotify(ArchiveArgs),
    /// Google Takeout of YouTube: history as HTML or JSON, subscriptions, playlists, likes
    Youtube(ArchiveArgs),
    /// What Reddit sends on a data request: posts, comments, saved, votes, messages, subreddits
    Reddit(ArchiveArgs),
    /// Login and records of the Python server whoop-mcp
    WhoopMcp {
        /// Where it keeps its files [default: ~/.whoop-mcp-server]
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

impl ImportCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            ImportCommand::Whoop { file } => zip(&file, context, out),
            ImportCommand::Spotify(args) => archive::spotify(&args, context, out),
            ImportCommand::Youtube(args) => archive::youtube(&args, context, out),
            ImportCommand::Reddit(args) => archive::reddit(&args, context, out),
            ImportCommand::WhoopMcp { folder } => python(folder, context, out),
        }
    }
}

fn zip(path: &Path, context: &Context, out: &mut Out) -> Result<Ending> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open `{shown}`"))?;
    let stores = context.open()?;
    let desk = stores.desk()?;
    let imported = Progress::during("importing", || takeout::import(&desk, BufReader::new(file)))
        .with_context(|| format!("cannot import `{shown}`"))?;
    stores.note("imported", "whoop", &written(&imported.kinds))?;
    if out.wants_json() {
        out.json(&zip_value(&imported))?;
        return Ok(Ending::of(!imported.took_nothing()));
    }
    for odd in &imported.odd {
        out.warn(visible(&format!("{} line {}: {}", odd.file, odd.line, odd.why)));
    }
    let unnamed = imported.odd_count - imported.odd.len();
    if unnamed > 0 {
        out.warn(format_args!("{unnamed} more rows could not be used"));
    }
    for name in &imported.skipped {
        out.say(visible(&format!("`{name}` is no table of an export and was left out")));
    }
    table(&imported.kinds, out)?;
    Ok(ending(imported.took_nothing(), out))
}

/// An import of which nothing is here afterwards is no success, however well it was read.
fn ending(took_nothing: bool, out: &mut Out) -> Ending {
    if took_nothing {
        out.warn("nothing was taken in: none of the rows can be used");
    }
    Ending::of(!took_nothing)
}

fn python(folder: Option<PathBuf>, context: &Context, out: &mut Out) -> Result<Ending> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folder = match folder {
        Some(folder) => folder,
        None => set("HOME")
            .map(|home| home.join(".whoop-mcp-server"))
            .ok_or_else(|| anyhow!("`HOME` is not set\nhint: name the folder"))?,
    };
    let stores = context.open()?;
    let desk = stores.desk()?;
    let database = set("WHOOP_DB_PATH");
    let taken = Progress::during("importing", || {
        legacy::import(&desk, &folder, database.as_deref(), &local_us)
    })?;
    stores.note("imported", "whoop", &written(&taken.kinds))?;
    if out.wants_json() {
        out.json(&json!({
            "login": taken.login.as_str(),
            "kinds": kinds(&taken.kinds),
            "warnings": taken.warnings,
        }))?;
        return Ok(Ending::of(!taken.took_nothing()));
    }
    for warning in taken.warnings.iter().take(5) {
        out.warn(visible(warning));
    }
    table(&taken.kinds, out)?;
    out.say(login(&taken));
    Ok(Ending::of(!taken.took_nothing()))
}

fn login(taken: &Taken) -> &'static str {
    match taken.login {
        Login::None => "there was no login to take over; `tollgate connect whoop` signs in",
        Login::Taken => {
            "the login was taken over; stop the old server, because WHOOP voids a login that two use"
        }
        Login::KeptOurs => "whoop is connected here already; the old login was left alone",
        Login::Unreadable => {
            "the old login cannot be opened without its key; `tollgate connect whoop` signs in"
        }
    }
}

/// That server writes the owner's wall clock and no zone.
fn local_us(text: &str) -> Option<i64> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_microsecond());
    }
    let civil: jiff::civil::DateTime = text.parse().ok()?;
    Some(civil.to_zoned(TimeZone::system()).ok()?.timestamp().as_microsecond())
}

type Kinds = std::collections::BTreeMap<&'static str, Tally>;

fn table(kinds: &Kinds, out: &mut Out) -> Result<()> {
    let mut table = Table::new(&["what", "rows", "taken", "here before", "from whoop"]);
    for (name, tally) in kinds {
        let Tally { rows, written, unchanged, known } = tally;
        table.row([
            (*name).to_owned(),
            rows.to_string(),
            written.to_string(),
            unchanged.to_string(),
            known.to_string(),
        ]);
    }
    out.table(&table)
}

fn written(kinds: &Kinds) -> String {
    let written: usize = kinds.values().map(|tally| tally.written).sum();
    format!("{written} records taken in")
}

fn kinds(kinds: &Kinds) -> Value {
    let one = |(name, tally): (&&'static str, &Tally)| {
        let Tally { rows, written, unchanged, known } = tally;
        let value = json!({ "rows": rows, "taken": written, "here_before": unchanged, "from_whoop": known });
        ((*name).to_owned(), value)
    };
    Value::Object(kinds.iter().map(one).collect())
}

fn zip_value(imported: &Imported) -> Value {
    let odd: Vec<Value> = imported
        .odd
        .iter()
        .map(|odd| json!({ "file": odd.file, "line": odd.line, "why": odd.why }))
        .collect();
    json!({
        "kinds": kinds(&imported.kinds),
        "odd_rows": imported.odd_count,
        "odd": odd,
        "skipped_files": imported.skipped,
    })
}
