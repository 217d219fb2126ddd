//! Loads a policy: parses the text, checks it against the field tables, compiles it and runs its tests.

use std::sync::Arc;

use crate::entry::{OnChange, Rules};
use crate::fields;
use crate::limits::check_agreement;
use crate::loader::Loader;
use crate::names::{Name, nfc};
use crate::pointer;
use crate::policy::{Policy, ServerRequest, hide_pointer};
use crate::problem::{Complaint, LoadError, Problem, Problems};
use crate::section::{NamePatterns, Section, Spellings, check_patterns};
use crate::selftest;
use crate::shape::{self, Shape};
use crate::tree::{self, Format, Node};

impl Policy {
    /// Reads and compiles a policy and runs its tests. Every problem is an error with its position.
    pub fn load(source: &str, format: Format) -> Result<Policy, LoadError> {
        let policy = Policy::compile(source, format)?;
        let failed = policy.run_tests().into_iter().filter(|outcome| !outcome.passed);
        let problems: Vec<Problem> = failed.map(|outcome| outcome.to_problem()).collect();
        if problems.is_empty() { Ok(policy) } else { Err(LoadError { problems }) }
    }

    /// The same without running its tests.
    pub fn compile(source: &str, format: Format) -> Result<Policy, LoadError> {
        Policy::compile_text(source, format).map_err(|error| {
            // The text may be another file, given by mistake, whose content must not be shown.
            if looks_like_policy(source) { error } else { error.without_content() }
        })
    }

    fn compile_text(source: &str, format: Format) -> Result<Policy, LoadError> {
        let root = tree::read(source, format)?;
        let mut problems = Problems::default();
        shape::check(&root, Shape::Object(&fields::POLICY), "", &mut problems);
        problems.into_result()?;
        let mut loader = Loader::default();
        let mut policy = compile(&root, &mut loader);
        loader.problems.into_result()?;
        source.clone_into(&mut policy.source);
        policy.warnings = loader.warnings.into_warnings();
        Ok(policy)
    }
}

/// Whether a text is meant to be a policy, so that errors may quote it: it contains `version: "1"`, or
/// `default: deny` or `allow`.
pub fn looks_like_policy(source: &str) -> bool {
    let says = |name: &str, values: &[&str]| {
        source.match_indices(name).any(|(at, _)| {
            let before = source.get(..at).unwrap_or_default();
            let before = before.strip_suffix(['"', '\'']).unwrap_or(before);
            let begins = before.ends_with(['{', ',', ' ', '\t', '\n', '\r']) || before.is_empty();
            let rest = source.get(at + name.len()..).unwrap_or_default();
            let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start();
            let value = rest.strip_prefix(':').map(str::trim_start).unwrap_or_default();
            let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
            let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '.');
            begins && values.iter().any(|v| value.strip_prefix(v).is_some_and(ends))
        })
    };
    says("version", &["1"]) || says("default", &["deny", "allow"])
}

fn compile(root: &Node, loader: &mut Loader) -> Policy {
    let allows_unnamed = root.text_of("default") == Some("allow");
    let names = Spellings { uris: false, look_alikes: allows_unnamed };
    let uris = Spellings { uris: true, look_alikes: allows_unnamed };

    let all_tools = root.get("all_tools").map_or_else(Rules::default, |node| {
        let rules = Rules::compile(node, "/all_tools", None, loader);
        check_agreement(&rules.limits, &[], loader);
        rules
    });
    let shared = &all_tools.limits;
    let tools = Section::compile(root.get("tools"), "/tools", names, shared, loader);
    let resources = Section::compile(root.get("resources"), "/resources", uris, &[], loader);
    let prompts = Section::compile(root.get("prompts"), "/prompts", names, &[], loader);
    let skills = Section::compile(root.get("skills"), "/skills", names, &[], loader);
    let hide = compile_hide(root.get("hide"), uris, loader);
    warn_of_hidden(root, &hide, loader);
    warn_of_other_wildcards(root, loader);
    let redacts = [&tools, &resources, &prompts, &skills]
        .into_iter()
        .flat_map(Section::entries)
        .any(|entry| !entry.effects.redact.is_empty());
    Policy {
        source: String::new(),
        description: root.text_of("description").map(str::to_owned),
        allows_unnamed,
        default_rule: Arc::from("/default"),
        hide,
        all_tools,
        tools,
        resources,
        prompts,
        skills,
        on_change: root.text_of("on_change").and_then(OnChange::from_name).unwrap_or_default(),
        aggregate_days: aggregate_days(root.get("aggregate_only")),
        server_requests: server_requests(root.get("server_requests")),
        redacts,
        tests: selftest::compile(root.get("tests"), loader),
        warnings: Vec::new(),
    }
}

fn compile_hide(node: Option<&Node>, spellings: Spellings, loader: &mut Loader) -> NamePatterns {
    let items = node.map(Node::items).unwrap_or_default();
    let texts: Vec<String> = items.iter().filter_map(Node::as_text).map(nfc).collect();
    let positions: Vec<_> = items.iter().map(|item| item.position).collect();
    check_patterns(&texts, &positions, |index| pointer::item("/hide", index), loader);
    // Patterns of this list may overlap; each of them hides.
    NamePatterns::new(&texts, spellings).0
}

fn aggregate_days(node: Option<&Node>) -> Option<u32> {
    // The shape is checked; a number that does not fit would be the strictest bound.
    node.map(|node| {
        shape::whole(node).and_then(|days| u32::try_from(days).ok()).unwrap_or(u32::MAX)
    })
}

fn server_requests(node: Option<&Node>) -> Vec<ServerRequest> {
    match node {
        None => ServerRequest::ALL.to_vec(),
        Some(list) => {
            let names = list.items().iter().filter_map(Node::as_text);
            names.filter_map(ServerRequest::from_name).collect()
        }
    }
}

/// An entry that `hide` overrides is most likely a mistake.
fn warn_of_hidden(root: &Node, hide: &NamePatterns, loader: &mut Loader) {
    for section in ["tools", "resources", "prompts", "skills"] {
        for member in root.get(section).map(Node::members).unwrap_or_default() {
            if member.name.contains('*') {
                continue;
            }
            if let Some(found) = hide.find(&Name::of(&member.name)) {
                let pointer = pointer::member(&pointer::member("", section), &member.name);
                let message = format!(
                    "`{}` is never used: `{}` hides the name",
                    pointer,
                    hide_pointer(found.entry())
                );
                loader.warnings.add(member.position, &pointer, Complaint::new(message));
            }
        }
    }
}

/// No tool can have such a name, so the author meant a wildcard, and the entry never matches.
fn warn_of_other_wildcards(root: &Node, loader: &mut Loader) {
    let tools = root.get("tools").map(Node::members).unwrap_or_default();
    let tools = tools.iter().map(|member| {
        (member.name.as_str(), member.position, pointer::member("/tools", &member.name))
    });
    let hide = root.get("hide").map(Node::items).unwrap_or_default().iter().enumerate();
    let hide = hide.filter_map(|(index, item)| {
        // A URI may contain them.
        let text = item.as_text().filter(|text| !text.contains(':'))?;
        Some((text, item.position, pointer::item("/hide", index)))
    });
    let unlike = |name: &str| name.contains(['?', '[', ']', '{', '}']);
    let found: Vec<_> = tools.chain(hide).filter(|(name, ..)| unlike(name)).collect();
    for (_, position, pointer) in found {
        let message = format!("`{pointer}` matches no tool: the only wildcard in names is `*`");
        loader.warnings.add(position, &pointer, Complaint::new(message));
    }
}
