//! Why a page cannot be shown: a status, words for the person, and never a secret.

use http::StatusCode;
use store::ledger::LedgerError;
use store::registry::RegistryError;

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Problem {
        Problem { status, message: message.into() }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, message)
    }

    /// The person can correct it: a wrong field, a name that is taken.
    pub(crate) fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Problem {
        let status = match &error {
            RegistryError::Missing { .. } => StatusCode::NOT_FOUND,
            RegistryError::Name { .. }
            | RegistryError::Exists { .. }
            | RegistryError::Revoked { .. }
            | RegistryError::PolicyInUse { .. }
            | RegistryError::PolicyDoesNotLoad { .. }
            | RegistryError::TooLarge { .. }
            | RegistryError::TooMany { .. }
            | RegistryError::Target(_)
            | RegistryError::ExpiryPast(_)
            | RegistryError::LastAdmin(_)
            | RegistryError::Mapped(_)
            | RegistryError::Email(_)
            | RegistryError::EmailTaken(_)
            | RegistryError::Passkey(_)
            | RegistryError::Channel { .. }
            | RegistryError::OverlapTooLong { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, error.to_string())
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Problem {
        Problem::internal(error.to_string())
    }
}
