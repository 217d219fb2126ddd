//! Speaks MCP on both sides and carries each call through decide, admit, run, settle.

mod builtin;
mod edge;
mod exchange;
mod gate;
mod notify;
mod runtime;
mod session;
mod snapshot;
pub mod upstream;

pub use builtin::{UnavailableServer, check_sets, own_policy};
pub use edge::http::{CALLBACK, addresses};
pub use edge::owner_pages::{Page, PageBody, PageFuture, PageReach, Pages};
pub use edge::serve::{ListenError, Tls, TlsError, Validity};
pub use edge::sign_in_callback::SIGN_IN_COOKIE;
pub use gate::preview::{Offered, SkillText};
pub use gate::reload::{Changed, ReadSettings};
pub use gate::run::{Identity, Listening, RunError, Wrapped};
pub use gate::{Gate, GateError, GateOptions};
pub use runtime::bounds::Bounds;
pub use runtime::metrics::SyncOutcome;
pub use runtime::response_buffer::BufferQuota;
