//! Everything a gate runs with, from one consistent read of `gate.db`.

use std::collections::BTreeMap;

use super::error::RegistryError;
use super::grants::Grant;
use super::policies::PolicyText;
use super::servers::Server;
use super::{Registry, generation, grants, policies, servers, values};

/// One state of the registry. Credentials in it are still sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrySnapshot {
    /// Changes with every change that a gate should notice; see [`Registry::changed`].
    pub generation: u64,
    /// What `generation` of `registry_state` on Postgres shows while nothing newer is there; 0 if
    /// the registry is not shared.
    pub version: u64,
    pub servers: Vec<Server>,
    /// The active versions.
    pub policies: Vec<PolicyText>,
    /// Including revoked ones, so that their tokens are recognised as such.
    pub grants: Vec<Grant>,
    pub values: BTreeMap<String, String>,
}

impl Registry {
    pub fn snapshot(&self) -> Result<RegistrySnapshot, RegistryError> {
        self.read(|db| {
            let count = generation(db)?;
            Ok(RegistrySnapshot {
                generation: self.numbered(count),
                version: if self.is_shared() { count } else { 0 },
                servers: servers::rows::all(db)?,
                policies: policies::all(db)?,
                grants: grants::rows::all(db)?,
                values: values::all(db)?,
            })
        })
    }
}
