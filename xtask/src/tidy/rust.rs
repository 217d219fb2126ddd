//! Reads Rust files by lines, as far as the rules need: which names a line defines, and which files are tests.

/// Does a line define `name`, as a type, function, constant, module, field or variant?
pub(super) fn defines(line: &str, name: &str) -> bool {
    const KINDS: &[&str] =
        &["struct", "enum", "trait", "type", "fn", "const", "static", "mod", "union"];
    let code = line.trim_start();
    if code.starts_with("//") {
        return false;
    }
    let words: Vec<&str> = code.split_whitespace().collect();
    let defined = words.windows(2).any(|pair| match pair {
        [kind, rest] => KINDS.contains(kind) && identifier(rest) == name,
        _ => false,
    });
    let field = code.strip_prefix("pub ").or_else(|| code.strip_prefix("pub(crate) "));
    let behind = field.unwrap_or(code).strip_prefix(name);
    // A variant begins its line; a field has a colon.
    let is_variant = name.starts_with(char::is_uppercase)
        && behind.is_some_and(|rest| [",", " {", "(", "{"].iter().any(|end| rest.starts_with(end)));
    defined || is_variant || behind.is_some_and(|rest| rest.starts_with(": "))
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Files that hold only tests, examples or fuzz targets.
pub(super) fn is_test_file(path: &str) -> bool {
    let in_folder =
        ["/tests/", "/examples/", "/benches/"].iter().any(|folder| path.contains(folder));
    in_folder
        || path.starts_with("fuzz/")
        || ["/tests.rs", "/properties.rs"].iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_and_uses_are_not() {
        for (line, name, is) in [
            ("pub struct Grant {", "Grant", true),
            ("    pub(crate) async fn admit(&self) {", "admit", true),
            ("pub(crate) mod snapshot;", "snapshot", true),
            ("const LINES_MAX: usize = 450;", "LINES_MAX", true),
            ("    Allow,", "Allow", true),
            ("    pub fingerprint: Fingerprint,", "fingerprint", true),
            ("let grant: Grant = Grant::new();", "Grant", false),
            ("// struct Grant", "Grant", false),
            ("pub struct Grants {", "Grant", false),
        ] {
            assert_eq!(defines(line, name), is, "{line}");
        }
    }
}
