//! Finds secrets in command lines and addresses and masks them for display. Arguments are kept in clear
//! in `gate.db` and every user of the machine can read those of a running process.

use store::registry::Target;

/// A name that ends so is followed by a secret.
const NAMES: &[&str] = &[
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "auth",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "pat",
    "bearer",
    "dsn",
];
/// Options whose next word is `Name: value`.
const HEADER_OPTIONS: &[&str] = &["-H", "--header", "--headers"];
/// How well-known keys begin.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "pk_live",
    "rk_live",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "tg_",
    "npm_",
    "pypi-",
    "hf_",
    "lin_api_",
    "ntn_",
    "secret_",
    "figd_",
    "shpat_",
    "dop_v1_",
    "SG.",
    "Bearer ",
    "Basic ",
];
/// A random word of so many characters is taken for a key.
const RANDOM_CHARS_MIN: usize = 20;
const SHOWN: &str = store::secret::SHOWN;

/// Every word of a command line as it may be shown.
pub(crate) fn shown_words(argv: &[String]) -> Vec<String> {
    with_word_before(argv).map(|(before, word)| shown(before, word)).collect()
}

/// The place of the first argument that looks like a secret.
pub(crate) fn secret_argument(argv: &[String]) -> Option<usize> {
    with_word_before(argv).position(|(before, word)| is_secret(before, word))
}

/// A server's target in one line, with what may be secret in it masked.
pub(crate) fn target_text(target: &Target) -> String {
    match target {
        Target::Builtin { service } => service.clone(),
        Target::Command { argv, .. } => shown_words(argv).join(" "),
        Target::Url { url, query, .. } => {
            let query = if query.is_some() { format!("?{SHOWN}") } else { String::new() };
            format!("{}{query}", shown_url(url))
        }
    }
}

/// What to do about a secret among the arguments of a server; nothing when there is none.
pub(crate) fn advice(server: &str, target: &Target) -> Option<String> {
    let Target::Command { argv, .. } = target else { return None };
    let at = secret_argument(argv)?;
    Some(format!(
        "argument {at} of server `{server}` looks like a secret; arguments are not sealed and every user of this machine can read them\nhint: if the server reads it from a variable, seal it: `tollgate server remove {server}`, then `tollgate server add {server} --secret-env NAME -- COMMAND` without that argument"
    ))
}

fn with_word_before(argv: &[String]) -> impl Iterator<Item = (Option<&str>, &str)> {
    let before = std::iter::once(None).chain(argv.iter().map(|word| Some(word.as_str())));
    before.zip(argv.iter().map(String::as_str))
}

/// A word of a command line as it may be shown. `before` is the word in front of it.
pub(crate) fn shown(before: Option<&str>, word: &str) -> String {
    if is_reference(word) {
        return word.to_owned();
    }
    if let Some((name, value)) = header(before, word) {
        let value = if is_reference(value.trim_start()) { value } else { &format!(" {SHOWN}") };
        return format!("{name}:{value}");
    }
    if let Some((name, value)) = assignment(word) {
        let is_masked = asks(name) && !is_reference(value);
        let value = if is_masked { SHOWN.to_owned() } else { shown(None, value) };
        return format!("{name}={value}");
    }
    if is_secret(before, word) { SHOWN.to_owned() } else { shown_url(word) }
}

/// Does this word of a command line look like a secret?
pub(crate) fn is_secret(before: Option<&str>, word: &str) -> bool {
    if is_reference(word) || word.is_empty() {
        return false;
    }
    if let Some((_, value)) = header(before, word) {
        return !is_reference(value.trim_start());
    }
    if let Some((name, value)) = assignment(word) {
        return (asks(name) && !is_reference(value)) || is_secret(None, value);
    }
    let asked = before.is_some_and(|option| option.starts_with('-') && asks(option));
    (asked && !word.starts_with('-'))
        || is_key(word)
        || userinfo(word).is_some()
        || shown_path(word) != word
}

/// Only the client or the shell knows what stands behind it.
fn is_reference(word: &str) -> bool {
    word.starts_with('$')
}

/// `Name: value` behind an option for headers.
fn header<'w>(before: Option<&str>, word: &'w str) -> Option<(&'w str, &'w str)> {
    before.filter(|option| HEADER_OPTIONS.contains(option))?;
    word.split_once(':').filter(|(_, value)| !value.trim().is_empty())
}

/// `--option=value` or `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    word.split_once('=')
        .filter(|(name, value)| !name.is_empty() && name.chars().all(is_name) && !value.is_empty())
}

fn asks(option: &str) -> bool {
    let lower = option.trim_start_matches('-').to_ascii_lowercase();
    NAMES.iter().any(|word| lower.ends_with(word))
}

/// A known kind of key, or a word that nobody would choose.
fn is_key(word: &str) -> bool {
    let known = BEGINNINGS.iter().any(|b| word.starts_with(b) && word.len() >= b.len() + 8);
    known || is_random(word)
}

/// Long, with digits and letters that alternate as in a generated key.
fn is_random(word: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-+/=.".contains(c);
    let is_path = word.starts_with(['/', '.', '~', '@', '-']);
    if word.len() < RANDOM_CHARS_MIN || is_path || !word.chars().all(fits) {
        return false;
    }
    let kinds: Vec<char> = word
        .chars()
        .filter_map(|c| match c {
            '0'..='9' => Some('0'),
            'a'..='z' => Some('a'),
            'A'..='Z' => Some('A'),
            _ => None,
        })
        .collect();
    let digits = kinds.iter().filter(|kind| **kind == '0').count();
    let changes = kinds.iter().zip(kinds.iter().skip(1)).filter(|(a, b)| a != b).count();
    digits >= 3 && digits < kinds.len() && changes * 5 >= kinds.len()
}

/// An address without what may be secret in it: a password, a query, a key in the path.
pub(crate) fn shown_url(text: &str) -> String {
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
        Some((address, _)) => format!("{}?{SHOWN}", shown_path(address)),
        None => shown_path(&text),
    }
}

/// An address whose path has its keys masked.
fn shown_path(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let mut parts = rest.split('/');
    let host = parts.next().unwrap_or_default();
    let parts = parts.map(|part| if is_key(part) { SHOWN } else { part });
    let parts: Vec<&str> = std::iter::once(host).chain(parts).collect();
    format!("{scheme}://{}", parts.join("/"))
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
            (Some("--api-key"), "--verbose", "--verbose"),
            (None, "--token=abc", "--token=[secret]"),
            (Some("-e"), "API_KEY=abc", "API_KEY=[secret]"),
            (Some("-e"), "API_KEY=${KEY}", "API_KEY=${KEY}"),
            (None, "--level=debug", "--level=debug"),
            (None, "--with=ghp_0123456789abcdef", "--with=[secret]"),
            (None, "DB=postgres://me:pw@db/x", "DB=[secret]"),
            (None, "ghp_0123456789abcdef", "[secret]"),
            (Some("--header"), "Authorization: Bearer abc", "Authorization: [secret]"),
            (Some("-H"), "X-Any:${KEY}", "X-Any:${KEY}"),
            (None, "eyJhbGciOiJIUzI1NiJ9.e30.abc", "[secret]"),
            (None, "q7Zp2LxV9mT4sRb8Kd1WfQ", "[secret]"),
            (None, "5f1d8a93bc0277aa41de90c2b7f6e518", "[secret]"),
            (None, "postgres://me:pw@db/x", "[secret]"),
            (None, "https://a.example/mcp?key=1", "https://a.example/mcp?[secret]"),
            (Some("--api-key"), "${input:key}", "${input:key}"),
        ] {
            assert_eq!(shown(before, word), expected, "{word}");
        }
    }

    #[test]
    fn ordinary_words_are_shown_and_draw_no_advice() {
        for word in [
            "@modelcontextprotocol/server-filesystem",
            "modelcontextprotocol-server-filesystem",
            "mcp-server-sqlite-2026.11.18",
            "/srv/data/5f1d8a93bc0277aa41de90c2b7f6e518",
            "--local-timezone=Europe/Berlin",
            "server-backup-2026-11-18-file",
            "https://mcp.example.com/v1/mcp",
            "AllowEverythingInThisFolder",
            "",
        ] {
            assert_eq!(shown(None, word), word);
            assert!(!is_secret(None, word), "{word}");
        }
    }

    #[test]
    fn a_key_in_the_path_of_an_address_is_masked() {
        let url = "https://mcp.example/s/q7Zp2LxV9mT4sRb8Kd1WfQ/mcp";
        assert_eq!(shown_url(url), "https://mcp.example/s/[secret]/mcp");
        assert!(is_secret(None, url));
    }
}
