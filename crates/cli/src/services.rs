//! The services with accounts: their settings from the environment and the settings file, and their status.

use std::path::PathBuf;
use std::sync::Arc;

use connectors::account::SignIn;
use connectors::settings::SettingsError;
use connectors::sync::{Mirror, ResourceError, SyncReport, SyncStatus};
use connectors::{Account, Service};
use insights::Units;
use store::accounts::AccountSummary;
use store::home::Home;
use store::records::Run;
use store::settings::Settings;

use crate::context::Stores;

/// Returns the value of a variable.
pub(crate) type VariableLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The settings of every service. The environment overrides the file.
pub(crate) fn settings(
    lookup: &VariableLookup,
    file: &Settings,
) -> Result<connectors::Settings, SettingsError> {
    connectors::read_settings(&|name| {
        lookup(name).filter(|value| !value.trim().is_empty()).or_else(|| in_file(name, file))
    })
}

/// The value in the settings file for a variable that is not set.
fn in_file(name: &str, file: &Settings) -> Option<String> {
    with_accounts().find_map(|(service, account)| {
        let written = file.services.get(service.name)?;
        let redirect = match account.sign_in {
            SignIn::Code { redirect_variable, .. } => Some(redirect_variable),
            _ => None,
        };
        match name {
            _ if name == account.api.variable => written.api_base_url.clone(),
            _ if name == account.oauth.variable => written.oauth_base_url.clone(),
            _ if name == account.client_id => written.client_id.clone(),
            _ if name == account.client_secret => {
                written.client_secret.as_ref().map(|secret| secret.expose().clone())
            }
            _ if Some(name) == redirect => written.redirect_uri.clone(),
            _ => None,
        }
    })
}

/// The folder besides the usual one that agents may export to.
pub(crate) fn allowed_exports(file: &Settings) -> Option<String> {
    let mut exporting =
        connectors::ALL.iter().filter(|connector| connector.agent_exports.is_some());
    exporting.find_map(|connector| file.services.get(connector.name())?.exports.clone())
}

/// What the owner measures in.
pub(crate) fn units(file: &Settings) -> Units {
    Units { imperial: file.shown_in.imperial, kilojoules: file.shown_in.kilojoules }
}

/// Every service with accounts.
pub(crate) fn with_accounts() -> impl Iterator<Item = (&'static Service, &'static Account)> {
    connectors::ALL.iter().filter_map(|connector| Some((connector.service, connector.account()?)))
}

/// The file of a service's account.
pub(crate) fn account_file(home: &Home, service: &Service) -> PathBuf {
    home.path().join("accounts").join(format!("{}.json", service.name))
}

/// The status of the owner's account at a service.
pub(crate) struct AccountStatus {
    pub(crate) service: &'static Service,
    pub(crate) account: Result<Option<AccountSummary>, String>,
    pub(crate) sync: Result<LastSync, String>,
}

/// A summary of the sync history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastSync {
    /// When a resource was last synced completely.
    pub(crate) good_us: Option<i64>,
    /// Resources whose last sync failed, each with its error.
    pub(crate) failed: Vec<String>,
}

/// The status of every connected account. Opens nothing if there is none.
pub(crate) fn account_statuses(stores: &Stores) -> Vec<AccountStatus> {
    let connected =
        with_accounts().filter(|(service, _)| account_file(&stores.home, service).exists());
    connected.map(|(service, _)| account_status(service, stores)).collect()
}

pub(crate) fn account_status(service: &'static Service, stores: &Stores) -> AccountStatus {
    let ctx = match stores.connector_context() {
        Ok(ctx) => ctx,
        Err(e) => {
            let message = format!("{e:#}");
            return AccountStatus { service, account: Err(message.clone()), sync: Err(message) };
        }
    };
    let account = ctx.accounts.summary(service.name).map_err(|e| e.to_string());
    let runs = ctx.records.runs(service.name, RUNS_SEEN).map_err(|e| e.to_string());
    AccountStatus { service, account, sync: runs.map(|runs| last_sync(&runs)) }
}

/// More than the resources of any service, so that the last run of each is among them.
const RUNS_SEEN: usize = 50;

/// `runs` are newest first.
fn last_sync(runs: &[Run]) -> LastSync {
    let mut last = LastSync::default();
    let mut seen: Vec<&str> = Vec::new();
    for run in runs {
        if run.status == "success" {
            last.good_us = last.good_us.max(run.completed_us);
        }
        // A running sync has no result yet.
        if run.status != "running" && !seen.contains(&run.resource.as_str()) {
            seen.push(&run.resource);
            let message = run.error.as_deref().filter(|_| run.status == "error");
            last.failed.extend(message.map(|message| format!("{}: {message}", run.resource)));
        }
    }
    last
}

/// The audit act of a sync, which succeeded only if every resource did, and its words.
pub(crate) fn sync_note(
    report: &SyncReport,
    mirror: &Mirror,
    said: &str,
) -> (&'static str, String) {
    if report.status() == SyncStatus::Success {
        return ("synced", said.to_owned());
    }
    let faults = grouped(mirror, &report.warnings(ResourceError::line)).join("; ");
    let changed = if report.upserted() > 0 { format!("; {said}") } else { String::new() };
    (SYNC_FAILED, format!("{faults}{changed}"))
}

/// The audit act of a sync that failed, as a whole or in part.
pub(crate) const SYNC_FAILED: &str = "sync_failed";

/// Merges equal warnings of several resources: `cycles, sleeps: why`, or only the reason if it applies to
/// all of them.
pub(crate) fn grouped(mirror: &Mirror, warnings: &[String]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for warning in warnings {
        let parts = warning.split_once(": ");
        let parts = parts.filter(|(name, _)| mirror.resources.iter().any(|r| r.name == *name));
        let (name, why) = parts.unwrap_or(("", warning));
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => groups.push((why, vec![name])),
        }
    }
    let text = |(why, names): (&str, Vec<&str>)| {
        let all = names.len() >= mirror.resources.len();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        if all || names.is_empty() {
            why.to_owned()
        } else {
            format!("{}: {why}", names.join(", "))
        }
    };
    groups.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(resource: &str, status: &str, at_us: i64) -> Run {
        Run {
            resource: resource.to_owned(),
            status: status.to_owned(),
            completed_us: Some(at_us),
            error: (status == "error").then(|| "no".to_owned()),
            ..Run::default()
        }
    }

    #[test]
    fn only_the_last_run_of_a_resource_counts_as_failed() {
        let runs = [
            run("sleeps", "running", 9),
            run("cycles", "success", 8),
            run("sleeps", "error", 7),
            run("cycles", "error", 6),
            run("sleeps", "success", 5),
        ];
        let last = last_sync(&runs);
        assert_eq!(last.good_us, Some(8));
        assert_eq!(last.failed, ["sleeps: no"]);
        assert_eq!(last_sync(&[]), LastSync::default());
    }
}
