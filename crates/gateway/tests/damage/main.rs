//! Random damage to all input from outside except protocol messages: policies, settings, tool
//! definitions, dates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops where it fails, and its figures are printed for people"
)]

#[path = "../../../mcp/tests/damage/mutate.rs"]
mod mutate;
#[path = "../../../mcp/tests/damage/surface.rs"]
mod surface;
mod surfaces;

#[test]
fn p22_damaged_input_is_answered() {
    mutate::attack(surfaces::SURFACES);
}
