//! `tollgate import`: imports data exports and data of other programs, without changing the source.

mod archive;

use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use connectors::whoop::legacy::{self, LegacyImport, LoginImport};
use connectors::whoop::takeout::{self, TakeoutCounts, TakeoutReport};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, Table, visible};
use archive::Archive;

/// The archive of any service that sends one, or a source of WHOOP's own.
pub(crate) enum ImportCommand {
    Archive(Archive),
    Whoop(WhoopImport),
}

#[derive(Subcommand)]
pub(crate) enum WhoopImport {
    /// The data export of the WHOOP app: a ZIP
    Whoop {
        #[arg(value_name = "FILE.zip")]
        file: PathBuf,
    },
    /// Login and records of the Python server whoop-mcp
    WhoopMcp {
        /// The folder of its files [default: ~/.whoop-mcp-server]
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

impl ImportCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            ImportCommand::Archive(archive) => archive.run(context, out),
            ImportCommand::Whoop(WhoopImport::Whoop { file }) => zip(&file, context, out),
            ImportCommand::Whoop(WhoopImport::WhoopMcp { folder }) => python(folder, context, out),
        }
    }
}

impl Subcommand for ImportCommand {
    fn augment_subcommands(command: Command) -> Command {
        let own = WhoopImport::augment_subcommands(Command::new("import"));
        let mut all: Vec<Command> = own.get_subcommands().cloned().collect();
        let last = all.pop();
        all.extend(Archive::commands());
        all.extend(last);
        command.subcommands(all)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        ImportCommand::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Archive::of(name).is_some() || WhoopImport::has_subcommand(name)
    }
}

impl FromArgMatches for ImportCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ImportCommand, clap::Error> {
        match Archive::from_matches(matches) {
            Some(archive) => Ok(ImportCommand::Archive(archive?)),
            None => Ok(ImportCommand::Whoop(WhoopImport::from_arg_matches(matches)?)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ImportCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

fn zip(path: &Path, context: &Context, out: &mut Out) -> Result<Ending> {
    let shown = path.display();
    let file = store::files::open(path).with_context(|| format!("cannot open `{shown}`"))?;
    let stores = context.open()?;
    let ctx = stores.connector_context()?;
    let imported = Progress::during("importing", || takeout::import(&ctx, BufReader::new(file)))
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
        out.say(visible(&format!("`{name}` is not a table of an export and was skipped")));
    }
    table(&imported.kinds, out)?;
    Ok(ending(imported.took_nothing(), out))
}

/// An import without any usable row fails.
fn ending(took_nothing: bool, out: &mut Out) -> Ending {
    if took_nothing {
        out.warn("nothing was imported: none of the rows can be used");
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
    let ctx = stores.connector_context()?;
    let database = set("WHOOP_DB_PATH");
    let taken = Progress::during("importing", || {
        legacy::import(&ctx, &folder, database.as_deref(), &local_us)
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

fn login(taken: &LegacyImport) -> &'static str {
    match taken.login {
        LoginImport::None => "there was no login to import; `tollgate connect whoop` signs in",
        LoginImport::Imported => {
            "the login was imported; stop the old server, because WHOOP ends a login that two programs use"
        }
        LoginImport::KeptOurs => "whoop is connected here already; the old login was not imported",
        LoginImport::Unreadable => {
            "the old login cannot be opened without its key; `tollgate connect whoop` signs in"
        }
    }
}

/// That server writes local times without a zone.
fn local_us(text: &str) -> Option<i64> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_microsecond());
    }
    let civil: jiff::civil::DateTime = text.parse().ok()?;
    Some(civil.to_zoned(TimeZone::system()).ok()?.timestamp().as_microsecond())
}

type Kinds = std::collections::BTreeMap<&'static str, TakeoutCounts>;

fn table(kinds: &Kinds, out: &mut Out) -> Result<()> {
    let mut table = Table::new(&["what", "rows", "taken", "here before", "from whoop"]);
    for (name, tally) in kinds {
        let TakeoutCounts { rows, written, unchanged, known } = tally;
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
    let one = |(name, tally): (&&'static str, &TakeoutCounts)| {
        let TakeoutCounts { rows, written, unchanged, known } = tally;
        let value = json!({ "rows": rows, "taken": written, "here_before": unchanged, "from_whoop": known });
        ((*name).to_owned(), value)
    };
    Value::Object(kinds.iter().map(one).collect())
}

fn zip_value(imported: &TakeoutReport) -> Value {
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
