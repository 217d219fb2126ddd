//! Knows tool definitions: what changed since they were pinned, and what kind of act each one is.
//! Everything here is a plain function of the definition; nothing is read, asked or remembered.

pub mod classify;
pub mod pins;
