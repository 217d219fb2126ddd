//! Errors of the control interface.

/// Why a control request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    #[error("{0}")]
    Bad(String),
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Failed(String),
}

impl ControlError {
    pub(crate) fn status(&self) -> u16 {
        match self {
            ControlError::Bad(_) => 400,
            ControlError::Missing(_) => 404,
            ControlError::Failed(_) => 502,
        }
    }
}
