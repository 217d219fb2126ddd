//! The owner's SQL queries: read-only, whatever the text says.

use std::ops::ControlFlow;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Row as SqlRow, Statement};

use super::sql_limits::{self, QueryLimits};
use super::{PooledConnection, Records, RecordsError, Result};

/// One value of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The output of a query: its columns once, then its rows.
#[derive(Debug)]
pub enum QueryOutput<'a> {
    Columns(&'a [String]),
    Row(&'a [Cell]),
}

#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    #[error(
        "only queries are possible here: `select …`\nhint: `tollgate sql --views` lists the views and their columns"
    )]
    NotAQuery,
    #[error("SQL error: {0}\nhint: `tollgate sql --views` lists the views and their columns")]
    Invalid(String),
    #[error("one statement at a time\nhint: remove everything after the first `;`")]
    MultipleStatements,
    #[error("the query takes too long\nhint: select fewer rows, or fewer joins")]
    TooLong,
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl Records {
    /// Runs one query within limits, as [`Records::sql`] does without. `is_over` ends a query that takes too
    /// long.
    pub fn sql_within<E: From<SqlError>>(
        &self,
        limits: QueryLimits,
        is_over: impl FnMut() -> bool + Send + 'static,
        query: &str,
        take: impl FnMut(QueryOutput<'_>) -> std::result::Result<ControlFlow<()>, E>,
    ) -> std::result::Result<(), E> {
        let mut connection =
            PooledConnection::for_reading(&self.pool.path).map_err(SqlError::from)?;
        let limited = sql_limits::apply(&mut connection.db, limits, is_over, query);
        limited.map_err(|e| E::from(sql_error(&e)))?;
        run_sql(&connection, query, take)
    }

    /// Runs one query. `take` receives the columns, then each row, and may stop early. The
    /// connection is read-only, and statements that would do more are not prepared.
    pub fn sql<E: From<SqlError>>(
        &self,
        query: &str,
        take: impl FnMut(QueryOutput<'_>) -> std::result::Result<ControlFlow<()>, E>,
    ) -> std::result::Result<(), E> {
        let mut connection =
            PooledConnection::for_reading(&self.pool.path).map_err(SqlError::from)?;
        let refused = |e: rusqlite::Error| E::from(sql_error(&e));
        connection.db.authorizer(Some(allow_reading)).map_err(refused)?;
        run_sql(&connection, query, take)
    }

    /// The available views, each with its columns.
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

/// Runs one query on a connection that was prepared for it.
fn run_sql<E: From<SqlError>>(
    connection: &PooledConnection,
    query: &str,
    mut take: impl FnMut(QueryOutput<'_>) -> std::result::Result<ControlFlow<()>, E>,
) -> std::result::Result<(), E> {
    let refused = |e: rusqlite::Error| E::from(sql_error(&e));
    let mut statements = Batch::new(&connection.db, query);
    let mut statement = match statements.next().map_err(refused)? {
        Some(statement) if statement.readonly() && statement.column_count() > 0 => statement,
        _ => return Err(SqlError::NotAQuery.into()),
    };
    // Running only the first of several would hide that the others were ignored.
    if !matches!(statements.next(), Ok(None)) {
        return Err(SqlError::MultipleStatements.into());
    }
    let columns = columns(&statement);
    if take(QueryOutput::Columns(&columns))?.is_break() {
        return Ok(());
    }
    let mut rows = statement.query([]).map_err(refused)?;
    let mut cells = Vec::with_capacity(columns.len());
    while let Some(row) = rows.next().map_err(refused)? {
        cells.clear();
        for at in 0..columns.len() {
            cells.push(cell(row, at).map_err(refused)?);
        }
        if take(QueryOutput::Row(&cells))?.is_break() {
            break;
        }
    }
    Ok(())
}

fn columns(statement: &Statement<'_>) -> Vec<String> {
    statement.column_names().map(str::to_owned).collect()
}

/// Only reading: no writing, no other files, no settings.
pub(super) fn allow_reading(context: AuthContext<'_>) -> Authorization {
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

/// An error of the query rather than of the file, where the query is wrong.
fn sql_error(error: &rusqlite::Error) -> SqlError {
    use rusqlite::{Error, ErrorCode};
    // A view cannot be written to at all, and SQLite says so before it asks for permission.
    if error.to_string().contains("cannot modify") {
        return SqlError::NotAQuery;
    }
    match error {
        Error::SqlInputError { msg, .. } => SqlError::Invalid(msg.clone()),
        Error::SqliteFailure(code, message) => match code.code {
            ErrorCode::AuthorizationForStatementDenied => SqlError::NotAQuery,
            ErrorCode::OperationInterrupted => SqlError::TooLong,
            ErrorCode::Unknown | ErrorCode::TypeMismatch | ErrorCode::TooBig => {
                SqlError::Invalid(message.clone().unwrap_or_else(|| error.to_string()))
            }
            _ => SqlError::Records(rusqlite::Error::SqliteFailure(*code, message.clone()).into()),
        },
        other => SqlError::Invalid(other.to_string()),
    }
}
