//! The names of a policy page: one row for each that the server offers or the policy has, which of them are
//! shown, and the one whose rules are open.

use policy::edit;
use serde::Serialize;

use crate::builder::{
    ArgumentPath, EntryRules, OperatorChoice, Outline, Row, SECTIONS, State, argument_paths,
    operator_choices,
};
use crate::offer::OfferedName;
use crate::request::Visit;
use store::tool_class::ToolClass;

/// Reasons for a risk in one row; the page of the tool has all.
const REASONS_MAX: usize = 2;
const DESCRIPTION_CHARS_MAX: usize = 160;

pub(crate) const CATEGORIES: [&str; 5] = ["read", "write", "destructive", "execute", "financial"];
pub(crate) const RISKS: [&str; 4] = ["low", "medium", "high", "critical"];

#[derive(Serialize)]
pub(super) struct NameRow {
    pub(super) section: &'static str,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) category: Option<&'static str>,
    pub(super) risk: Option<&'static str>,
    pub(super) evidence: Vec<String>,
    /// The server has it; otherwise only the policy names it.
    pub(super) is_offered: bool,
    #[serde(flatten)]
    pub(super) row: Row,
    #[serde(skip)]
    pub(super) pointer: String,
}

#[derive(Serialize)]
pub(super) struct OpenEntry {
    pub(super) label: String,
    #[serde(flatten)]
    pub(super) rules: EntryRules,
    pub(super) paths: Vec<ArgumentPath>,
    #[serde(skip)]
    pub(super) operators: Vec<OperatorChoice>,
    #[serde(skip)]
    pub(super) has_result: bool,
}

/// Which rows are shown.
#[derive(Default)]
pub(super) struct NameFilter {
    pub(super) category: String,
    pub(super) risk: String,
    pub(super) text: String,
    pub(super) all: bool,
}

impl NameFilter {
    pub(super) fn of(visit: &Visit) -> NameFilter {
        let text = |key: &str| visit.field(key).unwrap_or_default().to_owned();
        NameFilter {
            category: text("show_category"),
            risk: text("show_risk"),
            text: text("show_text"),
            all: visit.field("show_all").is_some() || visit.field("do") == Some("show_all"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.category.is_empty() && self.risk.is_empty() && self.text.is_empty()
    }

    pub(super) fn keeps(&self, row: &NameRow) -> bool {
        let is = |wanted: &str, found: Option<&str>| wanted.is_empty() || found == Some(wanted);
        is(&self.category, row.category)
            && is(&self.risk, row.risk)
            && row.name.to_lowercase().contains(&self.text.to_lowercase())
    }
}

/// The entry whose rules are open after this step.
pub(super) fn open_entry(visit: &Visit) -> Option<String> {
    let pressed = visit.field("do").unwrap_or_default();
    if let Some(pointer) = pressed.strip_prefix("open:") {
        return Some(pointer.to_owned());
    }
    if pressed == "close" {
        return None;
    }
    // A switch that was moved to Custom opens its entry.
    let was =
        |key: &str| visit.form.iter().any(|(name, value)| name == "was_custom" && value == key);
    let custom = visit
        .form
        .iter()
        .find(|(key, value)| key.starts_with("s:") && value == State::Custom.as_str() && !was(key));
    let custom = custom.and_then(|(key, _)| key.strip_prefix("s:")?.split_once(':'));
    let opened = custom.map(|(section, name)| edit::pointer(&[section, name]));
    opened.or_else(|| visit.field("open").map(str::to_owned))
}

/// The tools that a bulk change is for.
pub(super) fn bulk_names(visit: &Visit, offered: &[OfferedName]) -> Vec<String> {
    let is = |key: &str, found: &str| visit.field(key).is_none_or(|wanted| wanted == found);
    let tools = offered.iter().filter(|one| one.section == "tools");
    let chosen = tools.filter(|one| {
        one.class
            .as_ref()
            .is_some_and(|class| is("bulk_category", class.category) && is("bulk_risk", class.risk))
    });
    chosen.map(|one| one.name.clone()).collect()
}

/// What conditions of an entry can be about.
pub(super) fn paths_of(open: Option<&str>, offered: &[OfferedName]) -> Vec<ArgumentPath> {
    let steps = open.map(edit::steps).unwrap_or_default();
    let known = match steps.as_slice() {
        [section, name] => offered.iter().find(|one| one.section == section && one.name == *name),
        _ => None,
    };
    let definition = known.map(|one| serde_json::from_str(&one.definition).unwrap_or_default());
    argument_paths(&definition.unwrap_or_default())
}

pub(super) fn rows(outline: &Outline<'_>, offered: &[OfferedName]) -> Vec<NameRow> {
    let mut rows = Vec::new();
    for section in SECTIONS {
        let own = offered.iter().filter(|one| one.section == section);
        rows.extend(own.map(|one| NameRow {
            section,
            name: one.name.clone(),
            description: brief(&one.description),
            category: one.class.as_ref().map(|class| class.category),
            risk: one.class.as_ref().map(|class| class.risk),
            evidence: one.class.as_ref().map(reasons).unwrap_or_default(),
            is_offered: true,
            row: outline.row(section, &one.name),
            pointer: edit::pointer(&[section, &one.name]),
        }));
        let is_offered =
            |name: &str| offered.iter().any(|one| one.section == section && one.name == name);
        for name in outline.entries(section).into_iter().filter(|name| !is_offered(name)) {
            rows.push(NameRow {
                section,
                description: String::new(),
                category: None,
                risk: None,
                evidence: Vec::new(),
                is_offered: false,
                row: outline.row(section, &name),
                pointer: edit::pointer(&[section, &name]),
                name,
            });
        }
    }
    rows
}

fn reasons(class: &ToolClass) -> Vec<String> {
    class.evidence.iter().take(REASONS_MAX).cloned().collect()
}

/// The first sentence of a description, cut if it is long.
fn brief(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= DESCRIPTION_CHARS_MAX {
        return line.to_owned();
    }
    format!("{}…", line.chars().take(DESCRIPTION_CHARS_MAX).collect::<String>())
}

pub(super) fn open_view(
    outline: &Outline<'_>,
    pointer: &str,
    offered: &[OfferedName],
) -> OpenEntry {
    let label = match edit::steps(pointer).as_slice() {
        [_, name] => name.clone(),
        _ => "all tools".to_owned(),
    };
    OpenEntry {
        label,
        rules: EntryRules::of(outline, pointer),
        paths: paths_of(Some(pointer), offered),
        operators: operator_choices(),
        has_result: pointer != "/all_tools",
    }
}
