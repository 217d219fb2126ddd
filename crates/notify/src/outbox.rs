//! Delivers what is due in the outbox, channel by channel, so that a receiver that does not answer delays no
//! other channel.

use std::sync::Arc;

use store::clock::Clock;
use store::registry::{Delivery, Detail, Registry, RegistryError};

use crate::message::Message;
use crate::send::{SendError, Sender};

/// Deliveries of one channel that are taken at once.
const TAKEN_AT_ONCE_MAX: u32 = 4;

/// The arguments of a call that waits, by the key of its notice. Nothing when it no longer waits or when they
/// are not stored.
pub type Arguments = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The outbox of one home.
#[derive(Clone)]
pub struct Outbox {
    pub registry: Arc<Registry>,
    pub sender: Sender,
    pub clock: Clock,
    pub arguments: Arguments,
    /// The address of the dashboard, without a slash at the end.
    pub base_url: String,
}

impl Outbox {
    /// Sends what is due for one channel, one message after the other. The registry blocks, so this must run
    /// where blocking is allowed.
    pub async fn deliver_due(&self, channel: &str) -> Result<usize, RegistryError> {
        let mut sent = 0;
        loop {
            let now_us = self.clock.now().wall_us;
            let due = self.registry.take_due_deliveries(channel, now_us, TAKEN_AT_ONCE_MAX)?;
            if due.is_empty() {
                return Ok(sent);
            }
            sent += due.len();
            for delivery in due {
                self.deliver(&delivery).await;
            }
        }
    }

    async fn deliver(&self, delivery: &Delivery) {
        let sent = self.send(delivery).await;
        let now_us = self.clock.now().wall_us;
        let name = &delivery.channel.name;
        let stored = match sent {
            Ok(()) => self.registry.delivered(delivery, now_us),
            Err(SendError { message, is_permanent }) => {
                tracing::warn!(
                    channel = name,
                    attempt = delivery.attempts,
                    "notice not sent: {message}"
                );
                self.registry.delivery_failed(delivery, &message, is_permanent, now_us)
            }
        };
        if let Err(error) = stored {
            tracing::error!(%error, channel = name, "could not record a delivery; it may be sent again");
        }
    }

    async fn send(&self, delivery: &Delivery) -> Result<(), SendError> {
        let target = self
            .registry
            .channel_target(&delivery.channel.name)
            .map_err(|error| SendError::permanent(error.to_string()))?;
        let now_s = self.clock.now().wall_us / 1_000_000;
        self.sender.send(&target, &self.message(delivery), now_s).await
    }

    /// What the channel is told, at the level of detail that the owner chose for it.
    fn message(&self, delivery: &Delivery) -> Message {
        let notice = &delivery.notice;
        let (title, text) = match delivery.channel.detail {
            Detail::Minimal => {
                (minimal_title(&notice.topic).to_owned(), "Open the link to see it.".to_owned())
            }
            Detail::Names => (notice.title.clone(), notice.text.clone()),
            Detail::Arguments => {
                let arguments = (self.arguments)(&notice.key).map(|text| format!("\n\n{text}"));
                let text = format!("{}{}", notice.text, arguments.unwrap_or_default());
                (notice.title.clone(), text)
            }
        };
        let link = format!("{}{}", self.base_url, notice.path);
        Message { topic: notice.topic.clone(), title, text, link }
    }
}

fn minimal_title(topic: &str) -> &'static str {
    match topic {
        "approval" => "A call waits for your approval",
        "account" => "An account needs your attention",
        "sync" => "A sync keeps failing",
        "insight" => "A rule about your data applies",
        "test" => "Test message from tollgate",
        _ => "tollgate has news for you",
    }
}
