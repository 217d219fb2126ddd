//! Three answers: it holds, it does not, or it cannot be told. What cannot be told is never in the
//! caller's favour.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    Holds,
    Fails,
    /// A value is there but of a kind that cannot be compared.
    Indeterminate,
}

impl Truth {
    pub(crate) const fn of(holds: bool) -> Truth {
        if holds { Truth::Holds } else { Truth::Fails }
    }

    /// Both must hold. One that fails settles it.
    pub(crate) const fn and(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::Fails, _) | (_, Truth::Fails) => Truth::Fails,
            (Truth::Holds, Truth::Holds) => Truth::Holds,
            _ => Truth::Indeterminate,
        }
    }

    /// One must hold. One that holds settles it.
    pub(crate) const fn or(self, other: Truth) -> Truth {
        self.not().and(other.not()).not()
    }

    pub(crate) const fn not(self) -> Truth {
        match self {
            Truth::Holds => Truth::Fails,
            Truth::Fails => Truth::Holds,
            Truth::Indeterminate => Truth::Indeterminate,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Truth::Holds => "holds",
            Truth::Fails => "does not hold",
            Truth::Indeterminate => "cannot be told",
        }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
