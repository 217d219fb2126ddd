//! Stable slugs for paths, file names and URLs, computed from the name alone. A short hash distinguishes
//! names with the same slug.

use sha2::{Digest, Sha256};

/// Longer slugs are truncated and get a hash.
const SLUG_BYTES_MAX: usize = 80;

/// The slug of a server: `io.github.owner/repo` becomes `io.github.owner--repo`.
pub fn server(name: &str) -> String {
    of(name, |name, slug| name.replace('/', "--") == slug && !name.contains("--"))
}

/// The slug of a tool. Names that differ in case only are distinguished by [`tools`].
pub fn tool(name: &str) -> String {
    of(name, |name, slug| name.to_ascii_lowercase() == slug)
}

/// The slugs of all tools of a server, in their order.
pub fn tools<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Vec<String> {
    let plain: Vec<String> = names.clone().map(tool).collect();
    let mut sorted: Vec<&String> = plain.iter().collect();
    sorted.sort_unstable();
    let is_shared = |slug: &String| {
        let at = sorted.partition_point(|other| *other < slug);
        sorted.get(at + 1).is_some_and(|next| *next == slug)
    };
    let distinct = |(name, slug): (&str, &String)| {
        if is_shared(slug) && name != slug { with_hash(slug, name) } else { slug.clone() }
    };
    names.zip(&plain).map(distinct).collect()
}

fn of(name: &str, is_exact: impl Fn(&str, &str) -> bool) -> String {
    let mut slug = String::with_capacity(name.len() + 2);
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => slug.push(c.to_ascii_lowercase()),
            '.' | '_' | '-' if !slug.is_empty() => slug.push(c),
            '/' if !slug.is_empty() => slug.push_str("--"),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    let fits = (1..=SLUG_BYTES_MAX).contains(&slug.len()) && !slug.ends_with('.');
    if fits && is_exact(name, &slug) { slug } else { with_hash(&slug, name) }
}

fn with_hash(slug: &str, name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let mut cut: String = slug.chars().take(SLUG_BYTES_MAX - 8).collect();
    cut.truncate(cut.trim_end_matches(['-', '.']).len());
    if !cut.is_empty() {
        cut.push('-');
    }
    for byte in digest.iter().take(3) {
        cut.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        cut.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_plain_stable_and_distinct() {
        assert_eq!(server("io.github.owner/repo"), "io.github.owner--repo");
        assert_eq!(server("demo"), "demo");
        assert_ne!(server("a--b"), server("a/b"));
        assert_ne!(server("Demo"), server("demo"));
        assert_eq!(tool("getUser"), "getuser");
        assert_eq!(tools(["getUser", "getuser", "x"].into_iter()).len(), 3);
        let both = tools(["getUser", "getuser"].into_iter());
        assert_eq!(both.get(1).map(String::as_str), Some("getuser"));
        assert_ne!(both.first(), both.get(1));
        for odd in ["", "日本", "../../etc/passwd", "a\0b", &"x".repeat(500), ".", "con:x?"] {
            let slug = server(odd);
            assert!(!slug.is_empty() && slug.len() <= SLUG_BYTES_MAX + 8, "{odd}: {slug}");
            assert!(!slug.starts_with('.') && !slug.contains(['/', '\\', '\0', ' ']), "{slug}");
            assert!(!slug.contains(".."), "{odd}: {slug}");
        }
    }
}
