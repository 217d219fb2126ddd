//! `tollgate notify`: channels that reach the owner outside the dashboard. Secrets are read from a prompt, a
//! file or the environment, and never printed.

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use notify::{Message, Sender};
use serde_json::json;
use store::registry::channels::ENV_PREFIX;
use store::registry::{Channel, ChannelTarget, Detail, SmtpSecurity, Topic};

use crate::context::{Context, Stores};
use crate::credential::SecretArg;
use crate::failure::Ending;
use crate::gate::runtime;
use crate::moment;
use crate::output::{Out, Table};

#[derive(Subcommand)]
pub(crate) enum NotifyCommand {
    /// Add a channel: webhook, slack, ntfy or email
    #[command(subcommand)]
    Add(AddCommand),
    /// List the channels and what was sent last
    List,
    /// Send a test message now
    Test(ChannelArgs),
    /// Remove a channel
    Remove(ChannelArgs),
}

#[derive(Subcommand)]
pub(crate) enum AddCommand {
    /// POST JSON to an address, signed with HMAC-SHA-256
    Webhook(WebhookArgs),
    /// An incoming webhook of Slack, Mattermost or another that takes the same JSON
    Slack(SlackArgs),
    /// A topic of ntfy, which shows messages on your phone
    Ntfy(NtfyArgs),
    /// Mail by SMTP
    Email(EmailArgs),
}

#[derive(Args)]
pub(crate) struct ChannelArgs {
    /// The name of the channel
    name: String,
}

#[derive(Args)]
pub(crate) struct Common {
    /// The name of the channel, such as phone
    name: String,
    /// How much a message says: minimal, names or arguments
    #[arg(long, default_value = "names", value_parser = detail)]
    detail: Detail,
    /// Only these: approval, account, sync or insight; may be given several times
    #[arg(long, value_name = "TOPIC", value_parser = topic)]
    only: Vec<Topic>,
}

#[derive(Args)]
pub(crate) struct WebhookArgs {
    #[command(flatten)]
    common: Common,
    /// The address; or env:VARIABLE, @FILE or prompt
    #[arg(long)]
    url: String,
    /// The secret that signs each request: env:VARIABLE, @FILE or prompt
    #[arg(long, value_name = "SOURCE")]
    secret: Option<String>,
}

#[derive(Args)]
pub(crate) struct SlackArgs {
    #[command(flatten)]
    common: Common,
    /// The address, which is a secret: env:VARIABLE, @FILE or prompt
    #[arg(long, value_name = "SOURCE", default_value = "prompt")]
    url: String,
}

#[derive(Args)]
pub(crate) struct NtfyArgs {
    #[command(flatten)]
    common: Common,
    /// The topic; choose a name that cannot be guessed
    #[arg(long)]
    topic: String,
    /// The ntfy server
    #[arg(long, default_value = "https://ntfy.sh")]
    url: String,
    /// An access token: env:VARIABLE, @FILE or prompt
    #[arg(long, value_name = "SOURCE")]
    token: Option<String>,
}

#[derive(Args)]
pub(crate) struct EmailArgs {
    #[command(flatten)]
    common: Common,
    /// The mail server
    #[arg(long, value_name = "HOST")]
    server: String,
    /// Its port [default: 587, with tls 465, with none 25]
    #[arg(long)]
    port: Option<u16>,
    /// starttls, tls, or none for a server on this machine
    #[arg(long, default_value = "starttls", value_parser = security)]
    security: SmtpSecurity,
    /// The user at the mail server
    #[arg(long)]
    user: Option<String>,
    /// The password: env:VARIABLE, @FILE or prompt
    #[arg(long, value_name = "SOURCE", requires = "user")]
    password: Option<String>,
    /// The sender
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// A recipient; may be given several times
    #[arg(long, value_name = "ADDRESS", required = true)]
    to: Vec<String>,
}

fn detail(text: &str) -> Result<Detail> {
    Detail::parse(text).ok_or_else(|| anyhow!("write minimal, names or arguments"))
}

fn topic(text: &str) -> Result<Topic> {
    let known = Topic::parse(text).filter(|topic| *topic != Topic::Test);
    known.ok_or_else(|| anyhow!("write approval, account, sync or insight"))
}

fn security(text: &str) -> Result<SmtpSecurity> {
    SmtpSecurity::parse(text).ok_or_else(|| anyhow!("write starttls, tls or none"))
}

impl NotifyCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        let stores = context.open()?;
        match self {
            NotifyCommand::Add(command) => add(command, &stores, out),
            NotifyCommand::List => list(&stores, out),
            NotifyCommand::Test(args) => test(&args.name, &stores, out),
            NotifyCommand::Remove(args) => remove(&args.name, &stores, out),
        }
    }
}

impl AddCommand {
    fn target(self) -> Result<(Common, ChannelTarget)> {
        Ok(match self {
            AddCommand::Webhook(args) => {
                let url = if is_source(&args.url) { value("url", &args.url)? } else { args.url };
                let secret = args.secret.map(|source| value("secret", &source)).transpose()?;
                (args.common, ChannelTarget::Webhook { url, secret })
            }
            AddCommand::Slack(args) => {
                let url = value("url", &args.url)?;
                (args.common, ChannelTarget::Slack { url })
            }
            AddCommand::Ntfy(args) => {
                let token = args.token.map(|source| value("token", &source)).transpose()?;
                (args.common, ChannelTarget::Ntfy { url: args.url, topic: args.topic, token })
            }
            AddCommand::Email(args) => {
                let password =
                    args.password.map(|source| value("password", &source)).transpose()?;
                let target = ChannelTarget::Email {
                    server: args.server,
                    port: args.port.unwrap_or_else(|| args.security.default_port()),
                    security: args.security,
                    user: args.user,
                    password,
                    from: args.from,
                    to: args.to,
                };
                (args.common, target)
            }
        })
    }
}

fn is_source(text: &str) -> bool {
    text == "prompt" || text.starts_with('@') || text.starts_with(ENV_PREFIX)
}

/// A reference to the environment stays one; everything else is read now.
fn value(option: &str, source: &str) -> Result<String> {
    if source.strip_prefix(ENV_PREFIX).is_some_and(|name| !name.is_empty()) {
        return Ok(source.to_owned());
    }
    let secret = SecretArg::of_option(option, source)?.fetch()?;
    Ok(secret.expose().clone())
}

fn add(command: AddCommand, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let (common, target) = command.target()?;
    stores.ready_to_note()?;
    let how = (common.detail, common.only.as_slice());
    stores.registry.add_channel(&common.name, &target, how, stores.now_us())?;
    stores.record()?;
    if out.wants_json() {
        let all = stores.registry.channels()?;
        let added = all.iter().find(|channel| channel.name == common.name);
        out.json(&added.map(channel_json))?;
    } else {
        out.line(format_args!("channel `{}` added ({})", common.name, target.kind()))?;
        out.say(format_args!("try it: `tollgate notify test {}`", common.name));
    }
    Ok(Ending::Yes)
}

fn channel_json(channel: &Channel) -> serde_json::Value {
    let topics: Vec<&str> = channel.topics.iter().map(|topic| topic.as_str()).collect();
    json!({
        "name": channel.name,
        "kind": channel.kind,
        "to": channel.shown,
        "detail": channel.detail.as_str(),
        "topics": topics,
        "created_at": moment::utc(channel.created_at_us),
    })
}

fn list(stores: &Stores, out: &mut Out) -> Result<Ending> {
    let channels = stores.registry.channels()?;
    if out.wants_json() {
        out.json(&channels.iter().map(channel_json).collect::<Vec<_>>())?;
        return Ok(Ending::Yes);
    }
    if channels.is_empty() {
        out.say("no channels yet; `tollgate notify add ntfy phone --topic TOPIC` adds one");
        return Ok(Ending::Yes);
    }
    let deliveries = stores.registry.deliveries(1_000)?;
    let mut table = Table::new(&["name", "kind", "to", "detail", "last message"]);
    for channel in channels {
        let last = deliveries.iter().find(|delivery| delivery.channel == channel.name);
        let last = last.map_or_else(
            || "none yet".to_owned(),
            |delivery| match delivery.sent_at_us {
                Some(at_us) => format!("sent {}", moment::local(at_us)),
                None if delivery.error.is_empty() => "being sent".to_owned(),
                None => delivery.error.clone(),
            },
        );
        table.row([
            channel.name,
            channel.kind,
            channel.shown,
            channel.detail.as_str().to_owned(),
            last,
        ]);
    }
    out.table(&table)?;
    Ok(Ending::Yes)
}

/// Sends from this process, so that the result is known at once.
fn test(name: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let target = stores.registry.channel_target(name)?;
    let running = crate::running::all(stores.home.path()).into_iter().find_map(|gate| gate.url);
    let url = running.unwrap_or_else(|| format!("http://{}/mcp", stores.settings.listen));
    let message = Message {
        topic: Topic::Test.as_str().to_owned(),
        title: "Test message from tollgate".to_owned(),
        text: "This channel works.".to_owned(),
        link: format!("{}/notifications", url.trim_end_matches("/mcp")),
    };
    let sender = Sender::new(|name| std::env::var(name).ok());
    let sent = runtime()?.block_on(sender.send(&target, &message, stores.now_us() / 1_000_000));
    sent.map_err(|error| anyhow!("channel `{name}`: the test message was not sent: {error}"))?;
    if out.wants_json() {
        out.json(&json!({ "name": name, "sent": true }))?;
    } else {
        out.line(format_args!("test message sent to `{name}`"))?;
    }
    Ok(Ending::Yes)
}

fn remove(name: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    stores.ready_to_note()?;
    stores.registry.remove_channel(name, stores.now_us())?;
    stores.record()?;
    if out.wants_json() {
        out.json(&json!({ "name": name, "removed": true }))?;
    } else {
        out.line(format_args!("channel `{name}` removed"))?;
    }
    Ok(Ending::Yes)
}
