//! The identity of a service: what all shared code may know about one.

use crate::account::Account;

/// A service that the owner may have an account at.
pub struct Service {
    /// Its name in records, accounts, settings and addresses.
    pub name: &'static str,
    pub title: &'static str,
    /// How the owner signs in; none for a server without accounts.
    pub account: Option<&'static Account>,
}
