//! Who may do what: one access level per route, granted by role.

use store::registry::Role;

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Any signed-in person.
    Read,
    /// Reads the arguments of calls.
    ReadArguments,
    /// Sees what the owner's accounts hold: health, listening, playing, watching, and how much on which day.
    ReadOwnData,
    /// Writes policies and attaches them to grants.
    WritePolicies,
    /// Decides approvals, manages grants, servers and people.
    Administer,
}

impl Access {
    pub(crate) fn allows(self, role: Role) -> bool {
        match self {
            Access::Read => true,
            Access::ReadArguments => sees_arguments(role),
            Access::WritePolicies => matches!(role, Role::Admin | Role::PolicyManager),
            // Other roles look after the gate, for which they need no measurement of the owner's body.
            Access::ReadOwnData | Access::Administer => role == Role::Admin,
        }
    }
}

/// Whether a role sees the arguments of calls.
pub(crate) fn sees_arguments(role: Role) -> bool {
    matches!(role, Role::Admin | Role::Auditor)
}
