//! gateway

pub mod upstream;
pub mod wire;
