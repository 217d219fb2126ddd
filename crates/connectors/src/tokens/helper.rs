//! Refreshes in a process of its own. When ours is killed between the service's answer and the disk,
//! the only copy of a rotated token would go with it; the helper lives on and writes it down. It leaves
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
use crate::{Desk, Service};

/// Tells the helper which token is not wanted any more, by its digest.
pub const STALE_VARIABLE: &str = "TOLLGATE_STALE_TOKEN";
/// Longer than the lock and the request may take together.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// The exit code of a helper that did not get as far as the service.
const COULD_NOT: i32 = 2;

/// How to start the helper: the program, and its arguments up to the name of the service.
#[derive(Clone, Debug)]
pub struct Helper {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

/// What the helper says on its standard output, in one line of JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub ended: Ended,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Refreshed,
    NotConnected,
    Dead,
    Outage,
    /// It did not get as far as the service.
    CouldNot,
}

/// The helper's side: one refresh.
pub async fn serve(desk: &Desk, service: &'static Service, stale: Option<String>) -> Told {
    let outcome = match Refresher::new(desk, service) {
        Ok(refresher) => refresher.run(stale).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => Told { ended: Ended::Refreshed, words: String::new() },
        Err(TokenError::NotConnected { .. }) => {
            Told { ended: Ended::NotConnected, words: String::new() }
        }
        Err(TokenError::Dead { words, .. }) => Told { ended: Ended::Dead, words },
        Err(TokenError::Outage { words, .. }) => Told { ended: Ended::Outage, words },
        Err(TokenError::Store(error)) => Told { ended: Ended::Outage, words: error.to_string() },
    }
}

impl Helper {
    /// Our side: starts the helper and waits for what it says. Without a helper to start the
    /// refresh happens here.
    pub(super) async fn refresh(
        &self,
        refresher: Refresher,
        stale: Option<String>,
    ) -> Result<(), TokenError> {
        let service = refresher.service.name;
        let child = match self.command(&refresher, stale.as_deref()).spawn() {
            Ok(child) => child,
            Err(error) => {
                tracing::warn!(%error, "no helper can be started; refreshing in this process");
                return refresh::apart(refresher, stale).await;
            }
        };
        let outage = |words: &str| TokenError::Outage {
            service: service.to_owned(),
            words: words.to_owned(),
        };
        let output = tokio::time::timeout(WAIT_MAX, child.wait_with_output()).await;
        let output = output.map_err(|_| outage("the helper takes too long"))?;
        let output = output.map_err(|error| outage(&error.to_string()))?;
        let told: Option<Told> = serde_json::from_slice(&output.stdout).ok();
        let told = match (told, output.status.code()) {
            // It could not even begin, so nothing was sent.
            (Some(Told { ended: Ended::CouldNot, .. }), _) => {
                return refresh::apart(refresher, stale).await;
            }
            (Some(told), _) => told,
            (None, Some(COULD_NOT)) => return refresh::apart(refresher, stale).await,
            (None, _) => return Err(outage("the helper ended without a word")),
        };
        match told.ended {
            Ended::Refreshed => Ok(()),
            Ended::NotConnected => Err(not_connected(service)),
            Ended::Dead => Err(TokenError::Dead { service: service.to_owned(), words: told.words }),
            Ended::Outage | Ended::CouldNot => Err(outage(&told.words)),
        }
    }

    fn command(&self, refresher: &Refresher, stale: Option<&str>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(refresher.service.name);
        // A group of its own: what ends our group, such as ^C, does not end the helper. What runs here
        // only starts the next one and ends; its output stays open until the last one has ended.
        command.process_group(0).kill_on_drop(false);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        for (name, value) in environment(refresher) {
            command.env(name, value.expose());
        }
        match stale {
            Some(stale) => command.env(STALE_VARIABLE, stale),
            None => command.env_remove(STALE_VARIABLE),
        };
        command
    }
}

/// The settings in force here, which may come from a file or a demonstration.
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
