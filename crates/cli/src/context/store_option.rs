//! Where registry and audit log are, in this home or on Postgres that several machines share, and
//! how they are opened.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use store::home::Home;
use store::ledger::{Ledger, LedgerError, Options, Reader, Retention, SealKey, Sealing};
use store::postgres::Address;
use store::registry::{
    Registry, RegistryError, RememberedLog, has_unrecorded_acts, has_unrecorded_acts_on,
    log_remembered_by, log_remembered_on,
};
use store::secret::Secret;
use store::vault::Vault;

use super::{Context, Global, Stores, actor, variable};
use crate::variables::{KEY_VARIABLE, STORE_PASSWORD_VARIABLE, STORE_VARIABLE};

/// What was said about the store, before it is understood.
#[derive(Clone, Default)]
pub(super) struct StoreOption {
    argument: Option<String>,
    variable: Option<Secret>,
}

impl StoreOption {
    pub(super) fn of(global: &Global) -> StoreOption {
        let set = variable(STORE_VARIABLE).filter(|text| !text.is_empty());
        StoreOption { argument: global.store.clone(), variable: set.map(Secret::new) }
    }

    fn address(&self) -> Result<Option<Address>> {
        let password = || variable(STORE_PASSWORD_VARIABLE).filter(|text| !text.is_empty());
        let password = || password().map(Secret::new);
        if let Some(text) = &self.argument {
            if Address::has_password(text) {
                bail!(
                    "`--store` must not contain the password: every user of this machine can read the arguments of a process\nhint: `{STORE_PASSWORD_VARIABLE}`, or `?password_file=FILE` in the address"
                );
            }
            return Ok(Some(Address::parse(text, password()).context("cannot use `--store`")?));
        }
        let Some(text) = &self.variable else { return Ok(None) };
        let address = Address::parse(text.expose(), password());
        Ok(Some(address.with_context(|| format!("cannot use `{STORE_VARIABLE}`"))?))
    }
}

impl Context {
    /// Postgres, if it was named; otherwise everything is in the home.
    pub(crate) fn store(&self) -> Result<Option<Address>> {
        self.store.address()
    }

    /// `--store` if it was given as an argument, which has no password.
    pub(super) fn store_argument(&self) -> Option<&str> {
        self.store.argument.as_deref()
    }

    /// Opens the registry of the home, or the one that replicas share.
    pub(super) fn open_registry(&self, home: &Home, vault: Arc<Vault>) -> Result<Arc<Registry>> {
        let random = self.random.clone();
        let registry = match self.store()? {
            None => Registry::open(home, vault, random)?,
            Some(address) => match Registry::open_on(home, &address, vault, random) {
                Err(error @ RegistryError::KeyChanged) => {
                    let shown = home.vault_key();
                    let words = format!(
                        "the store was made with another vault key\nhint: copy `vault.key` of the first home to `{}`, or set `{KEY_VARIABLE}`",
                        shown.display()
                    );
                    return Err(anyhow::Error::new(error).context(words));
                }
                opened => opened?,
            },
        };
        Ok(Arc::new(registry.acting_as(&actor())))
    }

    /// What the registry remembers of the log, without opening the home. An unreadable one remembers
    /// nothing.
    pub(crate) fn remembered_log(&self) -> Result<RememberedLog> {
        Ok(match self.store()? {
            Some(address) => log_remembered_on(&address),
            None => log_remembered_by(&self.home_path()?.join("gate.db")),
        })
    }

    /// Whether a command that was killed left changes without their rows in the log.
    pub(crate) fn has_unrecorded_acts(&self) -> Result<bool> {
        Ok(match self.store()? {
            Some(address) => has_unrecorded_acts_on(&address),
            None => has_unrecorded_acts(&self.home_path()?.join("gate.db")),
        })
    }

    /// Opens an existing log for reading, without opening the home.
    pub(crate) fn read_log(&self) -> Result<Reader> {
        Ok(match self.store()? {
            Some(address) => Reader::open_on_postgres(&address)?,
            None => Reader::open(&self.home_path()?.join("audit"))?,
        })
    }
}

impl Stores {
    /// Opens an existing log for reading; writes nothing.
    pub(crate) fn read_log(&self) -> Result<Reader, LedgerError> {
        match (self.ledger.get(), &self.store) {
            (Some(ledger), _) => ledger.reader(),
            (None, Some(address)) => Reader::open_on_postgres(address),
            (None, None) => Reader::open(&self.home.audit()),
        }
    }

    /// What the registry remembers of the log. An unreadable one remembers nothing.
    pub(crate) fn remembered_log(&self) -> RememberedLog {
        let row = self.registry.remembered_log().ok().flatten();
        RememberedLog { row, is_sealed: self.registry.log_is_sealed().unwrap_or(true) }
    }

    /// Where the store is, if it is not in the home. Without the password.
    pub(crate) fn store(&self) -> Option<&Address> {
        self.store.as_ref()
    }

    fn open_ledger(&self, options: Options) -> Result<Ledger, LedgerError> {
        match &self.store {
            Some(address) => Ledger::open_on_postgres(address, self.clock.clone(), options),
            None => Ledger::open(&self.home.audit(), self.clock.clone(), options),
        }
    }

    pub(crate) fn ledger(&self) -> Result<&Arc<Ledger>> {
        // Only a running gate retires old rows.
        self.ledger_with(Retention::default())
    }

    /// The ledger as a gate opens it: it also retires old rows.
    pub(crate) fn gate_ledger(&self) -> Result<&Arc<Ledger>> {
        self.ledger_with(self.settings.retention)
    }

    fn ledger_with(&self, retention: Retention) -> Result<&Arc<Ledger>> {
        if let Some(ledger) = self.ledger.get() {
            return Ok(ledger);
        }
        let durability = self.settings.durability;
        let was_sealed = self.registry.log_is_sealed()?;
        let seal =
            SealKey::of(self.registry.vault()).map(|key| Sealing { key, expected: was_sealed });
        let is_sealed = seal.is_some();
        let options = Options { durability, retention, seal, ..Options::default() };
        let ledger = self.open_ledger(options)?;
        // Only after the seal exists: a kill in between must not look like a removed seal.
        if is_sealed && !was_sealed {
            self.registry.log_was_sealed(self.now_us())?;
        }
        let missed = self.missed_in(&ledger)?;
        if missed.is_none() {
            self.check_rollback(&ledger)?;
        }
        // Before any row of this command: changes of a killed command get their rows first.
        self.registry.record_acts(&ledger, self.now_us())?;
        self.record_loss(missed, &ledger)?;
        Ok(self.ledger.get_or_init(|| Arc::new(ledger)))
    }
}
