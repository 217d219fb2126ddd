//! Calls that cross eras: a legacy client at a modern server, or a modern client at a legacy server. The
//! direction is chosen once per call, when its server is known. Calls within one era never come here.

mod ask_client;
mod finished_tasks;
mod gather;
mod messages;
mod older_tasks;
pub(in crate::exchange) mod response;
pub(in crate::exchange) mod resume;
mod start;
mod task_polling;
mod translate_response;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mcp::{Era, Id, InputKind};
use tokio::sync::broadcast;

use crate::exchange::progress::ProgressCounter;
use crate::exchange::response_reader::ResponsePart;
use crate::upstream::server_requests::ServerRequests;

use ask_client::PendingInput;
use older_tasks::TaskStep;
pub(in crate::exchange) use start::{BridgeStart, start};
use task_polling::Polling;

/// Whether and how a call crosses eras.
pub(in crate::exchange) enum Crossing {
    /// Client and server have the same era: bytes pass unchanged.
    None,
    NewerToOlder(Box<NewerToOlder>),
    OlderToNewer(Box<OlderToNewer>),
}

/// State of a call from a modern client to a legacy server.
#[derive(Default)]
pub(in crate::exchange) struct NewerToOlder {
    /// The next request about the server's task, or the one in flight.
    task: Option<TaskStep>,
    /// Parts that arrived while input requests were gathered, and the gathered requests.
    pending: VecDeque<ResponsePart>,
    /// Log messages of the server that belong to no request.
    logs: Option<broadcast::Receiver<Bytes>>,
    /// Log messages that were received and not forwarded yet.
    unsent_logs: VecDeque<Bytes>,
    /// Requests that the server sends outside its responses.
    requests: Option<Box<ServerRequests>>,
    /// A server request that the client does not support.
    unsupported_input: Option<InputKind>,
    /// The server's task for this call, while the client waits for its result.
    awaited_task: Option<String>,
    /// The request id that the server uses for progress, if that request has ended and a further one is in
    /// flight.
    progress_id: Option<Id>,
}

/// State of a call from a legacy client to a modern server.
#[derive(Default)]
pub(in crate::exchange) struct OlderToNewer {
    /// Input requests of the server that the client has not answered.
    pending_input: Option<PendingInput>,
    /// A task that the gate polls for the client.
    polling: Option<Box<Polling>>,
    /// Rounds that the gate has started for its client.
    rounds: usize,
    /// The progress sent to the client, over all rounds.
    progress: ProgressCounter,
    /// How long the client took to answer in the rounds so far.
    client_took: Duration,
    /// The server's task for this call, while the client waits for its result.
    awaited_task: Option<String>,
}

impl Crossing {
    /// Chosen once per call, when its server is known.
    pub(in crate::exchange) fn between(client: Era, server: Era) -> Crossing {
        match (client, server) {
            (Era::Modern, Era::Legacy) => Crossing::NewerToOlder(Box::default()),
            (Era::Legacy, Era::Modern) => Crossing::OlderToNewer(Box::default()),
            _ => Crossing::None,
        }
    }

    pub(in crate::exchange) fn is_none(&self) -> bool {
        matches!(self, Crossing::None)
    }

    pub(in crate::exchange) fn to_older(&self) -> Option<&NewerToOlder> {
        match self {
            Crossing::NewerToOlder(crossing) => Some(crossing),
            _ => None,
        }
    }

    fn to_older_mut(&mut self) -> Option<&mut NewerToOlder> {
        match self {
            Crossing::NewerToOlder(crossing) => Some(crossing),
            _ => None,
        }
    }

    pub(in crate::exchange) fn to_newer(&self) -> Option<&OlderToNewer> {
        match self {
            Crossing::OlderToNewer(crossing) => Some(crossing),
            _ => None,
        }
    }

    fn to_newer_mut(&mut self) -> Option<&mut OlderToNewer> {
        match self {
            Crossing::OlderToNewer(crossing) => Some(crossing),
            _ => None,
        }
    }

    /// A server request that the client does not support.
    pub(in crate::exchange) fn unsupported_input(&self) -> Option<InputKind> {
        self.to_older()?.unsupported_input
    }

    /// The request id that the server uses for progress, if it is not the one that was sent.
    pub(in crate::exchange) fn progress_id(&self) -> Option<&Id> {
        self.to_older()?.progress_id.as_ref()
    }

    /// Whether the server may send requests outside its responses.
    pub(in crate::exchange) fn hears_server_requests(&self) -> bool {
        self.to_older().is_some_and(|crossing| crossing.requests.is_some())
    }

    pub(in crate::exchange) fn is_polling(&self) -> bool {
        self.to_newer().is_some_and(|crossing| crossing.polling.is_some())
    }

    fn set_awaited_task(&mut self, task: Option<String>) {
        match self {
            Crossing::NewerToOlder(crossing) => crossing.awaited_task = task,
            Crossing::OlderToNewer(crossing) => crossing.awaited_task = task,
            Crossing::None => {}
        }
    }

    fn take_awaited_task(&mut self) -> Option<String> {
        match self {
            Crossing::NewerToOlder(crossing) => crossing.awaited_task.take(),
            Crossing::OlderToNewer(crossing) => crossing.awaited_task.take(),
            Crossing::None => None,
        }
    }
}
