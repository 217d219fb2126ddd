//! Category and risk of a pinned tool, as the catalogue judges its definition.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::registry::{Pin, Registry};
use catalog::assess::{AssessmentContext, assess_tool};
use catalog::classify::{Classification, Evidence};
use policy::json::{Bounds, Doc};

/// What the catalogue makes of a tool.
#[derive(Clone, Debug)]
pub struct ToolClass {
    pub category: &'static str,
    pub risk: &'static str,
    /// Why, the strongest reason first.
    pub evidence: Vec<String>,
}

/// Category and risk of a tool by the definition that was last seen, as a scan shows them: a definition
/// that instructs the model raises the risk.
pub fn class(server: &str, pin: &Pin, all: &[Pin]) -> Option<ToolClass> {
    let pinned = pin.seen.as_ref().or(pin.accepted.as_ref())?;
    let doc = Doc::read(pinned.definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let siblings: Vec<&str> = all.iter().map(|pin| pin.tool.as_str()).collect();
    let tool = assess_tool(server, doc.root(), &siblings, AssessmentContext::default());
    let classed = tool.classification;
    let evidence = reasons(&classed);
    Some(ToolClass { category: classed.category.as_str(), risk: classed.risk.as_str(), evidence })
}

/// Why a tool is classified so, the strongest reason first.
pub fn reasons(classed: &Classification) -> Vec<String> {
    let reason = |one: &Evidence| format!("{}: {} ({})", one.location, one.text, one.meaning);
    classed.evidence.iter().map(reason).collect()
}

/// Classes that were computed before. A definition with the same fingerprint has the same class, and a page
/// with hundreds of tools must not assess them each time.
#[derive(Default)]
pub struct ClassCache {
    /// By server, fingerprint, and the number of tools next to it.
    known: Mutex<HashMap<(String, String, usize), Option<ToolClass>>>,
}

/// Beyond this the cache starts again.
const CACHED_MAX: usize = 20_000;

impl ClassCache {
    pub fn class(&self, server: &str, pin: &Pin, all: &[Pin]) -> Option<ToolClass> {
        let pinned = pin.seen.as_ref().or(pin.accepted.as_ref())?;
        let key = (server.to_owned(), pinned.fingerprint.to_string(), all.len());
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return known.clone();
        }
        let class = class(server, pin, all);
        let mut known = lock();
        if known.len() >= CACHED_MAX {
            known.clear();
        }
        known.insert(key, class.clone());
        class
    }
}

/// The risk of a tool; nothing when it is no tool that was seen.
pub fn risk(server: &str, tool: &str, registry: &Registry) -> Option<&'static str> {
    let pins = registry.pins(server).ok()?;
    let pin = pins.iter().find(|pin| pin.tool == tool)?;
    class(server, pin, &pins).map(|class| class.risk)
}
