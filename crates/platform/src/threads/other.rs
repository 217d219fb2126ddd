//! macOS has niceness per process only; Windows has priorities per thread, but no safe crate sets them.

pub(super) fn lower_priority() {}

pub(super) fn raise_priority(_steps: i32) {}
