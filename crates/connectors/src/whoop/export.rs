//! Exports for agents: the mirror's records in one of three formats, below the export folder.

use std::borrow::Cow;
use std::future::{Ready, ready};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::export::{
    Compression, CsvSafety, ExportError, ExportJob, ExportKind as File, ExportOptions, PathScope,
    ServiceExports, WrittenFile,
};
use store::records::{Records, RecordsError};

use super::problem::{WhoopCode, WhoopProblem};
use super::views::VIEWS;
use super::{NAME, ToolError, here};
use crate::connector::AgentExports;
use crate::tool::{Json, Success};
use crate::{ConnectorContext, ToolCall, when};

const ENDPOINT: &str = "export_whoop";

/// Everything that can be exported, by the names of commands and tools.
pub const EXPORTS: ServiceExports = ServiceExports {
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

#[derive(Deserialize, JsonSchema)]
pub(super) struct ExportArgs {
    /// cycles, recoveries, sleeps, workouts or all.
    kind: String,
    /// csv, jsonl or parquet.
    format: String,
    /// File, or folder for `all`; below the folder for agents' exports.
    path: String,
    /// First day, YYYY-MM-DD, or words such as `yesterday` or `last 30 days`.
    #[serde(default)]
    start: Option<String>,
    /// Last day, included, written the same way.
    #[serde(default)]
    end: Option<String>,
    #[serde(default)]
    overwrite: bool,
    /// CSV that no spreadsheet takes for formulas: an apostrophe before risky text.
    #[serde(default)]
    safe: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Exported {
    status: Success,
    kind: String,
    format: &'static str,
    files: Vec<ExportedFile>,
    range: ExportRange,
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct ExportedFile {
    resource: &'static str,
    path: String,
    records: u64,
    bytes: u64,
    saved_to: String,
}

impl From<WrittenFile> for ExportedFile {
    fn from(file: WrittenFile) -> ExportedFile {
        let WrittenFile { resource, path, records, bytes, saved_to } = file;
        ExportedFile { resource, path, records, bytes, saved_to }
    }
}

#[derive(Serialize, JsonSchema)]
struct ExportRange {
    start: Option<String>,
    end: Option<String>,
}

pub(super) fn export(
    call: ToolCall<'_>,
    args: ExportArgs,
) -> Ready<Result<Json<Exported>, ToolError>> {
    ready(exported(call.ctx, args).map(Json))
}

fn exported(ctx: &ConnectorContext, args: ExportArgs) -> Result<Exported, ToolError> {
    let ExportArgs { kind, format, path, start, end, overwrite, safe: is_safe } = args;
    let (start, end) = (start.as_deref(), end.as_deref());
    let plan = ExportJob::new(&EXPORTS, &kind, &format).map_err(|fault| problem_of(&fault))?;
    // A record that ends with the midnight before still counts, unlike in lists.
    let from_us = days(ctx, start, "start")?.map(|span| span.from_us - 1);
    let to_us = days(ctx, end, "end")?.map(|span| span.to_us);
    let whole = expanded(&path, ctx.tilde.as_deref());
    let allowed = allowed_folder(ctx);
    let is_allowed =
        allowed.as_deref().is_some_and(|folder| Path::new(&*whole).starts_with(folder));
    let folder = allowed.as_deref().filter(|_| is_allowed).unwrap_or(&ctx.exports);
    let order = ExportOptions {
        path: &whole,
        from_us,
        to_us,
        now_us: ctx.clock.now().wall_us,
        overwrite,
        csv: if is_safe { CsvSafety::Neutral } else { CsvSafety::AsIs },
        compression: Compression::default(),
        reach: PathScope::Below(folder),
    };
    let mut done = plan.write(&ctx.records, &order, &mut |_| {}).map_err(|fault| match fault {
        ExportError::Outside(_) => refused(&fault, allowed.as_deref()),
        fault => problem_of(&fault),
    })?;
    for file in &mut done.files {
        file.path = file.path.replacen(whole.as_ref(), &path, 1);
    }
    Ok(Exported {
        status: Success,
        kind: done.kind,
        format: done.format.as_str(),
        files: done.files.into_iter().map(ExportedFile::from).collect(),
        range: ExportRange { start: start.map(str::to_owned), end: end.map(str::to_owned) },
        warnings: Vec::new(),
    })
}

/// Stores the folder that the owner chose at sign-in; `None` means no folder.
pub fn allow_folder(records: &Records, folder: &str) -> Result<(), RecordsError> {
    records.state_put(NAME, ALLOWED_KEY, folder)
}

/// The question that `tollgate connect` asks once.
pub const AGENT_EXPORTS: AgentExports =
    AgentExports { example: "~/whoop", is_requested: is_folder_requested, allow: allow_folder };

/// Whether the owner has answered.
pub fn is_folder_requested(records: &Records) -> Result<bool, RecordsError> {
    Ok(records.state_get(NAME, ALLOWED_KEY)?.is_some())
}

const ALLOWED_KEY: &str = "exports_folder";

/// The additional folder: from the settings, or else the owner's choice.
fn allowed_folder(ctx: &ConnectorContext) -> Option<PathBuf> {
    let chosen = || ctx.records.state_get(NAME, ALLOWED_KEY).ok().flatten();
    let text = ctx.exports_allowed.clone().or_else(chosen).filter(|text| !text.is_empty())?;
    let home = ctx.tilde.as_deref().filter(|_| text == "~");
    let folder =
        home.map_or_else(|| PathBuf::from(&*expanded(&text, ctx.tilde.as_deref())), Path::to_owned);
    folder.is_absolute().then_some(folder)
}

/// The error for a path outside the export folders: names them and how to add one.
fn refused(fault: &ExportError, allowed: Option<&Path>) -> WhoopProblem {
    let also = allowed.map(|folder| format!(" or below `{}`", folder.display()));
    let message = format!(
        "{fault}{}; the owner allows another folder with `exports` of `[services.whoop]` in tollgate.toml",
        also.unwrap_or_default()
    );
    WhoopProblem::new(WhoopCode::ExportError, ENDPOINT, message)
}

/// `~/…` is below the owner's home folder, as in a shell. The export folder still decides whether an
/// agent may write there.
fn expanded<'a>(path: &'a str, tilde: Option<&Path>) -> Cow<'a, str> {
    let below = path.strip_prefix("~/").zip(tilde.and_then(Path::to_str));
    match below {
        Some((rest, home)) => Cow::Owned(format!("{}/{rest}", home.trim_end_matches('/'))),
        None => Cow::Borrowed(path),
    }
}

/// The days that a bound names, both included: UTC for a date, the owner's own for words.
fn days(
    ctx: &ConnectorContext,
    text: Option<&str>,
    name: &str,
) -> Result<Option<when::Span>, ToolError> {
    let Some(text) = text else { return Ok(None) };
    when::days(text, here(ctx)).map(Some).ok_or_else(|| {
        let message = format!("`{name}` must be a day, YYYY-MM-DD, or words such as `yesterday`");
        WhoopProblem::invalid(ENDPOINT, message).into()
    })
}

fn problem_of(fault: &ExportError) -> WhoopProblem {
    let code = match fault {
        ExportError::Invalid(_) => WhoopCode::ValidationError,
        ExportError::Empty(_) => WhoopCode::CacheEmpty,
        ExportError::Exists(_) => WhoopCode::FileExists,
        ExportError::Refused(_) | ExportError::Outside(_) | ExportError::Write { .. } => {
            WhoopCode::ExportError
        }
        ExportError::Records(_) => WhoopCode::CacheError,
    };
    WhoopProblem::new(code, ENDPOINT, fault.to_string().replace("\nhint: ", "; "))
}
