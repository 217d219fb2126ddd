//! A parser of outside input with its seeds.

/// A parser of bytes from outside.
pub(crate) struct Surface {
    pub(crate) name: &'static str,
    /// Valid inputs to start from.
    pub(crate) seeds: &'static [&'static str],
    /// Panics when a property of the result is violated.
    pub(crate) read: fn(&[u8]),
}
