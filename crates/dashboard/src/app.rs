//! What every page uses: the stores, the clock, and one registry per acting person, so that audit rows name
//! who changed something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::tz::TimeZone;
use store::clock::Clock;
use store::effective::Effective;
use store::home::Home;
use store::ledger::{Filter, Ledger, Reader};
use store::logins::Logins;
use store::random::Random;
use store::registry::Registry;

use crate::Live;
use crate::accounts::AccountWork;
use crate::asking_clients::AskingClients;
use crate::catalogue_pages::CataloguePages;
use crate::client_documents::ClientDocuments;
use crate::passkey::{Challenges, Purpose};
use crate::pending::PendingServers;
use crate::problem::Problem;
use crate::shown_pages::ShownPages;
use crate::sign_in_limit::SignInLimit;
use crate::team_sign_ins::{TeamIssuer, TeamSignIns};
use crate::verification::Verifier;
use store::approval::ApprovalState;
use store::tool_class::ClassCache;

/// Rows of the audit log that a page looks through. Reading them takes less than a tenth of a second.
const ROWS_MAX: u64 = 40_000;

/// What the dashboard is made of.
pub struct Options {
    pub home: Home,
    pub registry: Arc<Registry>,
    pub ledger: Arc<Ledger>,
    pub clock: Clock,
    pub random: Random,
    /// Times are shown in this zone.
    pub zone: TimeZone,
    pub live: Arc<dyn Live>,
    pub documents: Arc<dyn ClientDocuments>,
    pub team: Arc<dyn TeamIssuer>,
}

pub(crate) struct App {
    pub(crate) home: Home,
    pub(crate) registry: Arc<Registry>,
    pub(crate) logins: Logins,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) zone: TimeZone,
    pub(crate) live: Arc<dyn Live>,
    pub(crate) documents: Arc<dyn ClientDocuments>,
    pub(crate) team: Arc<dyn TeamIssuer>,
    pub(crate) team_sign_ins: TeamSignIns,
    pub(crate) challenges: Challenges,
    pub(crate) sign_in_limit: SignInLimit,
    pub(crate) pending: PendingServers,
    pub(crate) classes: ClassCache,
    pub(crate) catalogue: CataloguePages,
    clock: Clock,
    random: Random,
    /// By the name of the person.
    acting: Mutex<HashMap<String, Arc<Registry>>>,
    pub(crate) verifier: Verifier,
    pub(crate) account_work: AccountWork,
    pub(crate) consents: ShownPages,
    pub(crate) asking_clients: AskingClients,
}

impl App {
    /// The command that prints a sign-in link, for a visitor who is not signed in: paths of this machine are for
    /// visitors on it.
    pub(crate) fn open_command(&self) -> String {
        let is_local = self.live.mcp_url().starts_with(self.live.issuer().as_str());
        if is_local { self.live.command("open") } else { "tollgate open".to_owned() }
    }

    pub(crate) fn new(options: Options) -> App {
        App {
            logins: Logins::of(&options.home, &options.registry, options.random.clone()),
            home: options.home,
            registry: options.registry,
            ledger: options.ledger,
            zone: options.zone,
            live: options.live,
            documents: options.documents,
            team: options.team,
            team_sign_ins: TeamSignIns::default(),
            challenges: Challenges::default(),
            sign_in_limit: SignInLimit::default(),
            pending: PendingServers::default(),
            classes: ClassCache::default(),
            catalogue: CataloguePages::default(),
            clock: options.clock,
            random: options.random,
            acting: Mutex::default(),
            verifier: Verifier::default(),
            account_work: AccountWork::default(),
            consents: ShownPages::default(),
            asking_clients: AskingClients::default(),
        }
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.clock.now().wall_us
    }

    /// A name that cannot be guessed.
    pub(crate) fn random_id(&self) -> Result<String, Problem> {
        self.random.name().map_err(|error| Problem::internal(error.to_string()))
    }

    pub(crate) fn random_bytes<const N: usize>(&self) -> Result<[u8; N], Problem> {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).map_err(|error| Problem::internal(error.to_string()))?;
        Ok(bytes)
    }

    /// A challenge for a passkey.
    pub(crate) fn make_challenge(&self, purpose: Purpose<'_>) -> Result<Vec<u8>, Problem> {
        self.challenges.make(purpose, &self.random, self.now_us())
    }

    /// The ledger's own time, which approvals expire by.
    pub(crate) fn ledger_time(&self) -> u64 {
        self.ledger.time(self.clock.now())
    }

    /// What streams to open pages check.
    pub(crate) fn watched(&self) -> Watched {
        Watched {
            ledger: Arc::clone(&self.ledger),
            registry: Arc::clone(&self.registry),
            clock: self.clock.clone(),
        }
    }

    pub(crate) fn effective(&self) -> Result<Effective, Problem> {
        Ok(Effective::merge_closed(self.registry.snapshot()?, self.live.settings()))
    }

    /// A folder for one export, which is deleted when it was sent.
    pub(crate) fn export_folder(&self) -> Result<tempfile::TempDir, Problem> {
        let made = tempfile::Builder::new().prefix("export-").tempdir_in(self.home.path());
        made.map_err(|error| Problem::internal(format!("no folder for the export: {error}")))
    }

    /// Starts a check of the whole audit log in the background.
    pub(crate) fn start_verification(&self) -> Result<(), Problem> {
        self.verifier.start(self.audit()?, self.clock.clone());
        Ok(())
    }

    pub(crate) fn audit(&self) -> Result<Reader, Problem> {
        Ok(self.ledger.reader()?)
    }

    /// A filter for the newest rows only, so that a page reads no whole log for something that is not in it.
    pub(crate) fn newest_rows(&self) -> Result<Filter, Problem> {
        let oldest = self.audit()?.newest_seq()?.saturating_sub(ROWS_MAX);
        Ok(Filter { seq_min: Some(oldest), ..Filter::default() })
    }

    /// Runs a change of the registry in the name of a person, and records it in the audit log.
    pub(crate) fn act<T>(
        &self,
        person: &str,
        change: impl FnOnce(&Registry, i64) -> Result<T, store::registry::RegistryError>,
    ) -> Result<T, Problem> {
        let registry = self.registry_of(person)?;
        self.change(&registry, change)
    }

    /// The same for a registry of a given actor.
    pub(crate) fn change<T>(
        &self,
        registry: &Registry,
        change: impl FnOnce(&Registry, i64) -> Result<T, store::registry::RegistryError>,
    ) -> Result<T, Problem> {
        self.ledger.poll().map_err(|error| {
            Problem::internal(format!(
                "nothing was changed, because the audit log could not record it: {error}"
            ))
        })?;
        let now_us = self.now_us();
        let done = change(registry, now_us)?;
        let recorded = registry.record_acts(&self.ledger, now_us);
        // The page that reports the change is sent after the gate has applied it.
        self.live.apply_changes();
        recorded.map_err(|error| {
            tracing::warn!(%error, "a change is not in the audit log yet");
            Problem::internal("the change was made, but the audit log could not be written; it is recorded as soon as it can be")
        })?;
        Ok(done)
    }

    fn registry_of(&self, person: &str) -> Result<Arc<Registry>, Problem> {
        let mut acting = self.acting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(registry) = acting.get(person) {
            return Ok(Arc::clone(registry));
        }
        let registry =
            Arc::new(self.registry.another()?.acting_as(&actor(person)).of_person(person));
        acting.insert(person.to_owned(), Arc::clone(&registry));
        Ok(registry)
    }
}

/// The approvals of the ledger, as an open page watches them.
pub(crate) struct Watched {
    ledger: Arc<Ledger>,
    registry: Arc<Registry>,
    clock: Clock,
}

impl Watched {
    /// Whether the session of an open page has not ended.
    pub(crate) fn is_signed_in(&self, cookie: &str) -> bool {
        let session = self.registry.browser_session(cookie, self.clock.now().wall_us);
        session.is_ok_and(|session| session.is_some())
    }

    /// Changes with every change of an approval.
    pub(crate) fn generation(&self) -> u64 {
        self.ledger.generation()
    }

    /// The number of calls that wait for an approval.
    pub(crate) fn pending_count(&self) -> usize {
        let time = self.ledger.time(self.clock.now());
        let approvals = self.ledger.approvals().unwrap_or_default();
        let is_waiting = |state| state == ApprovalState::Waiting;
        approvals.iter().filter(|approval| is_waiting(ApprovalState::of(approval, time))).count()
    }
}

/// How audit rows name a person who acted here.
pub(crate) fn actor(person: &str) -> String {
    format!("{person} (dashboard)")
}
