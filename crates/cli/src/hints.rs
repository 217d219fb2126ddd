//! Commands in hints: paths are quoted for a shell, and `--home` is added if it was given.

use std::path::Path;

/// A path as one shell word.
pub(crate) fn word(path: impl AsRef<Path>) -> String {
    let text = path.as_ref().display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Adds `--home` to the commands in a hint if it was given on the command line.
pub(crate) fn at_home(fix: &str, home: Option<&Path>) -> String {
    match home {
        Some(home) => naming_home(fix, home),
        None => fix.to_owned(),
    }
}

/// The text with `--home` in each command that has none yet.
pub(crate) fn naming_home(text: &str, home: &Path) -> String {
    let named = format!("`tollgate --home {} ", word(home));
    let mut parts = text.split("`tollgate ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(if part.starts_with("--home ") { "`tollgate " } else { &named });
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{naming_home, word};

    #[test]
    fn every_command_names_the_home_once() {
        let text = "`tollgate doctor`, or `tollgate --home /b up`, then `tollgate sync x`";
        let expected = "`tollgate --home /a doctor`, or `tollgate --home /b up`, then `tollgate --home /a sync x`";
        assert_eq!(naming_home(text, "/a".as_ref()), expected);
    }

    #[test]
    fn a_path_is_one_word() {
        for (path, as_word) in [
            ("/a/b-c_1.d", "/a/b-c_1.d"),
            ("/a b", "'/a b'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
            ("", "''"),
            ("/ä", "/ä"),
        ] {
            assert_eq!(word(path), as_word);
        }
    }
}
