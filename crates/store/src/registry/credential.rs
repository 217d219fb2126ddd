//! The secrets of a server: in clear, or sealed to their row in `gate.db`.

use std::borrow::Cow;

use super::target::Target;
use crate::secret::Secret;
use crate::vault::{Sealed, Vault, VaultError};

/// A secret of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Just entered, or from a reference in `tollgate.toml`.
    Held(Secret),
    Sealed(Sealed),
}

/// An environment variable of a child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    Plain(String),
    Hidden(Credential),
}

/// Where a secret is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretLocation {
    Header,
    Env,
    Query,
    Argument,
}

impl SecretLocation {
    pub fn as_str(self) -> &'static str {
        match self {
            SecretLocation::Header => "header",
            SecretLocation::Env => "env",
            SecretLocation::Query => "query",
            SecretLocation::Argument => "argument",
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
    /// Every secret of the target with its location and name; of an argument, its position.
    pub fn credentials(&self) -> Vec<(SecretLocation, Cow<'_, str>, &Credential)> {
        match self {
            Target::Builtin { .. } => Vec::new(),
            Target::Command { env, secret_args, .. } => {
                let arguments = secret_args
                    .iter()
                    .map(|(at, value)| (SecretLocation::Argument, at.to_string().into(), value));
                env.iter().filter_map(hidden).chain(arguments).collect()
            }
            Target::Url { query, headers, .. } => {
                let query =
                    query.iter().map(|value| (SecretLocation::Query, Cow::Borrowed(""), value));
                let headers = headers
                    .iter()
                    .map(|(name, value)| (SecretLocation::Header, name.into(), value));
                query.chain(headers).collect()
            }
        }
    }

    /// The target with every secret opened; what the gateway connects with.
    pub fn opened(&self, vault: &Vault) -> Result<Target, VaultError> {
        let mut target = self.clone();
        for credential in target.credentials_mut() {
            *credential = Credential::Held(credential.open(vault)?);
        }
        Ok(target)
    }

    /// An opened target whose arguments are all in clear, to be compared with another one.
    #[must_use]
    pub fn with_arguments_in_clear(self) -> Target {
        let Target::Command { argv, env, cwd, secret_args } = self else { return self };
        let argv = argv_in_clear(&argv, &secret_args);
        Target::Command { argv, env, cwd, secret_args: Vec::new() }
    }

    fn credentials_mut(&mut self) -> Vec<&mut Credential> {
        match self {
            Target::Builtin { .. } => Vec::new(),
            Target::Command { env, secret_args, .. } => {
                let hidden = env.iter_mut().filter_map(|(_, value)| match value {
                    EnvValue::Hidden(credential) => Some(credential),
                    EnvValue::Plain(_) => None,
                });
                hidden.chain(secret_args.iter_mut().map(|(_, value)| value)).collect()
            }
            Target::Url { query, headers, .. } => {
                query.iter_mut().chain(headers.iter_mut().map(|(_, value)| value)).collect()
            }
        }
    }
}

/// The words of a command with its opened secret arguments in their places.
pub fn argv_in_clear(argv: &[String], secret_args: &[(usize, Credential)]) -> Vec<String> {
    let held = |at: usize| {
        secret_args.iter().find_map(|(position, value)| match value {
            Credential::Held(secret) if *position == at => Some(secret.expose().clone()),
            _ => None,
        })
    };
    let words = argv.iter().enumerate();
    words.map(|(at, word)| held(at).unwrap_or_else(|| word.clone())).collect()
}

fn hidden(
    (name, value): &(String, EnvValue),
) -> Option<(SecretLocation, Cow<'_, str>, &Credential)> {
    match value {
        EnvValue::Hidden(credential) => Some((SecretLocation::Env, name.into(), credential)),
        EnvValue::Plain(_) => None,
    }
}
