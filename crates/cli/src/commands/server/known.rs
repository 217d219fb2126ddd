//! `server known`: the remote servers whose sign-in is known, as data.

use anyhow::Result;
use catalog::known_servers::{ALL, KnownServer, named};
use serde_json::{Value, json};

use super::add::AddArgs;
use crate::failure::Ending;
use crate::output::{Out, Table};

pub(super) fn run(out: &mut Out) -> Result<Ending> {
    if out.wants_json() {
        let all: Vec<Value> = ALL.iter().map(json_of).collect();
        out.json(&all)?;
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["name", "address", "client", "notes"]);
    for known in ALL {
        let hosts: Vec<String> = known.hosts.iter().map(|host| shown(host)).collect();
        table.row([
            known.name.to_owned(),
            known.url.map_or_else(|| hosts.join(" "), str::to_owned),
            known.client.as_str().to_owned(),
            notes(known),
        ]);
    }
    out.table(&table)?;
    out.say("one with an address is added by its name: `tollgate server add linear`");
    Ok(Ending::Yes)
}

/// The arguments of `server add` with the address of a known server, if nothing says what runs or where it is.
pub(super) fn with_address(args: &AddArgs, out: &Out) -> AddArgs {
    let mut args = args.clone();
    let is_open = args.command.is_empty() && args.url.is_none() && args.builtin.is_none();
    let known = named(&args.name).filter(|_| is_open);
    if let Some((known, url)) = known.and_then(|known| Some((known, known.url?))) {
        out.say(format_args!("{} is at {url}", known.name));
        args.url = Some(url.to_owned());
    }
    args
}

/// A host that begins with a dot stands for all names below it.
fn shown(host: &str) -> String {
    if host.starts_with('.') { format!("*{host}") } else { host.to_owned() }
}

fn notes(known: &KnownServer) -> String {
    let mut notes = Vec::new();
    notes.extend(known.make_client.map(|at| format!("make it at {at}")));
    notes.extend(known.omit_resource.then(|| "sent without `resource`".to_owned()));
    notes.extend(known.needs_scopes.then(|| "always sent with scopes".to_owned()));
    notes.extend(Some(known.note.to_owned()).filter(|note| !note.is_empty()));
    notes.join("; ")
}

fn json_of(known: &KnownServer) -> Value {
    json!({
        "name": known.name,
        "url": known.url,
        "hosts": known.hosts.iter().map(|host| shown(host)).collect::<Vec<_>>(),
        "client": known.client.as_str(),
        "make_client": known.make_client,
        "omit_resource": known.omit_resource,
        "needs_scopes": known.needs_scopes,
        "note": Some(known.note).filter(|note| !note.is_empty()),
    })
}
