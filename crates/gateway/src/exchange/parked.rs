//! Calls that wait for their clients between two rounds. The gate owns them; a call never owns its owner.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use policy::json::Value;

use crate::exchange::context::RequestContext;
use crate::exchange::response_reader::ResponseReader;
use crate::exchange::rounds::{RoundState, RoundStateError};
use crate::runtime::Services;
use crate::upstream::own_messages;
use crate::upstream::peer::Peer;
use mcp::translate::InputRequest;
use mcp::{Id, code, error_body};

/// Limits of parked calls, for all grants and for one. Further calls are refused.
const PARKED_MAX: Load = Load { calls: 4096, bytes: 32 << 20 };
const PARKED_PER_GRANT_MAX: Load = Load { calls: 1024, bytes: 8 << 20 };

/// A call to a legacy server that needs input from the client.
pub(crate) struct ParkedCall {
    pub(crate) reader: ResponseReader,
    /// The input requests that the client has not answered.
    pub(crate) requests: Vec<(InputRequest, PendingAnswer)>,
    pub(crate) grant: String,
    pub(crate) until_us: i64,
}

/// A pending answer to a server request. When dropped, the server gets an error, because the request may belong
/// to another call.
pub(crate) struct PendingAnswer {
    services: Arc<Services>,
    peer: Arc<Peer>,
    /// The server's request id, until it is answered.
    id: Option<Id>,
}

impl PendingAnswer {
    /// The pending answers to these requests.
    pub(crate) fn of(
        context: &RequestContext,
        peer: &Arc<Peer>,
        input_requests: Vec<(InputRequest, Id)>,
    ) -> Vec<(InputRequest, PendingAnswer)> {
        let pending = |id| PendingAnswer {
            services: Arc::clone(context.services()),
            peer: Arc::clone(peer),
            id: Some(id),
        };
        input_requests.into_iter().map(|(request, id)| (request, pending(id))).collect()
    }

    /// The id, for the code that sends the answer.
    fn take(&mut self) -> Option<Id> {
        self.id.take()
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        let Some(id) = self.id.take().filter(|_| !self.services.is_stopping()) else { return };
        let refusal = error_body(Some(&id), code::INTERNAL, "the client did not answer", None);
        own_messages::answer(&self.services, &self.peer, refusal.into());
    }
}

/// The client's answers, with the ids of their requests, and the requests without an answer.
pub(crate) struct SortedAnswers<'d> {
    pub(crate) given: Vec<(Id, Value<'d>)>,
    pub(crate) missing: Vec<(InputRequest, Id)>,
}

impl<'d> SortedAnswers<'d> {
    pub(crate) fn of(
        input_requests: Vec<(InputRequest, PendingAnswer)>,
        answers: Option<Value<'d>>,
    ) -> SortedAnswers<'d> {
        let mut sorted = SortedAnswers { given: Vec::new(), missing: Vec::new() };
        for (request, mut pending) in input_requests {
            let Some(id) = pending.take() else { continue };
            match answers.and_then(|all| all.get(&request.key)) {
                Some(answer) => sorted.given.push((id, answer)),
                None => sorted.missing.push((request, id)),
            }
        }
        sorted
    }
}

/// The number and size of parked calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    calls: usize,
    bytes: usize,
}

impl Load {
    /// Adds this call.
    fn with(self, call: &ParkedCall) -> Load {
        let bytes = call.requests.iter().map(|(request, _)| request.params.len()).sum::<usize>();
        Load { calls: self.calls + 1, bytes: self.bytes + bytes }
    }

    fn fits(self, max: Load) -> bool {
        self.calls <= max.calls && self.bytes <= max.bytes
    }
}

/// Whether one more call may be parked. Servers decide how much they ask, and clients how long they take.
fn fits_limits<'a>(parked: impl Iterator<Item = &'a ParkedCall>, call: &ParkedCall) -> bool {
    let (mut all, mut own) = (Load::default(), Load::default());
    for other in parked {
        all = all.with(other);
        if other.grant == call.grant {
            own = own.with(other);
        }
    }
    all.with(call).fits(PARKED_MAX) && own.with(call).fits(PARKED_PER_GRANT_MAX)
}

/// The parked calls, and the round states that were used.
#[derive(Default)]
pub(crate) struct Parked {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: HashMap<String, i64>,
    parked: HashMap<u64, ParkedCall>,
    /// Requests for the results of legacy tasks that need input.
    tasks: HashMap<TaskKey, ParkedCall>,
    next: u64,
}

/// Grant, server and task.
pub(crate) type TaskKey = (String, String, String);

impl Parked {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks a call, or returns it if a limit is reached.
    pub(crate) fn park(&self, call: ParkedCall) -> Result<u64, Box<ParkedCall>> {
        let mut state = self.state();
        if !fits_limits(state.parked.values(), &call) {
            return Err(Box::new(call));
        }
        state.next += 1;
        let handle = state.next;
        state.parked.insert(handle, call);
        Ok(handle)
    }

    pub(crate) fn unpark(&self, handle: u64, grant: &str) -> Option<ParkedCall> {
        let mut state = self.state();
        let fits = state.parked.get(&handle).is_some_and(|call| call.grant == grant);
        if fits { state.parked.remove(&handle) } else { None }
    }

    /// Parks the request of a task and replaces an earlier one. If a limit is reached, its server gets an
    /// error.
    pub(crate) fn park_task(&self, key: TaskKey, call: ParkedCall) {
        let mut state = self.state();
        let before = state.tasks.remove(&key);
        let refused = if fits_limits(state.tasks.values(), &call) {
            state.tasks.insert(key, call);
            None
        } else {
            Some(call)
        };
        drop(state);
        drop((before, refused));
    }

    pub(crate) fn unpark_task(&self, key: &TaskKey) -> Option<ParkedCall> {
        self.state().tasks.remove(key)
    }

    /// The known input requests of a task.
    pub(crate) fn input_requests_of(&self, key: &TaskKey) -> Option<Vec<InputRequest>> {
        let state = self.state();
        let input_requests = &state.tasks.get(key)?.requests;
        Some(input_requests.iter().map(|(request, _)| request.clone()).collect())
    }

    /// Ends all parked calls at shutdown. Their permits record them.
    pub(crate) fn give_up(&self) {
        let (parked, tasks) = {
            let mut state = self.state();
            (std::mem::take(&mut state.parked), std::mem::take(&mut state.tasks))
        };
        drop((parked, tasks));
    }

    /// Marks a state as used. A second use is refused.
    pub(super) fn mark_used(&self, state: &RoundState) -> Result<(), RoundStateError> {
        match self.state().used.insert(state.nonce.clone(), state.until_us) {
            None => Ok(()),
            Some(_) => Err(RoundStateError::Used),
        }
    }

    /// Evicts expired entries. The permits of dropped calls record them as unknown.
    pub(crate) fn sweep(&self, now_us: i64) {
        let mut state = self.state();
        state.used.retain(|_, until_us| *until_us > now_us);
        state.parked.retain(|_, call| call.until_us > now_us);
        state.tasks.retain(|_, call| call.until_us > now_us);
    }
}
