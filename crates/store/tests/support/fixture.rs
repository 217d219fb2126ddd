//! A home in a temporary folder with an open registry, and helpers to fill it. In the test binary
//! `registry_postgres` the same tests run on a registry that two homes share on Postgres.
#![allow(clippy::unwrap_used, dead_code, reason = "each test file uses a part of it")]

#[path = "postgres.rs"]
mod postgres;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::Format;
use policy::json::{Bounds, Doc, Value};
use store::effective::Effective;
use store::home::Home;
use store::postgres::Address;
use store::random::Random;
use store::registry::{
    Credential, FileNames, Grant, NewGrant, NewServer, PinReport, Registry, RegistryError,
    ServerAccess, ServerOptions, Target, Token,
};
use store::secret::Secret;
use store::settings::Settings;
use store::vault::{Vault, run_no_program};

pub(crate) const NOW_US: i64 = 1_800_000_000_000_000;
pub(crate) const SECOND_US: i64 = 1_000_000;
pub(crate) const ALLOW_ALL: &str = r#"{"version":"1","default":"allow"}"#;
pub(crate) const DENY_ALL: &str = r#"{"version":"1","default":"deny"}"#;

/// Whether this binary has the tests on Postgres.
const ON_POSTGRES: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"registry_postgres");

/// What of a registry is on Postgres.
const TABLES: [&str; 3] = ["registry_state", "registry_rows", "registry_changes"];

pub(crate) struct Fixture {
    pub(crate) home: Home,
    pub(crate) registry: Registry,
    store: Option<Store>,
    folder: tempfile::TempDir,
}

struct Store {
    address: Address,
    schema: String,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::create(&folder.path().join("home")).unwrap();
        let store = ON_POSTGRES.then(|| {
            let schema = postgres::Server::shared().new_schema();
            let address = postgres::Server::shared().address(&schema);
            Store { address: Address::parse(&address, None).unwrap(), schema }
        });
        let registry = open_at(&home, store.as_ref()).unwrap();
        Fixture { home, registry, store, folder }
    }

    /// On a server of this test alone.
    pub(crate) fn on_private_server() -> (postgres::Server, Fixture) {
        let server = postgres::Server::private();
        let folder = tempfile::tempdir().unwrap();
        let home = Home::create(&folder.path().join("home")).unwrap();
        let schema = server.new_schema();
        let address = Address::parse(&server.address(&schema), None).unwrap();
        let store = Some(Store { address, schema });
        let registry = open_at(&home, store.as_ref()).unwrap();
        (server, Fixture { home, registry, store, folder })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.store.as_ref().unwrap().address
    }

    /// On the shared server.
    pub(crate) fn sql(&self, text: &str) -> String {
        self.store.as_ref().unwrap().sql(text)
    }

    /// A home whose files were put there by hand.
    pub(crate) fn on(home: Home, folder: tempfile::TempDir) -> Fixture {
        let registry = open(&home).unwrap();
        Fixture { home, registry, store: None, folder }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Another process on the same home, as far as SQLite can tell; or another machine on the same
    /// store.
    pub(crate) fn second(&self) -> Registry {
        let Some(store) = &self.store else { return open(&self.home).unwrap() };
        let home = Home::create(&self.path("second")).unwrap();
        fs::copy(self.home.vault_key(), home.vault_key()).unwrap();
        open_at(&home, Some(store)).unwrap()
    }

    /// Opens the same registry again.
    pub(crate) fn again(&self) -> Registry {
        open_at(&self.home, self.store.as_ref()).unwrap()
    }

    /// The file that is read.
    pub(crate) fn db(&self) -> PathBuf {
        if self.store.is_none() {
            return self.home.gate_db();
        }
        let entries = fs::read_dir(self.home.path().join("replicas")).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths.find(|path| path.extension().is_some_and(|end| end == "db")).unwrap()
    }

    /// Keeps the registry as it is now.
    pub(crate) fn save(&self) {
        if let Some(store) = &self.store {
            for table in TABLES {
                store.sql(&format!("CREATE TABLE saved_{table} AS SELECT * FROM {table}"));
            }
            return;
        }
        fs::create_dir(self.path("saved")).unwrap();
        for end in ["db", "db-wal"] {
            let saved = self.path("saved").join(end);
            fs::copy(self.home.gate_db().with_extension(end), saved).unwrap();
        }
    }

    /// Puts back what was saved, and opens it.
    pub(crate) fn restore(self) -> Fixture {
        let Fixture { home, registry, store, folder } = self;
        drop(registry);
        if let Some(store) = &store {
            for table in TABLES {
                let insert = format!("INSERT INTO {table} SELECT * FROM saved_{table}");
                store.sql(&format!("DELETE FROM {table}; {insert}"));
            }
        } else {
            for end in ["db", "db-wal"] {
                let saved = folder.path().join("saved").join(end);
                fs::copy(saved, home.gate_db().with_extension(end)).unwrap();
            }
            let _ = fs::remove_file(home.gate_db().with_extension("db-shm"));
        }
        let registry = open_at(&home, store.as_ref()).unwrap();
        Fixture { home, registry, store, folder }
    }

    /// Changes the stored captures behind the back of the gate.
    pub(crate) fn change_captures(&self, text: &str) {
        if let Some(store) = &self.store {
            store.sql(text);
            return;
        }
        let path = self.home.path().join("captures.db");
        rusqlite::Connection::open(path).unwrap().execute(text, []).unwrap();
    }

    /// Every byte of the home and of the store.
    pub(crate) fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = bytes_of(self.home.path());
        if let Some(store) = &self.store {
            for table in TABLES {
                let rows = store.sql(&format!("SELECT * FROM {table}"));
                assert!(!rows.is_empty(), "{table}");
                all.push((table.into(), rows.into_bytes()));
            }
            let captures = "SELECT server, digest, encode(sealed, 'escape') FROM captures";
            all.push(("captures".into(), store.sql(captures).into_bytes()));
        }
        all
    }

    /// Closes the registry and keeps the files.
    pub(crate) fn into_folder(self) -> tempfile::TempDir {
        self.folder
    }

    pub(crate) fn effective(&self) -> Effective {
        Effective::merge(self.registry.snapshot().unwrap(), Arc::new(Settings::default())).unwrap()
    }

    pub(crate) fn add_builtin(&self, name: &str) {
        let target = Target::Builtin { service: "demo".into() };
        self.add(name, target).unwrap();
    }

    pub(crate) fn add(&self, name: &str, target: Target) -> Result<(), RegistryError> {
        let new = NewServer { name: name.into(), target, options: ServerOptions::default() };
        self.registry.add_server(&new, &FileNames::default(), NOW_US)
    }

    pub(crate) fn put_policy(&self, name: &str, source: &str) -> Result<u64, RegistryError> {
        let names = FileNames::default();
        let put = self.registry.put_policy(name, source, Format::Json, "test", &names, NOW_US);
        put.map(|text| text.version)
    }

    pub(crate) fn grant(
        &self,
        label: &str,
        server_access: &[(&str, Option<&str>)],
    ) -> (Grant, Token) {
        self.try_grant(label, server_access, None).unwrap()
    }

    pub(crate) fn try_grant(
        &self,
        label: &str,
        server_access: &[(&str, Option<&str>)],
        expires_at_us: Option<i64>,
    ) -> Result<(Grant, Token), RegistryError> {
        let new = NewGrant {
            label: label.into(),
            server_access: holdings_of(server_access),
            expires_at_us,
        };
        self.registry.create_grant(&new, &FileNames::default(), NOW_US)
    }

    /// Shows the registry a list of tools, as JSON text.
    pub(crate) fn observe(&self, server: &str, tools: &str) -> Result<PinReport, RegistryError> {
        self.observe_by(server, "", tools)
    }

    /// The same for clients with these capabilities.
    pub(crate) fn observe_by(
        &self,
        server: &str,
        capabilities: &str,
        tools: &str,
    ) -> Result<PinReport, RegistryError> {
        let doc = Doc::read(tools.as_bytes(), &Bounds::ANSWER).unwrap();
        let tools: Vec<Value<'_>> = doc.root().items().collect();
        self.registry.observe(server, capabilities, &tools, NOW_US)
    }
}

pub(crate) fn open(home: &Home) -> Result<Registry, RegistryError> {
    let vault = Vault::open_home(home, &Random::System, run_no_program).unwrap();
    Registry::open(home, Arc::new(vault), Random::System)
}

impl Store {
    fn sql(&self, text: &str) -> String {
        postgres::Server::shared().sql(&format!("SET search_path = {}; {text}", self.schema))
    }
}

fn open_at(home: &Home, store: Option<&Store>) -> Result<Registry, RegistryError> {
    let Some(store) = store else { return open(home) };
    let vault = Vault::open_home(home, &Random::System, run_no_program).unwrap();
    Registry::open_on(home, &store.address, Arc::new(vault), Random::System)
}

pub(crate) fn holdings_of(server_access: &[(&str, Option<&str>)]) -> Vec<ServerAccess> {
    let access = |(server, policy): &(&str, Option<&str>)| ServerAccess {
        server: (*server).into(),
        policy: policy.map(Into::into),
    };
    server_access.iter().map(access).collect()
}

pub(crate) fn held(secret: &str) -> Credential {
    Credential::Held(Secret::new(secret))
}

/// Every byte of every file of a home, by path.
pub(crate) fn bytes_of(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(bytes_of(&path));
        } else {
            all.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}
