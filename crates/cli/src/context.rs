//! What every command starts from: the home, the settings file, the clock and the randomness. The
//! environment is read here and nowhere deeper.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use connectors::{Desk, Locked};
use gateway::LazyDesk;
use store::clock::Clock;
use store::effective::Effective;
use store::files;
use store::home::Home;
use store::ledger::{Ledger, Options, Reader, Retention, SealKey, Sealing};
use store::random::Random;
use store::registry::{FileNames, Grant, Origin, PolicyText, Registry, Server, Target};
use store::settings::Settings;
use store::vault::{Ask, Vault, ask_nobody};

use crate::cli::Global;
use crate::services::{self, Look};

mod key;
mod record;

pub(crate) use key::{KEY_VARIABLE, is_about_the_key, key_is_handed_in};

/// The folder below which agents may export; an absolute path.
const EXPORTS_VARIABLE: &str = "TOLLGATE_EXPORTS";
/// A setting of a home whose accounts are pretended, so that no command asks a real service in it.
pub(crate) const DEMONSTRATION: &str = "demonstration";
/// Where the services of a demonstration are, as JSON, while it runs.
pub(crate) const DEMONSTRATION_SERVICES: &str = "demonstration_services";
/// What `--home` says unless it is given.
const OUR_HOME_VARIABLE: &str = "TOLLGATE_HOME";
/// A second name of the home, for those who come from another WHOOP server.
const HOME_VARIABLE: &str = "WHOOP_MCP_HOME";

#[derive(Clone)]
pub(crate) struct Context {
    home: Option<PathBuf>,
    config: Option<PathBuf>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// Where the settings of services come from before the settings file is asked.
    look: Look,
    /// Whether that was handed in, as by a demonstration for its own sandboxes.
    has_services: bool,
    /// How a vault key is had that is not in the home.
    pub(crate) ask: Ask,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Context {
        Context {
            home: global.home.clone(),
            config: global.config.clone(),
            clock: Clock::System,
            random: Random::System,
            look: Arc::new(variable),
            has_services: false,
            ask: crate::vault::ask,
        }
    }

    /// The same context with another home, for what must not touch the real one, nor a keyring.
    pub(crate) fn with_home(&self, home: PathBuf) -> Context {
        Context {
            home: Some(home),
            config: None,
            clock: self.clock.clone(),
            random: self.random.clone(),
            look: Arc::clone(&self.look),
            has_services: self.has_services,
            ask: ask_nobody,
        }
    }

    /// The same with services elsewhere: what the environment says of the real ones does not count.
    pub(crate) fn with_services(self, look: Look) -> Context {
        Context { look, has_services: true, ..self }
    }

    /// `--home`, or the XDG data folder.
    pub(crate) fn home_path(&self) -> Result<PathBuf> {
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if let Some(home) = set(HOME_VARIABLE) {
            return Ok(home);
        }
        let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let data = data.or_else(|| set("HOME").map(|home| home.join(".local/share")));
        data.map(|data| data.join("tollgate")).ok_or_else(|| {
            anyhow!("cannot tell where to keep tollgate's files: neither `XDG_DATA_HOME` nor `HOME` is set\nhint: `--home DIR`")
        })
    }

    /// The home, where it was named with `--home` and not by the environment.
    pub(crate) fn home_of_the_command_line(&self) -> Option<&Path> {
        let home = self.home.as_deref()?;
        let by_environment = std::env::var_os(OUR_HOME_VARIABLE).is_some_and(|named| named == home);
        (!by_environment).then_some(home)
    }

    /// The settings file that was named, if one was.
    pub(crate) fn named_settings(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The settings file in use: the one that was named, or the one in the home if it is there.
    pub(crate) fn settings_path(&self) -> Result<Option<PathBuf>> {
        if self.config.is_some() {
            return Ok(self.config.clone());
        }
        let usual = self.home_path()?.join("tollgate.toml");
        Ok(usual.exists().then_some(usual))
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        match self.settings_path()? {
            Some(path) => load_settings(&path),
            None => Ok(Settings::default()),
        }
    }

    /// Opens the home with its registry, making both at the first use.
    pub(crate) fn open(&self) -> Result<Stores> {
        self.open_with(self.settings()?)
    }

    /// The same under other settings than those of the file.
    pub(crate) fn open_with(&self, settings: Settings) -> Result<Stores> {
        let home = create_home(&self.home_path()?)?;
        if let Some(what) = database_missing(home.path()).filter(|_| has_log(&home)) {
            tracing::error!(
                "`gate.db` is {what} although this home was used: servers, policies and grants are gone, and an empty one is made; if that was not you, stop and put a copy back"
            );
        }
        let vault = Arc::new(self.open_vault(&home)?);
        let registry = Registry::open(&home, Arc::clone(&vault), self.random.clone())?;
        let settings = Arc::new(settings);
        let pretends = registry.value(DEMONSTRATION)?.is_some();
        let look = if pretends && !self.has_services {
            pretended(&registry, &home)?
        } else {
            Arc::clone(&self.look)
        };
        let desk = self.desk(&home, vault, &settings, look, pretends);
        Ok(self.stores(home, registry, settings, desk))
    }

    /// Opens a home whose key is not to be had, for a server that can say so to its client. Whatever
    /// is sealed stays so, and nobody works at the desk.
    pub(crate) fn open_locked(&self) -> Result<Stores> {
        let settings = Arc::new(self.settings()?);
        let home = create_home(&self.home_path()?)?;
        let vault = Arc::new(Vault::locked(&self.random)?);
        let registry = Registry::open(&home, vault, self.random.clone())?;
        let desk = Arc::new(LazyDesk::locked(Locked { clock: self.clock.clone() }));
        Ok(self.stores(home, registry, settings, desk))
    }

    fn stores(
        &self,
        home: Home,
        registry: Registry,
        settings: Arc<Settings>,
        desk: Arc<LazyDesk>,
    ) -> Stores {
        let actor = actor();
        Stores {
            home,
            registry: Arc::new(registry.acting_as(&actor)),
            file_names: settings.names(),
            settings,
            clock: self.clock.clone(),
            actor,
            ledger: OnceCell::new(),
            desk,
        }
    }

    /// The desk of the connectors. Nothing is opened before somebody works at it.
    fn desk(
        &self,
        home: &Home,
        vault: Arc<Vault>,
        settings: &Arc<Settings>,
        look: Look,
        pretends: bool,
    ) -> Arc<LazyDesk> {
        let (home, settings) = (home.clone(), Arc::clone(settings));
        let (clock, random) = (self.clock.clone(), self.random.clone());
        Arc::new(LazyDesk::new(move || {
            let whoop = settings.services.get(connectors::whoop::NAME);
            let allowed = whoop.and_then(|whoop| whoop.exports.clone());
            let settings = services::settings(&look, &settings).map_err(|e| e.to_string())?;
            let (clock, random) = (clock.clone(), random.clone());
            let mut desk = Desk::open(&home, Arc::clone(&vault), clock, random, settings)
                .map_err(|e| e.to_string())?;
            if pretends {
                desk.http = desk.http.staying_here();
            }
            desk.helper = crate::account::helper(home.path());
            desk.tilde = std::env::var_os("HOME").map(PathBuf::from);
            if let Some(folder) = exports_folder() {
                desk.exports = folder;
            }
            desk.exports_allowed = allowed;
            Ok(desk)
        }))
    }
}

/// The sandboxes of a demonstration that runs on this home. Without one nothing is anywhere, and the real
/// services are not asked in its place.
fn pretended(registry: &Registry, home: &Home) -> Result<Look> {
    let runs = crate::running::all(home.path()).iter().any(|gate| gate.url.is_some());
    let text = registry.value(DEMONSTRATION_SERVICES)?.filter(|_| runs);
    let services: BTreeMap<String, String> =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(Arc::new(move |name: &str| services.get(name).cloned()))
}

/// Makes the home, or says what to do with one that is the public server's.
fn create_home(path: &Path) -> Result<Home> {
    Home::create(path).map_err(|error| {
        let holds = |name: &str| path.join(name).is_file();
        let is_public = !holds("gate.db") && (holds("whoop.db") || holds("tokens.json"));
        if !is_public {
            return error.into();
        }
        let shown = path.display();
        anyhow!(
            "`{shown}` is the folder of `whoop-mcp`, not a home of tollgate\nhint: unset `{HOME_VARIABLE}`, then `tollgate import whoop-mcp {shown}` takes its login and records over"
        )
    })
}

/// Where agents' exports go, if not below the home.
fn exports_folder() -> Option<PathBuf> {
    std::env::var_os(EXPORTS_VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// How `gate.db` is missing, if it is. One of no bytes holds no more than none at all.
pub(crate) fn database_missing(home: &Path) -> Option<&'static str> {
    let file = home.join("gate.db");
    match std::fs::metadata(&file) {
        Err(_) => Some("gone"),
        Ok(found) if found.is_file() && found.len() == 0 => {
            (!file.with_extension("db-wal").exists()).then_some("empty")
        }
        Ok(_) => None,
    }
}

/// Whether anything was ever recorded in this home.
fn has_log(home: &Home) -> bool {
    Reader::open(&home.audit()).is_ok()
}

pub(crate) fn load_settings(path: &Path) -> Result<Settings> {
    load_settings_noting(path, &|_| {})
}

/// The same for one who wants to know of each file just before it is read, also of one that cannot be.
pub(crate) fn load_settings_noting(path: &Path, note: &dyn Fn(&Path)) -> Result<Settings> {
    let shown = path.display();
    note(path);
    let text = read_text(path).with_context(|| format!("cannot read settings `{shown}`"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    // A path in the settings file is taken from the folder the file stands in.
    let read_beside = |file: &Path| {
        let file = folder.join(file);
        note(&file);
        read_text(&file)
    };
    Settings::load(&text, &variable, &read_beside)
        .with_context(|| format!("cannot use settings `{shown}`"))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A text file that the owner names. A pipe, or one without end such as `/dev/zero`, is refused.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    const BYTES_MAX: u64 = 8 << 20;
    files::read_text(path, BYTES_MAX)
}

/// Who is acting, for the audit rows of owner's acts.
fn actor() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| variable(name).filter(|v| !v.is_empty()));
    let name = name.unwrap_or_else(|| format!("uid {}", rustix::process::geteuid().as_raw()));
    format!("{name} (cli)")
}

/// An open home.
pub(crate) struct Stores {
    pub(crate) home: Home,
    pub(crate) registry: Arc<Registry>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) file_names: FileNames,
    clock: Clock,
    actor: String,
    /// Opened by the first command that needs it: reading a policy needs no audit log.
    ledger: OnceCell<Arc<Ledger>>,
    desk: Arc<LazyDesk>,
}

impl Stores {
    pub(crate) fn now_us(&self) -> i64 {
        self.clock.now().wall_us
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn actor(&self) -> &str {
        &self.actor
    }

    /// Where connectors work: the owner's accounts, records and settings of services.
    pub(crate) fn desk(&self) -> Result<Arc<Desk>> {
        self.desk.get().map_err(|why| anyhow!(why.to_string()))
    }

    /// The same for a gate, which opens it at the first call of a built-in server.
    pub(crate) fn lazy_desk(&self) -> Arc<LazyDesk> {
        Arc::clone(&self.desk)
    }

    /// The registry and the settings file as one, as the gate sees them.
    pub(crate) fn effective(&self) -> Result<Effective> {
        Ok(Effective::merge_closed(self.registry.snapshot()?, Arc::clone(&self.settings)))
    }

    pub(crate) fn servers(&self) -> Result<Vec<Server>> {
        Ok(self.effective()?.servers.into_values().collect())
    }

    pub(crate) fn policies(&self) -> Result<Vec<PolicyText>> {
        Ok(self.effective()?.policies.into_values().collect())
    }

    /// The rules that a built-in server brings along, where they count: on a grant of the registry
    /// that names none. In the settings file `false` says that there shall be none.
    pub(crate) fn own_policy(&self, grant: &Grant, server: &str) -> Result<Option<PolicyText>> {
        let named = grant.holding(server).is_none_or(|holding| holding.policy.is_some());
        if named || grant.origin == Origin::File {
            return Ok(None);
        }
        let servers = self.servers()?;
        let target = servers.into_iter().find(|known| known.name == server).map(|s| s.target);
        Ok(match target {
            Some(Target::Builtin { service }) => {
                connectors::service(&service).and_then(gateway::own_policy)
            }
            _ => None,
        })
    }

    /// The live grant of a label, wherever it stands.
    pub(crate) fn grant(&self, label: &str) -> Result<Grant> {
        match self.settings.grants.get(label) {
            Some(grant) => Ok(grant.clone()),
            None => Ok(self.registry.grant(label)?),
        }
    }

    /// The policy text in force under a name.
    pub(crate) fn policy(&self, name: &str) -> Result<PolicyText> {
        match self.settings.policies.get(name) {
            Some(policy) => Ok(policy.clone()),
            None => Ok(self.registry.policy(name)?),
        }
    }

    pub(crate) fn ledger(&self) -> Result<&Arc<Ledger>> {
        // Letting old rows go is the running gate's work, not that of every command.
        self.ledger_with(Retention::default())
    }

    /// The ledger as a gate opens it: it also lets old rows go.
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
        let ledger = Ledger::open(&self.home.audit(), self.clock.clone(), options)?;
        // Not before there is a seal: a kill in between must not look like a seal that was removed.
        if is_sealed && !was_sealed {
            self.registry.log_was_sealed(self.now_us())?;
        }
        let missed = self.missed_in(&ledger)?;
        // Before anything of this command: what one that was killed changed is a row, too.
        self.registry.record_acts(&ledger, self.now_us())?;
        self.tell_of_loss(missed, &ledger)?;
        Ok(self.ledger.get_or_init(|| Arc::new(ledger)))
    }
}
