//! JSON pointers (RFC 6901) built while walking down a policy.

/// A pointer to the member `name` below `parent`.
pub(crate) fn member(parent: &str, name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    format!("{parent}/{name}")
}

/// The name of the member that a pointer leads to.
pub(crate) fn last(pointer: &str) -> Option<String> {
    let (_, name) = pointer.rsplit_once('/')?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}

/// A pointer to item `index` below `parent`.
pub(crate) fn item(parent: &str, index: usize) -> String {
    format!("{parent}/{index}")
}
