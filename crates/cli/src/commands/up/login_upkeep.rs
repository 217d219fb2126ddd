//! Looks after the logins at servers while a gate runs: notifies the owner about one that needs a sign-in or more
//! scope, and signs out those of revoked grants, which nothing can use any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use connectors::server_login::{ServerLogins, SignedOut};
use gateway::Gate;
use store::clock::Clock;
use store::effective::Effective;
use store::ledger::{Ledger, Note};
use store::logins::{LoginFacts, LoginKey, OwnerStep};
use store::registry::{Grant, GrantState, NewNotice, Registry, RegistryError, Topic};
use tokio::sync::watch;
use url::form_urlencoded;

use crate::context::Stores;
use crate::server_login::text::{next_step, outcome_word};

const LOOK_EVERY: Duration = Duration::from_secs(5);

struct LoginUpkeep {
    gate: Arc<Gate>,
    registry: Arc<Registry>,
    ledger: Arc<Ledger>,
    logins: Arc<ServerLogins>,
    clock: Clock,
    /// Keys of the notices that apply now.
    noticed: HashSet<String>,
}

/// Looks at all logins again and again until the gate stops.
pub(super) fn start(
    gate: &Arc<Gate>,
    stores: &Stores,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
    let mut upkeep = LoginUpkeep {
        gate: Arc::clone(gate),
        registry: Arc::clone(&stores.registry),
        ledger: Arc::clone(stores.gate_ledger()?),
        logins: stores.logins(),
        clock: stores.clock().clone(),
        noticed: HashSet::new(),
    };
    tokio::spawn(async move {
        loop {
            let round = tokio::task::spawn_blocking(move || {
                let ended = upkeep.look().unwrap_or_else(|error| {
                    tracing::warn!(%error, "could not look at the logins of servers");
                    Vec::new()
                });
                (upkeep, ended)
            });
            let Ok((same, ended)) = round.await else { return };
            upkeep = same;
            for key in ended {
                upkeep.sign_out(&key).await;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    });
    Ok(())
}

impl LoginUpkeep {
    /// Stores what the owner should know. Returns the logins of revoked grants.
    fn look(&mut self) -> Result<Vec<LoginKey>> {
        if self.noticed.is_empty() && self.logins.store.is_empty()? {
            return Ok(Vec::new());
        }
        let effective = Effective::merge_closed(self.registry.snapshot()?, self.gate.settings());
        let now_us = self.clock.now().wall_us;
        let (mut revoked, mut wanted) = (Vec::new(), HashSet::new());
        for server in effective.servers.values() {
            for facts in self.logins.store.at_server(server)? {
                let grant = facts.grant.as_ref().map(|id| grant_of(&effective, id));
                match grant {
                    None => self.note(&facts, None, &mut wanted)?,
                    Some(Some(grant)) => match grant.state(now_us) {
                        GrantState::Active => self.note(&facts, Some(grant), &mut wanted)?,
                        GrantState::Revoked => revoked.push(facts.key()),
                        GrantState::Expired => {}
                    },
                    Some(None) => {}
                }
            }
        }
        for key in self.noticed.difference(&wanted) {
            self.registry.clear_notice(key)?;
        }
        self.noticed = wanted;
        Ok(revoked)
    }

    fn note(
        &self,
        facts: &LoginFacts,
        grant: Option<&Grant>,
        wanted: &mut HashSet<String>,
    ) -> Result<(), RegistryError> {
        // One that never worked is new: the owner was told when the server was added.
        let Some(step) = facts.owner_step().filter(|_| facts.refreshed_us.is_some()) else {
            return Ok(());
        };
        let (server, label) = (&facts.server, grant.map(|grant| grant.label.as_str()));
        let whose = label.map(|label| format!(" for {label}")).unwrap_or_default();
        let (kind, title, why) = match step {
            OwnerStep::SignIn { why } => {
                ("login", format!("Sign in to {server} again{whose}"), why.to_owned())
            }
            OwnerStep::AllowScopes(scopes) | OwnerStep::AskForRight(scopes) => (
                "scope",
                format!("{server} wants more access{whose}"),
                format!("the server asks for {}", scopes.join(" ")),
            ),
        };
        let key = format!("{kind}:{}", facts.key().file_name());
        if !self.noticed.contains(&key) {
            let next = next_step(facts, label).unwrap_or_default();
            let query = grant.map(|grant| {
                let id: String = form_urlencoded::byte_serialize(grant.id.as_bytes()).collect();
                format!("?grant={id}")
            });
            let query = query.unwrap_or_default();
            let notice = NewNotice {
                key: &key,
                topic: Topic::Account,
                title: &title,
                text: &format!("{why}. Next: {next}"),
                path: &format!("/servers/{server}/sign-in{query}"),
            };
            self.registry.raise_notice(&notice, self.clock.now().wall_us)?;
        }
        wanted.insert(key);
        Ok(())
    }

    async fn sign_out(&self, key: &LoginKey) {
        let outcome = match self.logins.sign_out(key).await {
            Ok(SignedOut::NotSignedIn) => return,
            Ok(outcome) => outcome,
            Err(error) => {
                return tracing::warn!(%error, "could not sign out the login of a revoked grant");
            }
        };
        let words = format!("{}: its grant was revoked", outcome_word(&outcome));
        let note =
            Note { act: "server_signed_out", by: "tollgate", about: &key.server, words: &words };
        if let Err(error) = self.ledger.note(&note) {
            tracing::error!(%error, "could not record a sign-out");
        }
    }
}

fn grant_of<'e>(effective: &'e Effective, id: &str) -> Option<&'e Grant> {
    effective.grants().iter().find(|grant| grant.id == id)
}
