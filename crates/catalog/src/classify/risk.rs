//! Derives the risk from the category, and raises it for dangerous parameters and for warnings of the
//! author. Nothing lowers it.

use super::features::Feature;
use super::signals::{Signal, SignalKind, environment, runs_code, sends};
use super::tool::ParsedTool;
use super::{Category, Risk};

pub(super) fn risk(
    category: Category,
    tool: &ParsedTool,
    features: &[Feature],
    signals: &[Signal],
) -> Risk {
    let shows = |kinds: &[SignalKind]| signals.iter().any(|s| kinds.contains(&s.kind));
    let says = |id: &str| features.iter().any(|f| f.id == id);
    let credentials = shows(&[SignalKind::Credentials]) || says("issues.credential");
    let own_code = shows(&[SignalKind::Command, SignalKind::Sql]);
    let (usual, raised, is_raised) = match category {
        Category::Read if environment(tool).is_some() => (Risk::High, Risk::High, true),
        Category::Read => {
            let far = shows(&[SignalKind::Path, SignalKind::Url]);
            (Risk::Low, Risk::Medium, credentials || own_code || far)
        }
        Category::Write => {
            let far = shows(WIDE) || sends(tool) || tool.hints.destructive == Some(true);
            (Risk::Medium, Risk::High, credentials || own_code || far)
        }
        Category::Destructive => {
            let lasting = says("cue=irreversible") || says("choice=destroy");
            let many = shows(&[SignalKind::Bulk]);
            (Risk::High, Risk::Critical, credentials || many || lasting)
        }
        Category::Execute => {
            let anything = says("shape=http") || says("cue=arbitrary");
            // An optional script of a navigation tool is not its main purpose.
            let main = runs_code(tool) || signals.iter().any(|s| is_needed(s, tool));
            (Risk::High, Risk::Critical, own_code && main || anything)
        }
        Category::Financial => (Risk::Critical, Risk::Critical, true),
    };
    if is_raised { raised } else { usual }
}

/// Words of a name that mean a lasting effect.
const LASTING: &str = "deploy redeploy migrate migration rollback terminate kill shutdown poweroff \
    failover switchover install uninstall upload publish promote release dial submit approve apply \
    sign reset erase format flash exploit print";

pub(super) fn is_reversible(category: Category, risk: Risk, tool: &ParsedTool) -> bool {
    let lasting = tool.name_words.iter().any(|w| LASTING.split_whitespace().any(|l| l == w.base));
    match category {
        Category::Read => true,
        Category::Write => !lasting && !sends(tool),
        Category::Execute => !lasting && risk < Risk::Critical,
        Category::Destructive | Category::Financial => false,
    }
}

/// A command or query that every call must pass.
fn is_needed(signal: &Signal, tool: &ParsedTool) -> bool {
    let is_code = matches!(signal.kind, SignalKind::Command | SignalKind::Sql);
    let path = signal.parameter.as_deref();
    is_code && tool.parameters.iter().any(|p| p.required && Some(p.path.as_str()) == path)
}

/// Signals that widen the effect of one change.
const WIDE: &[SignalKind] =
    &[SignalKind::Recipient, SignalKind::Bulk, SignalKind::Amount, SignalKind::Url];
