//! W3C trace context propagation, and spans for OpenTelemetry if a collector is configured. Spans
//! carry names and numbers, never arguments.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use hyper::HeaderMap;
use policy::json::Value;
use store::ledger::Ending;
use store::random::Random;
use tokio::sync::mpsc;
use url::Url;

/// Spans queued for export; further ones are dropped.
const SPANS_WAITING_MAX: usize = 4096;
/// A longer `tracestate` is not propagated.
const STATE_BYTES_MAX: usize = 512;

/// The position of a request in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) id: [u8; 16],
    pub(crate) parent: Option<[u8; 8]>,
    /// The gate's own span, if it creates one.
    pub(crate) own: Option<[u8; 8]>,
    flags: u8,
    state: Option<String>,
}

impl Trace {
    /// Parses the header, or the message's `_meta`. A malformed context is ignored.
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

    /// The trace id in audit rows.
    pub(crate) fn id_text(&self) -> String {
        hex(&self.id)
    }
}

/// `tracestate` may be split over several headers.
fn state_of(headers: &HeaderMap) -> Option<String> {
    let parts: Result<Vec<&str>, _> =
        headers.get_all("tracestate").iter().map(hyper::header::HeaderValue::to_str).collect();
    parts.ok().filter(|parts| !parts.is_empty()).map(|parts| parts.join(","))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
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

/// A finished span.
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

/// Creates spans if a collector is configured; otherwise only propagates contexts.
pub(crate) struct Tracer {
    waiting: Option<mpsc::Sender<Span>>,
    to_send: Mutex<Option<(mpsc::Receiver<Span>, Url)>>,
}

impl Tracer {
    /// A tracer for this collector. An invalid URL is logged and ignored.
    pub(crate) fn new(endpoint: Option<&str>) -> Tracer {
        let url = endpoint.and_then(|endpoint| match Url::parse(endpoint) {
            Ok(url) => Some(with_path(url)),
            Err(error) => {
                tracing::error!(%error, "`otel_endpoint` is not a URL; traces are not exported");
                None
            }
        });
        let Some(url) = url else { return Tracer { waiting: None, to_send: Mutex::new(None) } };
        let (waiting, spans) = mpsc::channel(SPANS_WAITING_MAX);
        Tracer { waiting: Some(waiting), to_send: Mutex::new(Some((spans, url))) }
    }

    /// The trace of a request, with our own span if we create spans.
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

    /// Queues a span; if the collector is too slow it is dropped.
    pub(crate) fn end(&self, span: Span) {
        if let Some(waiting) = &self.waiting
            && waiting.try_send(span).is_err()
        {
            tracing::debug!("dropped a span: the collector is too slow");
        }
    }

    /// The queue of finished spans and the collector's URL, for the exporter.
    pub(crate) fn take_spans(&self) -> Option<(mpsc::Receiver<Span>, Url)> {
        self.to_send.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Adds the default path for traces to a URL without one.
fn with_path(mut url: Url) -> Url {
    if matches!(url.path(), "" | "/") {
        url.set_path("/v1/traces");
    }
    url
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_well_formed_contexts_are_accepted() {
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
}
