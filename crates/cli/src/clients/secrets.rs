//! What in a command line may be secret: it is not shown, and the owner is told of it, because the
//! arguments of a process can be read by every user of the machine.

/// Options whose next word is a secret.
const OPTIONS: &[&str] = &["key", "token", "secret", "password", "passwd", "auth", "credential"];
/// How well-known keys begin.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "pk_live",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "tg_",
    "npm_",
    "hf_",
    "Bearer ",
];
const SHOWN: &str = store::secret::SHOWN;

/// A word of a command line as it may be shown.
pub(super) fn shown(before: Option<&str>, word: &str) -> String {
    if let Some((option, value)) =
        word.split_once('=').filter(|(o, _)| asks(o) && !o.contains("://"))
        && !value.is_empty()
    {
        return format!("{option}={SHOWN}");
    }
    if is_secret(before, word) { SHOWN.to_owned() } else { shown_url(word) }
}

/// Does this word of a command line look like a secret?
pub(super) fn is_secret(before: Option<&str>, word: &str) -> bool {
    let asked = before.is_some_and(|option| option.starts_with('-') && asks(option));
    let assigned =
        word.split_once('=').is_some_and(|(o, v)| o.starts_with('-') && asks(o) && !v.is_empty());
    let reference = word.starts_with("${") || word.starts_with('$');
    let known = BEGINNINGS.iter().any(|b| word.starts_with(b) && word.len() >= b.len() + 8);
    let password = userinfo(word).is_some();
    !reference && ((asked && !word.starts_with('-')) || assigned || known || password)
}

fn asks(option: &str) -> bool {
    let lower = option.trim_start_matches('-').to_ascii_lowercase();
    OPTIONS.iter().any(|word| lower.ends_with(word))
}

/// An address without what may be secret in it: a password, a query.
pub(super) fn shown_url(text: &str) -> String {
    if !text.contains("://") {
        return text.to_owned();
    }
    let text = match userinfo(text) {
        Some((from, to)) => {
            format!("{}{SHOWN}{}", text.get(..from).unwrap_or(""), text.get(to..).unwrap_or(""))
        }
        None => text.to_owned(),
    };
    match text.split_once('?') {
        Some((address, _)) => format!("{address}?{SHOWN}"),
        None => text,
    }
}

/// Where `user:password` stands in an address.
fn userinfo(text: &str) -> Option<(usize, usize)> {
    let start = text.find("://")? + 3;
    let rest = text.get(start..)?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let at = authority.rfind('@')?;
    authority.get(..at)?.contains(':').then_some((start, start + at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_on_a_command_line_are_not_shown() {
        for (before, word, expected) in [
            (Some("--api-key"), "abc", "[secret]"),
            (Some("--verbose"), "abc", "abc"),
            (None, "--token=abc", "--token=[secret]"),
            (None, "ghp_0123456789abcdef", "[secret]"),
            (None, "postgres://me:pw@db/x", "[secret]"),
            (None, "https://a.example/mcp?key=1", "https://a.example/mcp?[secret]"),
            (Some("--api-key"), "${input:key}", "${input:key}"),
            (
                None,
                "@modelcontextprotocol/server-filesystem",
                "@modelcontextprotocol/server-filesystem",
            ),
        ] {
            assert_eq!(shown(before, word), expected, "{word}");
        }
    }
}
