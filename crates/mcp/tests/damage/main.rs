//! Random damage to every kind of protocol input: no panic, no hang, and the same result every
//! time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops where it fails, and its figures are printed for people"
)]

mod mutate;
mod surface;
mod surfaces;

#[test]
fn p22_damaged_protocol_input_is_answered() {
    mutate::attack(surfaces::SURFACES);
}
