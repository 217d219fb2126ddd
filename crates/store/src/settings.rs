//! `tollgate.toml`, the configuration that people keep in git. The whole file is read and checked,
//! with every value it refers to, before any of it takes effect; a broken file changes nothing.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use oauth::server::Issuer;
use toml::de::DeTable;

use crate::ledger::{Durability, Retention};
use crate::registry::{FileNames, Grant, ObjectKind, PolicyText, Server};

mod gate;
mod grant;
pub mod limits;
mod notice_rule;
pub mod oidc;
mod policy;
pub mod problem;
pub mod reference;
mod section;
mod server;
pub mod service;

pub use limits::{LimitRow, Limits};
pub use notice_rule::{NoticeRule, RuleSide};
pub use oidc::OidcSettings;
pub use problem::{Problem, SettingsError};
pub use service::ServiceSettings;

use problem::Problems;
use reference::ExternalValues;
use section::Section;

/// A larger file is rejected unread.
pub const SETTINGS_BYTES_MAX: usize = 1 << 20;
/// The default listen address.
pub const LISTEN_DEFAULT: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), LISTEN_PORT_DEFAULT);
pub const LISTEN_PORT_DEFAULT: u16 = 4180;
pub const HOSTNAMES_MAX: usize = 64;
pub const RETENTION_DAYS_MAX: u64 = 36_500;
pub const RETENTION_BYTES_MIN: u64 = 1 << 20;

/// The keys at the top level of the file.
pub const KEYS: &[&str] = &[
    "listen",
    "hostnames",
    "public_url",
    "public_dashboard",
    "tls_cert_file",
    "tls_key_file",
    "durability",
    "time_zone",
    "units",
    "energy",
    "otel_endpoint",
    "retention",
    "limits",
    "log",
    "servers",
    "policies",
    "grants",
    "services",
    "oidc",
];

/// A valid settings file.
#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Host names besides loopback under which the gate may be addressed.
    pub hostnames: Vec<String>,
    /// The origin under which clients on other machines reach the gate.
    pub public_url: Option<Issuer>,
    /// Whether the dashboard is served under the public URL, too.
    pub public_dashboard: bool,
    pub tls: Option<TlsFiles>,
    pub durability: Durability,
    /// How long audit rows are kept; for ever if unset.
    pub retention: Retention,
    pub limits: Limits,
    pub log: Log,
    pub otel_endpoint: Option<String>,
    /// For rules about hours and weekdays; `None` means the machine's zone.
    pub time_zone: Option<String>,
    /// What pages and reports show values in.
    pub shown_in: ShownIn,
    pub servers: BTreeMap<String, Server>,
    pub policies: BTreeMap<String, PolicyText>,
    pub grants: BTreeMap<String, Grant>,
    /// The owner's own accounts.
    pub services: BTreeMap<String, ServiceSettings>,
    /// Where people of a team sign in to the dashboard.
    pub oidc: Option<OidcSettings>,
    /// Files that this one refers to, as written; a change of one of them is a change of settings.
    pub files: Vec<PathBuf>,
    lines: BTreeMap<(&'static str, String), usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// The units of values for people. Stored and exported values do not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShownIn {
    /// Miles, pounds and degrees Fahrenheit.
    pub imperial: bool,
    /// Kilojoules instead of kilocalories.
    pub kilojoules: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub format: LogFormat,
    pub level: LogLevel,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Human,
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub const ALL: [LogLevel; 5] =
        [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];

    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: LISTEN_DEFAULT,
            hostnames: Vec::new(),
            public_url: None,
            public_dashboard: false,
            tls: None,
            durability: Durability::default(),
            retention: Retention::default(),
            limits: Limits::default(),
            log: Log::default(),
            otel_endpoint: None,
            time_zone: None,
            shown_in: ShownIn::default(),
            servers: BTreeMap::new(),
            policies: BTreeMap::new(),
            grants: BTreeMap::new(),
            services: BTreeMap::new(),
            oidc: None,
            files: Vec::new(),
            lines: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Reads a whole file. `resolve_env` and `read_file` fetch the values it refers to; relative
    /// paths are passed on as written.
    pub fn load(
        text: &str,
        resolve_env: &dyn Fn(&str) -> Option<String>,
        read_file: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<Settings, SettingsError> {
        let mut problems = Problems::new(text);
        let mut outside = ExternalValues { resolve_env, read_file, files: Vec::new() };
        let settings = read(text, &mut outside, &mut problems);
        problems.into_result()?;
        Ok(Settings { files: outside.files, ..settings })
    }

    /// The names that the file defines.
    pub fn names(&self) -> FileNames {
        FileNames {
            servers: self.servers.keys().cloned().collect(),
            policies: self.policies.keys().cloned().collect(),
            grants: self.grants.keys().cloned().collect(),
        }
    }

    /// The settings of a service; the defaults if the file has none.
    pub fn service(&self, name: &str) -> ServiceSettings {
        self.services.get(name).cloned().unwrap_or_default()
    }

    fn note(&mut self, kind: ObjectKind, name: &str, line: usize) {
        self.lines.insert((kind.as_str(), name.to_owned()), line);
    }

    /// The line on which an object is defined.
    pub fn line_of(&self, kind: ObjectKind, name: &str) -> Option<usize> {
        self.lines.get(&(kind.as_str(), name.to_owned())).copied()
    }
}

fn read(text: &str, outside: &mut ExternalValues<'_>, problems: &mut Problems<'_>) -> Settings {
    let mut settings = Settings::default();
    if text.len() > SETTINGS_BYTES_MAX {
        problems.add(&(0..0), format!("the file is larger than {SETTINGS_BYTES_MAX} bytes"));
        return settings;
    }
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(e) => {
            problems.add(&e.span().unwrap_or(0..0), format!("not TOML: {}", e.message()));
            return settings;
        }
    };
    let root = Section::root(&table, KEYS, problems);
    gate::read(&root, &mut settings, problems);
    read_objects(&root, &mut settings, outside, problems);
    settings
}

fn read_objects(
    root: &Section<'_>,
    settings: &mut Settings,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) {
    for entry in root.entries("servers", problems) {
        settings.note(ObjectKind::Server, entry.name, problems.line_of(&entry.name_span));
        let server = server::read(&entry, outside, problems);
        settings.servers.extend(server.map(|server| (server.name.clone(), server)));
    }
    for entry in root.entries("policies", problems) {
        settings.note(ObjectKind::Policy, entry.name, problems.line_of(&entry.name_span));
        let policy = policy::read(&entry, outside, problems);
        settings.policies.extend(policy.map(|policy| (policy.name.clone(), policy)));
    }
    for entry in root.entries("grants", problems) {
        settings.note(ObjectKind::Grant, entry.name, problems.line_of(&entry.name_span));
        let grant = grant::read(&entry, outside, problems);
        settings.grants.extend(grant.map(|grant| (grant.label.clone(), grant)));
    }
    for entry in root.entries("services", problems) {
        let service = service::read(&entry, outside, problems);
        settings.services.extend(service.map(|service| (entry.name.to_owned(), service)));
    }
    settings.oidc = oidc::read(root, outside, problems);
}
