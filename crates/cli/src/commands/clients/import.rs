//! `clients import`: puts the servers of a client behind the gate and points its file at it. The plan
//! is shown first; every file is backed up before it changes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use store::registry::{Grant, NewGrant, NewServer, ServerAccess, ServerOptions, Token};

use super::ClientImportArgs;
use super::change::{Change, Made};
use super::journal::Journal;
use super::{plan_text, recommend};
use crate::client_files::discover::ConfigFile;
use crate::client_files::plan::{Action, Step};
use crate::client_files::write::{Gate, redirect, takes_token};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, Progress, count, visible};

/// One run of the command.
struct Import<'a> {
    args: &'a ClientImportArgs,
    context: &'a Context,
    stores: &'a Stores,
    journal: Journal<'a>,
    gate: Gate,
}

pub(super) fn run(args: &ClientImportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let at = crate::client_files::user_folders()?;
    let stores = context.open()?;
    let found = super::chosen(&args.clients, &at)?;
    let found: Vec<ConfigFile> =
        found.into_iter().filter(|f| !(args.no_project && f.is_shared())).collect();
    let mut steps =
        crate::client_files::plan::plan(&found, &at, &crate::client_files::variable, &stores)?;
    if !args.project_files {
        crate::client_files::plan::skip_versioned(&mut steps);
    }
    let gate = Gate::new(&stores, crate::context::default_home().as_deref());
    let journal = Journal::open(&stores, &context.random)?;
    for file in found.iter().filter(|file| file.problem.is_some()) {
        let why = file.problem.as_deref().unwrap_or_default();
        out.warn(format_args!("`{}` is not changed: {}", at.shown(&file.path), visible(why)));
    }
    let imports = steps.iter().filter(|step| matches!(step.action, Action::Import { .. })).count();
    if args.dry_run || !args.yes {
        plan_text::show(&steps, &at, &gate, args, out)?;
    }
    if args.dry_run || imports == 0 {
        if imports == 0 && !out.wants_json() {
            out.say("nothing to import: no client has a server that is not behind the gate");
        } else if imports == 0 && !args.dry_run {
            out.json(&json!({ "imported": [] }))?;
        }
        return Ok(Ending::Yes);
    }
    plan_text::warn_before(
        steps.iter().filter(|s| s.server().is_some()).map(|s| s.file.client),
        out,
    );
    if !args.yes && !confirmed(imports, out)? {
        return Ok(Ending::No);
    }
    let import = Import { args, context, stores: &stores, journal, gate };
    let mut done = Vec::new();
    for client in crate::client_files::table::ALL {
        let mine: Vec<&Step<'_>> = steps
            .iter()
            .filter(|step| step.file.client.name == client.name)
            .filter(|step| matches!(step.action, Action::Import { .. }))
            .collect();
        if !mine.is_empty() {
            done.extend(import.client(&mine, out)?);
        }
    }
    report(&done, &stores, &import.gate, out)
}

/// One file that was changed.
struct ChangedFile {
    client: &'static str,
    path: String,
    made: Made,
    servers: Vec<String>,
    over_http: bool,
}

impl Import<'_> {
    fn client(&self, steps: &[&Step<'_>], out: &Out) -> Result<Vec<ChangedFile>> {
        let made = self.register(steps, out)?;
        let servers: BTreeSet<&str> = steps.iter().filter_map(|step| step.server()).collect();
        let (grant, made_grant, token) = self.grant(steps, &servers)?;
        let mut done = Vec::new();
        let mut paths: Vec<&ConfigFile> = Vec::new();
        for step in steps {
            if !paths.iter().any(|file| file.path == step.file.path) {
                paths.push(step.file);
            }
        }
        for (number, file) in paths.into_iter().enumerate() {
            let mine: Vec<&&Step<'_>> =
                steps.iter().filter(|step| step.file.path == file.path).collect();
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
            done.push(ChangedFile { client: file.client.name, path, made, servers, over_http });
        }
        Ok(done)
    }

    /// Registers new servers, pins their tools, and sets a policy for each.
    fn register(&self, steps: &[&Step<'_>], out: &Out) -> Result<Vec<String>> {
        let mut made: Vec<String> = Vec::new();
        for step in steps {
            let Action::Import { server, target, is_new, warning } = &step.action else { continue };
            let is_known = self.stores.servers()?.iter().any(|known| known.name == *server);
            if *is_new && !is_known {
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
                self.pin_tools(server, out);
            }
            if let Some(warning) = warning {
                out.warn(warning);
            }
            recommend::set(server, self.stores)?;
        }
        Ok(made)
    }

    /// A server that does not answer now is imported anyway: its tools are pinned later.
    fn pin_tools(&self, server: &str, out: &Out) {
        if self.args.no_connect {
            return;
        }
        let pinned = Progress::during("listing tools", || {
            crate::probe::update_pins(server, self.stores, self.context)
        });
        if let Err(error) = pinned {
            out.warn(format_args!(
                "server `{server}` does not answer yet ({}); its tools are pinned when it is first used",
                visible(error.to_string().lines().next().unwrap_or_default())
            ));
        }
    }

    /// The client's grant with these servers, and its token if it is known.
    fn grant(
        &self,
        steps: &[&Step<'_>],
        servers: &BTreeSet<&str>,
    ) -> Result<(Grant, bool, Option<Token>)> {
        let client = steps.first().map(|step| step.file.client.name).unwrap_or_default();
        let registry = &self.stores.registry;
        let server_access = servers.iter().map(|server| ServerAccess {
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
                    let mut all = grant.server_access.clone();
                    for access in server_access.clone() {
                        if grant.access(&access.server).is_none() {
                            all.push(access);
                        }
                    }
                    if all.len() > grant.server_access.len() {
                        let (names, now_us) = (&self.stores.file_names, self.stores.now_us());
                        self.stores.ready_to_note()?;
                        registry.set_server_access(&label, &all, names, now_us)?;
                        self.stores.record()?;
                    }
                    let token = token_in_use(steps, &grant);
                    return Ok((registry.grant(&label)?, false, token));
                }
                // Not made by an import: it must not get more servers.
                Ok(_) => {}
                Err(_) => {
                    let new = NewGrant {
                        label: label.clone(),
                        server_access: server_access.collect(),
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

    /// Backs up the file, then replaces it.
    fn replace(
        &self,
        file: &ConfigFile,
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
            with_copy: !file.is_shared(),
            grant,
            made_grant,
            made_servers,
        };
        change.make(&self.journal, self.stores.now_us())
    }
}

/// The grant's token as an earlier import wrote it into one of the client's files.
fn token_in_use(steps: &[&Step<'_>], grant: &Grant) -> Option<Token> {
    let texts = steps.iter().map(|step| step.file.text.as_str());
    let words = texts.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words
        .filter_map(|word| Token::parse(word).ok())
        .find(|token| grant.tokens.iter().any(|known| known.hash == token.hash()))
}

fn confirmed(imports: usize, out: &Out) -> Result<bool> {
    if !std::io::stdin().is_terminal() || out.wants_json() {
        bail!(
            "nothing was changed: no terminal to ask on\nhint: `--yes` goes ahead; `--dry-run` only shows the plan"
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

fn report(done: &[ChangedFile], stores: &Stores, gate: &Gate, out: &mut Out) -> Result<Ending> {
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
        done.made.report(&done.path, out);
    }
    let runs = crate::running::all(stores.home.path()).iter().any(|facts| facts.url.is_some());
    if done.iter().any(|done| done.over_http) && !runs {
        out.say(format_args!(
            "these clients reach the gate at {}; start it with `tollgate up`",
            gate.url
        ));
    }
    out.say("restart the clients; `tollgate clients import --undo` reverts the import");
    Ok(Ending::Yes)
}
