//! The language from outside: every sentence of its description as data, refusals with their places,
//! and the engine against a slow second evaluator.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod examples;
mod explaining;
mod generate;
mod loading;
mod model;
mod properties;
mod sentences;
mod tables;
mod tree;
mod verdicts;
