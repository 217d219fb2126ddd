//! The first page: what waits for the owner, what agents did today, and how the servers are.

use std::collections::BTreeMap;

use askama::Template;
use jiff::{Timestamp, ToSpan as _};
use serde::Serialize;
use store::ledger::{EntryKind, Filter};

use crate::app::App;
use crate::chart::{self, Bar, Placed};
use crate::limits_used::{FullLimit, LimitsUsed};
use crate::page::{Chrome, page, segment};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::server_logins;
use crate::time::Moment;
use crate::walk;
use store::accounts::AccountState;
use store::effective::Effective;
use store::registry::PinState;

const HOURS: i64 = 24;
const US_PER_HOUR: i64 = 3_600 * 1_000_000;
/// Entries that are read for the charts; more would make the page slow.
const ENTRIES_MAX: usize = 20_000;
/// The method of a request that never became a message, such as one of a browser that was signed out.
const NO_MESSAGE: &str = "(http)";
const TOP_TOOLS_MAX: usize = 8;

#[derive(Serialize)]
struct ServerView {
    name: String,
    state: String,
    kind: String,
    /// Tools that differ from what the owner accepted.
    changed_tools: usize,
    #[serde(skip)]
    path: String,
}

#[derive(Serialize)]
struct ToolView {
    server: String,
    tool: String,
    calls: u64,
    refused: u64,
    /// Its calls in the log.
    #[serde(skip)]
    path: String,
}

/// Something that the owner should look at, and where.
#[derive(Serialize)]
struct Attention {
    what: String,
    why: String,
    path: String,
}

#[derive(Template, Serialize)]
#[template(path = "overview.html")]
struct OverviewPage {
    #[serde(skip)]
    chrome: Chrome,
    waiting: usize,
    calls: u64,
    refused: u64,
    /// Requests without a session, a valid token or a message. They are not calls.
    rejected: u64,
    hours: Vec<Bar>,
    /// The day had more entries than are read for this page.
    is_cut: bool,
    top_tools: Vec<ToolView>,
    servers: Vec<ServerView>,
    attention: Vec<Attention>,
    limits: Vec<FullLimit>,
    grants: usize,
    #[serde(skip)]
    is_demo: bool,
    #[serde(skip)]
    mcp_url: String,
}

impl OverviewPage {
    fn bars(&self) -> Vec<Placed<'_>> {
        chart::placed(&self.hours)
    }

    fn width(&self) -> u64 {
        chart::width(self.hours.len())
    }

    /// The top of the scale.
    fn highest(&self) -> u64 {
        self.hours.iter().map(|bar| bar.allowed + bar.refused).max().unwrap_or(0)
    }

    /// Every sixth hour.
    fn ticks(&self) -> impl Iterator<Item = &str> {
        self.hours.iter().step_by(6).map(|bar| bar.label.as_str())
    }
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let effective = app.effective()?;
    let now_us = app.now_us();
    let day = day(app, now_us)?;
    let live = app.live.servers();
    let state_of = |name: &str, key: &str| {
        let all = live.get("servers").and_then(serde_json::Value::as_array);
        let one = all.into_iter().flatten().find(|one| one.get("name").is_some_and(|n| n == name));
        one.and_then(|one| one.get(key)?.as_str()).unwrap_or("unknown").to_owned()
    };
    let mut servers = Vec::new();
    for server in effective.servers.values() {
        let pins = app.registry.all_pins(&server.name)?;
        let changed = pins.iter().filter(|pin| pin.state != PinState::Accepted).count();
        servers.push(ServerView {
            state: state_of(&server.name, "state"),
            kind: state_of(&server.name, "kind"),
            changed_tools: changed,
            path: format!("/servers/{}", segment(&server.name)),
            name: server.name.clone(),
        });
    }
    let time = walk::policy_time(&Moment::of(now_us, &app.zone).utc, &app.zone);
    let limits = time.map(|time| day.limits.full(&effective, time, now_us)).unwrap_or_default();
    let view = OverviewPage {
        attention: attention(app, &effective, &servers, &live),
        limits,
        chrome: Chrome::new(app, visit, "Overview"),
        waiting: app.watched().pending_count(),
        calls: day.hours.iter().map(|bar| bar.allowed + bar.refused).sum(),
        refused: day.hours.iter().map(|bar| bar.refused).sum(),
        rejected: day.rejected,
        hours: day.hours,
        is_cut: day.is_cut,
        top_tools: day.top_tools,
        servers,
        grants: effective.grants().len(),
        is_demo: app.live.is_demo(),
        mcp_url: app.live.mcp_url(),
    };
    page(visit, &view)
}

/// Servers that fail or need a sign-in, tools that changed and accounts that need a sign-in.
fn attention(
    app: &App,
    effective: &Effective,
    servers: &[ServerView],
    live: &serde_json::Value,
) -> Vec<Attention> {
    let mut all = Vec::new();
    for server in servers {
        let logins = login_steps(app, effective, &server.name);
        // Its calls fail because of the login.
        let is_known = !logins.is_empty();
        all.extend(logins);
        if !is_known && matches!(server.state.as_str(), "failing" | "broken" | "restarting") {
            let states = live.get("servers").and_then(serde_json::Value::as_array);
            let one = states.into_iter().flatten().find(|one| one["name"] == server.name.as_str());
            let message = one.and_then(|one| one.pointer("/last_error/words")?.as_str());
            all.push(Attention {
                what: format!("Server {} is {}", server.name, server.state),
                why: message.unwrap_or_default().to_owned(),
                path: server.path.clone(),
            });
        }
        if server.changed_tools > 0 {
            all.push(Attention {
                what: match server.changed_tools {
                    1 => format!("1 changed tool on {}", server.name),
                    many => format!("{many} changed tools on {}", server.name),
                },
                why: "Different from what you accepted; calls are refused until you accept the change."
                    .to_owned(),
                path: server.path.clone(),
            });
        }
    }
    if let Some(ctx) = app.live.connectors() {
        for service in ctx.accounts.list().unwrap_or_default() {
            let Ok(Some(account)) = ctx.accounts.summary(&service) else { continue };
            if let AccountState::Dead { message, .. } = account.state {
                all.push(Attention {
                    what: format!("Sign in to {service} again"),
                    why: message,
                    path: "/accounts".to_owned(),
                });
            }
        }
    }
    if let Some(message) = app.ledger.seal_broken() {
        let (what, path) = ("The audit log was changed".to_owned(), "/audit/verify".to_owned());
        all.push(Attention { what, why: message.to_owned(), path });
    }
    all
}

/// The logins at a server that wait for the owner.
fn login_steps(app: &App, effective: &Effective, server: &str) -> Vec<Attention> {
    let Some(server) = effective.servers.get(server) else { return Vec::new() };
    let logins = server_logins::of(app, effective, server).into_iter();
    let steps = logins.filter(|login| !login.why.is_empty()).map(|login| Attention {
        what: login.step.unwrap_or_else(|| format!("Server {} wants more access", server.name)),
        why: login.why,
        path: login.path,
    });
    steps.collect()
}

struct Day {
    limits: LimitsUsed,
    hours: Vec<Bar>,
    top_tools: Vec<ToolView>,
    rejected: u64,
    is_cut: bool,
}

/// The calls of the last 24 hours.
fn day(app: &App, now_us: i64) -> Result<Day, Problem> {
    let start_us = now_us - HOURS * US_PER_HOUR;
    let (mut hours, mut limits) = (empty_hours(app, now_us), LimitsUsed::default());
    let mut tools: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    let filter =
        Filter { since_us: Some(start_us), only: Some(EntryKind::Call), ..Filter::default() };
    let (mut read, mut rejected) = (0, 0);
    for entry in app.audit()?.newest_first(&filter)? {
        let entry = entry?;
        read += 1;
        if read > ENTRIES_MAX {
            break;
        }
        if entry.method == NO_MESSAGE {
            rejected += entry.count.unwrap_or(1);
            continue;
        }
        let is_refused =
            matches!(entry.decision.as_str(), "denied" | "limited" | "refused" | "unauthenticated");
        let at_us = entry.time.parse::<Timestamp>().map_or(now_us, Timestamp::as_microsecond);
        let hour = usize::try_from((at_us - start_us) / US_PER_HOUR).unwrap_or_default();
        if let Some(bar) = hours.get_mut(hour) {
            if is_refused {
                bar.refused += 1;
            } else {
                bar.allowed += 1;
            }
        }
        limits.add(&entry, at_us);
        if !entry.tool.is_empty() {
            let counts = tools.entry((entry.server, entry.tool)).or_default();
            counts.0 += 1;
            counts.1 += u64::from(is_refused);
        }
    }
    let mut top_tools: Vec<ToolView> = tools
        .into_iter()
        .map(|((server, tool), (calls, refused))| {
            let path = format!("/audit?server={}&tool={}", segment(&server), segment(&tool));
            ToolView { server, tool, calls, refused, path }
        })
        .collect();
    top_tools.sort_by_key(|tool| std::cmp::Reverse(tool.calls));
    top_tools.truncate(TOP_TOOLS_MAX);
    Ok(Day { limits, hours, top_tools, rejected, is_cut: read > ENTRIES_MAX })
}

/// A bar for each of the last 24 hours, labelled with the local time at which it begins.
fn empty_hours(app: &App, now_us: i64) -> Vec<Bar> {
    let label = |hour: i64| {
        let ago = (HOURS - hour).hours();
        let at = Timestamp::from_microsecond(now_us).and_then(|now| now.checked_sub(ago));
        at.map(|at| at.to_zoned(app.zone.clone()).strftime("%H:%M").to_string()).unwrap_or_default()
    };
    (0..HOURS).map(|hour| Bar { label: label(hour), allowed: 0, refused: 0 }).collect()
}
