//! The rights of those who connect: a gate reads and appends, changes no row of the log, and makes no
//! table.

use std::fmt::Write as _;

use super::Address;

/// Who gets rights on the tables. The users must exist.
#[derive(Clone, Debug)]
pub struct Rights {
    /// Gates connect as this user.
    pub gate: String,
    /// May read everything that is not sealed away, and change nothing.
    pub reader: Option<String>,
    /// Gates may delete old rows of the log.
    pub may_retire: bool,
}

/// What a gate may do with each table.
const OF_GATE: &[(&str, &str)] = &[
    ("SELECT", "store_versions"),
    ("SELECT, INSERT", "ledger_rows, ledger_segments"),
    // Its row is the lock.
    ("SELECT, UPDATE", "ledger_logs"),
    ("SELECT, INSERT, UPDATE, DELETE", "ledger_writers"),
    ("SELECT, INSERT, UPDATE", "ledger_facts"),
    ("SELECT, UPDATE", "registry_state"),
    ("SELECT, INSERT, UPDATE, DELETE", "registry_rows, registry_leases, captures"),
    ("SELECT, INSERT, DELETE", "registry_changes"),
];
const OF_RETENTION: &[(&str, &str)] = &[("DELETE", "ledger_rows, ledger_segments")];
const OF_READER: &[(&str, &str)] = &[(
    "SELECT",
    "store_versions, ledger_logs, ledger_rows, ledger_segments, ledger_writers, ledger_facts, \
     registry_state, registry_rows, registry_changes, registry_leases",
)];

/// The statements, for the owner of the tables. They may be run again.
pub fn rights_sql(address: &Address, rights: &Rights) -> String {
    let schema = quoted(address.schema.as_deref().unwrap_or("public"));
    let mut sql = format!("BEGIN;\nSET LOCAL search_path = {schema};\n");
    let users = [Some(&rights.gate), rights.reader.as_ref()];
    for user in users.into_iter().flatten() {
        grant(&mut sql, &format!("USAGE ON SCHEMA {schema}"), user);
    }
    on_tables(&mut sql, OF_GATE, &rights.gate);
    if rights.may_retire {
        on_tables(&mut sql, OF_RETENTION, &rights.gate);
    }
    if let Some(reader) = &rights.reader {
        on_tables(&mut sql, OF_READER, reader);
    }
    sql.push_str("COMMIT;\n");
    sql
}

fn on_tables(sql: &mut String, rights: &[(&str, &str)], user: &str) {
    for (right, tables) in rights {
        grant(sql, &format!("{right} ON {tables}"), user);
    }
}

fn grant(sql: &mut String, what: &str, user: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(sql, "GRANT {what} TO {};", quoted(user));
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_name_cannot_end_its_quotes() {
        let address = Address::parse("postgres://o@h/d?schema=gates", None).unwrap();
        let gate = "a\"; DROP TABLE x; --".to_owned();
        let sql = rights_sql(&address, &Rights { gate, reader: None, may_retire: false });
        assert!(sql.contains("TO \"a\"\"; DROP TABLE x; --\";"), "{sql}");
        assert!(sql.contains("search_path = \"gates\""), "{sql}");
        assert!(!sql.contains("DELETE ON ledger_rows"), "{sql}");
    }
}
