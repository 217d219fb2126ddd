//! Shows servers without the secrets in their command lines and addresses, and suggests how to seal them.

use store::registry::Target;
pub(crate) use store::secret_words::{secret_argument, shown_argv, shown_url};

const SHOWN: &str = store::secret::SHOWN;

/// A server's target in one line, with possible secrets masked.
pub(crate) fn target_text(target: &Target) -> String {
    match target {
        Target::Builtin { service } => service.clone(),
        Target::Command { argv, .. } => shown_argv(argv).join(" "),
        Target::Url { url, query, .. } => {
            let query = if query.is_some() { format!("?{SHOWN}") } else { String::new() };
            format!("{}{query}", shown_url(url))
        }
    }
}

/// What to do about a secret in the arguments of a server; none if there is no secret.
pub(crate) fn advice(server: &str, target: &Target) -> Option<String> {
    let Target::Command { argv, .. } = target else { return None };
    let at = secret_argument(argv)?;
    Some(format!(
        "argument {at} of server `{server}` looks like a secret and is stored in clear\nhint: seal it: `tollgate server seal {server}`; if the server can read it from a variable instead, other users of this machine do not see it: `tollgate server add NAME --secret-env VARIABLE -- COMMAND`"
    ))
}
