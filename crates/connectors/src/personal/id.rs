//! The form that ids of all personal services share.

/// Can the text be an id of any service? Characters that could change a URL's path are refused.
pub(crate) fn is_id(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(is_good) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::is_id;

    #[test]
    fn an_id_is_letters_digits_and_little_else() {
        for (text, is_good) in [
            ("37i9dQZF1DXcBWIGoYBM5M", true),
            ("some.user_1-2", true),
            ("../me", false),
            ("a/b", false),
            ("a?b", false),
            ("a#b", false),
            ("a\nb", false),
            ("a,b", false),
            ("", false),
            ("..", false),
        ] {
            assert_eq!(is_id(text), is_good, "{text:?}");
        }
    }
}
