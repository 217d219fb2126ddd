//! The clients whose calls wait, by the row of the log that asked. Reading a row reads its whole segment of the
//! log, and the list of approvals is loaded again with every change.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// More are forgotten, oldest first.
const CLIENTS_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct AskingClients {
    by_row: Mutex<BTreeMap<u64, String>>,
}

impl AskingClients {
    /// The name of the client behind this row. A row that cannot be read now is read again the next time.
    pub(crate) fn of(&self, row: u64, read: impl FnOnce() -> Option<String>) -> String {
        let known = self.by_row.lock().unwrap_or_else(PoisonError::into_inner).get(&row).cloned();
        if let Some(name) = known {
            return name;
        }
        let Some(name) = read() else { return String::new() };
        let mut by_row = self.by_row.lock().unwrap_or_else(PoisonError::into_inner);
        by_row.insert(row, name.clone());
        while by_row.len() > CLIENTS_MAX {
            by_row.pop_first();
        }
        name
    }
}
