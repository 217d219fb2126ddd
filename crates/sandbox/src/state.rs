//! The shared state of a running sandbox.

use crate::clock::Clock;
use crate::counters::SharedCounters;
use crate::faults::Faults;
use crate::stand_in::StandIn;

/// Everything that a request handler can reach.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) url: String,
    pub(crate) clock: Clock,
    pub(crate) counters: SharedCounters,
    pub(crate) faults: Faults,
    pub(crate) service: Box<dyn StandIn>,
}
