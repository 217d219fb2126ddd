//! A home in a temporary folder with an open registry, and helpers to fill it.
#![allow(clippy::unwrap_used, dead_code, reason = "each test file uses a part of it")]

use std::path::Path;
use std::sync::Arc;

use policy::Format;
use policy::json::{Bounds, Doc, Value};
use store::effective::Effective;
use store::home::Home;
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

pub(crate) struct Fixture {
    pub(crate) home: Home,
    pub(crate) registry: Registry,
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::create(&folder.path().join("home")).unwrap();
        let registry = open(&home).unwrap();
        Fixture { home, registry, folder }
    }

    /// A home whose files were put there by hand.
    pub(crate) fn on(home: Home, folder: tempfile::TempDir) -> Fixture {
        let registry = open(&home).unwrap();
        Fixture { home, registry, folder }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Another process on the same home, as far as SQLite can tell.
    pub(crate) fn second(&self) -> Registry {
        open(&self.home).unwrap()
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
