//! `tollgate sql`: read-only queries of the owner over the views.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::ops::ControlFlow;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};
use store::records::{Cell, QueryOutput, Records, SqlError};

use super::SqlArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Table, visible, width};

/// Rows shown in a table unless `--limit` says otherwise.
const ROWS_SHOWN: usize = 100;
const CELL_COLUMNS_MAX: usize = 60;

pub(crate) fn run(args: &SqlArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let (_, records) = super::records(context)?;
    let Some(sql) = args.sql.as_deref().filter(|_| !args.views) else {
        return views(&records, out);
    };
    let sql = query_text(sql)?;
    if out.wants_json() {
        as_json(&records, &sql, args.limit, out)?;
    } else if args.csv {
        as_csv(&records, &sql, args.limit, out)?;
    } else {
        as_table(&records, &sql, args.limit.unwrap_or(ROWS_SHOWN), out)?;
    }
    Ok(Ending::Yes)
}

fn query_text(sql: &str) -> Result<String> {
    if sql != "-" {
        return Ok(sql.to_owned());
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read the query from standard input")?;
    Ok(text)
}

fn views(records: &Records, out: &mut Out) -> Result<Ending> {
    let views = records.views()?;
    if out.wants_json() {
        let views: Vec<Value> = views
            .iter()
            .map(|(name, columns)| json!({ "view": name, "columns": columns }))
            .collect();
        out.json(&views)?;
        return Ok(Ending::Yes);
    }
    for (name, columns) in views {
        out.line(format_args!("{name}"))?;
        out.line(format_args!("  {}", columns.join(", ")))?;
    }
    Ok(Ending::Yes)
}

/// The query or the output may fail.
enum QueryError {
    Sql(SqlError),
    Output(anyhow::Error),
}

impl From<SqlError> for QueryError {
    fn from(error: SqlError) -> QueryError {
        QueryError::Sql(error)
    }
}

impl From<anyhow::Error> for QueryError {
    fn from(error: anyhow::Error) -> QueryError {
        QueryError::Output(error)
    }
}

impl From<QueryError> for anyhow::Error {
    fn from(trouble: QueryError) -> anyhow::Error {
        match trouble {
            QueryError::Sql(error) => error.into(),
            QueryError::Output(error) => error,
        }
    }
}

/// Runs the query and passes on at most `limit` rows; 0 means all. Returns whether there were more.
fn query(
    records: &Records,
    sql: &str,
    limit: usize,
    mut take: impl FnMut(QueryOutput<'_>) -> Result<()>,
) -> Result<bool> {
    let mut rows = 0;
    let mut has_more = false;
    records.sql(sql, |output| {
        if matches!(output, QueryOutput::Row(_)) {
            if limit > 0 && rows == limit {
                has_more = true;
                return Ok(ControlFlow::Break(()));
            }
            rows += 1;
        }
        take(output)?;
        Ok::<_, QueryError>(ControlFlow::Continue(()))
    })?;
    Ok(has_more)
}

fn as_json(records: &Records, sql: &str, limit: Option<usize>, out: &mut Out) -> Result<()> {
    let mut names = Vec::new();
    let mut rows = 0;
    query(records, sql, limit.unwrap_or(0), |output| {
        match output {
            QueryOutput::Columns(columns) => names = columns.to_vec(),
            QueryOutput::Row(cells) => {
                let members = names.iter().cloned().zip(cells.iter().map(value));
                out.json_item(rows, &members.collect::<Map<_, _>>())?;
                rows += 1;
            }
        }
        Ok(())
    })?;
    out.json_end(rows)
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(number) => json!(number),
        Cell::Real(number) => json!(number),
        Cell::Text(text) => json!(text),
        Cell::Blob(bytes) => json!(hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn as_csv(records: &Records, sql: &str, limit: Option<usize>, out: &mut Out) -> Result<()> {
    query(records, sql, limit.unwrap_or(0), |output| {
        let cells: Vec<String> = match output {
            QueryOutput::Columns(columns) => columns.to_vec(),
            QueryOutput::Row(cells) => cells.iter().map(text).collect(),
        };
        let line: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        let line = format!("{}\r\n", line.join(","));
        out.untrusted(|writer| Ok(writer.write_all(line.as_bytes())?))
    })?;
    Ok(())
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => json!(number).to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Blob(bytes) => hex(bytes),
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn as_table(records: &Records, sql: &str, limit: usize, out: &mut Out) -> Result<()> {
    let mut table = Table::untrusted(&[]);
    let has_more = query(records, sql, limit, |output| {
        match output {
            QueryOutput::Columns(columns) => {
                let columns: Vec<String> = columns.iter().map(|name| shown(name)).collect();
                table = Table::untrusted(&columns);
            }
            QueryOutput::Row(cells) => {
                table.untrusted_row(cells.iter().map(|cell| shown(&text(cell))));
            }
        }
        Ok(())
    })?;
    out.table(&table)?;
    if has_more {
        out.say(format_args!(
            "the first {limit} rows; `--limit 0` shows all, `--csv` and `--json` write all"
        ));
    }
    Ok(())
}

/// One printable line, shortened to the maximum width of a cell.
fn shown(text: &str) -> String {
    let text = visible(text);
    if width(&text) <= CELL_COLUMNS_MAX {
        return text;
    }
    let mut short: String = text.chars().take(CELL_COLUMNS_MAX - 1).collect();
    short.push('…');
    short
}
