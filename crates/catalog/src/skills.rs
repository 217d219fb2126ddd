//! The URIs of skills, and the names that policies use for them.

mod frontmatter;

pub use frontmatter::mismatch as frontmatter_mismatch;

const SCHEME: &str = "skill";
/// The end of the URI of every skill.
pub const MAIN_FILE: &str = "/SKILL.md";

/// Whether a URI belongs to skills by its scheme, in any spelling.
pub fn is_skill_uri(uri: &str) -> bool {
    uri.split_once(':').is_some_and(|(scheme, _)| scheme.trim().eq_ignore_ascii_case(SCHEME))
}

/// How policies name the skill with this `SKILL.md`: the path, with the scheme if it is another one.
pub fn name_of(uri: &str) -> Option<&str> {
    if !is_plain(uri) || uri.contains('%') {
        return None;
    }
    let root = uri.strip_suffix(MAIN_FILE)?;
    root.split_once("://").filter(|(_, path)| !path.is_empty())?;
    Some(root.strip_prefix("skill://").unwrap_or(root))
}

/// How policies name something that belongs to no known skill.
pub fn name_of_unknown(uri: &str) -> &str {
    name_of(uri).unwrap_or_else(|| uri.strip_prefix("skill://").unwrap_or(uri))
}

/// Whether a URI has only one reading: `scheme://` and plain segments.
pub fn is_plain(uri: &str) -> bool {
    let Some((scheme, path)) = uri.split_once("://") else { return false };
    let is_other_spelling = is_skill_uri(uri) && scheme != SCHEME;
    let lower = path.to_ascii_lowercase();
    let has_hidden_step = ["%2e", "%2f", "%5c", "%25"].iter().any(|escape| lower.contains(escape));
    let has_odd = |c: char| c.is_control() || c.is_whitespace() || "\\?#".contains(c);
    !is_other_spelling
        && !has_hidden_step
        && !path.contains(has_odd)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_is_named_by_its_path() {
        for (uri, name) in [
            ("skill://refunds/SKILL.md", Some("refunds")),
            ("skill://acme/billing/refunds/SKILL.md", Some("acme/billing/refunds")),
            ("github://o/r/refunds/SKILL.md", Some("github://o/r/refunds")),
            ("skill://refunds/skill.md", None),
            ("skill://SKILL.md", None),
            ("SKILL://refunds/SKILL.md", None),
            ("skill:///refunds/SKILL.md", None),
            ("skill://a/../refunds/SKILL.md", None),
            ("skill://a/%2e%2e/refunds/SKILL.md", None),
            ("skill://refun%64s/SKILL.md", None),
            ("skill://refunds\\x/SKILL.md", None),
            ("skill://refunds/SKILL.md?x", None),
            ("skill://refunds//SKILL.md", None),
        ] {
            assert_eq!(name_of(uri), name, "{uri}");
        }
        for uri in ["skill:x", "SKILL://x", " skill://x", "Skill:/x"] {
            assert!(is_skill_uri(uri) && !is_plain(uri), "{uri}");
        }
        assert!(!is_skill_uri("skills://x") && !is_skill_uri("mem://skill:x"));
    }
}
