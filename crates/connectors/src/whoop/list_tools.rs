//! The list tools: parse the arguments, and assemble the output from stored texts.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use store::records::Window;

use super::handler::AssembledText;
use super::kind::Kind;
use super::lists::{ListRequest, ListResult, left_open_since, live, mirrored, window};
use super::problem::WhoopProblem;
use super::records::Record;
use super::{NAME, ToolError, fill, here, truncate};
use crate::{ConnectorContext, JsonText, ToolCall, when};

/// Reserved for the rest of the output.
const AROUND_BYTES: usize = 512;

#[derive(Deserialize, JsonSchema)]
pub(super) struct ListArgs {
    /// Inclusive lower bound: ISO-8601, or words such as `yesterday` or `last 30 days`.
    #[serde(default)]
    start: Option<String>,
    /// Exclusive upper bound, written the same way.
    #[serde(default)]
    end: Option<String>,
    /// At most so many, newest first. Without it an answer stays below 25,000 tokens.
    #[serde(default)]
    limit: Option<i64>,
    /// Ask WHOOP instead of the local mirror.
    #[serde(default)]
    fresh: bool,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the text that `answer` assembles from stored texts")]
pub(super) struct ListOutput<T> {
    records: Vec<T>,
    truncated: bool,
    hint: String,
    stale_since: String,
    warnings: Vec<String>,
}

pub(super) async fn list<T: Record>(
    call: ToolCall<'_>,
    args: ListArgs,
) -> Result<AssembledText<ListOutput<T>>, ToolError> {
    let (ctx, kind) = (call.ctx, T::KIND);
    let wanted = ListRequest {
        from_us: bound(ctx, kind, "start", args.start.as_deref(), when::start_us)?,
        to_us: bound(ctx, kind, "end", args.end.as_deref(), when::end_us)?,
        limit: limit_of(kind, args.limit)?,
    };
    let found = if args.fresh {
        live(ctx, kind, wanted).await?
    } else {
        mirrored(ctx, kind, wanted).await?
    };
    let shown = match wanted.limit {
        Some(_) => found.texts.len(),
        None => truncate::fitting(found.texts.iter().map(String::as_str)),
    };
    Ok(AssembledText::new(Arc::new(answer(ctx, kind, wanted, &found, shown))))
}

type ReadBound = fn(&str, when::Here) -> Result<i64, when::Unreadable>;

fn bound(
    ctx: &ConnectorContext,
    kind: Kind,
    name: &str,
    text: Option<&str>,
    read: ReadBound,
) -> Result<Option<i64>, WhoopProblem> {
    let Some(text) = text else { return Ok(None) };
    if let Some(instant_us) = when::instant_us(text) {
        return Ok(Some(instant_us));
    }
    let instant_us = read(text, here(ctx))
        .map_err(|error| WhoopProblem::invalid(kind.path(), format!("`{name}` is {error}")))?;
    Ok(Some(instant_us))
}

fn limit_of(kind: Kind, limit: Option<i64>) -> Result<Option<usize>, WhoopProblem> {
    match limit {
        None => Ok(None),
        Some(limit) if limit > 0 => Ok(Some(usize::try_from(limit).unwrap_or(usize::MAX))),
        Some(_) => Err(WhoopProblem::invalid(kind.path(), "limit must be > 0")),
    }
}

/// The records are joined as stored: each is compact JSON already.
fn answer(
    ctx: &ConnectorContext,
    kind: Kind,
    wanted: ListRequest,
    found: &ListResult,
    shown: usize,
) -> JsonText {
    let bytes: usize = found.texts.iter().take(shown).map(|text| text.len() + 1).sum();
    let mut out = JsonText::with_capacity(bytes + AROUND_BYTES);
    out.push("{");
    if shown < found.texts.len() {
        let hint = Value::from(hint(ctx, kind, wanted, shown, found.texts.len()));
        out.push(&format!("\"truncated\":true,\"hint\":{hint},"));
    }
    out.push("\"records\":[");
    let texts = found.texts.iter().take(shown).map(String::as_str);
    let left_out = truncate::join(kind, texts, &mut out);
    out.push("]");
    let stale_since = stale_since(ctx, kind, found);
    let incomplete = found.problem.as_ref().map(|problem| {
        let since = stale_since.as_ref().map(|since| format!(", stale since {since}"));
        let (kind, line) = (kind.name(), problem.line());
        format!("{kind}: {line}; this is what the mirror has{}", since.unwrap_or_default())
    });
    let unreadable = truncate::named(kind, found.warnings.iter().chain(&left_out));
    let warnings: Vec<&String> = incomplete.iter().chain(&unreadable).collect();
    if !warnings.is_empty() {
        out.push(&format!(",\"warnings\":{}", json!(warnings)));
    }
    if let Some(since) = stale_since {
        out.push(&format!(",\"stale_since\":{}", json!(since)));
    }
    out.push("}");
    out
}

/// Since when the response is stale: the mirror could not be completed, or the newest cycle was
/// left open.
fn stale_since(ctx: &ConnectorContext, kind: Kind, found: &ListResult) -> Option<String> {
    if found.problem.is_some() {
        return fill::as_of_us(ctx, kind).map(when::utc_micros);
    }
    let newest = found.texts.first().filter(|_| kind == Kind::Cycles)?;
    left_open_since(&truncate::record(kind, newest).ok()?, ctx.clock.now().wall_us)
}

/// How to get the remaining records.
fn hint(
    ctx: &ConnectorContext,
    kind: Kind,
    wanted: ListRequest,
    shown: usize,
    all: usize,
) -> String {
    let last = Window { limit: Some(shown), ..window(ctx, wanted) };
    let rows = ctx.records.window(NAME, kind.name(), &last).unwrap_or_default();
    match rows.last().and_then(|row| row.start_us) {
        Some(start_us) => format!(
            "the newest {shown} of at least {all}; call again with end=\"{}\" for older ones, or with a limit to get that many at once",
            when::utc_millis(start_us)
        ),
        None => format!("the newest {shown} of {all}; narrow start and end, or pass a limit"),
    }
}
