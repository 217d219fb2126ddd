//! The owner's accounts: connect, disconnect, sync, exports, and the records of each day.

use std::sync::Arc;

use askama::Template;
use bytes::Bytes;
use connectors::account::SignIn;
use connectors::credentials::revoke;
use connectors::{ConnectorContext, Service};
use http::StatusCode;
use jiff::civil::Date;
use serde::Serialize;
use store::accounts::AccountState;
use store::export::{ALL, Compression, CsvSafety, ExportJob, ExportOptions, PathScope};
use store::ledger::Note;
use store::records::Window;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::accounts::{Continue, Work};
use crate::app::{App, actor};
use crate::chart::{self, Bar, Placed};
use crate::page::{Chrome, page, render, segment};
use crate::problem::Problem;
use crate::request::{Typed, Visit};
use crate::response::Response;
use crate::time::Moment;

const DAYS: i64 = 30;
const US_PER_DAY: i64 = 86_400 * 1_000_000;
/// Records of one kind that the daily view reads.
const RECORDS_MAX: usize = 20_000;
const RUNS_MAX: usize = 50;

#[derive(Serialize)]
struct FieldView {
    name: &'static str,
    title: String,
    is_secret: bool,
}

#[derive(Serialize)]
struct AccountView {
    service: &'static str,
    title: &'static str,
    /// `connected`, `needs sign-in` or `not connected`.
    state: &'static str,
    why: String,
    connected_at: Option<Moment>,
    last_sync_at: Option<Moment>,
    failed: Vec<String>,
    records: u64,
    work: Work,
    can_sync: bool,
    #[serde(skip)]
    kinds: Vec<&'static str>,
    #[serde(skip)]
    fields: Vec<FieldView>,
    #[serde(skip)]
    guide: &'static [&'static str],
    #[serde(skip)]
    path: String,
}

impl AccountView {
    fn tone(&self) -> &'static str {
        match self.state {
            "connected" => "allowed",
            "needs sign-in" => "refused",
            _ => "plain",
        }
    }

    fn is_connected(&self) -> bool {
        self.state == "connected"
    }
}

#[derive(Template, Serialize)]
#[template(path = "accounts.html")]
struct AccountsPage {
    #[serde(skip)]
    chrome: Chrome,
    accounts: Vec<AccountView>,
    problem: Option<String>,
    #[serde(skip)]
    typed: Typed,
    #[serde(skip)]
    is_busy: bool,
}

/// The page on which a sign-in continues.
#[derive(Template, Serialize)]
#[template(path = "connect.html")]
struct ConnectPage {
    #[serde(skip)]
    chrome: Chrome,
    title: &'static str,
    url: String,
    code: Option<String>,
    redirect: Option<String>,
}

pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    view(app, visit, None)
}

fn view(app: &App, visit: &Visit, problem: Option<Problem>) -> Result<Response, Problem> {
    let status = problem.as_ref().map_or(StatusCode::OK, |problem| problem.status);
    let (accounts, problem): (Vec<AccountView>, _) = match context(app) {
        Ok(ctx) => (services().map(|service| account(app, &ctx, service)).collect(), problem),
        Err(closed) => (Vec::new(), Some(closed)),
    };
    let view = AccountsPage {
        chrome: Chrome::new(app, visit, "Accounts"),
        is_busy: accounts.iter().any(|account| account.work.is_running()),
        accounts,
        problem: problem.map(|problem| problem.message),
        typed: visit.typed(),
    };
    render(visit.format, status, &view)
}

fn context(app: &App) -> Result<Arc<ConnectorContext>, Problem> {
    app.live.connectors().ok_or_else(|| {
        Problem::invalid("the accounts cannot be opened\nhint: `tollgate doctor` says why")
    })
}

fn services() -> impl Iterator<Item = &'static Service> {
    connectors::ALL.iter().filter(|one| one.account().is_some()).map(|one| one.service)
}

fn service(visit: &Visit) -> Result<&'static Service, Problem> {
    let name = visit.name("service");
    let found = services().find(|service| service.name == name);
    found.ok_or_else(|| Problem::not_found(format!("unknown service `{name}`")))
}

fn account(app: &App, ctx: &ConnectorContext, service: &'static Service) -> AccountView {
    let summary = ctx.accounts.summary(service.name);
    let (state, why) = match &summary {
        Ok(None) => ("not connected", String::new()),
        Ok(Some(facts)) => match &facts.state {
            AccountState::Live => ("connected", String::new()),
            AccountState::Dead { message, .. } => ("needs sign-in", message.clone()),
        },
        Err(error) => ("needs sign-in", error.to_string()),
    };
    let runs = ctx.records.runs(service.name, RUNS_MAX).unwrap_or_default();
    let good = runs.iter().filter(|run| run.status == "success").filter_map(|run| run.completed_us);
    let mut failed: Vec<String> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for run in runs.iter().filter(|run| run.status != "running") {
        if !seen.contains(&run.resource.as_str()) {
            seen.push(&run.resource);
            let message = run.error.as_deref().filter(|_| run.status == "error");
            failed.extend(message.map(|message| format!("{}: {message}", run.resource)));
        }
    }
    let counts = ctx.records.counts(service.name).unwrap_or_default();
    let mirror = connectors::mirror(service.name);
    let kinds = mirror.map(|mirror| mirror.export.kinds.iter().filter(|kind| !kind.is_snapshot));
    let sign_in = service.account;
    AccountView {
        service: service.name,
        title: service.title,
        state,
        why,
        connected_at: summary.ok().flatten().map(|facts| Moment::of(facts.created_us, &app.zone)),
        last_sync_at: good.max().map(|at_us| Moment::of(at_us, &app.zone)),
        failed,
        records: counts.iter().map(|(_, count)| count).sum(),
        work: app.account_work.of(service.name),
        can_sync: mirror.is_some(),
        kinds: kinds.map(|kinds| kinds.map(|kind| kind.name).collect()).unwrap_or_default(),
        fields: sign_in.map(|account| fields(&account.sign_in)).unwrap_or_default(),
        guide: sign_in.map(|account| account.guide).unwrap_or_default(),
        path: format!("/accounts/{}", segment(service.name)),
    }
}

/// What the form of a sign-in asks for.
fn fields(sign_in: &SignIn) -> Vec<FieldView> {
    let wanted = sign_in.fields().iter();
    let mut all: Vec<FieldView> = wanted
        .map(|field| FieldView {
            name: field.name,
            title: field.title.to_owned(),
            is_secret: field.hidden,
        })
        .collect();
    if sign_in.client().is_some() {
        let field =
            |name, title: &str, is_secret| FieldView { name, title: title.to_owned(), is_secret };
        all.push(field("client_id", "Client id of your app", false));
        all.push(field("client_secret", "Client secret of your app", true));
    }
    all
}

/// Starts a sign-in. The page shows where it continues: a form must not lead to another site by itself.
pub(crate) fn connect(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (ctx, service) = (context(app)?, service(visit)?);
    let field = |name: &str| visit.field(name).map(str::to_owned);
    let recorded = (Arc::clone(&app.ledger), actor(&visit.person.name));
    let begun =
        Handle::current().block_on(app.account_work.connect(ctx, service, &field, recorded));
    match begun {
        Err(message) => view(app, visit, Some(Problem::invalid(message))),
        Ok(Continue::Checking) => Ok(Response::see_other("/accounts")),
        Ok(Continue::Browser { url, redirect }) => {
            let chrome = Chrome::new(app, visit, format!("Sign in to {}", service.title));
            let redirect = Some(redirect);
            page(visit, &ConnectPage { chrome, title: service.title, url, code: None, redirect })
        }
        Ok(Continue::Device { url, code }) => {
            let chrome = Chrome::new(app, visit, format!("Sign in to {}", service.title));
            let (code, redirect) = (Some(code), None);
            page(visit, &ConnectPage { chrome, title: service.title, url, code, redirect })
        }
    }
}

pub(crate) fn sync(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (ctx, service) = (context(app)?, service(visit)?);
    let recorded = (Arc::clone(&app.ledger), actor(&visit.person.name));
    app.account_work.sync(ctx, service, recorded).map_err(Problem::invalid)?;
    Ok(Response::see_other("/accounts"))
}

/// Revokes consent at the service, then wipes the account here; the records too, if that was chosen.
pub(crate) fn disconnect(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (ctx, service) = (context(app)?, service(visit)?);
    let internal = |error: &dyn std::fmt::Display| Problem::internal(error.to_string());
    let revoked = match visit.field("revoke") {
        Some("no") => false,
        _ => Handle::current().block_on(revoke(&ctx, service)).map_err(|error| {
            Problem::invalid(format!("{} was not asked to revoke consent: {error}; nothing was wiped\nhint: try again later, or choose to wipe here only", service.title))
        })?,
    };
    let locked = ctx.accounts.lock(service.name).map_err(|e| internal(&e))?;
    locked.wipe().map_err(|e| internal(&e))?;
    let mut message = if revoked { "consent revoked".to_owned() } else { String::new() };
    if visit.field("records") == Some("wipe") {
        let wiped = ctx.records.forget(service.name).map_err(|e| internal(&e))?;
        let separator = if message.is_empty() { "" } else { ", " };
        message = format!("{message}{separator}{wiped} records wiped");
    }
    let by = actor(&visit.person.name);
    let note = Note { act: "disconnect", by: &by, about: service.name, words: &message };
    app.ledger.note(&note)?;
    Ok(Response::see_other("/accounts"))
}

/// One kind of record as a file.
pub(crate) fn export(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (ctx, service) = (context(app)?, service(visit)?);
    let invalid = |error: &dyn std::fmt::Display| Problem::invalid(error.to_string());
    let kind = visit.param("kind").filter(|kind| *kind != ALL);
    let kind = kind.ok_or_else(|| Problem::invalid("name the kind of record to export"))?;
    let (format, content_type) = match visit.param("format") {
        None | Some("csv") => ("csv", "text/csv; charset=utf-8"),
        Some("jsonl") => ("jsonl", "application/x-ndjson"),
        Some("parquet") => ("parquet", "application/vnd.apache.parquet"),
        Some(_) => return Err(Problem::invalid("`format` is csv, jsonl or parquet")),
    };
    let mirror = connectors::mirror(service.name);
    let mirror = mirror.ok_or_else(|| Problem::not_found("this service keeps no records here"))?;
    mirror.prepare(&ctx.records).map_err(|e| invalid(&e))?;
    let job = ExportJob::new(mirror.export, kind, format).map_err(|e| invalid(&e))?;
    let name = format!("{}-{kind}.{format}", service.name);
    let folder = app.export_folder()?;
    let options = ExportOptions {
        path: &name,
        from_us: None,
        to_us: None,
        now_us: app.now_us(),
        overwrite: true,
        csv: CsvSafety::Neutral,
        compression: Compression::default(),
        reach: PathScope::Anywhere { base: folder.path(), tilde: None },
    };
    job.write(&ctx.records, &options, &mut |_| {}).map_err(|e| invalid(&e))?;
    let bytes = std::fs::read(folder.path().join(&name))
        .map_err(|error| Problem::internal(format!("the export cannot be read: {error}")))?;
    drop(folder);
    let by = actor(&visit.person.name);
    let message = format!("{kind} as {format}");
    app.ledger.note(&Note { act: "export", by: &by, about: service.name, words: &message })?;
    let (to, parts) = mpsc::channel(1);
    // The channel has room for the only part.
    let _ = to.try_send(Bytes::from(bytes));
    Ok(Response::download(content_type, &name, parts))
}

#[derive(Serialize)]
struct KindView {
    name: String,
    records: u64,
    days: Vec<Bar>,
}

impl KindView {
    fn bars(&self) -> Vec<Placed<'_>> {
        chart::placed(&self.days)
    }

    fn width(&self) -> u64 {
        chart::width(self.days.len())
    }

    fn highest(&self) -> u64 {
        self.days.iter().map(|bar| bar.allowed).max().unwrap_or(0)
    }

    fn first(&self) -> &str {
        self.days.first().map_or("", |bar| bar.label.as_str())
    }
}

#[derive(Template, Serialize)]
#[template(path = "data.html")]
struct DataPage {
    #[serde(skip)]
    chrome: Chrome,
    service: &'static str,
    title: &'static str,
    kinds: Vec<KindView>,
    /// It fetches the records.
    #[serde(skip)]
    command: String,
}

/// The records of the last 30 days, by kind and day.
pub(crate) fn data(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (ctx, service) = (context(app)?, service(visit)?);
    let internal = |error: &dyn std::fmt::Display| Problem::internal(error.to_string());
    let today = jiff::Timestamp::from_microsecond(app.now_us()).map_err(|e| internal(&e))?;
    let today = today.to_zoned(app.zone.clone()).date();
    let window = Window {
        from_us: Some(app.now_us() - DAYS * US_PER_DAY),
        limit: Some(RECORDS_MAX),
        ..Window::default()
    };
    let mut kinds = Vec::new();
    for (name, records) in ctx.records.counts(service.name).map_err(|e| internal(&e))? {
        let mut days = empty_days(today);
        for record in ctx.records.window(service.name, &name, &window).map_err(|e| internal(&e))? {
            let Some(at_us) = record.start_us else { continue };
            let Ok(at) = jiff::Timestamp::from_microsecond(at_us) else { continue };
            let label = at.to_zoned(app.zone.clone()).date().to_string();
            if let Some(bar) = days.iter_mut().find(|bar| bar.label == label) {
                bar.allowed += 1;
            }
        }
        kinds.push(KindView { name, records, days });
    }
    let view = DataPage {
        chrome: Chrome::new(app, visit, format!("Data of {}", service.title)),
        service: service.name,
        title: service.title,
        kinds,
        command: app.live.command(&format!("sync {}", service.name)),
    };
    page(visit, &view)
}

fn empty_days(today: Date) -> Vec<Bar> {
    let day = |ago: i64| today.saturating_sub(jiff::Span::new().days(ago)).to_string();
    (0..DAYS).rev().map(|ago| Bar { label: day(ago), allowed: 0, refused: 0 }).collect()
}
