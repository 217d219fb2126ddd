//! State that outlives a request: services, snapshots, sessions, tasks and shared server streams. Requests and
//! in-flight calls hold it; it holds none of them.

use std::sync::{Arc, Weak};

use crate::exchange::parked::Parked;
use crate::exchange::tasks::Tasks;
use crate::exchange::upper_layers::UpperLayers;
use crate::runtime::Services;
use crate::session::Sessions;
use crate::snapshot::Snapshots;
use crate::upstream::shared_stream::SharedStreams;

/// The state that all requests of a gate share.
pub(crate) struct SharedState {
    pub(crate) services: Arc<Services>,
    pub(crate) snapshots: Snapshots,
    pub(crate) sessions: Sessions,
    pub(crate) tasks: Tasks,
    pub(crate) streams: SharedStreams,
    /// The layers above this one.
    pub(crate) upper_layers: &'static dyn UpperLayers,
    /// The parked calls. The gate owns them: a parked call holds this state, so this state must not hold the
    /// call.
    pub(crate) parked: Weak<Parked>,
}
