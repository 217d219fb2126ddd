//! Multi round-trip requests: the state a client carries between the rounds of one call, sealed so that
//! it fits one caller, one server and one call, once, for a time; and calls parked in between.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use policy::json::Value;
use serde::{Deserialize, Serialize};
use store::random::Random;
use store::vault::{Purpose, Sealed, Vault};

use crate::flow::Flow;
use crate::gate::Gate;
use crate::peer::Peer;
use crate::scene::Scene;
use crate::translate::Question;
use crate::wire::{Id, code, error_body};

/// A round must follow within this time.
pub(crate) const ROUND_SECONDS_MAX: i64 = 15 * 60;
/// What may wait for its client at one time, of all grants and of one of them; one call more is refused.
const PARKED_MAX: Load = Load { calls: 4096, bytes: 32 << 20 };
const PARKED_PER_GRANT_MAX: Load = Load { calls: 1024, bytes: 8 << 20 };

/// What is inside the sealed text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The audit row of the first round.
    pub(crate) call: u64,
    /// Keyed digest of the call: method, name and arguments.
    pub(crate) digest: String,
    pub(crate) until_us: i64,
    /// Makes every state one of its kind, so that it can be used once.
    pub(crate) nonce: String,
    pub(crate) inner: Inner,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Inner {
    /// The server's own state, if it gave one.
    Server(Option<String>),
    /// A call to an older server that waits here.
    Parked(u64),
    /// An older server wants an address opened before it is called again.
    Addresses,
}

/// Why a state is not taken. The client hears the same words for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateRefused {
    NotOurs,
    OtherCall,
    Late,
    Used,
}

impl StateRefused {
    pub(crate) fn words(self) -> &'static str {
        match self {
            StateRefused::NotOurs => {
                "requestState was not given by this gate to this caller for this server"
            }
            StateRefused::OtherCall => {
                "requestState belongs to another call; name and arguments must stay the same"
            }
            StateRefused::Late => "requestState has expired; send the call again without it",
            StateRefused::Used => "requestState was used already; send the call again without it",
        }
    }
}

/// A call to a legacy server that asked the client something.
pub(crate) struct ParkedCall {
    pub(crate) flow: Flow,
    /// What its client owes answers to.
    pub(crate) questions: Vec<(Question, Owed)>,
    pub(crate) grant: String,
    pub(crate) until_us: i64,
}

/// An answer that a server waits for. Where it is given up, the server hears that there is none: nothing
/// says that the question was for the call it was put to.
pub(crate) struct Owed {
    gate: Arc<Gate>,
    peer: Arc<Peer>,
    /// The server's id for its question, until it was answered.
    id: Option<Id>,
}

impl Owed {
    /// The answers to what a server asks.
    pub(crate) fn of(
        scene: &Scene,
        peer: &Arc<Peer>,
        asked: Vec<(Question, Id)>,
    ) -> Vec<(Question, Owed)> {
        let owed =
            |id| Owed { gate: Arc::clone(&scene.gate), peer: Arc::clone(peer), id: Some(id) };
        asked.into_iter().map(|(question, id)| (question, owed(id))).collect()
    }

    /// The id, for who answers now.
    fn take(&mut self) -> Option<Id> {
        self.id.take()
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let Some(id) = self.id.take().filter(|_| !self.gate.is_stopping()) else { return };
        let refusal = error_body(Some(&id), code::INTERNAL, "the client did not answer", None);
        self.gate.answer_server(&self.peer, refusal.into());
    }
}

/// Which of the questions a client has answered: the ids of those, each with its answer, and the others.
pub(crate) struct Sorted<'d> {
    pub(crate) given: Vec<(Id, Value<'d>)>,
    pub(crate) missing: Vec<(Question, Id)>,
}

impl<'d> Sorted<'d> {
    pub(crate) fn of(asked: Vec<(Question, Owed)>, answers: Option<Value<'d>>) -> Sorted<'d> {
        let mut sorted = Sorted { given: Vec::new(), missing: Vec::new() };
        for (question, mut owed) in asked {
            let Some(id) = owed.take() else { continue };
            match answers.and_then(|all| all.get(&question.key)) {
                Some(answer) => sorted.given.push((id, answer)),
                None => sorted.missing.push((question, id)),
            }
        }
        sorted
    }
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    calls: usize,
    bytes: usize,
}

impl Load {
    /// With this call.
    fn with(self, call: &ParkedCall) -> Load {
        let bytes = call.questions.iter().map(|(question, _)| question.params.len()).sum::<usize>();
        Load { calls: self.calls + 1, bytes: self.bytes + bytes }
    }

    fn fits(self, max: Load) -> bool {
        self.calls <= max.calls && self.bytes <= max.bytes
    }
}

/// Whether one call more may wait: servers decide how much they ask, and clients how long they take.
fn has_room<'a>(parked: impl Iterator<Item = &'a ParkedCall>, call: &ParkedCall) -> bool {
    let (mut all, mut own) = (Load::default(), Load::default());
    for other in parked {
        all = all.with(other);
        if other.grant == call.grant {
            own = own.with(other);
        }
    }
    all.with(call).fits(PARKED_MAX) && own.with(call).fits(PARKED_PER_GRANT_MAX)
}

/// Everything between two rounds.
#[derive(Default)]
pub(crate) struct Rounds {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    used: HashMap<String, i64>,
    parked: HashMap<u64, ParkedCall>,
    /// What older servers were asked the results of, for tasks that wait for their clients.
    tasks: HashMap<TaskKey, ParkedCall>,
    next: u64,
}

/// Grant, server and task.
pub(crate) type TaskKey = (String, String, String);

impl Rounds {
    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks a call, or gives it back when too much waits.
    pub(crate) fn park(&self, call: ParkedCall) -> Result<u64, Box<ParkedCall>> {
        let mut inside = self.inside();
        if !has_room(inside.parked.values(), &call) {
            return Err(Box::new(call));
        }
        inside.next += 1;
        let handle = inside.next;
        inside.parked.insert(handle, call);
        Ok(handle)
    }

    pub(crate) fn unpark(&self, handle: u64, grant: &str) -> Option<ParkedCall> {
        let mut inside = self.inside();
        let fits = inside.parked.get(&handle).is_some_and(|call| call.grant == grant);
        if fits { inside.parked.remove(&handle) } else { None }
    }

    /// Parks what asks for a task, in the place of what did so before. Where too much waits, its server
    /// hears that it gets no answer.
    pub(crate) fn park_task(&self, key: TaskKey, call: ParkedCall) {
        let mut inside = self.inside();
        let before = inside.tasks.remove(&key);
        let refused = if has_room(inside.tasks.values(), &call) {
            inside.tasks.insert(key, call);
            None
        } else {
            Some(call)
        };
        drop(inside);
        drop((before, refused));
    }

    pub(crate) fn unpark_task(&self, key: &TaskKey) -> Option<ParkedCall> {
        self.inside().tasks.remove(key)
    }

    /// What a task is known to ask its client.
    pub(crate) fn asked_of(&self, key: &TaskKey) -> Option<Vec<Question>> {
        let inside = self.inside();
        let asked = &inside.tasks.get(key)?.questions;
        Some(asked.iter().map(|(question, _)| question.clone()).collect())
    }

    /// Ends every call that waits, because the gate stops: their permits record them.
    pub(crate) fn give_up(&self) {
        let (parked, tasks) = {
            let mut inside = self.inside();
            (std::mem::take(&mut inside.parked), std::mem::take(&mut inside.tasks))
        };
        drop((parked, tasks));
    }

    /// Uses a state up; a second time it is refused.
    fn take(&self, state: &State) -> Result<(), StateRefused> {
        match self.inside().used.insert(state.nonce.clone(), state.until_us) {
            None => Ok(()),
            Some(_) => Err(StateRefused::Used),
        }
    }

    /// Forgets what can no longer come back. Dropped calls are recorded as unknown by their permits.
    pub(crate) fn sweep(&self, now_us: i64) {
        let mut inside = self.inside();
        inside.used.retain(|_, until_us| *until_us > now_us);
        inside.parked.retain(|_, call| call.until_us > now_us);
        inside.tasks.retain(|_, call| call.until_us > now_us);
    }
}

/// Seals and opens states for one caller and server.
pub(crate) struct Sealer<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) random: &'a Random,
    pub(crate) grant: &'a str,
    pub(crate) server: &'a str,
}

impl Sealer<'_> {
    fn row(&self) -> String {
        format!("{}\n{}", self.grant, self.server)
    }

    pub(crate) fn nonce(&self) -> Option<String> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).ok()?;
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    pub(crate) fn seal(&self, state: &State) -> Option<String> {
        let plain = serde_json::to_vec(state).ok()?;
        let sealed =
            self.vault.seal(Purpose::RequestState, &self.row(), &plain, self.random).ok()?;
        Some(URL_SAFE_NO_PAD.encode(sealed.as_bytes()))
    }

    /// Opens a state that came back, checks that it fits, and uses it up.
    pub(crate) fn open(
        &self,
        text: &str,
        digest: &str,
        now_us: i64,
        rounds: &Rounds,
    ) -> Result<State, StateRefused> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| StateRefused::NotOurs)?;
        let sealed = Sealed::from_bytes(Purpose::RequestState, &self.row(), bytes);
        let plain = self.vault.open(&sealed).map_err(|_| StateRefused::NotOurs)?;
        let state: State =
            serde_json::from_slice(plain.expose()).map_err(|_| StateRefused::NotOurs)?;
        if state.digest != digest {
            return Err(StateRefused::OtherCall);
        }
        if state.until_us <= now_us {
            return Err(StateRefused::Late);
        }
        rounds.take(&state)?;
        Ok(state)
    }
}
