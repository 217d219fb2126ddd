//! policy

pub mod json;
