//! The facts of a call for its audit rows.

use std::borrow::Cow;

use crate::exchange::digests::Digests;
use crate::runtime::trace::Trace;
use store::ledger::{Facts, PolicyRef};

use super::incoming::{IncomingRequest, Target};

/// Argument names recorded per row.
const ARGUMENT_KEYS_MAX: usize = 32;

/// The data that the facts of a call borrow.
pub(super) struct CallRecord<'a> {
    pub(super) digests: Digests,
    pub(super) trace: Option<Trace>,
    trace_id: Option<String>,
    argument_names: Vec<Cow<'a, str>>,
}

impl<'a> CallRecord<'a> {
    pub(super) fn of(incoming: &IncomingRequest<'a>) -> CallRecord<'a> {
        let services = incoming.context.services();
        let (headers, meta) = (incoming.headers, incoming.request.meta());
        let trace = services.tracer.begin(headers, meta, &services.random);
        let argument_names = incoming.request.arguments().map(|arguments| {
            arguments.entries().take(ARGUMENT_KEYS_MAX).map(|(key, _)| key.text()).collect()
        });
        CallRecord {
            digests: Digests::of(services, incoming.request),
            trace_id: trace.as_ref().map(Trace::id_text),
            trace,
            argument_names: argument_names.unwrap_or_default(),
        }
    }

    /// The argument names, and their number.
    pub(super) fn argument_keys(&self) -> ([&str; ARGUMENT_KEYS_MAX], usize) {
        let mut keys = [""; ARGUMENT_KEYS_MAX];
        for (slot, name) in keys.iter_mut().zip(&self.argument_names) {
            *slot = name;
        }
        (keys, self.argument_names.len())
    }

    pub(super) fn facts<'f>(
        &'f self,
        incoming: &'f IncomingRequest<'_>,
        target: &'f Target<'_>,
        argument_keys: &'f [&'f str],
    ) -> Facts<'f> {
        let rules = target.access.rules.as_ref();
        Facts {
            argument_keys,
            argument_digest: self.digests.approved,
            subject: target.subject,
            policy: rules.map(|rules| PolicyRef { name: &rules.name, version: rules.version }),
            server: &target.access.server.name,
            method: &incoming.request.method_name,
            remote: incoming.context.remote(),
            trace: self.trace_id.as_deref(),
            ..incoming.context.facts_of(incoming.client.as_ref().or(incoming.context.client()))
        }
    }
}
