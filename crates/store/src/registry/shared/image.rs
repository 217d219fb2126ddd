//! Rows of the registry as the store has them: a table, a key, and the row as JSON. Made from and
//! applied to a local copy by the columns that its tables have.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, Row, Transaction, params_from_iter};
use serde_json::{Map, Value};

use super::POSITION_TABLE;
use crate::registry::RegistryError;

/// SQLite's own table of the numbers that are never used again.
pub(super) const SEQUENCES: &str = "sqlite_sequence";

/// One row, or that it was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::registry) struct RowImage {
    pub(super) table: String,
    /// The values of the primary key, as a JSON array.
    pub(super) key: String,
    /// The values by their columns, as a JSON object.
    pub(super) image: Option<String>,
}

impl RowImage {
    pub(in crate::registry) fn is_of(&self, table: &str) -> bool {
        self.table == table
    }
}

/// The columns of a table.
pub(super) struct TableShape {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) key: Vec<String>,
}

/// The tables that replicas share, sorted so that `sqlite_sequence` is the last: filling the others
/// changes it.
pub(super) fn shapes(db: &Connection) -> Result<Vec<TableShape>, RegistryError> {
    let mut select = db.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> ?1
         AND (name NOT LIKE 'sqlite%' OR name = ?2) ORDER BY name = ?2, name",
    )?;
    let names = select.query_map([POSITION_TABLE, SEQUENCES], |row| row.get::<_, String>(0))?;
    names.map(|name| shape(db, name?)).collect()
}

fn shape(db: &Connection, name: String) -> Result<TableShape, RegistryError> {
    let mut select = db.prepare("SELECT name, pk FROM pragma_table_info(?1) ORDER BY pk, cid")?;
    let found = select.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(String, i64)> = found.collect::<Result<_, _>>()?;
    let key = found.iter().filter(|(_, pk)| *pk > 0).map(|(column, _)| column.clone()).collect();
    let key = if name == SEQUENCES { vec!["name".to_owned()] } else { key };
    Ok(TableShape { name, key, columns: found.into_iter().map(|(column, _)| column).collect() })
}

impl TableShape {
    fn where_key(&self) -> String {
        let parts = (1..).zip(&self.key).map(|(n, column)| format!("{column} = ?{n}"));
        parts.collect::<Vec<_>>().join(" AND ")
    }

    /// All rows.
    pub(super) fn dump(&self, db: &Connection) -> Result<Vec<RowImage>, RegistryError> {
        let select = format!("SELECT {} FROM {}", self.columns.join(", "), self.name);
        let mut select = db.prepare(&select)?;
        let mut rows = select.query([])?;
        let mut images = Vec::new();
        while let Some(row) = rows.next()? {
            images.push(self.image(row)?);
        }
        Ok(images)
    }

    /// The row with this key as it is now.
    pub(super) fn find(&self, db: &Connection, key: &[Cell]) -> Result<RowImage, RegistryError> {
        let columns = self.columns.join(", ");
        let select = format!("SELECT {columns} FROM {} WHERE {}", self.name, self.where_key());
        let mut select = db.prepare_cached(&select)?;
        let mut rows = select.query(params_from_iter(key))?;
        if let Some(row) = rows.next()? {
            return self.image(row);
        }
        let key = Value::Array(key.iter().map(|cell| encoded(cell.into())).collect());
        Ok(RowImage { table: self.name.clone(), key: key.to_string(), image: None })
    }

    fn image(&self, row: &Row<'_>) -> Result<RowImage, RegistryError> {
        let mut object = Map::new();
        for column in &self.columns {
            object.insert(column.clone(), encoded(row.get_ref(column.as_str())?));
        }
        let of_key = |column| object.get(column).cloned().unwrap_or_default();
        let key = Value::Array(self.key.iter().map(of_key).collect()).to_string();
        let image = Some(Value::Object(object).to_string());
        Ok(RowImage { table: self.name.clone(), key, image })
    }

    fn delete(&self, db: &Connection, row: &RowImage) -> Result<(), RegistryError> {
        let Ok(Value::Array(key)) = serde_json::from_str(&row.key) else {
            return Err(unreadable(row));
        };
        let key: Option<Vec<Cell>> = key.iter().map(decoded).collect();
        let key = key.filter(|key| key.len() == self.key.len()).ok_or_else(|| unreadable(row))?;
        let delete = format!("DELETE FROM {} WHERE {}", self.name, self.where_key());
        db.prepare_cached(&delete)?.execute(params_from_iter(key))?;
        Ok(())
    }

    /// Columns that a newer version has are left out, those that it lacks keep their defaults.
    fn insert(&self, db: &Connection, row: &RowImage) -> Result<(), RegistryError> {
        let Some(image) = &row.image else { return Ok(()) };
        let Ok(Value::Object(object)) = serde_json::from_str(image) else {
            return Err(unreadable(row));
        };
        let (mut columns, mut cells) = (Vec::new(), Vec::new());
        for column in &self.columns {
            if let Some(value) = object.get(column) {
                columns.push(column.as_str());
                cells.push(decoded(value).ok_or_else(|| unreadable(row))?);
            }
        }
        let places = vec!["?"; columns.len()].join(", ");
        let columns = columns.join(", ");
        let insert = format!("INSERT INTO {} ({columns}) VALUES ({places})", self.name);
        db.prepare_cached(&insert)?.execute(params_from_iter(cells))?;
        Ok(())
    }
}

/// Makes these rows what they were where they come from. All are removed before the first is put
/// back, because a row may take what is unique from another. Foreign keys must be off: removing a
/// row for its new content is not removing it.
pub(super) fn apply(
    db: &Transaction<'_>,
    shapes: &[TableShape],
    rows: &[RowImage],
    is_all: bool,
) -> Result<(), RegistryError> {
    for shape in shapes.iter().filter(|shape| shape.name != SEQUENCES) {
        if is_all {
            db.execute(&format!("DELETE FROM {}", shape.name), [])?;
            continue;
        }
        for row in rows.iter().filter(|row| row.table == shape.name) {
            shape.delete(db, row)?;
        }
    }
    for shape in shapes {
        for row in rows.iter().filter(|row| row.table == shape.name) {
            if shape.name == SEQUENCES {
                shape.delete(db, row)?;
            }
            shape.insert(db, row)?;
        }
    }
    Ok(())
}

fn encoded(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) => Value::from(number),
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Value::Object(Map::from_iter([(
            "base64".to_owned(),
            Value::from(STANDARD.encode(bytes)),
        )])),
    }
}

fn decoded(value: &Value) -> Option<Cell> {
    Some(match value {
        Value::Null => Cell::Null,
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cell::Integer(number),
            None => Cell::Real(number.as_f64()?),
        },
        Value::String(text) => Cell::Text(text.clone()),
        Value::Object(object) => Cell::Blob(STANDARD.decode(object.get("base64")?.as_str()?).ok()?),
        Value::Bool(_) | Value::Array(_) => return None,
    })
}

fn unreadable(row: &RowImage) -> RegistryError {
    RegistryError::Corrupt(format!("the store has an unreadable row of `{}`", row.table))
}
