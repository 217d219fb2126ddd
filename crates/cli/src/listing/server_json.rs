//! The registry's `server.json`: which package starts a server, or where it is.

use std::borrow::Cow;

use anyhow::{Result, bail};
use policy::json::{Kind, Value};
use store::registry::{Credential, EnvValue, Target};
use store::secret::Secret;

use super::saved::member;

/// The server in a file, bare or wrapped as the registry does it.
pub(super) fn find(value: Value<'_>) -> Option<Value<'_>> {
    let inner = member(value, "server");
    [Some(value), inner].into_iter().flatten().find(|found| is(*found))
}

pub(super) fn is(value: Value<'_>) -> bool {
    let list = |key: &str| member(value, key).is_some_and(|list| list.kind() == Kind::Array);
    list("packages") || list("remotes")
}

/// `io.github.someone/weather` is called `weather`.
pub(super) fn name(server: Value<'_>, stem: &str) -> String {
    let name = text(server, "name").unwrap_or_else(|| stem.to_owned());
    name.rsplit('/').next().unwrap_or(&name).to_owned()
}

/// The command that starts the server, or its address.
pub(super) fn target(server: Value<'_>) -> Result<Target> {
    if let Some(package) = items(server, &["packages"]).find(|package| is_stdio(*package)) {
        return package_target(package);
    }
    let mut remotes = items(server, &["remotes"]);
    match remotes.find_map(|remote| Some((remote, text(remote, "url")?))) {
        Some((remote, url)) => Ok(Target::from_url(&url, headers(remote), false)?),
        None => bail!("it names neither a package that runs here nor an address"),
    }
}

fn text(value: Value<'_>, key: &str) -> Option<String> {
    member(value, key).and_then(Value::as_str).map(Cow::into_owned)
}

/// The items of the first of these members that exists.
fn items<'d>(value: Value<'d>, keys: &[&str]) -> impl Iterator<Item = Value<'d>> {
    let list = keys.iter().find_map(|key| member(value, key));
    list.filter(|list| list.kind() == Kind::Array).into_iter().flat_map(Value::items)
}

fn is_stdio(package: Value<'_>) -> bool {
    let kind = member(package, "transport").and_then(|transport| text(transport, "type"));
    kind.is_none_or(|kind| kind == "stdio")
}

fn package_target(package: Value<'_>) -> Result<Target> {
    let first =
        |keys: [&str; 2]| keys.iter().find_map(|key| text(package, key)).unwrap_or_default();
    let kind = first(["registryType", "registry_name"]);
    let name = first(["identifier", "name"]);
    let version = text(package, "version").unwrap_or_default();
    if name.is_empty() || name.starts_with('-') {
        bail!("the package of the `server.json` has no usable name");
    }
    let runtime = items(package, &["runtimeArguments", "runtime_arguments"]);
    let runtime = arguments(runtime);
    let mut argv: Vec<String> = match kind.as_str() {
        "npm" => runner_argv("npx", &["-y"], runtime, versioned(&name, "@", &version)),
        "pypi" => runner_argv("uvx", &[], runtime, versioned(&name, "==", &version)),
        "oci" => runner_argv("docker", &["run", "-i", "--rm"], runtime, name),
        other => bail!(
            "packages of kind `{other}` cannot be started\nhint: start it yourself: `tollgate scan -- COMMAND`"
        ),
    };
    argv.extend(arguments(items(package, &["packageArguments", "package_arguments"])));
    Ok(Target::Command { argv, env: variables(package), cwd: None, secret_args: Vec::new() })
}

/// The package runner, its arguments without duplicates, and the package.
fn runner_argv(program: &str, usual: &[&str], more: Vec<String>, package: String) -> Vec<String> {
    let usual = usual.iter().map(|word| (*word).to_owned());
    let mut argv: Vec<String> = std::iter::once(program.to_owned()).chain(usual).collect();
    for word in more {
        if !(word.starts_with('-') && argv.contains(&word)) {
            argv.push(word);
        }
    }
    argv.push(package);
    argv
}

fn versioned(name: &str, mark: &str, version: &str) -> String {
    if version.is_empty() { name.to_owned() } else { format!("{name}{mark}{version}") }
}

/// Arguments with a value in the file; the user fills in the rest.
fn arguments<'d>(list: impl Iterator<Item = Value<'d>>) -> Vec<String> {
    let mut out = Vec::new();
    for argument in list {
        let value = text(argument, "value").or_else(|| text(argument, "default"));
        match (text(argument, "type").as_deref(), text(argument, "name"), value) {
            (Some("named"), Some(name), value) => {
                out.push(name);
                out.extend(value);
            }
            (_, _, Some(value)) => out.push(value),
            _ => {}
        }
    }
    out
}

/// Headers with a value in the file.
fn headers(remote: Value<'_>) -> Vec<(String, Credential)> {
    let given = items(remote, &["headers"]).filter_map(|header| {
        let value = text(header, "value").filter(|value| !value.is_empty())?;
        Some((text(header, "name")?, Credential::Held(Secret::new(value))))
    });
    given.collect()
}

fn variables(package: Value<'_>) -> Vec<(String, EnvValue)> {
    let list = items(package, &["environmentVariables", "environment_variables"]);
    list.filter_map(|variable| {
        let value = text(variable, "value").or_else(|| text(variable, "default"))?;
        Some((text(variable, "name")?, EnvValue::Plain(value)))
    })
    .collect()
}
