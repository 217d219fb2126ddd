//! The owner's own questions in SQL: reading only, whatever the text says.

use std::ops::ControlFlow;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Row as SqlRow, Statement};

use super::{Link, Records, RecordsError, Result};

/// One value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// What an answer consists of: its columns once, then its rows.
#[derive(Debug)]
pub enum Told<'a> {
    Columns(&'a [String]),
    Row(&'a [Cell]),
}

#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    #[error(
        "only reading is possible here: `select …`\nhint: `tollgate sql --views` lists the views and their columns"
    )]
    NotAQuestion,
    #[error("SQL error: {0}\nhint: `tollgate sql --views` lists the views and their columns")]
    NotUnderstood(String),
    #[error("one question at a time\nhint: remove what follows the first `;`")]
    Several,
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl Records {
    /// Answers one question. `take` is told the columns, then each row, and may say that it has
    /// enough. The connection can only read, and statements that would do more are not prepared.
    pub fn sql<E: From<SqlError>>(
        &self,
        question: &str,
        mut take: impl FnMut(Told<'_>) -> std::result::Result<ControlFlow<()>, E>,
    ) -> std::result::Result<(), E> {
        let mut link = Link::for_reading(&self.inner.path).map_err(SqlError::from)?;
        let refused = |e: rusqlite::Error| E::from(understood(&e));
        link.db.authorizer(Some(allow_reading)).map_err(refused)?;
        let mut questions = Batch::new(&link.db, question);
        let mut statement = match questions.next().map_err(refused)? {
            Some(statement) if statement.readonly() && statement.column_count() > 0 => statement,
            _ => return Err(SqlError::NotAQuestion.into()),
        };
        // Answering the first of several would hide that the others were not even read.
        if !matches!(questions.next(), Ok(None)) {
            return Err(SqlError::Several.into());
        }
        let columns = columns(&statement);
        if take(Told::Columns(&columns))?.is_break() {
            return Ok(());
        }
        let mut rows = statement.query([]).map_err(refused)?;
        let mut cells = Vec::with_capacity(columns.len());
        while let Some(row) = rows.next().map_err(refused)? {
            cells.clear();
            for at in 0..columns.len() {
                cells.push(cell(row, at).map_err(refused)?);
            }
            if take(Told::Row(&cells))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The views that can be asked, each with its columns.
    pub fn views(&self) -> Result<Vec<(String, Vec<String>)>> {
        let names = self.declared()?.into_keys();
        self.read(|db| {
            names
                .map(|name| {
                    let statement = db.prepare(&format!("SELECT * FROM \"{name}\" LIMIT 0"))?;
                    let columns = columns(&statement);
                    drop(statement);
                    Ok((name, columns))
                })
                .collect()
        })
    }
}

fn columns(statement: &Statement<'_>) -> Vec<String> {
    statement.column_names().map(str::to_owned).collect()
}

/// Nothing but reading: no writing, no other files, no settings.
fn allow_reading(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

fn cell(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<Cell> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(bytes) => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
    })
}

/// Words about the question rather than about the file, where the question is at fault.
fn understood(error: &rusqlite::Error) -> SqlError {
    use rusqlite::{Error, ErrorCode};
    // A view cannot be written to at all, which is said before anybody asks whether it may be.
    if error.to_string().contains("cannot modify") {
        return SqlError::NotAQuestion;
    }
    match error {
        Error::SqlInputError { msg, .. } => SqlError::NotUnderstood(msg.clone()),
        Error::SqliteFailure(code, words) => match code.code {
            ErrorCode::AuthorizationForStatementDenied => SqlError::NotAQuestion,
            ErrorCode::Unknown | ErrorCode::TypeMismatch => {
                SqlError::NotUnderstood(words.clone().unwrap_or_else(|| error.to_string()))
            }
            _ => SqlError::Records(rusqlite::Error::SqliteFailure(*code, words.clone()).into()),
        },
        other => SqlError::NotUnderstood(other.to_string()),
    }
}
