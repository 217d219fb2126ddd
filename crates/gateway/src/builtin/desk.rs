//! The desk that built-in servers work at, opened when the first of them is called: a gate that only
//! stands before other servers touches no account.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use connectors::{Desk, Locked};

type Make = Box<dyn Fn() -> Result<Desk, NoDesk> + Send + Sync>;

/// Why there is no desk to work at.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoDesk {
    #[error("{0}")]
    Locked(Arc<Locked>),
    #[error("{0}")]
    Failed(String),
}

/// A desk that may not be open yet.
pub struct LazyDesk {
    make: Make,
    made: Mutex<Option<Arc<Desk>>>,
    conversations: AtomicU64,
}

impl LazyDesk {
    pub fn new(make: impl Fn() -> Result<Desk, String> + Send + Sync + 'static) -> LazyDesk {
        LazyDesk::made_by(move || make().map_err(NoDesk::Failed))
    }

    /// Nobody works at it: the key of the home is not to be had.
    pub fn locked(locked: Locked) -> LazyDesk {
        let locked = Arc::new(locked);
        LazyDesk::made_by(move || Err(NoDesk::Locked(Arc::clone(&locked))))
    }

    fn made_by(make: impl Fn() -> Result<Desk, NoDesk> + Send + Sync + 'static) -> LazyDesk {
        LazyDesk { make: Box::new(make), made: Mutex::new(None), conversations: AtomicU64::new(0) }
    }

    /// A number that no other conversation at this desk has.
    pub(super) fn next_conversation(&self) -> u64 {
        self.conversations.fetch_add(1, Ordering::Relaxed)
    }

    /// The desk, opened if need be. What failed is tried again the next time: the owner may have
    /// mended it.
    pub fn get(&self) -> Result<Arc<Desk>, NoDesk> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = made.as_ref() {
            return Ok(Arc::clone(desk));
        }
        let desk = Arc::new((self.make)()?);
        *made = Some(Arc::clone(&desk));
        Ok(desk)
    }
}
