//! gateway

pub mod wire;
