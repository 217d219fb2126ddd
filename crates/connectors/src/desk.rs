//! Everything a connector may use. Made once by the cli; a connector reaches nothing else.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use store::accounts::{Accounts, AccountsError};
use store::clock::Clock;
use store::home::Home;
use store::random::Random;
use store::records::Records;
use store::vault::Vault;

use crate::answers::Answers;
use crate::http::Http;
use crate::member::Greeted;
use crate::pace::Paces;
use crate::personal::SignIns;
use crate::settings::Settings;
use crate::tokens::{Flights, Helper};
use crate::whoop::Marks;
use crate::written::Quoted;
use crate::{Service, personal, shelves};

/// Uses closer together than this count as one: the disk is not written for each call.
const USE_US: u64 = 60_000_000;

/// When each account was last noted as used.
#[derive(Default)]
pub(crate) struct Uses(Mutex<HashMap<&'static str, u64>>);

/// The desk a connector works at.
pub struct Desk {
    pub accounts: Accounts,
    pub records: Records,
    pub http: Http,
    pub clock: Clock,
    pub random: Random,
    pub settings: Settings,
    /// What agents export goes below it.
    pub exports: PathBuf,
    /// A folder that the owner also lets them write to, as the settings have it.
    pub exports_allowed: Option<String>,
    /// The owner's own folder, `~` in a path.
    pub tilde: Option<PathBuf>,
    /// Refreshes logins in a process of its own, which the end of this one does not interrupt.
    pub helper: Option<Helper>,
    pub(crate) flights: Flights,
    pub(crate) paces: Paces,
    pub(crate) greeted: Greeted,
    pub(crate) sign_ins: SignIns,
    pub(crate) uses: Uses,
    pub(crate) quoted: Quoted,
    pub(crate) answers: Answers,
    pub(crate) marks: Marks,
    prepared: OnceLock<()>,
}

#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    #[error(transparent)]
    Accounts(#[from] AccountsError),
}

impl Desk {
    /// A desk over an opened home. Nothing is sent anywhere.
    pub fn open(
        home: &Home,
        vault: Arc<Vault>,
        clock: Clock,
        random: Random,
        settings: Settings,
    ) -> Result<Desk, DeskError> {
        Ok(Desk {
            accounts: Accounts::open(home, vault, random.clone())?,
            // Opened by the first who needs it: what is wrong with it is then said where it matters.
            records: Records::at(home),
            http: Http::new(),
            clock,
            random,
            settings,
            exports: home.path().join("exports"),
            exports_allowed: None,
            tilde: None,
            helper: None,
            flights: Flights::default(),
            paces: Paces::default(),
            greeted: Greeted::default(),
            sign_ins: SignIns::default(),
            uses: Uses::default(),
            quoted: Quoted::default(),
            answers: Answers::default(),
            marks: Marks::default(),
            prepared: OnceLock::new(),
        })
    }
}

impl Desk {
    /// Brings records that an older version kept to the shapes of this one, once. What goes wrong is
    /// said by whoever reads them.
    pub(crate) fn prepare(&self) {
        self.prepared.get_or_init(|| {
            if self.records.path().exists()
                && let Err(error) = shelves::prepare(&self.records)
            {
                tracing::warn!(%error, "records keep the shapes of an older version");
            }
        });
    }

    /// Keeps that the account of a service was used now, at most once a minute. It is worth no failure.
    pub(crate) fn note_use(&self, service: &Service) {
        let now = self.clock.now();
        {
            let mut noted = self.uses.0.lock().unwrap_or_else(PoisonError::into_inner);
            let last_us = noted.get(service.name).copied();
            if last_us.is_some_and(|last_us| now.steady_us.saturating_sub(last_us) < USE_US) {
                return;
            }
            noted.insert(service.name, now.steady_us);
        }
        if let Err(error) = self.accounts.note_use(service.name, now.wall_us) {
            tracing::debug!(service = service.name, %error, "the use is not noted");
        }
    }

    /// How we call ourselves at a service; with the owner's name where it wants to know it.
    pub(crate) fn user_agent(&self, service: &Service) -> String {
        let Some(account) = service.account else { return String::new() };
        let name =
            account.signs.and_then(|form| Some((form, personal::owner_name(self, service)?)));
        match name {
            Some((form, name)) => format!("{} ({form}{name})", account.user_agent),
            None => account.user_agent.to_owned(),
        }
    }
}
