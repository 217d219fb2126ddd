//! The pass that the tests send with.

pub fn pass() -> gateway::upstream::Pass {
    gateway::upstream::Pass
}
