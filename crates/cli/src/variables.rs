//! Environment variables that hold secrets of tollgate itself.

/// The vault key, for machines with their own secret management.
pub(crate) const KEY_VARIABLE: &str = "TOLLGATE_VAULT_KEY";
/// The token for `/metrics`.
pub(crate) const METRICS_VARIABLE: &str = "TOLLGATE_METRICS_TOKEN";
