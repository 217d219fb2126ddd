//! The secrets of a server: in hand, or sealed to their row in `gate.db`.

use super::target::Target;
use crate::secret::Secret;
use crate::vault::{Sealed, Vault, VaultError};

/// A secret of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Just entered, or from where `tollgate.toml` points.
    Held(Secret),
    Sealed(Sealed),
}

/// A value in the environment of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    Plain(String),
    Hidden(Credential),
}

/// Where a secret goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Header,
    Env,
    Query,
}

impl Place {
    pub fn as_str(self) -> &'static str {
        match self {
            Place::Header => "header",
            Place::Env => "env",
            Place::Query => "query",
        }
    }
}

impl Credential {
    pub fn open(&self, vault: &Vault) -> Result<Secret, VaultError> {
        match self {
            Credential::Held(secret) => Ok(secret.clone()),
            Credential::Sealed(sealed) => vault.open_text(sealed),
        }
    }
}

impl Target {
    /// Every secret of the target with its place and name.
    pub fn credentials(&self) -> Vec<(Place, &str, &Credential)> {
        match self {
            Target::Builtin { .. } => Vec::new(),
            Target::Command { env, .. } => env.iter().filter_map(hidden).collect(),
            Target::Url { query, headers, .. } => {
                let query = query.iter().map(|credential| (Place::Query, "", credential));
                let headers = headers.iter().map(|(name, value)| (Place::Header, &**name, value));
                query.chain(headers).collect()
            }
        }
    }

    /// The target with every secret in hand; what the gateway connects with.
    pub fn opened(&self, vault: &Vault) -> Result<Target, VaultError> {
        let mut target = self.clone();
        for credential in target.credentials_mut() {
            *credential = Credential::Held(credential.open(vault)?);
        }
        Ok(target)
    }

    fn credentials_mut(&mut self) -> Vec<&mut Credential> {
        match self {
            Target::Builtin { .. } => Vec::new(),
            Target::Command { env, .. } => {
                let hidden = env.iter_mut().filter_map(|(_, value)| match value {
                    EnvValue::Hidden(credential) => Some(credential),
                    EnvValue::Plain(_) => None,
                });
                hidden.collect()
            }
            Target::Url { query, headers, .. } => {
                query.iter_mut().chain(headers.iter_mut().map(|(_, value)| value)).collect()
            }
        }
    }
}

fn hidden((name, value): &(String, EnvValue)) -> Option<(Place, &str, &Credential)> {
    match value {
        EnvValue::Hidden(credential) => Some((Place::Env, name, credential)),
        EnvValue::Plain(_) => None,
    }
}
