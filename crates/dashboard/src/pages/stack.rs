//! The stack: every tool that some grant can call, by risk, and one flow that puts the recommended policy on
//! every server that has none.

use std::collections::BTreeSet;

use askama::Template;
use catalog::classify::Risk;
use catalog::recommend::Preset;
use policy::{Call, Caller, Policy, PredictedOutcome, Prediction, Subject, ToolFacts};
use serde::Serialize;
use store::registry::{GrantState, Origin};

use crate::app::{App, actor};
use crate::offer;
use crate::page::{Chrome, page, segment};
use crate::paging::Paging;
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::time::Moment;
use crate::walk;

const TOOLS_PER_PAGE: usize = 200;

#[derive(Serialize)]
struct StackRow {
    risk: Risk,
    category: &'static str,
    tool: String,
    server: String,
    callers: Vec<String>,
    /// Those whose calls wait for an approval.
    asks: Vec<String>,
    #[serde(skip)]
    path: String,
}

/// A server that some grant may use without a policy of its own.
#[derive(Serialize)]
struct Unprotected {
    server: String,
    grants: Vec<String>,
    /// The name that the recommended policy would get.
    policy: String,
}

#[derive(Serialize)]
struct RiskCount {
    risk: Risk,
    tools: usize,
}

#[derive(Template, Serialize)]
#[template(path = "stack.html")]
struct StackPage {
    #[serde(skip)]
    chrome: Chrome,
    /// How many tools there are of each risk, the most dangerous first.
    counts: Vec<RiskCount>,
    tools: Vec<StackRow>,
    #[serde(skip)]
    all: usize,
    #[serde(skip)]
    risk: Option<Risk>,
    #[serde(skip)]
    paging: Paging,
    unprotected: Vec<Unprotected>,
}

impl StackPage {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references to their variables"
    )]
    fn is_shown(&self, risk: &Risk) -> bool {
        self.risk.as_ref() == Some(risk)
    }

    /// The tools on this part of the list.
    fn shown(&self) -> &[StackRow] {
        self.paging.of(&self.tools)
    }
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let mut tools = rows(app)?;
    tools.sort_by(|a, b| {
        b.risk.cmp(&a.risk).then_with(|| (&a.server, &a.tool).cmp(&(&b.server, &b.tool)))
    });
    let (all, counts) = (tools.len(), counts(&tools));
    let wanted = visit.param("risk").filter(|name| !name.is_empty());
    let risk = wanted.map(|name| named(name).ok_or_else(|| unknown_risk(name))).transpose()?;
    tools.retain(|row| risk.is_none_or(|risk| row.risk == risk));
    let path = risk.map_or_else(|| "/stack".to_owned(), |risk| format!("/stack?risk={risk}"));
    let view = StackPage {
        chrome: Chrome::new(app, visit, "Stack"),
        paging: Paging::new(visit, &path, tools.len(), TOOLS_PER_PAGE),
        counts,
        tools,
        all,
        risk,
        unprotected: unprotected(app)?,
    };
    page(visit, &view)
}

fn counts(tools: &[StackRow]) -> Vec<RiskCount> {
    let of = |risk| tools.iter().filter(|row| row.risk == risk).count();
    let mut risks = Risk::ALL;
    risks.sort_unstable();
    risks.into_iter().rev().map(|risk| RiskCount { risk, tools: of(risk) }).collect()
}

fn named(name: &str) -> Option<Risk> {
    Risk::ALL.into_iter().find(|risk| risk.as_str() == name)
}

fn unknown_risk(name: &str) -> Problem {
    Problem::invalid(format!("unknown risk `{name}`: use `low`, `medium`, `high` or `critical`"))
}

fn rows(app: &App) -> Result<Vec<StackRow>, Problem> {
    let (effective, now_us) = (app.effective()?, app.now_us());
    let time = walk::policy_time(&Moment::of(now_us, &app.zone).utc, &app.zone);
    let Some(time) = time else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for name in effective.servers.keys() {
        let active = effective.grants().iter().filter(|g| g.state(now_us) == GrantState::Active);
        let policies: Vec<(&str, Policy)> = active
            .filter_map(|grant| {
                let text = effective.access(grant, name)?.policy?;
                Some((grant.label.as_str(), Policy::load(&text.source, text.format).ok()?))
            })
            .collect();
        let pins = offer::pins(app, &effective, name)?;
        for pin in &pins {
            let Some(class) = app.classes.class(name, pin, &pins) else { continue };
            let mut row = StackRow {
                risk: named(class.risk).unwrap_or(Risk::Critical),
                category: class.category,
                tool: pin.tool.clone(),
                server: name.clone(),
                callers: Vec::new(),
                asks: Vec::new(),
                path: format!("/catalogue/{}/{}", segment(name), segment(&pin.tool)),
            };
            for (label, policy) in &policies {
                let call = Call {
                    subject: Subject::Tool(&pin.tool),
                    args: None,
                    params: None,
                    caller: Caller { grant: label, session: None, client: None },
                    tool: ToolFacts {
                        server: Some(name),
                        aggregates: connectors::aggregates(name, &pin.tool),
                        category: Some(row.category),
                        risk: Some(class.risk),
                        ..ToolFacts::default()
                    },
                    time,
                };
                let Prediction { outcome, asks, .. } = policy.predict(&call);
                if matches!(
                    outcome,
                    PredictedOutcome::Hidden { .. } | PredictedOutcome::Denied { .. }
                ) {
                    continue;
                }
                if asks {
                    row.asks.push((*label).to_owned());
                }
                row.callers.push((*label).to_owned());
            }
            if !row.callers.is_empty() {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn unprotected(app: &App) -> Result<Vec<Unprotected>, Problem> {
    let (effective, now_us) = (app.effective()?, app.now_us());
    let mut all: Vec<Unprotected> = Vec::new();
    for name in effective.servers.keys() {
        let bare = effective.grants().iter().filter(|grant| {
            grant.state(now_us) == GrantState::Active
                && grant.origin == Origin::Registry
                && grant.access(name).is_some_and(|access| access.policy.is_none())
        });
        let grants: Vec<String> = bare.map(|grant| grant.label.clone()).collect();
        if !grants.is_empty() && !offer::pins(app, &effective, name)?.is_empty() {
            let policy = format!("{name}-recommended");
            all.push(Unprotected { server: name.clone(), grants, policy });
        }
    }
    Ok(all)
}

/// Saves the recommended policy of each such server and attaches it to each such grant.
pub(crate) fn protect(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let chosen: BTreeSet<&str> = visit.fields("server").collect();
    if chosen.is_empty() {
        return Err(Problem::invalid("choose at least one server"));
    }
    let (names, by) = (app.live.settings().names(), actor(&visit.person.name));
    let effective = app.effective()?;
    for bare in unprotected(app)?.iter().filter(|bare| chosen.contains(bare.server.as_str())) {
        let offered = offer::offered(app, &effective, &bare.server)?;
        let text = offer::recommended(&bare.server, &offered, Preset::Recommended);
        app.act(&visit.person.name, |registry, now_us| {
            registry.put_policy(&bare.policy, &text, policy::Format::Json, &by, &names, now_us)
        })?;
        for label in &bare.grants {
            let mut server_access = app.registry.grant(label)?.server_access;
            for access in server_access.iter_mut().filter(|access| access.server == bare.server) {
                access.policy = Some(bare.policy.clone());
            }
            app.act(&visit.person.name, |registry, now_us| {
                registry.set_server_access(label, &server_access, &names, now_us)
            })?;
        }
    }
    Ok(Response::see_other("/stack"))
}
