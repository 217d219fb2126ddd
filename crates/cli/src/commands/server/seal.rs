//! `server seal`: moves secret arguments of a server into the vault. The server still gets them when it
//! starts.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use store::registry::{Credential, NewServer, Origin, Server, Target};
use store::secret::{SHOWN, Secret};
use store::secret_words::{secret_arguments, shown_argv};

use crate::context::Stores;
use crate::failure::Ending;
use crate::output::Out;

#[derive(Args)]
pub(crate) struct SealArgs {
    /// The server's name
    name: String,
    /// The argument to seal, counted from the program, which is 0; all that look like secrets by default
    #[arg(long = "arg", value_name = "N")]
    arguments: Vec<usize>,
}

pub(super) fn run(args: &SealArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let server = super::find(&args.name, stores)?;
    let positions = positions(args, &server)?;
    let target = sealed(server.target, &positions);
    let new = NewServer { name: server.name, target, options: server.options };
    stores.ready_to_note()?;
    stores.registry.replace_server(&new, stores.now_us())?;
    stores.record()?;
    if out.wants_json() {
        out.json(&json!({ "server": new.name, "sealed_arguments": positions }))?;
        return Ok(Ending::Yes);
    }
    let (name, list) = (&new.name, listed(&positions));
    out.line(format_args!("server `{name}`: {list} sealed in the vault"))?;
    out.say(
        "the server still gets it as an argument, which other users of this machine can read while it runs",
    );
    Ok(Ending::Yes)
}

/// The arguments to seal, or why there is none.
fn positions(args: &SealArgs, server: &Server) -> Result<Vec<usize>> {
    let name = &server.name;
    let Target::Command { argv, secret_args, .. } = &server.target else {
        bail!("server `{name}` is not a command, so it has no arguments");
    };
    if server.origin == Origin::File {
        bail!(
            "server `{name}` is defined in tollgate.toml, which holds no sealed values\nhint: remove it from that file, add it with `tollgate server add`, then seal it"
        );
    }
    let is_sealed = |at: usize| secret_args.iter().any(|(position, _)| *position == at);
    if args.arguments.is_empty() {
        let found: Vec<usize> = secret_arguments(argv);
        if found.is_empty() {
            bail!(
                "no argument of server `{name}` looks like a secret that is not sealed yet\nhint: `tollgate server seal {name} --arg N` seals argument N"
            );
        }
        return Ok(found);
    }
    for at in &args.arguments {
        if *at == 0 || *at >= argv.len() {
            let last = argv.len() - 1;
            bail!("server `{name}` has no argument {at}\nhint: its arguments are 1 to {last}");
        }
        if is_sealed(*at) {
            bail!("argument {at} of server `{name}` is sealed already");
        }
    }
    let mut positions = args.arguments.clone();
    positions.sort_unstable();
    positions.dedup();
    Ok(positions)
}

/// The target with these arguments among its secrets.
fn sealed(target: Target, positions: &[usize]) -> Target {
    let Target::Command { mut argv, env, cwd, mut secret_args } = target else { return target };
    let shown = shown_argv(&argv);
    for at in positions {
        let (Some(word), Some(shown)) = (argv.get_mut(*at), shown.get(*at)) else { continue };
        // An argument that does not look like a secret would be shown in full.
        let shown = if shown == word { SHOWN } else { shown };
        let value = std::mem::replace(word, shown.to_owned());
        secret_args.push((*at, Credential::Held(Secret::new(value))));
    }
    Target::Command { argv, env, cwd, secret_args }
}

fn listed(positions: &[usize]) -> String {
    let numbers: Vec<String> = positions.iter().map(usize::to_string).collect();
    let word = if numbers.len() == 1 { "argument" } else { "arguments" };
    format!("{word} {}", numbers.join(", "))
}
