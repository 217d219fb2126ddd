//! The stand-ins for Spotify, Steam, Reddit, YouTube and Bilibili through a real socket.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod bilibili;
mod common;
mod oauth;
mod reddit;
mod service_test;
mod spotify;
mod steam;
mod youtube;

#[path = "../socket/wire.rs"]
mod wire;
