//! Three-valued logic: a condition holds, fails, or is indeterminate. Indeterminate never favours the
//! caller.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TruthValue {
    Holds,
    Fails,
    /// A value is present but cannot be compared.
    Indeterminate,
}

impl TruthValue {
    pub(crate) const fn of(holds: bool) -> TruthValue {
        if holds { TruthValue::Holds } else { TruthValue::Fails }
    }

    /// Both must hold. One that fails decides.
    pub(crate) const fn and(self, other: TruthValue) -> TruthValue {
        match (self, other) {
            (TruthValue::Fails, _) | (_, TruthValue::Fails) => TruthValue::Fails,
            (TruthValue::Holds, TruthValue::Holds) => TruthValue::Holds,
            _ => TruthValue::Indeterminate,
        }
    }

    /// One must hold. One that holds decides.
    pub(crate) const fn or(self, other: TruthValue) -> TruthValue {
        self.not().and(other.not()).not()
    }

    pub(crate) const fn not(self) -> TruthValue {
        match self {
            TruthValue::Holds => TruthValue::Fails,
            TruthValue::Fails => TruthValue::Holds,
            TruthValue::Indeterminate => TruthValue::Indeterminate,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            TruthValue::Holds => "holds",
            TruthValue::Fails => "does not hold",
            TruthValue::Indeterminate => "is indeterminate",
        }
    }
}

impl fmt::Display for TruthValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
