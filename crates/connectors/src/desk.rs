//! Everything a connector may use. Made once by the cli; a connector reaches nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use store::accounts::{Accounts, AccountsError};
use store::clock::Clock;
use store::home::Home;
use store::random::Random;
use store::records::Records;
use store::vault::Vault;

use crate::http::Http;
use crate::member::Greeted;
use crate::pace::Paces;
use crate::personal::SignIns;
use crate::settings::Settings;
use crate::tokens::{Flights, Helper};

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
    /// The owner's own folder, `~` in a path.
    pub tilde: Option<PathBuf>,
    /// Refreshes logins in a process of its own, which the end of this one does not interrupt.
    pub helper: Option<Helper>,
    pub(crate) flights: Flights,
    pub(crate) paces: Paces,
    pub(crate) greeted: Greeted,
    pub(crate) sign_ins: SignIns,
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
            tilde: None,
            helper: None,
            flights: Flights::default(),
            paces: Paces::default(),
            greeted: Greeted::default(),
            sign_ins: SignIns::default(),
        })
    }
}
