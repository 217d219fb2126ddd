//! The manifest of a bundle: versions 0.1 to 0.4 of the MCPB format, as far as running the server needs it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;

const VERSIONS: [&str; 4] = ["0.1", "0.2", "0.3", "0.4"];
const SETTINGS_MAX: usize = 100;

#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) version: String,
    pub(crate) author: String,
    pub(crate) kind: ServerKind,
    pub(crate) entry_point: String,
    pub(crate) command: Option<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) settings: BTreeMap<String, Setting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServerKind {
    Node,
    Python,
    Binary,
    Uv,
}

/// A value that the owner gives.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Setting {
    #[serde(rename = "type")]
    pub(crate) kind: SettingKind,
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) required: bool,
    #[serde(default)]
    pub(crate) sensitive: bool,
    #[serde(default)]
    pub(crate) multiple: bool,
    pub(crate) default: Option<Value>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SettingKind {
    String,
    Number,
    Boolean,
    Directory,
    File,
}

#[derive(Deserialize)]
struct RawManifest {
    #[serde(alias = "dxt_version")]
    manifest_version: String,
    name: String,
    display_name: Option<String>,
    version: String,
    author: RawAuthor,
    server: RawServer,
    #[serde(default)]
    user_config: BTreeMap<String, Setting>,
    #[serde(default)]
    compatibility: RawCompatibility,
}

#[derive(Deserialize)]
struct RawAuthor {
    name: String,
}

#[derive(Deserialize)]
struct RawServer {
    #[serde(rename = "type")]
    kind: ServerKind,
    entry_point: String,
    mcp_config: Option<RawLaunch>,
}

#[derive(Deserialize)]
struct RawLaunch {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    platform_overrides: BTreeMap<String, RawLaunch>,
}

#[derive(Default, Deserialize)]
struct RawCompatibility {
    platforms: Option<Vec<String>>,
}

impl Manifest {
    pub(crate) fn read(text: &str) -> Result<Manifest> {
        let raw: RawManifest =
            serde_json::from_str(text).context("it does not match the format")?;
        if !VERSIONS.contains(&raw.manifest_version.as_str()) {
            bail!(
                "its version is `{}`\nhint: tollgate reads {}",
                crate::output::visible(&raw.manifest_version),
                VERSIONS.join(", ")
            );
        }
        let here = platform();
        if let Some(known) = &raw.compatibility.platforms
            && !known.iter().any(|one| one == here)
        {
            bail!("it is for {}, and this is `{here}`", known.join(", "));
        }
        if raw.user_config.len() > SETTINGS_MAX {
            bail!("it has more than {SETTINGS_MAX} settings");
        }
        let is_key = |key: &String| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
            !key.is_empty() && key.bytes().all(plain)
        };
        if let Some(key) = raw.user_config.keys().find(|key| !is_key(key)) {
            bail!("the setting `{}` has an odd name", crate::output::visible(key));
        }
        let launch = raw.server.mcp_config.map(|launch| launch.on(here));
        let (command, args, env) = launch.unwrap_or_default();
        Ok(Manifest {
            title: raw.display_name.unwrap_or_else(|| raw.name.clone()),
            name: raw.name,
            version: raw.version,
            author: raw.author.name,
            kind: raw.server.kind,
            entry_point: raw.server.entry_point,
            command,
            args,
            env,
            settings: raw.user_config,
        })
    }

    pub(crate) fn is_binary(&self) -> bool {
        self.kind == ServerKind::Binary
    }

    /// A name for the server, from the name of the bundle.
    pub(crate) fn server_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.name.chars().take(40).map(plain).collect();
        name.trim_matches('-').to_owned()
    }
}

impl RawLaunch {
    /// With what differs on this system.
    fn on(mut self, platform: &str) -> (Option<String>, Vec<String>, BTreeMap<String, String>) {
        let mut env = self.env.unwrap_or_default();
        if let Some(own) = self.platform_overrides.remove(platform) {
            self.command = own.command.or(self.command);
            self.args = own.args.or(self.args);
            env.extend(own.env.unwrap_or_default());
        }
        (self.command, self.args.unwrap_or_default(), env)
    }
}

/// As Node names this system.
fn platform() -> &'static str {
    match platform::SYSTEM {
        platform::System::MacOs => "darwin",
        platform::System::Windows => "win32",
        platform::System::Linux => "linux",
    }
}
