//! Sends a message to the target of a channel. Redirects are not followed; errors name the host, never a path,
//! a token or a password.

use std::time::Duration;

use connectors::http::{BaseUrl, Http, Request};
use http::Method;
use store::registry::ChannelTarget;
use store::registry::channels::ENV_PREFIX;
use store::secret::Secret;
use url::Url;

use crate::email::{self, MailServer};
use crate::message::{Message, signature};

/// A receiver may take this long for one message.
const WAIT_MAX: Duration = Duration::from_secs(15);
const REPLY_BYTES_MAX: usize = 64 << 10;
const SIGNATURE_HEADER: &str = "x-tollgate-signature";

/// Looks up environment variables of the gate.
pub type LookUp = fn(&str) -> Option<String>;

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    pub message: String,
    /// Another attempt would fail in the same way.
    pub is_permanent: bool,
}

impl SendError {
    pub(crate) fn permanent(message: impl Into<String>) -> SendError {
        SendError { message: message.into(), is_permanent: true }
    }

    fn passing(message: impl Into<String>) -> SendError {
        SendError { message: message.into(), is_permanent: false }
    }
}

/// Sends messages. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    http: Http,
    look_up: LookUp,
}

impl Sender {
    pub fn new(look_up: LookUp) -> Sender {
        Sender { http: Http::new(), look_up }
    }

    pub async fn send(
        &self,
        target: &ChannelTarget,
        message: &Message,
        now_s: i64,
    ) -> Result<(), SendError> {
        match target {
            ChannelTarget::Webhook { url, secret } => {
                let body = message.webhook(now_s);
                let mut request = self.post(url)?.json(&body);
                if let Some(secret) = self.optional(secret.as_deref())? {
                    let signed = signature(&secret, now_s, &body.to_string());
                    request = request.header(SIGNATURE_HEADER, &signed);
                }
                self.exchange(request).await
            }
            ChannelTarget::Slack { url } => {
                self.exchange(self.post(url)?.json(&message.slack())).await
            }
            ChannelTarget::Ntfy { url, topic, token } => {
                let topic = self.resolved(topic)?;
                let mut request = self.post(url)?.json(&message.ntfy(&topic));
                if let Some(token) = self.optional(token.as_deref())? {
                    request = request.bearer(&Secret::new(token));
                }
                self.exchange(request).await
            }
            ChannelTarget::Email { server, port, security, user, password, from, to } => {
                let user = self.optional(user.as_deref())?;
                let password = self.optional(password.as_deref())?;
                let host = self.resolved(server)?;
                let login = user.map(|user| (user, password.unwrap_or_default()));
                let server = MailServer { host: &host, port: *port, security: *security, login };
                let sending = email::send(server, from, to, message);
                match tokio::time::timeout(WAIT_MAX * 2, sending).await {
                    Ok(sent) => sent,
                    Err(_) => Err(SendError::passing(format!("`{host}` did not answer in time"))),
                }
            }
        }
    }

    /// The value, or the environment variable that it names.
    fn resolved(&self, text: &str) -> Result<String, SendError> {
        let Some(name) = text.strip_prefix(ENV_PREFIX) else { return Ok(text.to_owned()) };
        (self.look_up)(name).ok_or_else(|| {
            SendError::passing(format!("the environment variable `{name}` of the gate is not set"))
        })
    }

    fn optional(&self, text: Option<&str>) -> Result<Option<String>, SendError> {
        text.map(|text| self.resolved(text)).transpose()
    }

    fn post(&self, address: &str) -> Result<Request, SendError> {
        let refused = |why: String| SendError::permanent(format!("the address is refused: {why}"));
        let mut url =
            Url::parse(&self.resolved(address)?).map_err(|error| refused(error.to_string()))?;
        let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        url.set_query(None);
        let base = BaseUrl::parse(url.as_str()).map_err(refused)?;
        let mut request = Request::new(Method::POST, &base, &[]);
        for (name, value) in &query {
            request = request.query(name, value);
        }
        Ok(request.wait_max(WAIT_MAX).reply_bytes_max(REPLY_BYTES_MAX))
    }

    async fn exchange(&self, request: Request) -> Result<(), SendError> {
        let host = request.host();
        let reply = self.http.send(request).await.map_err(|e| SendError::passing(e.to_string()))?;
        if reply.is_success() {
            return Ok(());
        }
        let message = format!("`{host}` answered with status {}", reply.status);
        // A receiver that refuses the message as it is refuses it again.
        let is_permanent = (300..500).contains(&reply.status) && !matches!(reply.status, 408 | 429);
        Err(SendError { message, is_permanent })
    }
}
