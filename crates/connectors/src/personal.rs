//! What the personal services have in common: their errors, how their arguments are read, how they
//! are asked, and how one signs in to them from a conversation without a secret passing through it.

pub(crate) mod archive;
mod ask;
mod core;
mod events;
pub(crate) mod field;
pub(crate) mod fit;
mod given;
mod login;
pub(crate) mod mirror;
mod problem;
mod profiles;
mod restriction;
pub(crate) mod row;
pub(crate) mod schema;
mod service;
#[cfg(test)]
pub(crate) mod stage;

use std::future::Future;

use serde_json::Value;
use store::secret::Secret;

pub use archive::{
    ArchiveError, Given as ArchiveGiven, Imported, Progress as ArchiveProgress, Taken,
};
pub(crate) use ask::{done, from_fetch, json_of, with_scopes};
pub(crate) use events::events;
pub(crate) use given::{Given, is_id};
pub use login::SignIns;
pub(crate) use login::{complete, refresh, refresh_if_due, setup, standing};
pub use problem::{Code, Problem};
pub use profiles::Profile;
pub(crate) use restriction::{is_known, owner_name, remember, remember_owner};
pub use service::{NAME, SERVICE};

use crate::{Answer, Desk, Service, Working};

/// What a tool does, before it is put into an answer.
pub(crate) type Outcome = Result<Value, Problem>;

/// Turns a tool's outcome into its answer.
pub(crate) fn answering<'a>(work: impl Future<Output = Outcome> + Send + 'a) -> Working<'a> {
    Box::pin(async move {
        match work.await {
            Ok(value) => Answer::Found(fit::fit(value)),
            Err(problem) => Answer::Refused(problem.envelope()),
        }
    })
}

/// The same for a tool whose answer is a sentence, kept under `result`.
pub(crate) fn saying<'a>(
    work: impl Future<Output = Result<String, Problem>> + Send + 'a,
) -> Working<'a> {
    Box::pin(async move {
        match work.await {
            Ok(text) => {
                let value = serde_json::json!({ "result": text });
                Answer::Said { text, value }
            }
            Err(problem) => Answer::Refused(problem.envelope()),
        }
    })
}

/// A value the owner brought: from the environment, or kept in the vault.
pub(crate) fn value(desk: &Desk, service: &Service, name: &str) -> Option<Secret> {
    let set = desk.settings.of(service).and_then(|settings| settings.values.get(name).cloned());
    set.or_else(|| desk.accounts.load(service.name).ok()??.extra.remove(name))
}
