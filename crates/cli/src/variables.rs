//! Environment variables that hold secrets of tollgate itself.

/// The vault key, for machines with their own secret management.
pub(crate) const KEY_VARIABLE: &str = "TOLLGATE_VAULT_KEY";
/// The address of Postgres, which may contain the password.
pub(crate) const STORE_VARIABLE: &str = "TOLLGATE_STORE";
/// The password for Postgres.
pub(crate) const STORE_PASSWORD_VARIABLE: &str = "TOLLGATE_STORE_PASSWORD";
/// The token for `/metrics`.
pub(crate) const METRICS_VARIABLE: &str = "TOLLGATE_METRICS_TOKEN";
