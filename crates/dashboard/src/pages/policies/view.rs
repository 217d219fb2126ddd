//! One policy as its page shows it: rows for the switches, the open entry, the text, what would change, and the
//! versions.

use askama::Template;
use policy::Policy;
use policy::edit;
use policy::json::{Bounds, Doc};
use serde::Serialize;
use store::effective::Effective;

use super::names::{NameFilter, NameRow, OpenEntry, open_view, rows};
use super::start::start_choices;
use crate::app::App;
use crate::builder::{Draft, DraftProblem, Outline, Replayed, Summary, replay, summary};
use crate::difference::{DiffLine, difference};
use crate::offer::{self, OfferedName};
use crate::page::{Chrome, segment};
use crate::problem::Problem;
use crate::request::Visit;
use crate::time::Moment;

/// Rows of one page; further ones are behind a button.
const ROWS_MAX: usize = 30;

/// What is shown, before it is read.
#[derive(Default)]
pub(super) struct PolicyView<'a> {
    pub(super) name: &'a str,
    pub(super) draft: Draft,
    /// The stored version that the text is; none for a draft.
    pub(super) version: Option<u64>,
    /// Why the last step failed.
    pub(super) error: Option<String>,
    /// Pointer of the entry whose rules are shown.
    pub(super) open: Option<String>,
    /// Pointer of the last change.
    pub(super) touched: Option<String>,
}

#[derive(Serialize)]
struct VersionRow {
    version: u64,
    created_at: Moment,
    by: String,
    is_current: bool,
}

#[derive(Serialize)]
struct Tests {
    passed: usize,
    failed: Vec<String>,
}

#[derive(Template, Serialize)]
#[template(path = "policy.html")]
pub(super) struct PolicyPage {
    #[serde(skip)]
    chrome: Chrome,
    name: String,
    /// The current version; 0 if it has none.
    version: u64,
    shown_version: Option<u64>,
    is_current: bool,
    is_changed: bool,
    text: String,
    problems: Vec<DraftProblem>,
    warnings: Vec<DraftProblem>,
    error: Option<String>,
    grants: Vec<(String, String)>,
    server: Option<String>,
    default: &'static str,
    names: Vec<NameRow>,
    more_names: usize,
    open: Option<OpenEntry>,
    changes: Option<Summary>,
    replayed: Option<Replayed>,
    tests: Option<Tests>,
    difference: Vec<DiffLine>,
    versions: Vec<VersionRow>,
    #[serde(skip)]
    line: Option<usize>,
    #[serde(skip)]
    servers: Vec<String>,
    #[serde(skip)]
    starts: Vec<(String, String)>,
    #[serde(skip)]
    is_editable: bool,
    #[serde(skip)]
    path: String,
    /// The fields of a form that was refused.
    #[serde(skip)]
    typed: Vec<(String, String)>,
    #[serde(skip)]
    filter: NameFilter,
    #[serde(skip)]
    builder: &'static str,
}

/// The grants that use a policy, each with the server.
pub(super) fn users(effective: &Effective, name: &str) -> Vec<(String, String)> {
    let grants = effective.grants().iter().filter(|grant| grant.revoked_at_us.is_none());
    let holdings =
        grants.flat_map(|grant| grant.server_access.iter().map(move |held| (grant, held)));
    holdings
        .filter(|(_, held)| held.policy.as_deref() == Some(name))
        .map(|(grant, held)| (grant.label.clone(), held.server.clone()))
        .collect()
}

/// The server whose names are shown: the chosen one, the one the policy is used on, or the one of its name.
pub(super) fn server_of(effective: &Effective, name: &str, asked: Option<&str>) -> Option<String> {
    let is_known = |server: &str| effective.servers.contains_key(server);
    let chosen = asked.filter(|server| is_known(server)).map(str::to_owned);
    let used =
        || users(effective, name).into_iter().map(|(_, server)| server).find(|s| is_known(s));
    let named = || is_known(name).then(|| name.to_owned());
    chosen.or_else(used).or_else(named).or_else(|| effective.servers.keys().next().cloned())
}

pub(super) fn offered(
    app: &App,
    effective: &Effective,
    server: Option<&str>,
) -> Result<Vec<OfferedName>, Problem> {
    server.map_or(Ok(Vec::new()), |server| offer::offered(app, effective, server))
}

impl PolicyPage {
    pub(super) fn make(
        app: &App,
        visit: &Visit,
        effective: &Effective,
        shown: PolicyView<'_>,
    ) -> Result<PolicyPage, Problem> {
        let PolicyView { name, draft, version, error, open, touched } = shown;
        let current = effective.policies.get(name);
        let is_current =
            version.is_none_or(|version| current.is_some_and(|c| c.version == version));
        let current_text = current.map(|current| current.source.as_str());
        let server = server_of(effective, name, visit.field("server").or(visit.param("server")));
        let offered = offered(app, effective, server.as_deref())?;
        let filter = NameFilter::of(visit);
        let mut page = PolicyPage {
            chrome: Chrome::new(app, visit, format!("Policy {name}")),
            name: name.to_owned(),
            version: current.map_or(0, |current| current.version),
            shown_version: version,
            is_current,
            is_changed: is_current && current_text != Some(&*draft.text),
            problems: Vec::new(),
            warnings: Vec::new(),
            grants: users(effective, name),
            default: "",
            names: Vec::new(),
            more_names: 0,
            open: None,
            changes: None,
            replayed: None,
            tests: None,
            difference: current_text
                .map(|current| difference(current, &draft.text))
                .unwrap_or_default(),
            versions: current
                .map_or(Ok(Vec::new()), |current| versions(app, name, current.version))?,
            line: touched.and_then(|touched| line(&draft, &touched)),
            servers: effective.servers.keys().cloned().collect(),
            starts: start_choices(effective),
            is_editable: super::is_editable(current),
            path: format!("/policies/{}", segment(name)),
            typed: if error.is_some() { visit.form.clone() } else { Vec::new() },
            builder: crate::assets::BUILDER_PATH.as_str(),
            error,
            server,
            filter,
            text: String::new(),
        };
        match (draft.compile(), draft.json()) {
            (Ok(policy), Some(json)) => {
                page.fill(app, &policy, &json, current_text, &offered, open)?;
            }
            (Err(problems), _) => page.problems = problems,
            (Ok(_), None) => {}
        }
        page.text = draft.text;
        Ok(page)
    }

    /// Everything that needs a text that can be read.
    fn fill(
        &mut self,
        app: &App,
        policy: &Policy,
        json: &str,
        current: Option<&str>,
        offered: &[OfferedName],
        open: Option<String>,
    ) -> Result<(), Problem> {
        let doc = Doc::read(json.as_bytes(), &Bounds::POLICY)
            .map_err(|refusal| Problem::invalid(refusal.message))?;
        let outline = Outline { policy, root: doc.root() };
        self.warnings = policy.warnings().iter().map(DraftProblem::from).collect();
        self.default = if policy.allows_unnamed() { "allow" } else { "deny" };
        self.names = rows(&outline, offered);
        self.names.retain(|row| self.filter.keeps(row));
        if !self.filter.all && self.names.len() > ROWS_MAX {
            self.more_names = self.names.len() - ROWS_MAX;
            self.names.truncate(ROWS_MAX);
        }
        self.open = open.map(|pointer| open_view(&outline, &pointer, offered));
        let outcomes = policy.run_tests();
        let failed = outcomes.iter().filter(|outcome| !outcome.passed);
        let message = |test: &policy::TestOutcome| {
            format!(
                "line {}: `{}` expects {}, got {} by {}",
                test.line, test.name, test.expected, test.got, test.rule
            )
        };
        let failed: Vec<String> = failed.map(message).collect();
        self.tests = Some(Tests { passed: outcomes.len() - failed.len(), failed });
        if self.is_changed {
            self.compare(app, &outline, current, offered)?;
        }
        Ok(())
    }

    fn compare(
        &mut self,
        app: &App,
        after: &Outline<'_>,
        current: Option<&str>,
        offered: &[OfferedName],
    ) -> Result<(), Problem> {
        const NOTHING: &str = "{\"version\":\"1\",\"default\":\"deny\"}";
        let before = Draft::new(current.unwrap_or(NOTHING));
        if let (Ok(policy), Some(json)) = (before.compile(), before.json())
            && let Ok(doc) = Doc::read(json.as_bytes(), &Bounds::POLICY)
        {
            let names: Vec<(&str, String)> =
                offered.iter().map(|one| (one.section, one.name.clone())).collect();
            let before = Outline { policy: &policy, root: doc.root() };
            self.changes = Some(summary(&before, after, &names));
        }
        if let Some(server) = &self.server {
            let grants = self.grants.iter().filter(|(_, on)| on == server);
            let grants: Vec<String> = grants.map(|(grant, _)| grant.clone()).collect();
            self.replayed = Some(replay(app, after.policy, server, &grants)?);
        }
        Ok(())
    }

    /// What was typed into a field of a form that was refused.
    fn typed(&self, key: &str) -> &str {
        self.typed.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    fn is_typed(&self, key: &str, value: &str) -> bool {
        self.typed(key) == value
    }

    fn rows_of(&self, section: &str) -> Vec<&NameRow> {
        self.names.iter().filter(|row| row.section == section).collect()
    }
}

fn line(draft: &Draft, pointer: &str) -> Option<usize> {
    // A removed part has no line; its parent has.
    let mut pointer = pointer;
    loop {
        if let Some(line) = edit::line_of(&draft.text, draft.format(), pointer) {
            return Some(line);
        }
        pointer = pointer.rsplit_once('/')?.0;
    }
}

fn versions(app: &App, name: &str, current: u64) -> Result<Vec<VersionRow>, Problem> {
    let stored = app.registry.policy_versions(name)?;
    let rows = stored.into_iter().rev().map(|version| VersionRow {
        version: version.version,
        created_at: Moment::of(version.created_at_us, &app.zone),
        by: version.created_by,
        is_current: version.version == current,
    });
    Ok(rows.collect())
}
