//! `clients install`: adds one server of the gate to one client's file.

use anyhow::{Result, bail};
use serde_json::json;
use store::registry::{NewGrant, ServerAccess, Token};

use super::InstallArgs;
use super::change::{Change, Made};
use super::journal::Journal;
use super::recommend;
use crate::client_files::discover::path_of;
use crate::client_files::folders::Base;
use crate::client_files::table::{FileSpec, client};
use crate::client_files::write::Gate;
use crate::client_files::{discover, json_file, toml_file};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, visible};

pub(super) fn run(args: &InstallArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    super::check_names(std::slice::from_ref(&args.client))?;
    let server = args.server.as_deref().unwrap_or_default();
    let Some(client) = client(&args.client) else { bail!("there is no client `{}`", args.client) };
    let at = crate::client_files::user_folders()?;
    let stores = context.open()?;
    if !stores.servers()?.iter().any(|known| known.name == server) {
        stores.registry.server(server)?;
    }
    let wanted = if args.project { Base::Project } else { Base::Home };
    let fits = |spec: &&FileSpec| (spec.base == Base::Project) == (wanted == Base::Project);
    let Some(spec) = client.files.iter().find(fits) else {
        bail!("{} has no project file\nhint: leave out `--project`", client.title);
    };
    let path = path_of(spec, &at);
    let is_there = path.exists();
    let text = if is_there {
        discover::read_text(&path)
            .map_err(|why| anyhow::anyhow!("cannot read `{}`: {why}", path.display()))?
    } else {
        String::new()
    };
    let gate = Gate::new(&stores, crate::context::default_home().as_deref());
    let keys = spec.keys(server);
    let with = |label: &str, token: Option<&Token>| {
        let members = gate.members(client, args.project, server, label, token);
        if spec.is_toml() {
            toml_file::add(&text, &keys, &members)
        } else {
            json_file::add(&text, &keys, &members)
        }
    };
    // Fails for a file that cannot be edited, before a grant is created for it.
    with("", None).map_err(|why| {
        let at = visible(&path.display().to_string());
        let hint = format!("hint: remove it from `{at}` first, or leave it as it is");
        why.context(format!("`{server}` was not added to {}\n{hint}", client.title))
    })?;
    let (label, made_grant, token) = grant(args, server, client.name, &stores)?;
    let token = token.filter(|_| !args.project && !args.stdio);
    let new = with(&label, token.as_ref())?;
    let journal = Journal::open(&stores, &context.random)?;
    let change = Change {
        client: client.name,
        path: &path,
        before: is_there.then_some(&*text),
        after: &new,
        with_copy: !args.project,
        grant: &label,
        made_grant,
        made_servers: Vec::new(),
    };
    super::plan_text::warn_before([client].into_iter(), out);
    let begun = stores.begin("client_changed", client.name)?;
    let made = change.make(&journal, stores.now_us())?;
    stores.done(&begun, &format!("{}: {}", path.display(), server))?;
    report(args, server, &path, &label, &made, out)
}

fn report(
    args: &InstallArgs,
    server: &str,
    path: &std::path::Path,
    label: &str,
    made: &Made,
    out: &mut Out,
) -> Result<Ending> {
    if out.wants_json() {
        out.json(&json!({
            "client": args.client,
            "server": server,
            "file": path,
            "grant": label,
            "copy": made.copy,
            "mode_before": made.loose_mode.map(|mode| format!("{mode:04o}")),
        }))?;
        return Ok(Ending::Yes);
    }
    let shown = visible(&path.display().to_string());
    out.line(format_args!(
        "{}: server `{}` added to `{shown}`, grant `{label}`",
        args.client, server
    ))?;
    made.report(&shown, out);
    out.say("restart the client; `tollgate clients import --undo` reverts it");
    Ok(Ending::Yes)
}

/// The grant given by `--grant`, or a new one for this client and server.
fn grant(
    args: &InstallArgs,
    server: &str,
    client: &str,
    stores: &Stores,
) -> Result<(String, bool, Option<Token>)> {
    if let Some(label) = &args.grant {
        let grant = stores.grant(label)?;
        if grant.access(server).is_none() {
            bail!(
                "grant `{label}` has no access to `{server}`\nhint: `tollgate grant policy {label} {server} POLICY`"
            );
        }
        // Its token is not stored, so the client starts the gate as a command.
        return Ok((label.clone(), false, None));
    }
    recommend::set(server, stores)?;
    let policy = Some(recommend::policy_name(server));
    let server_access = vec![ServerAccess { server: server.to_owned(), policy }];
    let labels = std::iter::once(format!("{client}-{server}"))
        .chain((2..100).map(|number| format!("{client}-{server}-{number}")));
    for label in labels {
        let label: String = label.chars().take(64).collect();
        if stores.grant(&label).is_ok() {
            continue;
        }
        let new = NewGrant { label: label.clone(), server_access, expires_at_us: None };
        stores.ready_to_note()?;
        let (_, token) = stores.registry.create_grant(&new, &stores.file_names, stores.now_us())?;
        stores.record()?;
        return Ok((label, true, Some(token)));
    }
    bail!("there are too many grants for `{client}`\nhint: `tollgate grant list`")
}
