//! What operating systems do differently, behind one interface. Each subject is a module: its own file has the
//! documented interface, its folder one file per system (`linux.rs`, `macos.rs`, `unix.rs` for both, `windows.rs`).
//! No other crate asks which system it runs on. What a system cannot do is refused or named in
//! `docs/guide/platforms.md`; nothing pretends to have been done.

pub mod clock;
pub mod files;
pub mod folder;
pub mod lock;
pub mod private;
