//! A connector context that is opened by its first use: a gate without built-in servers reads no account.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{ConnectorContext, VaultLocked};

type Open = Box<dyn Fn() -> Result<ConnectorContext, NoContext> + Send + Sync>;

/// Why the context could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoContext {
    #[error("{0}")]
    VaultLocked(Arc<VaultLocked>),
    #[error("{0}")]
    Failed(String),
}

/// A context that may not be open yet.
pub struct LazyContext {
    open: Open,
    opened: Mutex<Option<Arc<ConnectorContext>>>,
    sessions: AtomicU64,
}

impl LazyContext {
    pub fn new(
        open: impl Fn() -> Result<ConnectorContext, String> + Send + Sync + 'static,
    ) -> LazyContext {
        LazyContext::opened_by(move || open().map_err(NoContext::Failed))
    }

    /// Never opens: the vault key of the home cannot be used.
    pub fn locked(locked: VaultLocked) -> LazyContext {
        let locked = Arc::new(locked);
        LazyContext::opened_by(move || Err(NoContext::VaultLocked(Arc::clone(&locked))))
    }

    fn opened_by(
        open: impl Fn() -> Result<ConnectorContext, NoContext> + Send + Sync + 'static,
    ) -> LazyContext {
        LazyContext { open: Box::new(open), opened: Mutex::new(None), sessions: AtomicU64::new(0) }
    }

    /// A session number that is unique for this context.
    pub fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// The context, opened if necessary. A failure is not cached: the owner may have repaired its cause.
    pub fn get(&self) -> Result<Arc<ConnectorContext>, NoContext> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ctx) = opened.as_ref() {
            return Ok(Arc::clone(ctx));
        }
        let ctx = Arc::new((self.open)()?);
        *opened = Some(Arc::clone(&ctx));
        Ok(ctx)
    }
}
