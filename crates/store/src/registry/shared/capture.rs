//! Which rows a transaction changed: temporary triggers note the key of every row that is inserted,
//! changed or deleted, deletes by a foreign key included. Other connections do not have them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Transaction};

use super::image::{RowImage, SEQUENCES, TableShape};
use crate::registry::RegistryError;

const KEY_COLUMNS_MAX: usize = 8;

/// The numbers that each table will not use again.
type Sequences = BTreeMap<String, i64>;

/// Makes the triggers on this connection.
pub(super) fn install(db: &Connection, shapes: &[TableShape]) -> Result<(), RegistryError> {
    // A row that is replaced by another counts as deleted.
    db.pragma_update(None, "recursive_triggers", true)?;
    db.pragma_update(None, "temp_store", "memory")?;
    let columns: Vec<String> = (0..KEY_COLUMNS_MAX).map(|n| format!("k{n}")).collect();
    let mut text = format!("CREATE TEMP TABLE touched (of, {});", columns.join(", "));
    for shape in shapes.iter().filter(|shape| shape.name != SEQUENCES) {
        if shape.key.is_empty() || shape.key.len() > KEY_COLUMNS_MAX {
            let words = format!("table `{}` has no key that replicas can share", shape.name);
            return Err(RegistryError::Corrupt(words));
        }
        for (event, sides) in
            [("INSERT", &["NEW"][..]), ("UPDATE", &["OLD", "NEW"]), ("DELETE", &["OLD"])]
        {
            add_trigger(&mut text, shape, event, sides);
        }
    }
    db.execute_batch(&text)?;
    Ok(())
}

/// Writing to a string cannot fail.
fn add_trigger(text: &mut String, shape: &TableShape, event: &str, sides: &[&str]) {
    let name = &shape.name;
    let _ = write!(
        text,
        "CREATE TEMP TRIGGER touched_{name}_{event} AFTER {event} ON main.{name} BEGIN "
    );
    for side in sides {
        let places: Vec<String> = (0..shape.key.len()).map(|n| format!("k{n}")).collect();
        let values: Vec<String> =
            shape.key.iter().map(|column| format!("{side}.{column}")).collect();
        let (places, values) = (places.join(", "), values.join(", "));
        let _ = write!(text, "INSERT INTO touched (of, {places}) VALUES ('{name}', {values}); ");
    }
    text.push_str("END;");
}

/// To be called before the change, with its result handed to [`changed`].
pub(super) fn begin(db: &Transaction<'_>) -> Result<Sequences, RegistryError> {
    db.execute("DELETE FROM touched", [])?;
    sequences(db)
}

/// The rows that were changed since, as they are now.
pub(super) fn changed(
    db: &Transaction<'_>,
    shapes: &[TableShape],
    before: &Sequences,
) -> Result<Vec<RowImage>, RegistryError> {
    let mut rows = Vec::new();
    let mut select = db.prepare_cached("SELECT DISTINCT * FROM touched WHERE of = ?1")?;
    for shape in shapes {
        let mut touched = select.query([&shape.name])?;
        while let Some(row) = touched.next()? {
            let cell = |n: usize| row.get::<_, Cell>(n + 1);
            let key: Vec<Cell> = (0..shape.key.len()).map(cell).collect::<Result<_, _>>()?;
            rows.push(shape.find(db, &key)?);
        }
    }
    let Some(shape) = shapes.iter().find(|shape| shape.name == SEQUENCES) else { return Ok(rows) };
    for (name, _) in sequences(db)?.iter().filter(|(name, last)| before.get(*name) != Some(last)) {
        rows.push(shape.find(db, &[Cell::Text(name.clone())])?);
    }
    Ok(rows)
}

fn sequences(db: &Connection) -> Result<Sequences, RegistryError> {
    let mut select = db.prepare_cached("SELECT name, seq FROM sqlite_sequence")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
