//! The secrets that a server is given, to be masked in what it says.

use std::sync::Arc;

use store::registry::{Credential, EnvValue};
use url::Url;

use crate::upstream::Mask;

/// Of a command: its secret variables.
pub(super) fn of_child(env: &[(String, EnvValue)]) -> Option<Arc<Mask>> {
    Mask::new(env.iter().filter_map(|(name, value)| match value {
        EnvValue::Hidden(Credential::Held(secret)) => {
            Some((name.as_str(), secret.expose().as_str()))
        }
        // Those that are sealed were opened before.
        EnvValue::Hidden(Credential::Sealed(_)) | EnvValue::Plain(_) => None,
    }))
}

/// Of an HTTP server: the headers that the owner set, and a sealed query, whole and
/// value by value.
pub(super) fn of_http(
    url: &Url,
    query: Option<&Credential>,
    headers: &[(String, Credential)],
) -> Option<Arc<Mask>> {
    let mut secrets: Vec<(String, String)> = Vec::new();
    for (name, value) in headers {
        if let Credential::Held(value) = value {
            secrets.push((name.clone(), value.expose().clone()));
        }
    }
    if let Some(Credential::Held(query)) = query {
        secrets.push(("query".to_owned(), query.expose().clone()));
        let pairs = url.query_pairs().filter(|(name, value)| is_credential(name, value));
        secrets.extend(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())));
    }
    secrets.extend(url.password().map(|word| ("password".to_owned(), word.to_owned())));
    Mask::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

/// A query is sealed as a whole; of its values only those are secrets that look like it.
fn is_credential(name: &str, value: &str) -> bool {
    const NAMES: [&str; 9] =
        ["key", "token", "secret", "pass", "pwd", "auth", "sig", "cred", "jwt"];
    const LONG_BYTES: usize = 16;
    let name = name.to_ascii_lowercase();
    value.len() >= LONG_BYTES || NAMES.iter().any(|word| name.contains(word))
}
