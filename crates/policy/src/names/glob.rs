//! A glob of names: literal parts with `*` between them, each matching any characters or none.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    pub(crate) prefix: Box<str>,
    pub(crate) middles: Box<[Box<str>]>,
    pub(crate) suffix: Box<str>,
}

impl Glob {
    /// `None` when the pattern has no `*`: then it is a plain name.
    pub(crate) fn parse(pattern: &str) -> Option<Glob> {
        let (prefix, rest) = pattern.split_once('*')?;
        let (middles, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middles = middles.split('*').filter(|part| !part.is_empty());
        Some(Glob {
            prefix: prefix.into(),
            middles: middles.map(Into::into).collect(),
            suffix: suffix.into(),
        })
    }
}

/// Whether the parts occur in a text one after the other, without overlap. Taking each as early as
/// possible leaves the most room for the rest, so nothing is tried twice.
pub(super) fn contains_in_order(text: &str, parts: &[Box<str>]) -> bool {
    let mut rest = text;
    for part in parts {
        match rest.split_once(&**part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}
