//! The revisions of the protocol, and the two eras they belong to.

use std::fmt;

/// A published revision, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

/// With an `initialize` handshake and sessions (legacy), or with self-contained requests (modern).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    Legacy,
    Modern,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Revision; 5] = [
        Revision::V2024_11_05,
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
        Revision::V2026_07_28,
    ];
    /// The newest revision with an `initialize` handshake.
    pub const LEGACY_NEWEST: Revision = Revision::V2025_11_25;
    /// The newest revision of all.
    pub const NEWEST: Revision = Revision::V2026_07_28;
    /// The revision of a legacy HTTP client without a version header.
    pub const UNNAMED: Revision = Revision::V2025_03_26;

    pub const fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    pub fn parse(text: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    pub const fn era(self) -> Era {
        match self {
            Revision::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// The revision that a server selects for a legacy client: the requested one if known,
    /// otherwise the newest legacy one.
    pub fn agree(asked: &str) -> Revision {
        Revision::parse(asked)
            .filter(|revision| revision.era() == Era::Legacy)
            .unwrap_or(Revision::LEGACY_NEWEST)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Era {
    /// The era of a version text, known or not: versions are dates, so later ones sort later.
    pub fn of_version(text: &str) -> Era {
        if text >= Revision::V2026_07_28.as_str() { Era::Modern } else { Era::Legacy }
    }
}
