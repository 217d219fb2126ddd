//! The entry of one name: action, rules, limits and what happens to the result.

use std::sync::Arc;

use crate::condition::{Rule, compile_rules};
use crate::limits::{Limit, check_agreement, compile_limits, compile_rate_limit};
use crate::loader::Loader;
use crate::pointer;
use crate::problem::Complaint;
use crate::result_path::ResultPath;
use crate::shape::whole;
use crate::tree::Node;
use crate::verdict::Effects;

/// Rules and limits of one entry together.
pub(crate) const RULES_MAX: usize = 1_000;

pub(crate) struct Entry {
    pub(crate) pointer: Arc<str>,
    pub(crate) action: Action,
    pub(crate) reason: Option<Arc<str>>,
    pub(crate) rules: Rules,
    pub(crate) on_change: Option<OnChange>,
    pub(crate) effects: Effects,
}

/// What an entry does before any rule is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Allow,
    Deny,
    Hide,
    RequireApproval,
}

/// What happens to a tool whose definition is not the one the owner accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnChange {
    #[default]
    Refuse,
    Warn,
    Allow,
}

impl OnChange {
    pub(crate) fn from_name(name: &str) -> Option<OnChange> {
        match name {
            "refuse" => Some(OnChange::Refuse),
            "warn" => Some(OnChange::Warn),
            "allow" => Some(OnChange::Allow),
            _ => None,
        }
    }
}

/// The rules of an entry, or those of all tools.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) require: Box<[Rule]>,
    pub(crate) deny_if: Box<[Rule]>,
    pub(crate) approve_if: Box<[Rule]>,
    pub(crate) limits: Box<[Limit]>,
}

impl Rules {
    pub(crate) fn compile(
        node: &Node,
        pointer: &str,
        reason: Option<&Arc<str>>,
        loader: &mut Loader,
    ) -> Rules {
        let count: usize = ["require", "deny_if", "approve_if", "limits"]
            .iter()
            .filter_map(|list| node.get(list))
            .map(|list| list.items().len())
            .sum();
        if count > RULES_MAX {
            let words = format!("{count} rules and limits in one entry, more than {RULES_MAX}");
            loader.problems.add(node.position, pointer, Complaint::new(words));
            return Rules::default();
        }
        let mut rules =
            |list: &str| compile_rules(node.get(list), &pointer::member(pointer, list), loader);
        let (require, deny_if, approve_if) =
            (rules("require"), rules("deny_if"), rules("approve_if"));
        let at_limits = pointer::member(pointer, "limits");
        let mut limits = compile_limits(node.get("limits"), &at_limits, reason, loader);
        if let Some(short) = node.get("rate_limit") {
            let at_short = pointer::member(pointer, "rate_limit");
            limits.extend(compile_rate_limit(short, &at_short, reason, loader));
        }
        Rules { require, deny_if, approve_if, limits: limits.into() }
    }
}

impl Entry {
    /// `shared` are the limits that apply to every call of this section.
    pub(crate) fn compile(
        node: &Node,
        pointer: String,
        shared: &[Limit],
        loader: &mut Loader,
    ) -> Entry {
        let reason = node.text_of("reason").map(Arc::from);
        let rules = Rules::compile(node, &pointer, reason.as_ref(), loader);
        check_agreement(&rules.limits, shared, loader);
        let action = match node.text_of("action") {
            Some("deny") => Action::Deny,
            Some("hide") => Action::Hide,
            Some("require_approval") => Action::RequireApproval,
            _ => Action::Allow,
        };
        warn_of_unused_fields(node, action, &pointer, loader);
        Entry {
            action,
            reason,
            rules,
            on_change: node.text_of("on_change").and_then(OnChange::from_name),
            effects: Effects {
                redact: compile_redact(node.get("redact"), &pointer, loader),
                result_bytes_max: node.get("result_bytes_max").and_then(whole),
            },
            pointer: pointer.into(),
        }
    }
}

fn compile_redact(list: Option<&Node>, pointer: &str, loader: &mut Loader) -> Arc<[ResultPath]> {
    let pointer = pointer::member(pointer, "redact");
    let paths = list.map(Node::items).unwrap_or_default().iter().enumerate();
    let read = |(index, node): (usize, &Node)| {
        let path = ResultPath::parse(node.as_text().unwrap_or_default());
        loader.take(node, &pointer::item(&pointer, index), path)
    };
    paths.filter_map(read).collect()
}

fn warn_of_unused_fields(node: &Node, action: Action, pointer: &str, loader: &mut Loader) {
    const UNUSED: [&str; 7] =
        ["require", "deny_if", "approve_if", "limits", "rate_limit", "redact", "result_bytes_max"];
    if !matches!(action, Action::Deny | Action::Hide) {
        return;
    }
    if let Some(field) = UNUSED.iter().find(|field| node.get(field).is_some()) {
        let words = format!("`{field}` has no effect: the action already stops every call");
        loader.warnings.add(node.position, pointer, Complaint::new(words));
    }
}
