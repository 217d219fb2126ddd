//! What a bundle runs: its command with the variables of the format replaced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use store::registry::{Credential, EnvValue, Target};

use super::Manifest;
use super::config::ConfigValue;
use super::manifest::ServerKind;
use super::unpack::plain_path;

/// The folders that a manifest can name.
#[derive(Clone, Debug)]
pub(crate) struct BundlePaths {
    /// Where the bundle is unpacked.
    pub(crate) folder: PathBuf,
    pub(crate) home: PathBuf,
}

impl BundlePaths {
    fn known(&self, name: &str) -> Option<String> {
        let in_home = |name: &str| self.home.join(name).display().to_string();
        Some(match name {
            "__dirname" => self.folder.display().to_string(),
            "HOME" => self.home.display().to_string(),
            "DESKTOP" => in_home("Desktop"),
            "DOCUMENTS" => in_home("Documents"),
            "DOWNLOADS" => in_home("Downloads"),
            "pathSeparator" | "/" => std::path::MAIN_SEPARATOR.to_string(),
            _ => return None,
        })
    }

    /// A text without settings.
    pub(crate) fn filled(&self, text: &str) -> Result<String> {
        replaced(text, &|name| self.known(name))
    }
}

/// Replaces `${name}` once; values are not read again.
fn replaced(text: &str, value_of: &dyn Fn(&str) -> Option<String>) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else {
            bail!("`${{` has no end in the manifest");
        };
        let Some(value) = value_of(name) else {
            bail!("the manifest uses `${{{}}}`, which has no value", crate::output::visible(name));
        };
        out.push_str(before);
        out.push_str(&value);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// What the gate will run.
pub(crate) fn target(
    manifest: &Manifest,
    values: &BTreeMap<String, ConfigValue>,
    paths: &BundlePaths,
) -> Result<Target> {
    let mut argv = vec![program(manifest, paths)?];
    let mut secret_args = Vec::new();
    for word in arguments_of(manifest, paths) {
        argument(&word, manifest, values, paths, &mut argv, &mut secret_args)?;
    }
    let env = environment(manifest, values, paths)?;
    let cwd = Some(paths.folder.clone());
    Ok(Target::Command { argv, env, cwd, secret_args })
}

/// The program, in the bundle or on this machine.
fn program(manifest: &Manifest, paths: &BundlePaths) -> Result<String> {
    let Some(command) = &manifest.command else {
        return Ok(match manifest.kind {
            ServerKind::Node => "node".to_owned(),
            ServerKind::Python => "python3".to_owned(),
            ServerKind::Uv => "uv".to_owned(),
            ServerKind::Binary => inside(&manifest.entry_point, &paths.folder)?,
        });
    };
    let command = paths.filled(command)?;
    if command.contains('/') && !command.starts_with('/') {
        return inside(&command, &paths.folder);
    }
    // `python` is on few systems, `python3` on all that have one.
    Ok(if command == "python" { "python3".to_owned() } else { command })
}

fn inside(path: &str, folder: &Path) -> Result<String> {
    Ok(folder.join(plain_path(path)?).display().to_string())
}

/// The arguments as the manifest has them, or those that its type implies.
fn arguments_of(manifest: &Manifest, paths: &BundlePaths) -> Vec<String> {
    let entry = format!("${{__dirname}}/{}", manifest.entry_point);
    match (&manifest.command, manifest.kind) {
        (Some(_), _) => manifest.args.clone(),
        (None, ServerKind::Node | ServerKind::Python) => vec![entry],
        (None, ServerKind::Uv) => {
            let folder = paths.folder.display().to_string();
            vec!["run".to_owned(), "--directory".to_owned(), folder, manifest.entry_point.clone()]
        }
        (None, ServerKind::Binary) => Vec::new(),
    }
}

fn argument(
    word: &str,
    manifest: &Manifest,
    values: &BTreeMap<String, ConfigValue>,
    paths: &BundlePaths,
    argv: &mut Vec<String>,
    secret_args: &mut Vec<(usize, Credential)>,
) -> Result<()> {
    // A setting that is a whole argument may be several arguments, or a secret.
    let whole = word.strip_prefix("${user_config.").and_then(|rest| rest.strip_suffix('}'));
    match whole.map(|key| (manifest.settings.get(key), values.get(key))) {
        Some((Some(_), Some(ConfigValue::Plain(several)))) => argv.extend(several.iter().cloned()),
        Some((Some(_), Some(ConfigValue::Hidden(secret)))) => {
            secret_args.push((argv.len(), Credential::Held(secret.clone())));
            argv.push("[secret]".to_owned());
        }
        // Not set and not required.
        Some((Some(_), None)) => {}
        _ => argv.push(replaced(word, &|name| plain_value(name, manifest, values, paths))?),
    }
    Ok(())
}

/// The value of a variable that may be part of a text: a secret may not.
fn plain_value(
    name: &str,
    manifest: &Manifest,
    values: &BTreeMap<String, ConfigValue>,
    paths: &BundlePaths,
) -> Option<String> {
    let Some(key) = name.strip_prefix("user_config.") else { return paths.known(name) };
    manifest.settings.get(key)?;
    match values.get(key) {
        Some(ConfigValue::Plain(several)) => Some(several.join(",")),
        Some(ConfigValue::Hidden(_)) => None,
        None => Some(String::new()),
    }
}

fn environment(
    manifest: &Manifest,
    values: &BTreeMap<String, ConfigValue>,
    paths: &BundlePaths,
) -> Result<Vec<(String, EnvValue)>> {
    let mut env = Vec::new();
    for (name, text) in &manifest.env {
        let hidden = |key: &str| match values.get(key) {
            Some(ConfigValue::Hidden(secret)) => Some(secret.expose().clone()),
            _ => None,
        };
        let mut is_secret = false;
        for (key, setting) in &manifest.settings {
            is_secret |= setting.sensitive && text.contains(&format!("${{user_config.{key}}}"));
        }
        let value = replaced(text, &|name| {
            let secret = name.strip_prefix("user_config.").and_then(hidden);
            secret.or_else(|| plain_value(name, manifest, values, paths))
        })?;
        if value.is_empty() && text.contains("${user_config.") {
            continue;
        }
        env.push((
            name.clone(),
            if is_secret {
                EnvValue::Hidden(Credential::Held(store::secret::Secret::new(value)))
            } else {
                EnvValue::Plain(value)
            },
        ));
    }
    Ok(env)
}
