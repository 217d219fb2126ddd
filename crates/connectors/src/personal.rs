//! Shared code of the personal services: errors, arguments, requests, mirror, archives, and sign-in
//! through an agent that never sees a secret.

pub(crate) mod archive;
mod events;
pub(crate) mod field;
pub(crate) mod handler;
mod id;
mod login;
pub(crate) mod login_status;
pub(crate) mod mirror;
mod problem;
mod response;
mod restriction;
pub(crate) mod tool_row;
pub(crate) mod truncate;

use store::secret::Secret;

pub use archive::{
    ArchiveError, ArchiveImport, ImportInput, ImportProgress, ImportReport, KindCounts,
};
pub(crate) use events::events;
pub(crate) use id::is_id;
pub use login::SignIns;
pub(crate) use login::{
    CodeSetup, Completed, DeviceCompleteArgs, Refreshed, complete, refresh, refresh_if_due,
    setup_by_code, setup_by_device,
};
pub(crate) use login_status::{login_status, show_login_status};
pub use problem::{Code, Problem};
pub(crate) use response::{done, from_fetch, json_of, with_scopes};
pub(crate) use restriction::{is_known, remember};

use crate::{ConnectorContext, Service};

/// A value of the owner, from the environment or the vault.
pub(crate) fn value(ctx: &ConnectorContext, service: &Service, name: &str) -> Option<Secret> {
    let set = ctx.settings.of(service).and_then(|settings| settings.values.get(name).cloned());
    set.or_else(|| ctx.accounts.load(service.name).ok()??.extra.remove(name))
}
