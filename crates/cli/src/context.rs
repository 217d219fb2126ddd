//! The context of every command: home, settings file, clock and randomness. Opens the stores. The
//! environment is read here and nowhere deeper.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use connectors::LazyContext;
use connectors::server_login::ServerLogins;
use connectors::{ConnectorContext, VaultLocked};
use store::accounts::Accounts;
use store::clock::Clock;
use store::effective::Effective;
use store::files;
use store::home::Home;
use store::ledger::{Ledger, Reader};
use store::logins::Logins;
use store::postgres::Address;
use store::random::Random;
use store::registry::{FileNames, Grant, Origin, PolicyText, Registry, Server, Target};
use store::settings::Settings;
use store::vault::{RunProgram, Vault, run_no_program};

use crate::output::Out;
use crate::services::{self, VariableLookup};

mod global;
mod helper;
mod key;
mod record;
mod store_option;
mod zone;

pub(crate) use global::Global;
pub(crate) use helper::{HOPS_OPTION, REFRESH_WORD};
pub(crate) use key::is_about_the_key;
use store_option::StoreOption;
pub(crate) use zone::owners_zone;

/// The folder below which agents may export; an absolute path.
const EXPORTS_VARIABLE: &str = "TOLLGATE_EXPORTS";
/// Marks a home with demo accounts, so that no command contacts a real service from it.
pub(crate) const DEMONSTRATION: &str = "demonstration";
/// Addresses of the demo services as JSON, while the demo runs.
pub(crate) const DEMONSTRATION_SERVICES: &str = "demonstration_services";
/// The default of `--home`.
pub(crate) const OUR_HOME_VARIABLE: &str = "TOLLGATE_HOME";
/// Another variable for the home, for users of another WHOOP server.
const HOME_VARIABLE: &str = "WHOOP_MCP_HOME";

#[derive(Clone)]
pub(crate) struct Context {
    home: Option<PathBuf>,
    config: Option<PathBuf>,
    store: StoreOption,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// Settings of services that override the settings file.
    lookup: VariableLookup,
    /// Whether the lookup was replaced, as by the demo for its sandboxes.
    has_services: bool,
    /// Fetches a vault key that is not in the home.
    pub(crate) ask: RunProgram,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Context {
        Context {
            home: global.home.clone(),
            config: global.config.clone(),
            store: StoreOption::of(global),
            clock: Clock::System,
            random: Random::System,
            lookup: Arc::new(variable),
            has_services: false,
            ask: crate::vault_key::fetch,
        }
    }

    /// The same context with another home, without access to the real one or to a keyring.
    pub(crate) fn with_home(&self, home: PathBuf) -> Context {
        Context {
            home: Some(home),
            config: None,
            store: StoreOption::default(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            lookup: Arc::clone(&self.lookup),
            has_services: self.has_services,
            ask: run_no_program,
        }
    }

    /// The same for the home alone, without the store.
    pub(crate) fn without_store(&self) -> Context {
        Context { store: StoreOption::default(), ..self.clone() }
    }

    /// The same with another lookup for services: the environment does not apply.
    pub(crate) fn with_services(self, lookup: VariableLookup) -> Context {
        Context { lookup, has_services: true, ..self }
    }

    /// `--home`, or the XDG data folder.
    pub(crate) fn home_path(&self) -> Result<PathBuf> {
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        if let Some(home) = folder_variable(HOME_VARIABLE) {
            return Ok(home);
        }
        default_home().ok_or_else(|| {
            let why = platform::environment::DATA_FOLDER_NAMES;
            anyhow!("cannot determine the home of tollgate: {why}\nhint: `--home DIR`")
        })
    }

    /// The home if it was given with `--home` and not by the environment.
    pub(crate) fn home_option(&self) -> Option<&Path> {
        let home = self.home.as_deref()?;
        let by_environment = std::env::var_os(OUR_HOME_VARIABLE).is_some_and(|named| named == home);
        (!by_environment).then_some(home)
    }

    /// The settings file that was given, if any.
    pub(crate) fn named_settings(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The settings file in use: the one that was given, or the one in the home if it exists.
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

    /// Opens the home with its registry; creates both at the first use.
    pub(crate) fn open(&self) -> Result<Stores> {
        self.open_with(self.settings()?)
    }

    /// The same with other settings than those of the file.
    pub(crate) fn open_with(&self, settings: Settings) -> Result<Stores> {
        let home = create_home(&self.home_path()?)?;
        let is_shared = self.store()?.is_some();
        let missing = database_missing(home.path()).filter(|_| !is_shared && has_log(&home));
        if let Some(what) = missing {
            tracing::error!(
                "`gate.db` is {what} although this home was used: servers, policies and grants are gone, and an empty one is created; if you did not remove it, stop and restore a copy"
            );
        }
        let vault = Arc::new(self.open_vault(&home)?);
        let registry = self.open_registry(&home, vault)?;
        let settings = Arc::new(settings);
        let is_demo = registry.value(DEMONSTRATION)?.is_some();
        let lookup = if is_demo && !self.has_services {
            demo_lookup(&registry, &home)?
        } else {
            Arc::clone(&self.lookup)
        };
        let ctx = self.connector_context(&home, &registry, &settings, lookup, is_demo);
        self.stores(home, registry, settings, ctx)
    }

    /// Opens a home without its key, for a server that can report that to its client. Sealed values stay
    /// sealed, and the connector context is locked.
    pub(crate) fn open_locked(&self) -> Result<Stores> {
        let settings = Arc::new(self.settings()?);
        let home = create_home(&self.home_path()?)?;
        let vault = Arc::new(Vault::locked(&self.random)?);
        let registry = self.open_registry(&home, vault)?;
        let ctx = Arc::new(LazyContext::locked(VaultLocked { clock: self.clock.clone() }));
        self.stores(home, registry, settings, ctx)
    }

    fn stores(
        &self,
        home: Home,
        registry: Arc<Registry>,
        settings: Arc<Settings>,
        ctx: Arc<LazyContext>,
    ) -> Result<Stores> {
        let store = Logins::of(&home, &registry, self.random.clone());
        let helper = helper::refresh_helper(home.path(), self.store_argument());
        let (clock, random) = (self.clock.clone(), self.random.clone());
        Ok(Stores {
            logins: Arc::new(ServerLogins::new(store, clock, random, helper)),
            home,
            registry,
            file_names: settings.names(),
            settings,
            clock: self.clock.clone(),
            random: self.random.clone(),
            actor: actor(),
            ledger: OnceCell::new(),
            store: self.store()?,
            ctx,
        })
    }

    /// The context of the connectors. Opens nothing until it is used.
    fn connector_context(
        &self,
        home: &Home,
        registry: &Arc<Registry>,
        settings: &Arc<Settings>,
        lookup: VariableLookup,
        is_demo: bool,
    ) -> Arc<LazyContext> {
        let (home, registry) = (home.clone(), Arc::clone(registry));
        let settings = Arc::clone(settings);
        let (clock, random) = (self.clock.clone(), self.random.clone());
        let helper = helper::refresh_helper(home.path(), self.store_argument());
        Arc::new(LazyContext::new(move || {
            let allowed = services::allowed_exports(&settings);
            let units = services::units(&settings);
            let settings = services::settings(&lookup, &settings).map_err(|e| e.to_string())?;
            let (clock, random) = (clock.clone(), random.clone());
            let accounts = Accounts::of(&home, &registry, random.clone());
            let vault = Arc::clone(registry.vault());
            let mut ctx = ConnectorContext::open(&home, vault, clock, random, settings)
                .map_err(|e| e.to_string())?;
            ctx.accounts = accounts.map_err(|e| e.to_string())?;
            if is_demo {
                ctx.http = ctx.http.loopback_only();
            }
            ctx.set_state(helper.clone());
            ctx.tilde = std::env::var_os("HOME").map(PathBuf::from);
            if let Some(folder) = exports_folder() {
                ctx.exports = folder;
            }
            ctx.exports_allowed = allowed;
            ctx.units = units;
            Ok(ctx)
        }))
    }
}

/// The sandboxes of the demo that runs on this home. Without a running demo no service has an address, so
/// that real services are not contacted.
fn demo_lookup(registry: &Registry, home: &Home) -> Result<VariableLookup> {
    let runs = crate::running::all(home.path()).iter().any(|gate| gate.url.is_some());
    let text = registry.value(DEMONSTRATION_SERVICES)?.filter(|_| runs);
    let services: BTreeMap<String, String> =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(Arc::new(move |name: &str| services.get(name).cloned()))
}

/// The home if neither `--home` nor a variable names one.
pub(crate) fn default_home() -> Option<PathBuf> {
    Some(platform::environment::data_folder(folder_variable)?.join("tollgate"))
}

fn folder_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Creates the home. Refuses the folder of the `whoop-mcp` server with a hint.
fn create_home(path: &Path) -> Result<Home> {
    Home::create(path).map_err(|error| {
        let holds = |name: &str| path.join(name).is_file();
        let is_whoop_mcp = !holds("gate.db") && (holds("whoop.db") || holds("tokens.json"));
        if !is_whoop_mcp {
            return error.into();
        }
        let shown = path.display();
        anyhow!(
            "`{shown}` is the folder of `whoop-mcp`, not a home of tollgate\nhint: unset `{HOME_VARIABLE}`, then `tollgate import whoop-mcp {shown}` imports its login and records"
        )
    })
}

/// The folder for exports of agents, if not in the home.
fn exports_folder() -> Option<PathBuf> {
    std::env::var_os(EXPORTS_VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// How `gate.db` is missing, if it is. An empty file counts as missing.
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

/// The same; calls `note` for each file just before it is read, even if it cannot be read.
pub(crate) fn load_settings_noting(path: &Path, note: &dyn Fn(&Path)) -> Result<Settings> {
    let shown = path.display();
    note(path);
    let text = read_text(path).with_context(|| format!("cannot read settings `{shown}`"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    // A path in the settings file is relative to the folder of the file.
    let read_relative = |file: &Path| {
        let file = folder.join(file);
        note(&file);
        read_text(&file)
    };
    Settings::load(&text, &variable, &read_relative)
        .with_context(|| format!("cannot use settings `{shown}`"))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads a text file that the owner named. Refuses pipes and endless files such as `/dev/zero`.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    const BYTES_MAX: u64 = 8 << 20;
    files::read_text(path, BYTES_MAX)
}

/// The user, for audit rows of the owner's actions.
fn actor() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| variable(name).filter(|v| !v.is_empty()));
    let user = platform::private::this_user().map(|user| format!("uid {user}"));
    let name = name.unwrap_or_else(|| user.unwrap_or_else(|_| "unknown user".to_owned()));
    format!("{name} (cli)")
}

/// An open home.
pub(crate) struct Stores {
    pub(crate) home: Home,
    pub(crate) registry: Arc<Registry>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) file_names: FileNames,
    clock: Clock,
    random: Random,
    actor: String,
    /// Opened by the first command that needs it: reading a policy needs no audit log.
    ledger: OnceCell<Arc<Ledger>>,
    /// Postgres, if the audit log is not in the home.
    store: Option<Address>,
    ctx: Arc<LazyContext>,
    logins: Arc<ServerLogins>,
}

impl Stores {
    pub(crate) fn now_us(&self) -> i64 {
        self.clock.now().wall_us
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn random(&self) -> &Random {
        &self.random
    }

    pub(crate) fn actor(&self) -> &str {
        &self.actor
    }

    /// The environment of the connectors: accounts, records and settings of services.
    pub(crate) fn connector_context(&self) -> Result<Arc<ConnectorContext>> {
        self.ctx.get().map_err(|why| anyhow!(why.to_string()))
    }

    /// The same for a gate, which opens it at the first call of a built-in server.
    pub(crate) fn lazy_context(&self) -> Arc<LazyContext> {
        Arc::clone(&self.ctx)
    }

    /// The logins at servers that want OAuth.
    pub(crate) fn logins(&self) -> Arc<ServerLogins> {
        Arc::clone(&self.logins)
    }

    /// The registry and the settings file merged, as the gate does it.
    pub(crate) fn effective(&self) -> Result<Effective> {
        Ok(Effective::merge_closed(self.registry.snapshot()?, Arc::clone(&self.settings)))
    }

    /// Warns of objects that both sources define: lists leave them out.
    pub(crate) fn warn_of_conflicts(&self, out: &Out) -> Result<()> {
        let effective = self.effective()?;
        effective.problems.iter().filter(|problem| problem.is_error()).for_each(|p| out.warn(p));
        Ok(())
    }

    pub(crate) fn servers(&self) -> Result<Vec<Server>> {
        Ok(self.effective()?.servers.into_values().collect())
    }

    pub(crate) fn policies(&self) -> Result<Vec<PolicyText>> {
        Ok(self.effective()?.policies.into_values().collect())
    }

    /// The built-in policy of a built-in server, if it applies: to a grant of the registry without a
    /// policy. In the settings file, `false` means no policy.
    pub(crate) fn own_policy(&self, grant: &Grant, server: &str) -> Result<Option<PolicyText>> {
        let named = grant.access(server).is_none_or(|access| access.policy.is_some());
        if named || grant.origin == Origin::File {
            return Ok(None);
        }
        let servers = self.servers()?;
        let target = servers.into_iter().find(|known| known.name == server).map(|s| s.target);
        Ok(match target {
            Some(Target::Builtin { service }) => {
                connectors::connector(&service).and_then(gateway::own_policy)
            }
            _ => None,
        })
    }

    /// The live grant with this label, from the settings file or the registry.
    pub(crate) fn grant(&self, label: &str) -> Result<Grant> {
        match self.settings.grants.get(label) {
            Some(grant) => Ok(grant.clone()),
            None => Ok(self.registry.grant(label)?),
        }
    }

    /// The current policy with this name.
    pub(crate) fn policy(&self, name: &str) -> Result<PolicyText> {
        match self.settings.policies.get(name) {
            Some(policy) => Ok(policy.clone()),
            None => Ok(self.registry.policy(name)?),
        }
    }
}
