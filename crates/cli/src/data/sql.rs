//! `tollgate sql`: the owner's own questions, answered from the views. Nothing can be changed by one.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::ops::ControlFlow;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};
use store::records::{Cell, Records, SqlError, Told};

use super::SqlArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Table, visible, width};

/// More rows than this are seldom read on a terminal.
const ROWS_SHOWN: usize = 100;
const CELL_COLUMNS_MAX: usize = 60;

pub(crate) fn run(args: &SqlArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let (_, records) = super::records(context)?;
    let Some(question) = args.question.as_deref().filter(|_| !args.views) else {
        return views(&records, out);
    };
    let question = asked(question)?;
    if out.wants_json() {
        as_json(&records, &question, args.limit, out)?;
    } else if args.csv {
        as_csv(&records, &question, args.limit, out)?;
    } else {
        as_table(&records, &question, args.limit.unwrap_or(ROWS_SHOWN), out)?;
    }
    Ok(Ending::Yes)
}

fn asked(question: &str) -> Result<String> {
    if question != "-" {
        return Ok(question.to_owned());
    }
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .context("cannot read the question from standard input")?;
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

/// Either side of an answer may fail: the question, or whoever reads what is written.
enum Trouble {
    Asked(SqlError),
    Writing(anyhow::Error),
}

impl From<SqlError> for Trouble {
    fn from(error: SqlError) -> Trouble {
        Trouble::Asked(error)
    }
}

impl From<anyhow::Error> for Trouble {
    fn from(error: anyhow::Error) -> Trouble {
        Trouble::Writing(error)
    }
}

impl From<Trouble> for anyhow::Error {
    fn from(trouble: Trouble) -> anyhow::Error {
        match trouble {
            Trouble::Asked(error) => error.into(),
            Trouble::Writing(error) => error,
        }
    }
}

/// Asks and hands on at most so many rows; 0 means all. Answers whether there were more.
fn ask(
    records: &Records,
    question: &str,
    limit: usize,
    mut take: impl FnMut(Told<'_>) -> Result<()>,
) -> Result<bool> {
    let mut rows = 0;
    let mut has_more = false;
    records.sql(question, |told| {
        if matches!(told, Told::Row(_)) {
            if limit > 0 && rows == limit {
                has_more = true;
                return Ok(ControlFlow::Break(()));
            }
            rows += 1;
        }
        take(told)?;
        Ok::<_, Trouble>(ControlFlow::Continue(()))
    })?;
    Ok(has_more)
}

fn as_json(records: &Records, question: &str, limit: Option<usize>, out: &mut Out) -> Result<()> {
    let mut names = Vec::new();
    let mut rows = 0;
    ask(records, question, limit.unwrap_or(0), |told| {
        match told {
            Told::Columns(columns) => names = columns.to_vec(),
            Told::Row(cells) => {
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

fn as_csv(records: &Records, question: &str, limit: Option<usize>, out: &mut Out) -> Result<()> {
    ask(records, question, limit.unwrap_or(0), |told| {
        let cells: Vec<String> = match told {
            Told::Columns(columns) => columns.to_vec(),
            Told::Row(cells) => cells.iter().map(text).collect(),
        };
        let line: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        let line = format!("{}\r\n", line.join(","));
        out.foreign(|writer| Ok(writer.write_all(line.as_bytes())?))
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

fn as_table(records: &Records, question: &str, limit: usize, out: &mut Out) -> Result<()> {
    let mut table = Table::foreign(&[]);
    let has_more = ask(records, question, limit, |told| {
        match told {
            Told::Columns(columns) => {
                let columns: Vec<String> = columns.iter().map(|name| shown(name)).collect();
                table = Table::foreign(&columns);
            }
            Told::Row(cells) => table.foreign_row(cells.iter().map(|cell| shown(&text(cell)))),
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

/// One line, safe to print, and short enough that a long text does not push the rest away.
fn shown(text: &str) -> String {
    let text = visible(text);
    if width(&text) <= CELL_COLUMNS_MAX {
        return text;
    }
    let mut short: String = text.chars().take(CELL_COLUMNS_MAX - 1).collect();
    short.push('…');
    short
}
