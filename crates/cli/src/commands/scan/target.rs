//! Resolves the target of a scan: a command, an address, a registered server, or a file.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use store::registry::{Credential, EnvValue, Target, TargetError};

use super::ScanArgs;
use crate::client_files::{GivenServer, given_file};
use crate::context::{Context, Stores};
use crate::credential::SecretArg;
use crate::listing::saved::{self, Saved};
use crate::listing::{Scanned, registered, request, unregistered};
use crate::output::{Out, visible};
use crate::program::find_program;

/// Larger files are refused.
const FILE_BYTES_MAX: u64 = 64 << 20;

pub(super) fn read(args: &ScanArgs, context: &Context, out: &Out) -> Result<Vec<Scanned>> {
    if !args.command.is_empty() {
        let stores = context.open()?;
        let env = environment(&args.env)?;
        let target =
            Target::Command { argv: args.command.clone(), env, cwd: None, secret_args: Vec::new() };
        return Ok(vec![scan_target(&name_of_command(&args.command), target, &stores, context)?]);
    }
    let target = args.target.as_deref().unwrap_or_default();
    if target.starts_with("http://") || target.starts_with("https://") {
        let stores = context.open()?;
        return Ok(vec![scan_target(
            &name_of_url(target),
            address(target, args)?,
            &stores,
            context,
        )?]);
    }
    if Path::new(target).is_file() {
        return file(target, args, context, out);
    }
    let stores = context.open()?;
    registered(target, &stores, context).map(|found| vec![found])
}

fn scan_target(name: &str, target: Target, stores: &Stores, context: &Context) -> Result<Scanned> {
    if let Target::Command { argv, cwd, .. } = &target {
        let program = argv.first().map(String::as_str).unwrap_or_default();
        if find_program(program, cwd.as_deref()).is_none() {
            bail!("there is no program `{program}`\nhint: install it, or give its full path");
        }
    }
    let origin = target.kind().to_owned();
    let server = unregistered(name, target, stores.now_us())?;
    let offer = request(&server, stores, context)?;
    Ok(Scanned { name: name.to_owned(), origin, offer, pins: None })
}

fn file(path: &str, args: &ScanArgs, context: &Context, out: &Out) -> Result<Vec<Scanned>> {
    let size = std::fs::metadata(path).with_context(|| format!("cannot read `{path}`"))?.len();
    if size > FILE_BYTES_MAX {
        bail!(
            "`{path}` is larger than {FILE_BYTES_MAX} bytes\nhint: scan one server's list at a time"
        );
    }
    let text = store::files::read_text(Path::new(path), FILE_BYTES_MAX)
        .with_context(|| format!("cannot read `{path}`"))?;
    let stem = Path::new(path).file_stem().map_or_else(|| path.into(), |s| s.to_string_lossy());
    if Path::new(path).extension().is_some_and(|end| end == "toml") {
        let servers =
            given_file::servers(&text, true).with_context(|| format!("cannot use `{path}`"))?;
        return servers_of_file(path, servers, args, context, out);
    }
    match saved::read(&text, &stem).with_context(|| format!("cannot use `{path}`"))? {
        Saved::Lists(offer) => Ok(vec![Scanned {
            name: args.server.clone().unwrap_or_else(|| stem.into_owned()),
            origin: format!("saved list `{path}`"),
            offer,
            pins: None,
        }]),
        Saved::Servers(servers) => servers_of_file(path, servers, args, context, out),
    }
}

/// Scans each server of a file. One that does not answer is skipped with a warning; if none answers, it is
/// an error.
fn servers_of_file(
    path: &str,
    servers: Vec<GivenServer>,
    args: &ScanArgs,
    context: &Context,
    out: &Out,
) -> Result<Vec<Scanned>> {
    let wanted = |name: &str| args.server.as_deref().is_none_or(|wanted| wanted == name);
    let names: Vec<String> = servers.iter().map(|server| visible(&server.name)).collect();
    let chosen: Vec<GivenServer> =
        servers.into_iter().filter(|server| wanted(&server.name)).collect();
    match (&args.server, chosen.is_empty()) {
        (Some(_), true) => {
            bail!("`{path}` names no such server\nhint: it names {}", names.join(", "))
        }
        (None, true) => bail!("`{path}` names no server"),
        (_, false) => {}
    }
    let stores = context.open()?;
    let several = chosen.len() > 1;
    if several && !(args.header.is_empty() && args.env.is_empty()) {
        bail!(
            "`{path}` names several servers, and `--header` and `--env` are for one\nhint: `--server NAME` chooses one of {}",
            names.join(", ")
        );
    }
    let mut out_list = Vec::new();
    for GivenServer { name, target } in chosen {
        let scanned = target
            .map_err(|why| anyhow!(why))
            .and_then(|target| completed(target, args))
            .and_then(|target| scan_target(&name, target, &stores, context));
        match scanned {
            Ok(found) => out_list.push(found),
            Err(error) if several => {
                out.warn(format_args!("server `{name}` is left out: {error:#}"));
            }
            Err(error) => {
                return Err(error.context(format!("cannot scan server `{name}` of `{path}`")));
            }
        }
    }
    if out_list.is_empty() {
        bail!("no server of `{path}` answered\nhint: the warnings above have the reasons");
    }
    Ok(out_list)
}

fn environment(pairs: &[String]) -> Result<Vec<(String, EnvValue)>> {
    let pair = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .with_context(|| format!("`--env {text}` has no value\nhint: `--env NAME=VALUE`"))?;
        Ok((name.to_owned(), EnvValue::Plain(value.to_owned())))
    };
    pairs.iter().map(pair).collect()
}

/// Options of the command line override the file.
fn completed(mut target: Target, args: &ScanArgs) -> Result<Target> {
    match &mut target {
        Target::Command { env, .. } => {
            let more = environment(&args.env)?;
            env.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
            env.extend(more);
        }
        Target::Url { headers: all, .. } => {
            let more = headers(args)?;
            all.retain(|(name, _)| !more.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)));
            all.extend(more);
        }
        Target::Builtin { .. } => {}
    }
    Ok(target)
}

fn headers(args: &ScanArgs) -> Result<Vec<(String, Credential)>> {
    let header = |text: &String| {
        let wanted = SecretArg::parse("header", text)?;
        let value = wanted.fetch()?;
        Ok((wanted.name, Credential::Held(value)))
    };
    args.header.iter().map(header).collect()
}

fn address(url: &str, args: &ScanArgs) -> Result<Target> {
    Target::from_url(url, headers(args)?, args.allow_plain_http).map_err(|error| match error {
        TargetError::PlainHttp(_) => anyhow!("{error}\nhint: `--allow-plain-http` allows it"),
        error => error.into(),
    })
}

/// Programs that run another one, and their subcommands.
const RUNNERS: &[&str] = &[
    "npx", "bunx", "pnpx", "pnpm", "dlx", "uvx", "uv", "tool", "run", "pipx", "docker", "podman",
    "env", "node", "bun", "deno", "python", "python3", "sh", "bash",
];

/// `npx -y @scope/some-server ~/notes` is called `some-server`.
fn name_of_command(argv: &[String]) -> String {
    let is_runner = |word: &str| RUNNERS.contains(&word.rsplit('/').next().unwrap_or(word));
    let plain = argv.iter().filter(|word| !word.starts_with('-') && !word.contains('='));
    let named = plain.map(String::as_str).find(|word| !is_runner(word));
    name_of(named.unwrap_or("scanned"))
}

fn name_of_url(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    name_of(host.rsplit('@').next().unwrap_or(host))
}

/// The last part of a path or package, in characters that a server's name may have.
fn name_of(text: &str) -> String {
    let last = text.rsplit('/').find(|part| !part.is_empty()).unwrap_or(text);
    let last =
        last.split_once('@').map_or(last, |(name, _)| if name.is_empty() { last } else { name });
    let kept: String = last
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let kept = kept.trim_matches('-').to_owned();
    if kept.is_empty() { "scanned".to_owned() } else { kept }
}

#[cfg(test)]
mod tests {
    use super::{name_of_command, name_of_url};

    #[test]
    fn servers_get_short_names() {
        let argv = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(name_of_command(&argv("npx -y @scope/some-server@1.2")), "some-server");
        assert_eq!(
            name_of_command(&argv("uvx mcp-server-time --local-timezone=UTC")),
            "mcp-server-time"
        );
        assert_eq!(name_of_command(&argv("/usr/bin/npx -y @a/files /srv/notes")), "files");
        assert_eq!(name_of_command(&argv("/opt/bin/mcp-sqlite --db-path x.db")), "mcp-sqlite");
        assert_eq!(name_of_command(&argv("python3 -m some_server")), "some-server");
        assert_eq!(name_of_url("https://mcp.example.com:8443/mcp?key=x"), "mcp-example-com-8443");
    }
}
