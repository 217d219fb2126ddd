//! Commands as a shell takes them: a path with a blank in it is still one word, and the home is the one
//! that was looked at.

use std::path::Path;

use crate::context::Context;

/// One word of a command.
pub(crate) fn word(path: impl AsRef<Path>) -> String {
    let text = path.as_ref().display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What mends a home that only this command was told of must be told of it, too.
pub(crate) fn at_home(mend: &str, context: &Context) -> String {
    match context.home_of_the_command_line() {
        Some(home) => mend.replace("`tollgate ", &format!("`tollgate --home {} ", word(home))),
        None => mend.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::word;

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
