//! Exports for agents: the mirror's records in one of three formats, below the folder set aside for
//! them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use store::export::{Compression, CsvSafety, Fault, Kind as File, Order, Plan, Reach, Shelf};
use store::records::{Records, RecordsError};

use super::problem::{Code, Problem};
use super::views::VIEWS;
use super::{NAME, Outcome, Trouble, here};
use crate::coerce::Arguments;
use crate::{Ask, Desk, when};

const ENDPOINT: &str = "export_whoop";

/// Everything that can be taken out, as commands and tools name it.
pub const SHELF: Shelf = Shelf {
    service: NAME,
    kinds: &[
        File { name: "cycles", file: "cycles", is_snapshot: false, view: VIEWS[0] },
        File { name: "recoveries", file: "recoveries", is_snapshot: false, view: VIEWS[1] },
        File { name: "sleeps", file: "sleeps", is_snapshot: false, view: VIEWS[2] },
        File { name: "workouts", file: "workouts", is_snapshot: false, view: VIEWS[3] },
        File {
            name: "body_measurement",
            file: "body_measurements",
            is_snapshot: true,
            view: VIEWS[4],
        },
        File { name: "profile", file: "profile_snapshots", is_snapshot: true, view: VIEWS[5] },
    ],
};

pub(super) fn export(ask: &Ask<'_>) -> Outcome {
    let arguments = Arguments(ask.arguments);
    let kind = arguments.required_text("kind")?;
    let format = arguments.required_text("format")?;
    let path = arguments.required_text("path")?;
    let start = arguments.optional_text("start")?;
    let end = arguments.optional_text("end")?;
    let overwrite = arguments.flag("overwrite", false)?;
    let is_safe = arguments.flag("safe", false)?;
    let desk = ask.desk;
    let plan = Plan::new(&SHELF, kind, format).map_err(|fault| told(&fault))?;
    // A record that ends with the midnight before still counts, unlike in lists.
    let from_us = days(desk, start, "start")?.map(|span| span.from_us - 1);
    let to_us = days(desk, end, "end")?.map(|span| span.to_us);
    let whole = expanded(path, desk.tilde.as_deref());
    let allowed = allowed_folder(desk);
    let is_allowed =
        allowed.as_deref().is_some_and(|folder| Path::new(&*whole).starts_with(folder));
    let folder = allowed.as_deref().filter(|_| is_allowed).unwrap_or(&desk.exports);
    let order = Order {
        path: &whole,
        from_us,
        to_us,
        now_us: desk.clock.now().wall_us,
        overwrite,
        csv: if is_safe { CsvSafety::Neutral } else { CsvSafety::AsIs },
        compression: Compression::default(),
        reach: Reach::Below(folder),
    };
    let mut done = plan.write(&desk.records, &order, &mut |_| {}).map_err(|fault| match fault {
        Fault::Outside(_) => refused(&fault, allowed.as_deref()),
        fault => told(&fault),
    })?;
    for file in &mut done.files {
        file.path = file.path.replacen(whole.as_ref(), path, 1);
    }
    Ok(done.value(start, end))
}

/// Keeps the folder that the owner chose when they connected; nothing means that they chose none.
pub fn allow_folder(records: &Records, folder: &str) -> Result<(), RecordsError> {
    records.state_put(NAME, ALLOWED_KEY, folder)
}

/// Whether the owner was asked already.
pub fn is_folder_asked(records: &Records) -> Result<bool, RecordsError> {
    Ok(records.state_get(NAME, ALLOWED_KEY)?.is_some())
}

const ALLOWED_KEY: &str = "exports_folder";

/// The folder besides the usual one: what the settings say, or else what the owner chose.
fn allowed_folder(desk: &Desk) -> Option<PathBuf> {
    let chosen = || desk.records.state_get(NAME, ALLOWED_KEY).ok().flatten();
    let text = desk.exports_allowed.clone().or_else(chosen).filter(|text| !text.is_empty())?;
    let home = desk.tilde.as_deref().filter(|_| text == "~");
    let folder = home
        .map_or_else(|| PathBuf::from(&*expanded(&text, desk.tilde.as_deref())), Path::to_owned);
    folder.is_absolute().then_some(folder)
}

/// A path that is in no folder that agents may write to: says which there are and how there are more.
fn refused(fault: &Fault, allowed: Option<&Path>) -> Problem {
    let also = allowed.map(|folder| format!(" or below `{}`", folder.display()));
    let words = format!(
        "{fault}{}; the owner allows another folder with `exports` of `[services.whoop]` in tollgate.toml",
        also.unwrap_or_default()
    );
    Problem::new(Code::ExportError, ENDPOINT, words)
}

/// `~/…` is below the owner's home folder, as in a shell. Whether an agent may write there is for the
/// folder of exports to say.
fn expanded<'a>(path: &'a str, tilde: Option<&Path>) -> Cow<'a, str> {
    let below = path.strip_prefix("~/").zip(tilde.and_then(Path::to_str));
    match below {
        Some((rest, home)) => Cow::Owned(format!("{}/{rest}", home.trim_end_matches('/'))),
        None => Cow::Borrowed(path),
    }
}

/// The days that a bound names, both included: UTC for a date, the owner's own for words.
fn days(desk: &Desk, text: Option<&str>, name: &str) -> Result<Option<when::Span>, Trouble> {
    let Some(text) = text else { return Ok(None) };
    when::days(text, here(desk)).map(Some).ok_or_else(|| {
        let words = format!("`{name}` must be a day, YYYY-MM-DD, or words such as `yesterday`");
        Problem::invalid(ENDPOINT, words).into()
    })
}

fn told(fault: &Fault) -> Problem {
    let code = match fault {
        Fault::Asked(_) => Code::ValidationError,
        Fault::Empty(_) => Code::CacheEmpty,
        Fault::Exists(_) => Code::FileExists,
        Fault::Refused(_) | Fault::Outside(_) | Fault::Write { .. } => Code::ExportError,
        Fault::Records(_) => Code::CacheError,
    };
    Problem::new(code, ENDPOINT, fault.to_string().replace("\nhint: ", "; "))
}
