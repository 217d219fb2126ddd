//! Exports for agents: the mirror's records in one of three formats, below the folder set aside for
//! them.

use std::borrow::Cow;
use std::path::Path;

use store::export::{Compression, CsvSafety, Fault, Kind as File, Order, Plan, Reach, Shelf};

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
    let order = Order {
        path: &whole,
        from_us,
        to_us,
        now_us: desk.clock.now().wall_us,
        overwrite,
        csv: if is_safe { CsvSafety::Neutral } else { CsvSafety::AsIs },
        compression: Compression::default(),
        reach: Reach::Below(&desk.exports),
    };
    let mut done = plan.write(&desk.records, &order, &mut |_| {}).map_err(|fault| told(&fault))?;
    for file in &mut done.files {
        file.path = file.path.replacen(whole.as_ref(), path, 1);
    }
    Ok(done.value(start, end))
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
        Fault::Refused(_) | Fault::Write { .. } => Code::ExportError,
        Fault::Records(_) => Code::CacheError,
    };
    Problem::new(code, ENDPOINT, fault.to_string().replace("\nhint: ", "; "))
}
