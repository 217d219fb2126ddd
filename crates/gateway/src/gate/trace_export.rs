//! Exports finished spans to the configured collector as OTLP over HTTP.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use store::ledger::{Ending, Facts, Ledger};
use tokio::sync::mpsc;
use url::Url;

use crate::runtime::permits;
use crate::runtime::trace::{Span, hex};
use crate::upstream::{HttpLink, HttpOptions, HttpServer, UpstreamMessage};

const SPANS_PER_MESSAGE_MAX: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(2);

/// Sends spans until the gate stops.
pub(super) async fn send_all(mut spans: mpsc::Receiver<Span>, url: Url, ledger: Arc<Ledger>) {
    let mut options = HttpOptions::new(url);
    options.allow_plain_http = true;
    if options.url.scheme() == "https" {
        options.tls = crate::upstream::client_config(None).ok();
    }
    let link = match HttpServer::new(options) {
        Ok(server) => HttpLink::new(server),
        Err(error) => {
            return tracing::error!(%error, "cannot use `otel_endpoint`; traces are not exported");
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
        let Ok(permit) = ledger.passed(&facts).await else { continue };
        let sent = link.send(&permit, UpstreamMessage::notification(message.into())).await;
        if let Err(error) = &sent {
            tracing::warn!(%error, "could not export traces to the collector");
        }
        permits::settle_by(permit, &sent);
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
    use hyper::HeaderMap;
    use store::random::Random;

    use super::*;
    use crate::runtime::trace::Tracer;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn with_a_collector_the_next_hop_is_a_child_of_our_span() {
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
