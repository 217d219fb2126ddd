//! What operating systems do differently, behind one interface. Each subject is a module: its own file has the
//! documented interface, its folder one file per system (`linux.rs`, `macos.rs`, `unix.rs` for both, `windows.rs`).
//! No other crate asks which system it runs on, except through [`SYSTEM`]. What a system cannot do is refused or named in
//! `docs/guide/platforms.md`; nothing pretends to have been done.

/// The system that this program runs on, for what differs in names and programs, such as the files of
/// other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Linux,
    MacOs,
    Windows,
}

pub const SYSTEM: System = if cfg!(windows) {
    System::Windows
} else if cfg!(target_os = "macos") {
    System::MacOs
} else {
    System::Linux
};

pub mod autostart;
pub mod captured;
pub mod channel;
pub mod clock;
pub mod detach;
pub mod disk;
pub mod environment;
pub mod files;
pub mod folder;
pub mod guard;
pub mod limits;
pub mod lock;
pub mod private;
pub mod programs;
pub mod signals;
pub mod sockets;
pub mod streams;
pub mod terminal;
pub mod threads;
