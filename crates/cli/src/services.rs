//! What the environment and the settings file say of the services whose accounts the owner may have.

use std::path::PathBuf;
use std::sync::Arc;

use connectors::account::SignIn;
use connectors::settings::SettingsError;
use connectors::{Account, Service};
use store::accounts::Facts;
use store::home::Home;
use store::records::Run;
use store::settings::Settings;

use crate::context::Stores;

/// The value of a variable.
pub(crate) type Look = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The settings of every service. The environment counts first, then the file.
pub(crate) fn settings(
    look: &Look,
    file: &Settings,
) -> Result<connectors::Settings, SettingsError> {
    connectors::Settings::read(&|name| {
        look(name).filter(|value| !value.trim().is_empty()).or_else(|| in_file(name, file))
    })
}

/// What the file says where a variable says nothing.
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

/// Every service one can have an account at.
pub(crate) fn with_accounts() -> impl Iterator<Item = (&'static Service, &'static Account)> {
    connectors::ALL.iter().filter_map(|service| Some((*service, service.account?)))
}

/// Where the account of a service lies when there is one.
pub(crate) fn account_file(home: &Home, service: &Service) -> PathBuf {
    home.path().join("accounts").join(format!("{}.json", service.name))
}

/// How the owner's account at a service stands.
pub(crate) struct Standing {
    pub(crate) service: &'static Service,
    pub(crate) account: Result<Option<Facts>, String>,
    pub(crate) sync: Result<LastSync, String>,
}

/// What the history of syncs says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastSync {
    /// When one resource was last brought up to date completely.
    pub(crate) good_us: Option<i64>,
    /// Resources whose last sync failed, each with its words.
    pub(crate) failed: Vec<String>,
}

/// How every account there is stands. Where there is none, nothing is opened.
pub(crate) fn standings(stores: &Stores) -> Vec<Standing> {
    let there = with_accounts().filter(|(service, _)| account_file(&stores.home, service).exists());
    there.map(|(service, _)| standing(service, stores)).collect()
}

pub(crate) fn standing(service: &'static Service, stores: &Stores) -> Standing {
    let desk = match stores.desk() {
        Ok(desk) => desk,
        Err(e) => {
            let words = format!("{e:#}");
            return Standing { service, account: Err(words.clone()), sync: Err(words) };
        }
    };
    let account = desk.accounts.facts(service.name).map_err(|e| e.to_string());
    let runs = desk.records.runs(service.name, RUNS_SEEN).map_err(|e| e.to_string());
    Standing { service, account, sync: runs.map(|runs| last_sync(&runs)) }
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
        // One that is under way says nothing yet.
        if run.status != "running" && !seen.contains(&run.resource.as_str()) {
            seen.push(&run.resource);
            let words = run.error.as_deref().filter(|_| run.status == "error");
            last.failed.extend(words.map(|words| format!("{}: {words}", run.resource)));
        }
    }
    last
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
