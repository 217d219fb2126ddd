//! The audit log: filtered, newest first, followed live, exported, and the check of its chain.

use std::io::{self, Write};

use askama::Template;
use bytes::Bytes;
use jiff::civil::DateTime;
use serde::Serialize;
use store::ledger::{Entry, EntryKind, ExportFormat, Filter};
use tokio::sync::mpsc;

use crate::app::App;
use crate::page::{Chrome, page, segment};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::time::Moment;
use crate::verification::Verification;

/// Entries on one page.
const PAGE_ENTRIES_MAX: usize = 100;
/// Rows that one request searches. The next page goes on from there, so that no search keeps the gate busy.
const SEARCHED_ROWS_MAX: u64 = 20_000;
/// Every decision that a row may hold.
const DECISIONS: [&str; 8] =
    ["admitted", "denied", "limited", "asked", "refused", "unauthenticated", "passed", "own"];
/// Bytes of an export that are sent at once.
const EXPORT_PART_BYTES: usize = 64 << 10;

/// An entry with what the table needs.
#[derive(Serialize)]
pub(crate) struct EntryView {
    #[serde(flatten)]
    pub(crate) entry: Entry,
    #[serde(skip)]
    pub(crate) at: Moment,
}

impl EntryView {
    pub(crate) fn of(entry: Entry, app: &App) -> EntryView {
        let at = Moment::parse(&entry.time, &app.zone);
        EntryView { entry, at }
    }

    /// The tool, resource, prompt or skill, or what an act was about.
    pub(crate) fn subject(&self) -> &str {
        let entry = &self.entry;
        let named = [&entry.tool, &entry.uri, &entry.prompt, &entry.skill, &entry.about];
        // A list or another method without a name of its own.
        named.into_iter().find(|text| !text.is_empty()).unwrap_or(&entry.method)
    }

    /// What happened, for people.
    pub(crate) fn words(&self) -> String {
        self.word().replace('_', " ")
    }

    /// What happened, in one word.
    fn word(&self) -> &str {
        match self.entry.kind {
            EntryKind::Call => &self.entry.decision,
            EntryKind::Note => &self.entry.act,
        }
    }

    /// The class that colours the word; the word itself says the same.
    pub(crate) fn tone(&self) -> &'static str {
        match self.word() {
            "admitted" | "passed" => "allowed",
            "denied" | "limited" | "refused" | "unauthenticated" => "refused",
            "asked" => "waiting",
            _ => "plain",
        }
    }
}

#[derive(Template, Serialize)]
#[template(path = "audit.html")]
struct AuditPage {
    #[serde(skip)]
    chrome: Chrome,
    entries: Vec<EntryView>,
    /// The address of the next, older page.
    older: Option<String>,
    #[serde(skip)]
    is_live: bool,
    /// The address that begins or ends the live view.
    #[serde(skip)]
    follow: String,
    #[serde(skip)]
    export_jsonl: String,
    #[serde(skip)]
    export_csv: String,
    #[serde(skip)]
    form: FilterForm,
}

/// The filter as the form shows it.
struct FilterForm {
    grant: String,
    server: String,
    tool: String,
    decision: String,
    text: String,
    since: String,
    until: String,
    decisions: [&'static str; 8],
}

pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let filter = filter(app, visit)?;
    let newest = match visit.param("before") {
        None => newest_seq(app, filter.until_us)?,
        Some(number) => before(number)?,
    };
    let oldest = newest.saturating_sub(SEARCHED_ROWS_MAX);
    // A page that follows the log has the older rows already.
    let oldest = match visit.param("after") {
        None => oldest,
        Some(number) => before(number)?.max(oldest),
    };
    let filter = Filter { seq_min: Some(oldest), seq_max: Some(newest), ..filter };
    let mut entries = Vec::new();
    let mut older = None;
    for entry in app.audit()?.newest_first(&filter)? {
        let entry = entry?;
        if is_housekeeping(&entry) {
            continue;
        }
        if entries.len() == PAGE_ENTRIES_MAX {
            older = Some(address(visit, "/audit", &[("before", &(entry.seq + 1).to_string())]));
            break;
        }
        entries.push(EntryView::of(entry, app));
    }
    if older.is_none() && oldest > 0 {
        older = Some(address(visit, "/audit", &[("before", &oldest.to_string())]));
    }
    let is_live = visit.param("live").is_some() && visit.param("before").is_none();
    let text = |key: &str| visit.param(key).unwrap_or_default().to_owned();
    let form = FilterForm {
        grant: text("grant"),
        server: text("server"),
        tool: text("tool"),
        decision: text("decision"),
        text: text("text"),
        since: text("since"),
        until: text("until"),
        decisions: DECISIONS,
    };
    let view = AuditPage {
        chrome: Chrome::new(app, visit, "Audit log"),
        entries,
        older,
        is_live,
        follow: address(visit, "/audit", if is_live { &[] } else { &[("live", "1")] }),
        export_jsonl: address(visit, "/audit/export", &[("format", "jsonl")]),
        export_csv: address(visit, "/audit/export", &[("format", "csv")]),
        form,
    };
    page(visit, &view)
}

fn filter(app: &App, visit: &Visit) -> Result<Filter, Problem> {
    let text = |key: &str| visit.param(key).map(str::to_owned);
    Ok(Filter {
        grant: text("grant"),
        server: text("server"),
        subject: text("tool"),
        decision: text("decision"),
        text: text("text"),
        since_us: moment(app, visit, "since")?,
        until_us: moment(app, visit, "until")?,
        ..Filter::default()
    })
}

/// A time as the form sends it, in the owner's zone, or with an offset.
fn moment(app: &App, visit: &Visit, key: &str) -> Result<Option<i64>, Problem> {
    let Some(text) = visit.param(key) else { return Ok(None) };
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(Some(at.as_microsecond()));
    }
    let at = text.parse::<DateTime>().and_then(|at| at.to_zoned(app.zone.clone()));
    let at =
        at.map_err(|_| Problem::invalid(format!("`{key}` is a time such as 2026-11-18T09:30")))?;
    Ok(Some(at.timestamp().as_microsecond()))
}

/// The number of the newest row, or of the newest before a time.
fn newest_seq(app: &App, until_us: Option<i64>) -> Result<u64, Problem> {
    if until_us.is_none() {
        return Ok(app.audit()?.newest_seq()?);
    }
    let filter = Filter { until_us, ..Filter::default() };
    let newest = app.audit()?.newest_first(&filter)?.next().transpose()?;
    Ok(newest.map_or(0, |entry| entry.seq))
}

/// The last sequence number before a given one.
fn before(number: &str) -> Result<u64, Problem> {
    let number: u64 = number
        .parse()
        .map_err(|_| Problem::invalid("`before` and `after` are numbers of entries"))?;
    Ok(number.saturating_sub(1))
}

/// An address with the same filter and these parameters instead of the page's own.
fn address(visit: &Visit, path: &str, more: &[(&str, &str)]) -> String {
    const OWN: [&str; 4] = ["before", "after", "live", "format"];
    let kept = visit.query.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let kept = kept.filter(|(key, value)| !OWN.contains(key) && !value.is_empty());
    let parts: Vec<String> = kept
        .chain(more.iter().copied())
        .map(|(key, value)| format!("{}={}", segment(key), segment(value)))
        .collect();
    if parts.is_empty() { path.to_owned() } else { format!("{path}?{}", parts.join("&")) }
}

/// Whether an entry is the log's note about itself.
fn is_housekeeping(entry: &Entry) -> bool {
    matches!(entry.act.as_str(), "clock" | "writer_opened" | "writer_closed")
}

/// Streams the entries that match, oldest first.
pub(crate) fn export(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (format, content_type, name) = match visit.param("format") {
        None | Some("jsonl") => (ExportFormat::Jsonl, "application/x-ndjson", "audit.jsonl"),
        Some("csv") => (ExportFormat::Csv, "text/csv; charset=utf-8", "audit.csv"),
        Some(_) => return Err(Problem::invalid("`format` is jsonl or csv")),
    };
    let (filter, reader) = (filter(app, visit)?, app.audit()?);
    let (to, parts) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let mut out = PartWriter { to, held: Vec::with_capacity(EXPORT_PART_BYTES) };
        // A browser that went away ends the export; so does a log that cannot be read, with a note.
        if let Err(error) = reader.export(format, &filter, &mut out) {
            tracing::info!(%error, "an export of the audit log ended early");
        }
    });
    Ok(Response::download(content_type, name, parts))
}

/// Writes to a stream, part by part.
struct PartWriter {
    to: mpsc::Sender<Bytes>,
    held: Vec<u8>,
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= EXPORT_PART_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let part = Bytes::from(std::mem::take(&mut self.held));
        self.to.blocking_send(part).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

#[derive(Template, Serialize)]
#[template(path = "verify.html")]
struct VerifyPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    verification: Verification,
    /// Rows in the log now.
    rows: u64,
    #[serde(skip)]
    is_running: bool,
    #[serde(skip)]
    ended_at: Option<Moment>,
}

pub(crate) fn verification(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let verification = app.verifier.last();
    let ended_at = match &verification {
        Verification::Whole { ended_us, .. } | Verification::Broken { ended_us, .. } => {
            Some(Moment::of(*ended_us, &app.zone))
        }
        Verification::NeverRun | Verification::Running { .. } => None,
    };
    let view = VerifyPage {
        chrome: Chrome::new(app, visit, "Verify the audit log"),
        rows: newest_seq(app, None)?,
        is_running: matches!(verification, Verification::Running { .. }),
        verification,
        ended_at,
    };
    page(visit, &view)
}

pub(crate) fn verify(app: &App, _visit: &Visit) -> Result<Response, Problem> {
    app.start_verification()?;
    Ok(Response::see_other("/audit/verify"))
}
