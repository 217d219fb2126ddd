//! W3C trace context through the gate, and spans of its own for OpenTelemetry when the owner named a
//! collector. Spans carry names and numbers, never arguments.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::HeaderMap;
use policy::json::Value;
use serde_json::json;
use store::ledger::{Ending, Facts, Ledger};
use store::random::Random;
use tokio::sync::mpsc;
use url::Url;

use crate::gate::Gate;
use crate::upstream::{HttpLink, HttpOptions, HttpServer, Outgoing};

/// Spans that wait to be sent; one more is dropped and counted.
const SPANS_WAITING_MAX: usize = 4096;
const SPANS_PER_MESSAGE_MAX: usize = 512;
/// A longer `tracestate` is not passed on.
const STATE_BYTES_MAX: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(2);

/// Where a request stands in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    id: [u8; 16],
    parent: Option<[u8; 8]>,
    /// The gate's own part of the trace, if it makes one.
    own: Option<[u8; 8]>,
    flags: u8,
    state: Option<String>,
}

impl Trace {
    /// From the header, or from the message's `_meta`; what is not well-formed is not there.
    fn of(headers: Option<&HeaderMap>, meta: Option<Value<'_>>) -> Option<Trace> {
        let header = |name: &str| headers.and_then(|headers| headers.get(name)?.to_str().ok());
        let in_meta = |key: &str| meta.and_then(|meta| meta.get(key)?.as_str());
        let (parent, state) = match header("traceparent") {
            Some(parent) => (parent.into(), headers.and_then(state_of).map(Into::into)),
            None => (in_meta("traceparent")?, in_meta("tracestate")),
        };
        let mut trace = Trace::parse(&parent)?;
        trace.state = state
            .filter(|state| {
                state.len() <= STATE_BYTES_MAX && state.bytes().all(|b| (0x20..0x7f).contains(&b))
            })
            .map(std::borrow::Cow::into_owned);
        Some(trace)
    }

    fn parse(text: &str) -> Option<Trace> {
        let mut parts = text.split('-');
        let (version, trace, parent, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if version.len() != 2 || version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let id: [u8; 16] = unhex(trace)?;
        let parent: [u8; 8] = unhex(parent)?;
        let [flags] = unhex::<1>(flags)?;
        let named = id != [0; 16] && parent != [0; 8];
        named.then_some(Trace { id, parent: Some(parent), own: None, flags, state: None })
    }

    /// The header for the next hop.
    pub(crate) fn parent_text(&self) -> Option<String> {
        let span = self.own.or(self.parent)?;
        Some(format!("00-{}-{}-{:02x}", hex(&self.id), hex(&span), self.flags))
    }

    pub(crate) fn state_text(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The trace's name in audit rows.
    pub(crate) fn id_text(&self) -> String {
        hex(&self.id)
    }
}

/// A state may come in several headers, which are one list.
fn state_of(headers: &HeaderMap) -> Option<String> {
    let parts: Result<Vec<&str>, _> =
        headers.get_all("tracestate").iter().map(hyper::header::HeaderValue::to_str).collect();
    parts.ok().filter(|parts| !parts.is_empty()).map(|parts| parts.join(","))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != N * 2 || !text.bytes().all(lower) {
        return None;
    }
    let mut out = [0; N];
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(out)
}

/// A finished part of a trace.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) trace: Trace,
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) grant: String,
    pub(crate) ended_at_us: i64,
    pub(crate) took_us: u64,
    pub(crate) ending: Ending,
}

/// Makes spans where there is a collector, and passes contexts on where there is none.
pub(crate) struct Tracer {
    waiting: Option<mpsc::Sender<Span>>,
    to_send: Mutex<Option<(mpsc::Receiver<Span>, Url)>>,
}

impl Tracer {
    /// A tracer for this collector; an address that is no URL is told and does without.
    pub(crate) fn new(endpoint: Option<&str>) -> Tracer {
        let url = endpoint.and_then(|endpoint| match Url::parse(endpoint) {
            Ok(url) => Some(with_path(url)),
            Err(error) => {
                tracing::error!(%error, "`otel_endpoint` is not a URL; no traces are sent");
                None
            }
        });
        let Some(url) = url else { return Tracer { waiting: None, to_send: Mutex::new(None) } };
        let (waiting, spans) = mpsc::channel(SPANS_WAITING_MAX);
        Tracer { waiting: Some(waiting), to_send: Mutex::new(Some((spans, url))) }
    }

    /// The trace of a request, with a part of our own if we make spans.
    pub(crate) fn begin(
        &self,
        headers: Option<&HeaderMap>,
        meta: Option<Value<'_>>,
        random: &Random,
    ) -> Option<Trace> {
        let came = Trace::of(headers, meta);
        if self.waiting.is_none() {
            return came;
        }
        let mut trace = if let Some(trace) = came {
            trace
        } else {
            let mut id = [0; 16];
            random.fill(&mut id).ok()?;
            Trace { id, parent: None, own: None, flags: 1, state: None }
        };
        let mut own = [0; 8];
        random.fill(&mut own).ok()?;
        trace.own = Some(own);
        Some(trace)
    }

    /// Hands a span over; a collector that is slower than the gate loses some.
    pub(crate) fn end(&self, span: Span) {
        if let Some(waiting) = &self.waiting
            && waiting.try_send(span).is_err()
        {
            tracing::debug!("a span was dropped: the collector is too slow");
        }
    }

    /// Sends spans until the gate is gone. Started once.
    pub(crate) fn start(&self, ledger: Arc<Ledger>) {
        let taken = self.to_send.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((spans, url)) = taken {
            tokio::spawn(send_all(spans, url, ledger));
        }
    }
}

/// The collector's address for traces, where only its host was given.
fn with_path(mut url: Url) -> Url {
    if matches!(url.path(), "" | "/") {
        url.set_path("/v1/traces");
    }
    url
}

async fn send_all(mut spans: mpsc::Receiver<Span>, url: Url, ledger: Arc<Ledger>) {
    let mut options = HttpOptions::new(url);
    options.allow_plain_http = true;
    if options.url.scheme() == "https" {
        options.tls = crate::upstream::client_config(None).ok();
    }
    let link = match HttpServer::new(options) {
        Ok(server) => HttpLink::new(server),
        Err(error) => {
            return tracing::error!(%error, "`otel_endpoint` cannot be used; no traces are sent");
        }
    };
    let mut batch = Vec::new();
    loop {
        let got = spans.recv_many(&mut batch, SPANS_PER_MESSAGE_MAX).await;
        if got == 0 {
            return;
        }
        tokio::time::sleep(SEND_EVERY).await;
        while batch.len() < SPANS_PER_MESSAGE_MAX {
            let Ok(span) = spans.try_recv() else { break };
            batch.push(span);
        }
        let message = message(&batch).to_string();
        batch.clear();
        let facts = Facts { method: "(traces)", server: "(collector)", ..Facts::default() };
        let Ok(permit) = ledger.own_act(&facts) else { continue };
        let sent = link.send(&permit, Outgoing::notification(message.into())).await;
        if let Err(error) = &sent {
            tracing::warn!(%error, "the collector did not take the traces");
        }
        Gate::settled(permit, if sent.is_ok() { Ending::Ok } else { Ending::Error });
    }
}

/// OTLP's JSON for a batch of spans.
fn message(batch: &[Span]) -> serde_json::Value {
    let spans: Vec<serde_json::Value> = batch.iter().map(one).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            attribute("service.name", "tollgate"),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
        ] },
        "scopeSpans": [{ "scope": { "name": "tollgate" }, "spans": spans }],
    }] })
}

fn one(span: &Span) -> serde_json::Value {
    const SERVER_KIND: u8 = 2;
    const STATUS_ERROR: u8 = 2;
    let ended_us = i128::from(span.ended_at_us);
    let began_us = ended_us - i128::from(span.took_us);
    let mut value = json!({
        "traceId": hex(&span.trace.id),
        "spanId": hex(&span.trace.own.unwrap_or_default()),
        "name": span.name,
        "kind": SERVER_KIND,
        "startTimeUnixNano": (began_us * 1000).to_string(),
        "endTimeUnixNano": (ended_us * 1000).to_string(),
        "attributes": [
            attribute("tollgate.server", &span.server),
            attribute("tollgate.grant", &span.grant),
            attribute("tollgate.ending", span.ending.as_str()),
        ],
    });
    if let Some(object) = value.as_object_mut() {
        if let Some(parent) = span.trace.parent {
            object.insert("parentSpanId".to_owned(), hex(&parent).into());
        }
        if !matches!(span.ending, Ending::Ok) {
            object.insert("status".to_owned(), json!({ "code": STATUS_ERROR }));
        }
    }
    value
}

fn attribute(key: &str, value: &str) -> serde_json::Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_well_formed_contexts_count() {
        let cases = [
            (GOOD, true),
            ("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", false),
            ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", true),
            ("00-0af7-b7ad6b7169203331-01", false),
            ("", false),
        ];
        for (text, good) in cases {
            assert_eq!(Trace::parse(text).is_some(), good, "{text}");
        }
        assert_eq!(Trace::parse(GOOD).unwrap().parent_text().unwrap(), GOOD);
    }

    #[test]
    fn with_a_collector_the_next_hop_hangs_below_our_own_part() {
        let tracer = Tracer::new(Some("http://127.0.0.1:4318"));
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", GOOD.parse().unwrap());
        let trace = tracer.begin(Some(&headers), None, &Random::seeded(1)).unwrap();
        let next = trace.parent_text().unwrap();
        assert!(next.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && next != GOOD, "{next}");
        let span = Span {
            trace,
            name: "tools/call".into(),
            server: "s".into(),
            grant: "g".into(),
            ended_at_us: 2_000_000,
            took_us: 500,
            ending: Ending::Ok,
        };
        let spans = message(&[span]);
        let span = spans.pointer("/resourceSpans/0/scopeSpans/0/spans/0").unwrap();
        assert_eq!(span.get("parentSpanId").unwrap(), "b7ad6b7169203331");
        assert_eq!(span.get("startTimeUnixNano").unwrap(), "1999500000");
    }
}
