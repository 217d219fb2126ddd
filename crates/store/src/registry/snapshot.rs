//! Everything a gate runs with, from one consistent look at `gate.db`.

use std::collections::BTreeMap;

use super::error::RegistryError;
use super::grants::Grant;
use super::policies::PolicyText;
use super::servers::Server;
use super::{Registry, generation, grants, policies, servers, values};

/// One state of the registry. Credentials in it are still sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Moves with every change a gate should notice; see [`Registry::changed`].
    pub generation: u64,
    pub servers: Vec<Server>,
    /// The versions in force.
    pub policies: Vec<PolicyText>,
    /// Revoked ones included, so that their tokens are known as such.
    pub grants: Vec<Grant>,
    pub values: BTreeMap<String, String>,
}

impl Registry {
    pub fn snapshot(&self) -> Result<Snapshot, RegistryError> {
        self.read(|db| {
            Ok(Snapshot {
                generation: self.numbered(generation(db)?),
                servers: servers::rows::all(db)?,
                policies: policies::all(db)?,
                grants: grants::rows::all(db)?,
                values: values::all(db)?,
            })
        })
    }
}
