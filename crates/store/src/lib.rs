//! Stores everything that outlives a request: configuration (registry, settings), secrets (vault,
//! accounts), history (ledger) and records. All files are in one home folder.

pub mod accounts;
pub mod approval;
pub mod captures;
pub mod clock;
pub mod effective;
pub mod export;
pub mod files;
pub mod gate_time;
mod header;
mod hex;
pub mod home;
pub mod index;
mod interrupted_create;
pub mod ledger;
pub mod locked_file;
pub mod logins;
mod open_lock;
pub mod postgres;
pub mod purge;
pub mod random;
pub mod records;
pub mod registry;
pub mod secret;
pub mod secret_words;
pub mod settings;
pub mod sqlite_copy;
pub mod tool_class;
pub mod vault;
