//! The typed views that a service declares over its derived records. One declaration gives the SQL
//! view and the columns of every export.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Records, Result};

/// One kind of record as a table with named, typed columns.
#[derive(Debug)]
pub struct View {
    /// Its name in SQL, such as `whoop_cycles`.
    pub name: &'static str,
    pub service: &'static str,
    pub kind: &'static str,
    pub columns: &'static [Column],
    /// Records in this state are hidden: stored raw, but not understood.
    pub except_state: Option<&'static str>,
}

/// A column, and the key of the derived object that it shows.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnType,
}

/// The type of a column. Every column is nullable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    Integer,
    Double,
    Bool,
    /// An object with these members, all doubles.
    Doubles(&'static [&'static str]),
    /// Anything else, as JSON text.
    Json,
}

impl Column {
    pub const fn text(name: &'static str) -> Column {
        Column { name, kind: ColumnType::Text }
    }

    pub const fn integer(name: &'static str) -> Column {
        Column { name, kind: ColumnType::Integer }
    }

    pub const fn double(name: &'static str) -> Column {
        Column { name, kind: ColumnType::Double }
    }

    pub const fn bool(name: &'static str) -> Column {
        Column { name, kind: ColumnType::Bool }
    }

    pub const fn doubles(name: &'static str, members: &'static [&'static str]) -> Column {
        Column { name, kind: ColumnType::Doubles(members) }
    }

    pub const fn json(name: &'static str) -> Column {
        Column { name, kind: ColumnType::Json }
    }
}

impl View {
    /// A view of all records of a kind.
    pub const fn of(
        name: &'static str,
        service: &'static str,
        kind: &'static str,
        columns: &'static [Column],
    ) -> View {
        View { name, service, kind, columns, except_state: None }
    }

    /// The names of the columns in SQL: an object is shown as a whole and member by member.
    pub fn sql_columns(&self) -> Vec<String> {
        let mut names = Vec::new();
        for column in self.columns {
            names.push(column.name.to_owned());
            if let ColumnType::Doubles(members) = column.kind {
                names.extend(members.iter().map(|member| format!("{}_{member}", column.name)));
            }
        }
        names
    }

    fn sql(&self) -> String {
        let mut columns = String::new();
        for column in self.columns {
            let name = column.name;
            let _ = write!(columns, "flat ->> '$.{name}' AS \"{name}\", ");
            if let ColumnType::Doubles(members) = column.kind {
                for member in members {
                    let path = format!("'$.{name}.{member}'");
                    let _ = write!(columns, "flat ->> {path} AS \"{name}_{member}\", ");
                }
            }
        }
        let except = self.except_state.map(|state| format!(" AND state IS NOT '{state}'"));
        format!(
            "CREATE VIEW \"{}\" AS SELECT {} FROM record WHERE series = \
             (SELECT id FROM series WHERE service = '{}' AND kind = '{}'){}",
            self.name,
            columns.trim_end_matches(", "),
            self.service,
            self.kind,
            except.unwrap_or_default()
        )
    }
}

impl Records {
    /// Creates the views of a service, or recreates them if this version declares them differently.
    pub fn declare(&self, views: &[&View]) -> Result<()> {
        let known = self.declared()?;
        let changed: Vec<(&str, String)> = views
            .iter()
            .map(|view| (view.name, view.sql()))
            .filter(|(name, sql)| known.get(*name) != Some(sql))
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        self.write(|db| {
            for (name, sql) in &changed {
                db.execute_batch(&format!("DROP VIEW IF EXISTS \"{name}\"; {sql}"))?;
                db.execute(
                    "INSERT OR REPLACE INTO declared (view, text) VALUES (?1, ?2)",
                    [*name, sql.as_str()],
                )?;
            }
            Ok(())
        })
    }

    /// The declared views and the statements that created them.
    pub(super) fn declared(&self) -> Result<BTreeMap<String, String>> {
        self.read(|db| {
            let mut statement = db.prepare_cached("SELECT view, text FROM declared")?;
            let found = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }
}
