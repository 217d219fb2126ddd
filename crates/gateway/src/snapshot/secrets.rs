//! Collects the secrets that a server is given, so that they can be masked in its messages.

use std::sync::Arc;

use store::registry::{Credential, EnvValue, argv_in_clear};
use store::secret_words::{secret_values, secret_values_of_url, secret_values_of_variable};
use url::Url;

use crate::upstream::Mask;

/// Of a command: its secret variables, its sealed arguments, and plain variables and arguments that look like
/// secrets.
pub(super) fn of_child(
    env: &[(String, EnvValue)],
    argv: &[String],
    secret_args: &[(usize, Credential)],
) -> Option<Arc<Mask>> {
    let variables = env.iter().flat_map(|(name, value)| {
        let values = match value {
            EnvValue::Hidden(Credential::Held(secret)) => vec![secret.expose().clone()],
            // Sealed values were unsealed before.
            EnvValue::Hidden(Credential::Sealed(_)) => Vec::new(),
            EnvValue::Plain(value) => secret_values_of_variable(name, value),
        };
        values.into_iter().map(|value| (name.clone(), value))
    });
    let sealed: Vec<usize> = secret_args.iter().map(|(at, _)| *at).collect();
    let arguments = secret_values(&argv_in_clear(argv, secret_args), &sealed);
    let arguments = arguments.into_iter().map(|(at, value)| (format!("argument {at}"), value));
    let secrets: Vec<(String, String)> = variables.chain(arguments).collect();
    Mask::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

/// Of an HTTP server: the configured headers, and a sealed query, as a whole and value by value.
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
    let in_address = secret_values_of_url(url.as_str()).into_iter();
    secrets.extend(in_address.map(|value| ("address".to_owned(), value)));
    secrets.extend(url.password().map(|word| ("password".to_owned(), word.to_owned())));
    Mask::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

/// A query is sealed as a whole. Only values that look like credentials are masked on their own.
fn is_credential(name: &str, value: &str) -> bool {
    const NAMES: [&str; 9] =
        ["key", "token", "secret", "pass", "pwd", "auth", "sig", "cred", "jwt"];
    const LONG_BYTES: usize = 16;
    let name = name.to_ascii_lowercase();
    value.len() >= LONG_BYTES || NAMES.iter().any(|word| name.contains(word))
}
