//! `clients import`: puts the servers of a client behind the gate and points its file at it. The plan
//! is shown first; every file is kept as it was before a byte of it changes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use store::registry::{Grant, Holding, NewGrant, NewServer, ServerOptions, Token};

use super::ImportArgs;
use super::change::{Change, Made};
use super::found::Found;
use super::journal::Journal;
use super::plan::{Fate, Step};
use super::write::{Gate, redirect, takes_token};
use super::{recommend, told};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, Progress, count, visible};

/// What one import works with.
struct Work<'a> {
    args: &'a ImportArgs,
    context: &'a Context,
    stores: &'a Stores,
    journal: Journal<'a>,
    gate: Gate,
}

pub(super) fn run(args: &ImportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let at = super::surroundings()?;
    let stores = context.open()?;
    let found = super::chosen(&args.clients, &at)?;
    let found: Vec<Found> =
        found.into_iter().filter(|f| !(args.no_project && f.is_shared())).collect();
    let mut steps = super::plan::plan(&found, &at, &super::variable, &stores)?;
    if !args.project_files {
        super::plan::spare_versioned(&mut steps);
    }
    let gate = Gate::new(&stores, super::usual_home().as_deref());
    let journal = Journal::open(&stores, &context.random)?;
    for file in found.iter().filter(|file| file.problem.is_some()) {
        let why = file.problem.as_deref().unwrap_or_default();
        out.warn(format_args!("`{}` is left alone: {}", at.shown(&file.path), visible(why)));
    }
    let imports = steps.iter().filter(|step| matches!(step.fate, Fate::Import { .. })).count();
    if args.dry_run || !args.yes {
        told::show(&steps, &at, &gate, args, out)?;
    }
    if args.dry_run || imports == 0 {
        if imports == 0 && !out.wants_json() {
            out.say("nothing to import: no client has a server that is not behind the gate");
        } else if imports == 0 && !args.dry_run {
            out.json(&json!({ "imported": [] }))?;
        }
        return Ok(Ending::Yes);
    }
    told::warn_before(steps.iter().filter(|s| s.server().is_some()).map(|s| s.found.client), out);
    if !args.yes && !agreed(imports, out)? {
        return Ok(Ending::No);
    }
    let work = Work { args, context, stores: &stores, journal, gate };
    let mut done = Vec::new();
    for client in super::table::ALL {
        let mine: Vec<&Step<'_>> = steps
            .iter()
            .filter(|step| step.found.client.name == client.name)
            .filter(|step| matches!(step.fate, Fate::Import { .. }))
            .collect();
        if !mine.is_empty() {
            done.extend(work.client(&mine, out)?);
        }
    }
    report(&done, &stores, &work.gate, out)
}

/// One file that was changed.
struct Done {
    client: &'static str,
    path: String,
    made: Made,
    servers: Vec<String>,
    over_http: bool,
}

impl Work<'_> {
    fn client(&self, steps: &[&Step<'_>], out: &Out) -> Result<Vec<Done>> {
        let made = self.register(steps, out)?;
        let servers: BTreeSet<&str> = steps.iter().filter_map(|step| step.server()).collect();
        let (grant, made_grant, token) = self.grant(steps, &servers)?;
        let mut done = Vec::new();
        let mut paths: Vec<&Found> = Vec::new();
        for step in steps {
            if !paths.iter().any(|file| file.path == step.found.path) {
                paths.push(step.found);
            }
        }
        for (number, file) in paths.into_iter().enumerate() {
            let mine: Vec<&&Step<'_>> =
                steps.iter().filter(|step| step.found.path == file.path).collect();
            let token = token.as_ref().filter(|_| takes_token(file) && !self.args.stdio);
            let mut text = file.text.clone();
            for step in &mine {
                let Some(server) = step.server() else { continue };
                let members =
                    self.gate.members(file.client, file.is_shared(), server, &grant.label, token);
                text = redirect(file, &text, &step.entry.keys, &members)?;
            }
            let first = number == 0;
            let servers: Vec<String> =
                mine.iter().filter_map(|s| s.server()).map(str::to_owned).collect();
            let made_servers = made.iter().filter(|name| servers.contains(name)).cloned().collect();
            let begun = self.stores.begin("client_changed", file.client.name)?;
            let made =
                self.replace(file, &text, &grant.label, first && made_grant, made_servers)?;
            let path = file.path.display().to_string();
            self.stores.done(&begun, &format!("{path}: {}", servers.join(", ")))?;
            let over_http = token.is_some();
            done.push(Done { client: file.client.name, path, made, servers, over_http });
        }
        Ok(done)
    }

    /// Registers what is new, looks at its tools, and sets a policy for each.
    fn register(&self, steps: &[&Step<'_>], out: &Out) -> Result<Vec<String>> {
        let mut made: Vec<String> = Vec::new();
        for step in steps {
            let Fate::Import { server, target, is_new, warning } = &step.fate else { continue };
            let there = self.stores.servers()?.iter().any(|known| known.name == *server);
            if *is_new && !there {
                let new = NewServer {
                    name: server.clone(),
                    target: target.clone(),
                    options: ServerOptions::default(),
                };
                self.stores.ready_to_note()?;
                self.stores.registry.add_server(
                    &new,
                    &self.stores.file_names,
                    self.stores.now_us(),
                )?;
                self.stores.record()?;
                made.push(server.clone());
                self.look(server, out);
            }
            if let Some(warning) = warning {
                out.warn(warning);
            }
            recommend::set(server, self.stores)?;
        }
        Ok(made)
    }

    /// A server that does not answer now is imported all the same: its tools are pinned later.
    fn look(&self, server: &str, out: &Out) {
        if self.args.no_connect {
            return;
        }
        let looked = Progress::during("asking servers for their tools", || {
            crate::probe::look(server, self.stores, self.context)
        });
        if let Err(error) = looked {
            out.warn(format_args!(
                "server `{server}` does not answer yet ({}); its tools are pinned when it is first used",
                visible(error.to_string().lines().next().unwrap_or_default())
            ));
        }
    }

    /// The client's grant with these servers in it, and its token when it can be had.
    fn grant(
        &self,
        steps: &[&Step<'_>],
        servers: &BTreeSet<&str>,
    ) -> Result<(Grant, bool, Option<Token>)> {
        let client = steps.first().map(|step| step.found.client.name).unwrap_or_default();
        let registry = &self.stores.registry;
        let holdings = servers.iter().map(|server| Holding {
            server: (*server).to_owned(),
            policy: Some(recommend::policy_name(server)),
        });
        let ours: BTreeSet<String> =
            self.journal.records()?.into_iter().map(|record| record.grant).collect();
        let labels = std::iter::once(client.to_owned())
            .chain((2..100).map(|number| format!("{client}-{number}")));
        for label in labels {
            if self.stores.file_names.grants.contains(&label) {
                continue;
            }
            match registry.grant(&label) {
                Ok(grant) if ours.contains(&label) => {
                    let mut all = grant.holdings.clone();
                    for holding in holdings.clone() {
                        if grant.holding(&holding.server).is_none() {
                            all.push(holding);
                        }
                    }
                    if all.len() > grant.holdings.len() {
                        let (names, now_us) = (&self.stores.file_names, self.stores.now_us());
                        self.stores.ready_to_note()?;
                        registry.set_holdings(&label, &all, names, now_us)?;
                        self.stores.record()?;
                    }
                    let token = token_in_use(steps, &grant);
                    return Ok((registry.grant(&label)?, false, token));
                }
                // Somebody else's grant: it must not come to hold more.
                Ok(_) => {}
                Err(_) => {
                    let new = NewGrant {
                        label: label.clone(),
                        holdings: holdings.collect(),
                        expires_at_us: None,
                    };
                    let now_us = self.stores.now_us();
                    self.stores.ready_to_note()?;
                    let (grant, token) =
                        registry.create_grant(&new, &self.stores.file_names, now_us)?;
                    self.stores.record()?;
                    return Ok((grant, true, Some(token)));
                }
            }
        }
        bail!("there are too many grants named `{client}`\nhint: `tollgate grant list`")
    }

    /// Keeps the file as it is, then puts the new text in its place.
    fn replace(
        &self,
        file: &Found,
        text: &str,
        grant: &str,
        made_grant: bool,
        made_servers: Vec<String>,
    ) -> Result<Made> {
        let change = Change {
            client: file.client.name,
            path: &file.path,
            before: Some(&file.text),
            after: text,
            aside: !file.is_shared(),
            grant,
            made_grant,
            made_servers,
        };
        change.make(&self.journal, self.stores.now_us())
    }
}

/// The grant's token as an earlier import wrote it into one of the client's files.
fn token_in_use(steps: &[&Step<'_>], grant: &Grant) -> Option<Token> {
    let texts = steps.iter().map(|step| step.found.text.as_str());
    let words = texts.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words
        .filter_map(|word| Token::parse(word).ok())
        .find(|token| grant.tokens.iter().any(|known| known.hash == token.hash()))
}

fn agreed(imports: usize, out: &Out) -> Result<bool> {
    if !std::io::stdin().is_terminal() || out.wants_json() {
        bail!(
            "nothing was changed: nobody is here to agree\nhint: `--yes` agrees; `--dry-run` only shows the plan"
        );
    }
    out.say(format_args!(
        "put {} behind the gate and change these files? [y/N]",
        count(imports, "server")
    ));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn report(done: &[Done], stores: &Stores, gate: &Gate, out: &mut Out) -> Result<Ending> {
    if out.wants_json() {
        let rows: Vec<Value> = done
            .iter()
            .map(|done| {
                json!({
                    "client": done.client,
                    "file": done.path,
                    "servers": done.servers,
                    "transport": if done.over_http { "http" } else { "stdio" },
                    "copy": done.made.copy,
                    "mode_before": done.made.loose_mode.map(|mode| format!("{mode:04o}")),
                })
            })
            .collect();
        out.json(&json!({ "imported": rows }))?;
        return Ok(Ending::Yes);
    }
    for done in done {
        let servers = count(done.servers.len(), "server");
        out.line(format_args!(
            "{}: {servers} behind the gate, `{}` changed",
            done.client,
            visible(&done.path)
        ))?;
    }
    for done in done {
        done.made.tell(&done.path, out);
    }
    let runs = crate::running::all(stores.home.path()).iter().any(|facts| facts.url.is_some());
    if done.iter().any(|done| done.over_http) && !runs {
        out.say(format_args!(
            "these clients reach the gate at {}; start it with `tollgate up`",
            gate.url
        ));
    }
    out.say("start the clients again; `tollgate clients import --undo` takes the import back");
    Ok(Ending::Yes)
}
