//! JSON pointers (RFC 6901) built while walking down a policy.

/// A pointer to the member `name` below `parent`.
pub(crate) fn member(parent: &str, name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    format!("{parent}/{name}")
}

/// A pointer to item `index` below `parent`.
pub(crate) fn item(parent: &str, index: usize) -> String {
    format!("{parent}/{index}")
}
