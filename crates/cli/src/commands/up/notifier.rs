//! Turns calls that wait into notices and delivers the outbox, while a gate runs. Works on threads that may
//! block, away from those that carry calls.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use dashboard::pretty;
use notify::{Outbox, Sender};
use store::approval::ParkedParams;
use store::clock::Clock;
use store::ledger::{Approval, ApprovalStatus, Ledger};
use store::registry::{NewNotice, Registry, RegistryError, Topic};
use store::settings::Settings;
use store::tool_class;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use url::Url;

use super::metric_notices;
use crate::context::Stores;
use crate::moment;
use crate::output::{visible, visible_lines};

/// How often the outbox is checked for retries and for notices of other processes.
const POLL_EVERY: Duration = Duration::from_secs(1);
const KEY_PREFIX: &str = "approval:";
/// More than this of the arguments is left to the page.
const ARGUMENTS_CHARS_MAX: usize = 2_000;
/// The params of a call are stored a moment after its row.
const PARAMS_WAIT_STEPS: u32 = 20;
const PARAMS_WAIT_STEP: Duration = Duration::from_millis(50);

struct Notifier {
    outbox: Outbox,
    ledger: Arc<Ledger>,
    registry: Arc<Registry>,
    clock: Clock,
    /// Approvals with a notice that still wait.
    open: Mutex<HashSet<String>>,
    /// Channels that are being sent to.
    busy: Mutex<HashSet<String>>,
}

/// Notifies the owner until the gate stops.
pub(super) fn start(
    mcp_url: &str,
    settings: &Settings,
    stores: &Stores,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
    let ledger = Arc::clone(stores.gate_ledger()?);
    let registry = Arc::clone(&stores.registry);
    let (lazy, clock) = (stores.lazy_context(), stores.clock().clone());
    let (wanted, parked) = (Arc::clone(&ledger), Arc::clone(&registry));
    let outbox = Outbox {
        registry: Arc::clone(&registry),
        sender: Sender::new(|name| std::env::var(name).ok()),
        clock: stores.clock().clone(),
        arguments: Arc::new(move |key| {
            let values = || {
                let ctx = lazy.get().ok()?;
                metric_notices::values(key, &ctx.records, &clock, ctx.units)
            };
            arguments(key, &wanted, &parked).or_else(values)
        }),
        base_url: base_url(mcp_url, settings),
    };
    let changed = Arc::new(Notify::new());
    let wake = Arc::clone(&changed);
    ledger.on_approval_change(move || wake.notify_one());
    let notifier = Arc::new(Notifier {
        outbox,
        ledger,
        registry,
        clock: stores.clock().clone(),
        open: Mutex::default(),
        busy: Mutex::default(),
    });
    tokio::spawn(async move {
        loop {
            let round = Arc::clone(&notifier);
            let _ = tokio::task::spawn_blocking(move || round.round()).await;
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(POLL_EVERY) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    });
    Ok(())
}

impl Notifier {
    /// Stores notices of calls that began to wait, and starts the delivery of what is due.
    fn round(self: &Arc<Self>) {
        let channels = match self.registry.channels() {
            Ok(channels) => channels,
            Err(error) => return tracing::warn!(%error, "cannot read the notification channels"),
        };
        if channels.is_empty() {
            return;
        }
        if let Err(error) = self.note_approvals() {
            tracing::warn!(%error, "could not store a notice");
        }
        for channel in channels {
            self.deliver(channel.name);
        }
    }

    fn note_approvals(&self) -> Result<(), RegistryError> {
        let time = self.ledger.time(self.clock.now());
        let approvals = self.ledger.approvals().unwrap_or_default();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_waiting = |approval: &&Approval| {
            approval.status == ApprovalStatus::Pending && !approval.is_expired(time)
        };
        let waiting: Vec<&Approval> = approvals.iter().filter(is_waiting).collect();
        for approval in &waiting {
            if open.insert(approval.id.clone()) {
                self.raise(approval, time)?;
            }
        }
        let ids: HashSet<&str> = waiting.iter().map(|approval| approval.id.as_str()).collect();
        let ended: Vec<String> =
            open.iter().filter(|id| !ids.contains(id.as_str())).cloned().collect();
        for id in ended {
            open.remove(&id);
            self.registry.cancel_notice(&format!("{KEY_PREFIX}{id}"), "no longer waits")?;
        }
        Ok(())
    }

    fn raise(&self, approval: &Approval, time: u64) -> Result<(), RegistryError> {
        let Approval { id, grant, server, subject, reason, .. } = approval;
        let subject = visible(subject);
        let risk = tool_class::risk(server, &approval.subject, &self.registry);
        let risk = risk.map(|risk| format!(" Risk: {risk}.")).unwrap_or_default();
        let left = moment::span(approval.expires_us.saturating_sub(time) / 1_000_000);
        let notice = NewNotice {
            key: &format!("{KEY_PREFIX}{id}"),
            topic: Topic::Approval,
            title: &format!("{grant} wants {subject} on {server}"),
            text: &format!("{}.{risk} It waits for {left}.", reason.trim_end_matches('.')),
            path: &format!("/approvals/{id}"),
        };
        self.registry.raise_notice(&notice, self.clock.now().wall_us).map(drop)
    }

    /// Each channel has a thread of its own while it sends.
    fn deliver(self: &Arc<Self>, channel: String) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy.insert(channel.clone()) {
            return;
        }
        let (notifier, runtime) = (Arc::clone(self), Handle::current());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = runtime.block_on(notifier.outbox.deliver_due(&channel)) {
                tracing::warn!(%error, channel, "cannot read the outbox");
            }
            notifier.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel);
        });
    }
}

/// The arguments of a call that still waits, cut to what fits a message.
fn arguments(key: &str, ledger: &Ledger, registry: &Registry) -> Option<String> {
    let id = key.strip_prefix(KEY_PREFIX)?;
    let approvals = ledger.approvals().ok()?;
    let approval = approvals.iter().find(|approval| approval.id == id)?;
    for _ in 0..PARAMS_WAIT_STEPS {
        if let Some(parked) = ParkedParams::of(approval, registry).ok().flatten() {
            let lines: Vec<String> = visible_lines(&pretty(&parked.arguments())).collect();
            let text = lines.join("\n");
            let mut cut: String = text.chars().take(ARGUMENTS_CHARS_MAX).collect();
            if cut.len() < text.len() {
                cut.push_str("\n… (the page shows all of it)");
            }
            return Some(cut);
        }
        std::thread::sleep(PARAMS_WAIT_STEP);
    }
    None
}

/// The address of the dashboard in links: the first host name of the settings, so that a phone can open it.
fn base_url(mcp_url: &str, settings: &Settings) -> String {
    let base = mcp_url.strip_suffix("/mcp").unwrap_or(mcp_url);
    let (Ok(mut url), Some(host)) = (Url::parse(base), settings.hostnames.first()) else {
        return base.to_owned();
    };
    match url.set_host(Some(host)) {
        Ok(()) => url.as_str().trim_end_matches('/').to_owned(),
        Err(_) => base.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_the_host_that_other_devices_know() {
        let mut settings = Settings::default();
        assert_eq!(base_url("http://127.0.0.1:4180/mcp", &settings), "http://127.0.0.1:4180");
        settings.hostnames = vec!["gate.example".to_owned()];
        assert_eq!(base_url("https://0.0.0.0:4180/mcp", &settings), "https://gate.example:4180");
    }
}
