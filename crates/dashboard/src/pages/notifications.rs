//! Channels that reach the owner outside the dashboard: add, test, remove, and what became of each message.
//! Addresses and secrets are written here and never shown back.

use askama::Template;
use http::StatusCode;
use serde::Serialize;
use store::registry::{ChannelTarget, Detail, SmtpSecurity, Topic};

use crate::app::App;
use crate::page::{Chrome, render, segment};
use crate::problem::Problem;
use crate::request::{Typed, Visit};
use crate::response::Response;
use crate::time::Moment;

const DELIVERIES_MAX: u32 = 50;

#[derive(Serialize)]
struct ChannelRow {
    name: String,
    kind: String,
    to: String,
    detail: &'static str,
    topics: Vec<&'static str>,
    created_at: Moment,
    #[serde(skip)]
    path: String,
}

#[derive(Serialize)]
struct DeliveryRow {
    at: Moment,
    title: String,
    channel: String,
    state: String,
    attempts: u32,
    #[serde(skip)]
    tone: &'static str,
}

#[derive(Template, Serialize)]
#[template(path = "notifications.html")]
struct NotificationsPage {
    #[serde(skip)]
    chrome: Chrome,
    channels: Vec<ChannelRow>,
    deliveries: Vec<DeliveryRow>,
    /// Why the form was rejected.
    problem: Option<String>,
    #[serde(skip)]
    typed: Typed,
    #[serde(skip)]
    details: [(&'static str, &'static str); 3],
    #[serde(skip)]
    topics: [(&'static str, &'static str); 4],
}

/// What the form offers: value and label.
const DETAILS: [(&str, &str); 3] = [
    ("names", "grant, tool, server and reason"),
    ("minimal", "only that something waits"),
    ("arguments", "also the arguments of the call"),
];
const TOPICS: [(&str, &str); 4] = [
    ("approval", "calls that wait"),
    ("account", "accounts that need a sign-in"),
    ("sync", "syncs that keep failing"),
    ("insight", "insights"),
];

pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    view(app, visit, None)
}

fn view(app: &App, visit: &Visit, problem: Option<Problem>) -> Result<Response, Problem> {
    let channels = app.registry.channels()?.into_iter().map(|channel| ChannelRow {
        path: format!("/notifications/{}", segment(&channel.name)),
        detail: channel.detail.as_str(),
        topics: channel.topics.iter().map(|topic| topic.as_str()).collect(),
        created_at: Moment::of(channel.created_at_us, &app.zone),
        name: channel.name,
        kind: channel.kind,
        to: channel.shown,
    });
    let deliveries = app.registry.deliveries(DELIVERIES_MAX)?.into_iter().map(|delivery| {
        let (state, tone) = match (delivery.sent_at_us, delivery.next_at_us) {
            (Some(_), _) => ("sent".to_owned(), "allowed"),
            (None, Some(_)) if delivery.error.is_empty() => ("being sent".to_owned(), "waiting"),
            (None, Some(_)) => (format!("{}; tried again later", delivery.error), "waiting"),
            (None, None) => (delivery.error, "refused"),
        };
        DeliveryRow {
            at: Moment::of(delivery.sent_at_us.unwrap_or(delivery.created_at_us), &app.zone),
            title: delivery.title,
            channel: delivery.channel,
            attempts: delivery.attempts,
            state,
            tone,
        }
    });
    let status = problem.as_ref().map_or(StatusCode::OK, |problem| problem.status);
    let view = NotificationsPage {
        channels: channels.collect(),
        deliveries: deliveries.collect(),
        problem: problem.map(|problem| problem.message),
        typed: visit.typed(),
        chrome: Chrome::new(app, visit, "Notifications"),
        details: DETAILS,
        topics: TOPICS,
    };
    render(visit.format, status, &view)
}

pub(crate) fn add(app: &App, visit: &Visit) -> Result<Response, Problem> {
    match try_add(app, visit) {
        Ok(()) => Ok(Response::see_other("/notifications")),
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {
            view(app, visit, Some(problem))
        }
        Err(problem) => Err(problem),
    }
}

fn try_add(app: &App, visit: &Visit) -> Result<(), Problem> {
    let name = visit.needed_field("name", "the name")?;
    let target = target(visit)?;
    let detail = visit.field("detail").map_or(Some(Detail::default()), Detail::parse);
    let detail = detail.ok_or_else(|| Problem::invalid("unknown level of detail"))?;
    let topics: Vec<Topic> = visit.fields("topic").filter_map(Topic::parse).collect();
    // All of them is the same as no filter, which also holds for topics of later versions.
    let topics = if topics.len() == TOPICS.len() { Vec::new() } else { topics };
    app.act(&visit.person.name, |registry, now_us| {
        registry.add_channel(name, &target, (detail, &topics), now_us)
    })
}

fn target(visit: &Visit) -> Result<ChannelTarget, Problem> {
    let text = |key: &str| visit.field(key).map(str::to_owned);
    let needed = |key: &str, label: &str| visit.needed_field(key, label).map(str::to_owned);
    Ok(match visit.needed_field("kind", "the kind")? {
        "webhook" => {
            ChannelTarget::Webhook { url: needed("url", "the address")?, secret: text("secret") }
        }
        "slack" => ChannelTarget::Slack { url: needed("url", "the address")? },
        "ntfy" => ChannelTarget::Ntfy {
            url: needed("url", "the server")?,
            topic: needed("ntfy_topic", "the topic")?,
            token: text("secret"),
        },
        "email" => {
            let security =
                visit.field("security").and_then(SmtpSecurity::parse).unwrap_or_default();
            let port = match visit.field("port") {
                None => security.default_port(),
                Some(port) => port
                    .parse()
                    .map_err(|_| Problem::invalid("the port is a number from 1 to 65535"))?,
            };
            let to = needed("to", "the recipients")?;
            ChannelTarget::Email {
                server: needed("server", "the mail server")?,
                port,
                security,
                user: text("user"),
                password: text("secret"),
                from: needed("from", "the sender")?,
                to: to
                    .split([',', ' ', '\n'])
                    .map(str::trim)
                    .filter(|a| !a.is_empty())
                    .map(str::to_owned)
                    .collect(),
            }
        }
        other => return Err(Problem::invalid(format!("unknown kind `{other}`"))),
    })
}

/// Puts a test message into the outbox; the page shows what became of it.
pub(crate) fn test(app: &App, visit: &Visit) -> Result<Response, Problem> {
    app.registry.raise_test_notice(visit.name("name"), app.now_us())?;
    Ok(Response::see_other("/notifications"))
}

pub(crate) fn remove(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    app.act(&visit.person.name, |registry, now_us| registry.remove_channel(name, now_us))?;
    Ok(Response::see_other("/notifications"))
}
