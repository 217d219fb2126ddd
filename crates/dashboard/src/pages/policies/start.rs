//! What a new draft begins with: nothing, the recommended policy of a server, or what a grant did there.

use catalog::recommend::Preset;
use store::effective::Effective;
use store::ledger::{EntryKind, Filter};

use crate::app::App;
use crate::offer;
use crate::problem::Problem;
use crate::replay::{self, Offered, ReplayError, Suggestion, Usage};

const EMPTY: &str = "{\n  \"version\": \"1\",\n  \"default\": \"deny\",\n  \"tools\": {}\n}\n";
/// Calls of a grant that are read; `tollgate policy suggest` reads all.
const CALLS_MAX: usize = 20_000;

pub(super) enum Start<'a> {
    Empty,
    Recommended(Preset),
    /// What this grant did.
    History(&'a str),
}

/// The choices with their labels.
pub(super) fn start_choices(effective: &Effective) -> Vec<(String, String)> {
    let mut choices = vec![
        ("recommended".to_owned(), "the recommended policy".to_owned()),
        ("strict".to_owned(), "the strict policy".to_owned()),
        ("permissive".to_owned(), "the permissive policy".to_owned()),
    ];
    let grants = effective.grants().iter().filter(|grant| grant.revoked_at_us.is_none());
    choices
        .extend(grants.map(|grant| {
            (format!("history:{}", grant.label), format!("what {} did", grant.label))
        }));
    choices.push(("empty".to_owned(), "an empty policy".to_owned()));
    choices
}

impl<'a> Start<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Start<'a>, Problem> {
        match (text, text.strip_prefix("history:"), Preset::parse(text)) {
            ("empty" | "", ..) => Ok(Start::Empty),
            (_, Some(grant), _) => Ok(Start::History(grant)),
            (.., Some(preset)) => Ok(Start::Recommended(preset)),
            _ => Err(Problem::invalid("choose what to start from")),
        }
    }

    pub(super) fn text(
        &self,
        app: &App,
        effective: &Effective,
        server: &str,
    ) -> Result<String, Problem> {
        match self {
            Start::Empty => Ok(EMPTY.to_owned()),
            Start::Recommended(preset) => {
                let offered = offer::offered(app, effective, server)?;
                if offered.is_empty() {
                    return Err(Problem::invalid(format!(
                        "no tool of server `{server}` was seen yet; list its tools first"
                    )));
                }
                Ok(offer::recommended(server, &offered, *preset))
            }
            Start::History(grant) => history(app, grant, server),
        }
    }
}

/// The least policy that would have allowed what a grant did on a server.
fn history(app: &App, grant: &str, server: &str) -> Result<String, Problem> {
    let filter = Filter {
        grant: Some(grant.to_owned()),
        server: Some(server.to_owned()),
        only: Some(EntryKind::Call),
        ..app.newest_rows()?
    };
    let mut entries: Vec<_> = app.audit()?.newest_first(&filter)?.take(CALLS_MAX).collect();
    entries.reverse();
    let mut used = Usage::default();
    replay::each::<ReplayError>(entries.into_iter(), &app.zone, |call| {
        used.add(&call);
        Ok(())
    })
    .map_err(|error| Problem::internal(error.to_string()))?;
    if used.calls == 0 {
        return Err(Problem::invalid(format!(
            "no call of grant `{grant}` on server `{server}` was carried out"
        )));
    }
    let open = app.registry.pins(server)?.into_iter().map(|pin| pin.tool).collect();
    let made = Suggestion::make(grant, server, &used, &Offered { open, hidden: Vec::new() });
    Ok(format!("{:#}\n", made.policy))
}
