//! Sends the webhook of a service: one POST to a loopback address.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use url::{Host, Url};

use crate::error::ControlError;

const RESPONSE_WAIT_MAX: Duration = Duration::from_secs(10);

/// A webhook message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

/// Posts JSON and returns the response status.
pub(crate) async fn post(address: &str, message: Message) -> Result<u16, ControlError> {
    let url = Url::parse(address)
        .map_err(|_| ControlError::Bad("`url` is not a valid URL".to_owned()))?;
    if url.scheme() != "http" || !is_loopback(&url) {
        return Err(ControlError::Bad(
            "webhooks go to plain http on loopback only, such as http://127.0.0.1:8080/hook"
                .to_owned(),
        ));
    }
    let sending = send(&url, message);
    match tokio::time::timeout(RESPONSE_WAIT_MAX, sending).await {
        Ok(Some(status)) => Ok(status),
        Ok(None) => Err(ControlError::Failed("no receiver accepted the webhook".to_owned())),
        Err(_) => Err(ControlError::Failed("the receiver did not respond within 10 s".to_owned())),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

async fn send(url: &Url, message: Message) -> Option<u16> {
    let host = url.host_str()?.trim_matches(['[', ']']);
    let port = url.port_or_known_default()?;
    let stream = TcpStream::connect((host, port)).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let running = tokio::spawn(connection);
    let path = url
        .query()
        .map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let mut request = Request::post(path)
        .header("host", format!("{}:{port}", url.host_str()?))
        .header("content-type", "application/json");
    for (name, value) in message.headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(message.body))).ok()?;
    let status = sender.send_request(request).await.ok().map(|response| response.status().as_u16());
    running.abort();
    status
}
