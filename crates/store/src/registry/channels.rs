//! Channels that reach the owner outside the dashboard: webhooks, Slack, ntfy and e-mail. The whole target is
//! sealed, because the address of a webhook is a credential. Nothing here sends.

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};
use url::Url;

use super::Registry;
use super::error::{ObjectKind, Origin, RegistryError};
use super::names::{check_name, taken};
use crate::vault::{Purpose, Sealed};

const CHANNELS_MAX: usize = 32;
const RECIPIENTS_MAX: usize = 16;
/// A value that begins like this names an environment variable of the gate.
pub const ENV_PREFIX: &str = "env:";

/// How much a notice says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// That something waits, and the link.
    Minimal,
    /// Also the grant, server, tool, risk and reason.
    #[default]
    Names,
    /// Also the arguments of a call that waits.
    Arguments,
}

impl Detail {
    pub const ALL: [Detail; 3] = [Detail::Minimal, Detail::Names, Detail::Arguments];

    pub fn as_str(self) -> &'static str {
        match self {
            Detail::Minimal => "minimal",
            Detail::Names => "names",
            Detail::Arguments => "arguments",
        }
    }

    pub fn parse(text: &str) -> Option<Detail> {
        Detail::ALL.into_iter().find(|detail| detail.as_str() == text)
    }
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A call waits for approval.
    Approval,
    /// An account needs a new sign-in.
    Account,
    /// The sync of an account keeps failing.
    Sync,
    /// A measured value left its usual range.
    Insight,
    /// The owner asked for a test message.
    Test,
}

impl Topic {
    pub const ALL: [Topic; 5] =
        [Topic::Approval, Topic::Account, Topic::Sync, Topic::Insight, Topic::Test];

    pub fn as_str(self) -> &'static str {
        match self {
            Topic::Approval => "approval",
            Topic::Account => "account",
            Topic::Sync => "sync",
            Topic::Insight => "insight",
            Topic::Test => "test",
        }
    }

    pub fn parse(text: &str) -> Option<Topic> {
        Topic::ALL.into_iter().find(|topic| topic.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmtpSecurity {
    #[default]
    Starttls,
    Tls,
    /// For a mail server on this machine only.
    None,
}

impl SmtpSecurity {
    pub const ALL: [SmtpSecurity; 3] =
        [SmtpSecurity::Starttls, SmtpSecurity::Tls, SmtpSecurity::None];

    pub fn as_str(self) -> &'static str {
        match self {
            SmtpSecurity::Starttls => "starttls",
            SmtpSecurity::Tls => "tls",
            SmtpSecurity::None => "none",
        }
    }

    pub fn parse(text: &str) -> Option<SmtpSecurity> {
        SmtpSecurity::ALL.into_iter().find(|security| security.as_str() == text)
    }

    pub fn default_port(self) -> u16 {
        match self {
            SmtpSecurity::Starttls => 587,
            SmtpSecurity::Tls => 465,
            SmtpSecurity::None => 25,
        }
    }
}

/// Where a channel sends. Every text may be `env:NAME`; it is resolved when a notice is sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChannelTarget {
    Webhook {
        url: String,
        /// Signs each request, if there is one.
        secret: Option<String>,
    },
    Slack {
        url: String,
    },
    Ntfy {
        url: String,
        topic: String,
        token: Option<String>,
    },
    Email {
        server: String,
        port: u16,
        security: SmtpSecurity,
        user: Option<String>,
        password: Option<String>,
        from: String,
        to: Vec<String>,
    },
}

/// Shows nothing of the target but its kind.
impl std::fmt::Debug for ChannelTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChannelTarget({})", self.kind())
    }
}

impl ChannelTarget {
    pub const KINDS: [&str; 4] = ["webhook", "slack", "ntfy", "email"];

    pub fn kind(&self) -> &'static str {
        match self {
            ChannelTarget::Webhook { .. } => "webhook",
            ChannelTarget::Slack { .. } => "slack",
            ChannelTarget::Ntfy { .. } => "ntfy",
            ChannelTarget::Email { .. } => "email",
        }
    }

    /// What lists may print: the host or the recipients, never a path or a secret.
    fn shown(&self) -> String {
        let host = |url: &str| match Url::parse(url) {
            Ok(url) => url.host_str().unwrap_or_default().to_owned(),
            Err(_) if url.starts_with(ENV_PREFIX) => url.to_owned(),
            Err(_) => String::new(),
        };
        match self {
            ChannelTarget::Webhook { url, .. }
            | ChannelTarget::Slack { url }
            | ChannelTarget::Ntfy { url, .. } => host(url),
            ChannelTarget::Email { to, .. } => to.join(", "),
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            ChannelTarget::Webhook { url, .. } | ChannelTarget::Slack { url } => check_url(url),
            ChannelTarget::Ntfy { url, topic, .. } => {
                check_url(url)?;
                let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let is_topic = !topic.is_empty() && topic.len() <= 64 && topic.chars().all(fits);
                if is_topic || topic.starts_with(ENV_PREFIX) {
                    Ok(())
                } else {
                    Err("a topic is 1 to 64 letters, digits, `_` and `-`".to_owned())
                }
            }
            ChannelTarget::Email { server, security, from, to, .. } => {
                check_email(server, *security, from, to)
            }
        }
    }
}

/// Https, or plain http to this machine.
fn check_url(url: &str) -> Result<(), String> {
    if url.starts_with(ENV_PREFIX) {
        return Ok(());
    }
    let url = Url::parse(url).map_err(|error| format!("the address is no URL: {error}"))?;
    let host = url.host_str().unwrap_or_default();
    match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => {
            Err("the address has a user name or a password".to_owned())
        }
        "https" if !host.is_empty() => Ok(()),
        "http" if is_this_machine(host) => Ok(()),
        "http" => Err("plain http is for this machine only; use https".to_owned()),
        scheme => Err(format!("`{scheme}` is not a supported scheme; use https")),
    }
}

fn check_email(
    server: &str,
    security: SmtpSecurity,
    from: &str,
    to: &[String],
) -> Result<(), String> {
    if server.is_empty() {
        return Err("the mail server is missing".to_owned());
    }
    if security == SmtpSecurity::None && !is_this_machine(server) {
        return Err("mail without TLS is for a server on this machine only".to_owned());
    }
    if to.is_empty() || to.len() > RECIPIENTS_MAX {
        return Err(format!("give 1 to {RECIPIENTS_MAX} recipients"));
    }
    let addresses = to.iter().map(String::as_str).chain([from]);
    for address in addresses {
        if !address.contains('@') || address.chars().any(char::is_control) {
            return Err(format!("`{}` is no e-mail address", address.escape_debug()));
        }
    }
    Ok(())
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    let is_loopback = |address: std::net::IpAddr| address.is_loopback();
    host.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback)
}

/// A channel without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub name: String,
    pub kind: String,
    /// The host or the recipients.
    pub shown: String,
    pub detail: Detail,
    /// Empty: all of them.
    pub topics: Vec<Topic>,
    pub created_at_us: i64,
}

impl Channel {
    /// Whether notices about this go to the channel. A test always does.
    pub fn wants(&self, topic: Topic) -> bool {
        self.topics.is_empty() || topic == Topic::Test || self.topics.contains(&topic)
    }
}

impl Registry {
    pub fn add_channel(
        &self,
        name: &str,
        target: &ChannelTarget,
        (detail, topics): (Detail, &[Topic]),
        now_us: i64,
    ) -> Result<(), RegistryError> {
        check_name(ObjectKind::Channel, name)?;
        let refused = |words| RegistryError::Channel { name: name.to_owned(), words };
        target.check().map_err(refused)?;
        let text = serde_json::to_vec(target).map_err(|error| refused(error.to_string()))?;
        let sealed = self.vault.seal(Purpose::NoticeChannel, name, &text, &self.random)?;
        let topics: Vec<&str> = topics.iter().map(|topic| topic.as_str()).collect();
        self.act(("channel_added", name, now_us), |db| {
            let exists = "SELECT EXISTS (SELECT 1 FROM channels WHERE name = ?1)";
            if db.query_row(exists, [name], |row| row.get(0))? {
                return Err(taken(ObjectKind::Channel, name, Origin::Registry));
            }
            let count: i64 = db.query_row("SELECT count(*) FROM channels", [], |row| row.get(0))?;
            if usize::try_from(count).is_ok_and(|count| count >= CHANNELS_MAX) {
                let (kind, what) = (ObjectKind::Setting, "channels");
                return Err(RegistryError::TooMany { kind, what, most: CHANNELS_MAX });
            }
            db.execute(
                "INSERT INTO channels (name, kind, shown, detail, topics, sealed, created_at_us)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                (
                    name,
                    target.kind(),
                    target.shown(),
                    detail.as_str(),
                    topics.join(","),
                    sealed.as_bytes(),
                    now_us,
                ),
            )?;
            Ok(((), target.kind().to_owned()))
        })
    }

    pub fn channels(&self) -> Result<Vec<Channel>, RegistryError> {
        self.read(|db| {
            let mut select = db.prepare_cached(
                "SELECT name, kind, shown, detail, topics, created_at_us FROM channels ORDER BY name",
            )?;
            let rows = select.query_map([], channel_of)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// The target of a channel, opened.
    pub fn channel_target(&self, name: &str) -> Result<ChannelTarget, RegistryError> {
        let bytes: Option<Vec<u8>> = self.read(|db| {
            let select = "SELECT sealed FROM channels WHERE name = ?1";
            Ok(db.query_row(select, [name], |row| row.get(0)).optional()?)
        })?;
        let bytes = bytes.ok_or_else(|| missing(name))?;
        let opened = self.vault.open(&Sealed::from_bytes(Purpose::NoticeChannel, name, bytes))?;
        serde_json::from_slice(opened.expose()).map_err(|_| RegistryError::Channel {
            name: name.to_owned(),
            words: "it was written by another version; remove it and add it again".to_owned(),
        })
    }

    pub fn remove_channel(&self, name: &str, now_us: i64) -> Result<(), RegistryError> {
        self.act(("channel_removed", name, now_us), |db| {
            if db.execute("DELETE FROM channels WHERE name = ?1", [name])? == 0 {
                return Err(missing(name));
            }
            Ok(((), String::new()))
        })
    }
}

pub(super) fn missing(name: &str) -> RegistryError {
    let (kind, name) = (ObjectKind::Channel, name.to_owned());
    RegistryError::Missing { kind, name, near: String::new() }
}

pub(super) fn channel_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Channel> {
    let (detail, topics): (String, String) = (row.get(3)?, row.get(4)?);
    Ok(Channel {
        name: row.get(0)?,
        kind: row.get(1)?,
        shown: row.get(2)?,
        // An unknown level of a newer version says the least.
        detail: Detail::parse(&detail).unwrap_or(Detail::Minimal),
        topics: topics.split(',').filter_map(Topic::parse).collect(),
        created_at_us: row.get(5)?,
    })
}
