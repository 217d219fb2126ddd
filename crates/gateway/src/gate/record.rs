//! Rows for what is not judged by a policy: the protocol's own business, refusals, and the gate's acts.

use crate::client::Client;
use crate::scene::{Scene, Transport};
use crate::serve::Remote;
use crate::upstream::UpstreamError;
use crate::wire::Refused;
use policy::Denial;
use store::ledger::{Ending, Facts, LedgerError, Outcome, Permit, Refusal, RefusalKind};

use super::Gate;
use super::door_rows::Reason;

impl Gate {
    /// Lets a message of the protocol's own business through, on record.
    pub(crate) fn own_act(
        &self,
        scene: &Scene,
        method: &str,
        server: &str,
    ) -> Result<Permit, LedgerError> {
        let facts = Facts { method, server, remote: scene.remote(), ..scene.facts() };
        self.ledger.own_act(&facts)
    }

    /// Records a message that the gate answers itself.
    pub(crate) fn note_passed(
        &self,
        scene: &Scene,
        method: &str,
        server: &str,
    ) -> Result<(), LedgerError> {
        self.own_act(scene, method, server)?.settle(&Outcome::new(Ending::Ok))
    }

    pub(crate) fn settled(permit: Permit, ending: Ending) {
        if let Err(error) = permit.settle(&Outcome::new(ending)) {
            tracing::error!(%error, "an outcome is written later");
        }
    }

    /// Gives back what a message took that certainly did not leave.
    pub(crate) fn released(permit: Permit, why: &UpstreamError) {
        if let Err(error) = permit.release(&why.to_string()) {
            tracing::error!(%error, "an outcome is written later");
        }
    }

    /// Records a message without one clear meaning.
    pub(crate) fn record_refused(
        &self,
        scene: &Scene,
        refused: &Refused,
        method: &str,
    ) -> Result<u64, LedgerError> {
        self.metrics.refused();
        let facts = Facts {
            method,
            server: scene.endpoint.server().unwrap_or_default(),
            remote: scene.remote(),
            ..scene.facts()
        };
        let code = refused.code.to_string();
        let refusal = Refusal { kind: RefusalKind::Malformed, code: &code, reason: &refused.words };
        self.ledger.record(&refusal, &facts)
    }

    /// Records a request with a grant that got no further than the door. Without a record it is still
    /// turned away.
    pub(crate) fn record_turned_away(
        &self,
        remote: &Remote,
        grant: &str,
        status: u16,
        words: &str,
    ) -> Option<u64> {
        self.metrics.turned_away();
        let kind =
            if status == 401 { RefusalKind::Unauthenticated } else { RefusalKind::Malformed };
        let code = status.to_string();
        let facts =
            Facts { grant, method: "(http)", remote: Some(remote.as_str()), ..Facts::default() };
        self.ledger.record(&Refusal { kind, code: &code, reason: words }, &facts).ok()
    }

    /// Records a request without a valid grant, or counts it with others like it. `grant` is the label of
    /// the grant that its token was once for.
    pub(crate) fn record_stranger(
        &self,
        remote: &Remote,
        grant: &str,
        status: u16,
        words: &str,
    ) -> Option<u64> {
        self.metrics.turned_away();
        self.record_reason(
            remote,
            Reason {
                address: remote.address().to_owned(),
                grant: grant.to_owned(),
                method: "(http)",
                server: "",
                status,
                words: words.to_owned(),
            },
        )
    }

    /// Records a notice of a service that cannot be taken, or counts it with others like it.
    pub(crate) fn record_bad_notice(
        &self,
        remote: &Remote,
        service: &'static str,
        status: u16,
        words: &str,
    ) -> Option<u64> {
        self.record_reason(
            remote,
            Reason {
                address: remote.address().to_owned(),
                grant: String::new(),
                method: "(notice)",
                server: service,
                status,
                words: words.to_owned(),
            },
        )
    }

    fn record_reason(&self, remote: &Remote, reason: Reason) -> Option<u64> {
        let now_us = self.clock.now().steady_us;
        self.door_rows.record(&reason, remote.as_str(), now_us, &self.ledger)
    }

    /// Writes what was counted of requests without a grant; `all` of it when the gate ends.
    pub(crate) fn tell_of_strangers(&self, all: bool) {
        self.door_rows.tell(self.clock.now().steady_us, all, &self.ledger);
    }

    pub(crate) fn record_trouble(
        &self,
        scene: &Scene,
        method: &str,
        denial: &Denial,
    ) -> Option<u64> {
        let facts =
            Facts { method, server: scene.endpoint.server().unwrap_or_default(), ..scene.facts() };
        let refusal = Refusal {
            kind: RefusalKind::Denied,
            code: denial.code.as_str(),
            reason: &denial.reason,
        };
        let recorded = self.ledger.record(&refusal, &facts);
        if let Err(error) = &recorded {
            tracing::error!(%error, "a refusal could not be recorded");
        }
        recorded.ok()
    }

    /// Waits until the row of a permit is as durable as the owner wants it.
    pub(crate) async fn until_durable(permit: &Permit) -> Result<(), LedgerError> {
        if permit.is_durable() {
            return Ok(());
        }
        let (tell, told) = tokio::sync::oneshot::channel();
        permit.when_durable(Box::new(move |flushed| {
            // A call that was given up no longer waits.
            let _ = tell.send(flushed);
        }));
        // A callback that is never called must not let the call out: ask again, waiting.
        told.await.unwrap_or_else(|_| permit.wait_durable())
    }
}

impl Scene {
    /// What every audit row says about who asks.
    pub(crate) fn facts(&self) -> Facts<'_> {
        self.facts_of(self.client())
    }

    pub(crate) fn facts_of<'a>(&'a self, client: Option<&'a Client>) -> Facts<'a> {
        Facts {
            grant: &self.holder.label,
            grant_id: &self.holder.id,
            session: self.session_id(),
            client: client.map(Client::name),
            client_version: client.and_then(Client::version),
            ..Facts::default()
        }
    }

    pub(crate) fn remote(&self) -> Option<&str> {
        match &self.transport {
            Transport::Http { remote } => Some(remote.as_str()),
            Transport::Stdio => None,
        }
    }
}
