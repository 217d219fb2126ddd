//! Refreshes in a separate process. If ours is killed between the service's response and the disk,
//! the only copy of a rotated token would be lost; the helper survives and stores it. It leaves
//! our process tree before it sends anything, so that a kill of the whole tree does not reach it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::secret::Secret;
use tokio::process::Command;

use super::refresh::{self, Refresher};
use super::{TokenError, not_connected};
use crate::account::SignIn;
use crate::{ConnectorContext, Service};

/// The variable with the digest of the token to replace.
pub const STALE_VARIABLE: &str = "TOLLGATE_STALE_TOKEN";
/// Longer than lock and request together.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// The exit code of a helper that sent no request.
const COULD_NOT: i32 = 2;

/// How to start the helper: the program, and its arguments up to the name of the service.
#[derive(Clone, Debug)]
pub struct Helper {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

/// The helper's report on standard output, as one line of JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshReport {
    pub ended: RefreshOutcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(rename = "words")]
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefreshOutcome {
    Refreshed,
    /// Another process had refreshed; it sent no request.
    AlreadyFresh,
    NotConnected,
    Dead,
    Outage,
    UnknownClient,
    /// It sent no request.
    CouldNot,
}

/// The helper's side: one refresh.
pub async fn serve(
    ctx: &ConnectorContext,
    service: &'static Service,
    stale: Option<String>,
) -> RefreshReport {
    let outcome = match Refresher::new(ctx, service) {
        Ok(refresher) => refresher.run(stale).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => RefreshReport { ended: RefreshOutcome::Refreshed, message: String::new() },
        Err(TokenError::NotConnected { .. }) => {
            RefreshReport { ended: RefreshOutcome::NotConnected, message: String::new() }
        }
        Err(TokenError::Dead { message, .. }) => {
            RefreshReport { ended: RefreshOutcome::Dead, message }
        }
        Err(TokenError::Outage { message, .. }) => {
            RefreshReport { ended: RefreshOutcome::Outage, message }
        }
        Err(TokenError::UnknownClient { message, .. }) => {
            RefreshReport { ended: RefreshOutcome::UnknownClient, message }
        }
        Err(TokenError::Store(error)) => {
            RefreshReport { ended: RefreshOutcome::Outage, message: error.to_string() }
        }
    }
}

/// How a helper ended.
pub(crate) enum HelperOutcome {
    Report(RefreshReport),
    /// It sent no request, so the refresh can run in this process.
    NotRun,
    /// It is not known whether it sent a request.
    Failed(String),
}

impl Helper {
    /// Our side: refreshes the account of a service. Without a helper the refresh runs in this process.
    pub(super) async fn refresh(
        &self,
        refresher: Refresher,
        stale: Option<String>,
    ) -> Result<(), TokenError> {
        let service = refresher.service.name;
        let outage = |message: String| TokenError::Outage { service: service.to_owned(), message };
        let told = match self.run(service, environment(&refresher), stale.as_deref()).await {
            HelperOutcome::NotRun => return refresh::spawn(refresher, stale).await,
            HelperOutcome::Failed(message) => return Err(outage(message)),
            HelperOutcome::Report(told) => told,
        };
        match told.ended {
            RefreshOutcome::Refreshed | RefreshOutcome::AlreadyFresh => Ok(()),
            RefreshOutcome::NotConnected => Err(not_connected(service)),
            RefreshOutcome::Dead => {
                Err(TokenError::Dead { service: service.to_owned(), message: told.message })
            }
            RefreshOutcome::UnknownClient => Err(TokenError::UnknownClient {
                service: service.to_owned(),
                message: told.message,
            }),
            RefreshOutcome::Outage | RefreshOutcome::CouldNot => Err(outage(told.message)),
        }
    }

    /// Starts the helper for the login of this name and waits for its report.
    pub(crate) async fn run(
        &self,
        name: &str,
        env: Vec<(&'static str, Secret)>,
        stale: Option<&str>,
    ) -> HelperOutcome {
        let child = match self.command(name, env, stale).spawn() {
            Ok(child) => child,
            Err(error) => {
                tracing::warn!(%error, "could not start the refresh helper; refreshing in this process");
                return HelperOutcome::NotRun;
            }
        };
        let output = match tokio::time::timeout(WAIT_MAX, child.wait_with_output()).await {
            Err(_) => return HelperOutcome::Failed("the refresh helper timed out".to_owned()),
            Ok(Err(error)) => return HelperOutcome::Failed(error.to_string()),
            Ok(Ok(output)) => output,
        };
        let told: Option<RefreshReport> = serde_json::from_slice(&output.stdout).ok();
        match (told, output.status.code()) {
            (Some(RefreshReport { ended: RefreshOutcome::CouldNot, .. }), _)
            | (None, Some(COULD_NOT)) => HelperOutcome::NotRun,
            (Some(told), _) => HelperOutcome::Report(told),
            (None, _) => {
                HelperOutcome::Failed("the refresh helper exited without a report".to_owned())
            }
        }
    }

    fn command(
        &self,
        name: &str,
        env: Vec<(&'static str, Secret)>,
        stale: Option<&str>,
    ) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(name);
        // Its own process group: ^C ends our group, not the helper. This process only starts the next
        // one and exits; the output stays open until the last one has exited.
        platform::detach::in_own_group(&mut command).kill_on_drop(false);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        for (variable, value) in env {
            command.env(variable, value.expose());
        }
        match stale {
            Some(stale) => command.env(STALE_VARIABLE, stale),
            None => command.env_remove(STALE_VARIABLE),
        };
        command
    }
}

/// The current settings, which may come from a file or the demo.
fn environment(refresher: &Refresher) -> Vec<(&'static str, Secret)> {
    let Some(account) = refresher.service.account else { return Vec::new() };
    let settings = &refresher.settings;
    let mut all = vec![
        (account.api.variable, Secret::new(settings.api_base.url().as_str())),
        (account.oauth.variable, Secret::new(settings.oauth_base.url().as_str())),
    ];
    all.extend(settings.client_id.as_deref().map(|id| (account.client_id, Secret::new(id))));
    all.extend(settings.client_secret.clone().map(|secret| (account.client_secret, secret)));
    if let SignIn::Values(_) = account.sign_in {
        all.clear();
    }
    all
}
