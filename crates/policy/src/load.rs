//! Loading: text to tree, tree checked against the tables, then compiled, then the policy's own tests.

use std::sync::Arc;

use crate::entry::{OnChange, Rules};
use crate::fields;
use crate::limits::check_agreement;
use crate::names::{Name, nfc};
use crate::operator;
use crate::pointer;
use crate::policy::{Policy, ServerRequest, hide_pointer};
use crate::problem::{Complaint, LoadError, Problem, Problems};
use crate::section::{Patterns, Section, Spellings, check_patterns};
use crate::selftest;
use crate::shape::{self, Shape};
use crate::tree::{self, Format, Node};

impl Policy {
    /// Reads and compiles a policy and runs its tests. Whatever is wrong is an error with its place.
    pub fn load(source: &str, format: Format) -> Result<Policy, LoadError> {
        let policy = Policy::compile(source, format)?;
        let failed = policy.run_tests().into_iter().filter(|outcome| !outcome.passed);
        let problems: Vec<Problem> = failed.map(|outcome| outcome.to_problem()).collect();
        if problems.is_empty() { Ok(policy) } else { Err(LoadError { problems }) }
    }

    /// The same without running its tests.
    pub fn compile(source: &str, format: Format) -> Result<Policy, LoadError> {
        Policy::compile_text(source, format).map_err(|error| {
            // Somebody may have named another file, whose content is nobody's business.
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

/// Whether a text is meant to be a policy, so that what is wrong with it may be shown: it says
/// `version: "1"`, or `default: deny` or `allow`.
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

/// Where the parts of a policy report what is wrong with them.
#[derive(Default)]
pub(crate) struct Loader {
    pub(crate) problems: Problems,
    pub(crate) warnings: Problems,
    warned_of_links: bool,
    pub(crate) patterns: operator::Patterns,
}

impl Loader {
    /// The value, or a note of the complaint with its place.
    pub(crate) fn take<T>(
        &mut self,
        node: &Node,
        pointer: &str,
        result: Result<T, Complaint>,
    ) -> Option<T> {
        result.map_err(|complaint| self.problems.add(node.place, pointer, complaint)).ok()
    }

    /// Says once in a policy what a comparison of paths cannot know.
    pub(crate) fn warn_of_links(&mut self, node: &Node, pointer: &str) {
        if std::mem::replace(&mut self.warned_of_links, true) {
            return;
        }
        let words = "`path_under` compares the text of a path: a symbolic link below the folder can lead out of it";
        let hint = "keep links out of the folder, or run the server where it can open nothing else";
        self.warnings.add(node.place, pointer, Complaint::new(words).hint(hint));
    }
}

fn compile(root: &Node, loader: &mut Loader) -> Policy {
    let allows_unnamed = root.text_of("default") == Some("allow");
    let names = Spellings { uris: false, looks: allows_unnamed };
    let uris = Spellings { uris: true, looks: allows_unnamed };

    let all_tools = root.get("all_tools").map_or_else(Rules::default, |node| {
        let rules = Rules::compile(node, "/all_tools", None, loader);
        check_agreement(&rules.limits, &[], loader);
        rules
    });
    let shared = &all_tools.limits;
    let tools = Section::compile(root.get("tools"), "/tools", names, shared, loader);
    let resources = Section::compile(root.get("resources"), "/resources", uris, &[], loader);
    let prompts = Section::compile(root.get("prompts"), "/prompts", names, &[], loader);
    let hide = compile_hide(root.get("hide"), uris, loader);
    warn_of_hidden(root, &hide, loader);
    warn_of_other_wildcards(root, loader);
    let redacts = [&tools, &resources, &prompts]
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
        on_change: root.text_of("on_change").and_then(OnChange::from_name).unwrap_or_default(),
        server_requests: server_requests(root.get("server_requests")),
        redacts,
        tests: selftest::compile(root.get("tests"), loader),
        warnings: Vec::new(),
    }
}

fn compile_hide(node: Option<&Node>, spellings: Spellings, loader: &mut Loader) -> Patterns {
    let items = node.map(Node::items).unwrap_or_default();
    let texts: Vec<String> = items.iter().filter_map(Node::as_text).map(nfc).collect();
    let places: Vec<_> = items.iter().map(|item| item.place).collect();
    check_patterns(&texts, &places, |index| pointer::item("/hide", index), loader);
    // Patterns of this list may overlap: any of them hides.
    Patterns::new(&texts, spellings).0
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

/// An entry that `hide` beats is most likely a mistake.
fn warn_of_hidden(root: &Node, hide: &Patterns, loader: &mut Loader) {
    for section in ["tools", "resources", "prompts"] {
        for member in root.get(section).map(Node::members).unwrap_or_default() {
            if member.name.contains('*') {
                continue;
            }
            if let Some(found) = hide.find(&Name::of(&member.name)) {
                let pointer = pointer::member(&pointer::member("", section), &member.name);
                let words = format!(
                    "`{}` is never used: `{}` hides the name",
                    pointer,
                    hide_pointer(found.entry())
                );
                loader.warnings.add(member.place, &pointer, Complaint::new(words));
            }
        }
    }
}

/// No tool may have such a name, so whoever wrote it meant a wildcard, and the entry never counts.
fn warn_of_other_wildcards(root: &Node, loader: &mut Loader) {
    let tools = root.get("tools").map(Node::members).unwrap_or_default();
    let tools = tools.iter().map(|member| {
        (member.name.as_str(), member.place, pointer::member("/tools", &member.name))
    });
    let hide = root.get("hide").map(Node::items).unwrap_or_default().iter().enumerate();
    let hide = hide.filter_map(|(index, item)| {
        // A URI may hold them.
        let text = item.as_text().filter(|text| !text.contains(':'))?;
        Some((text, item.place, pointer::item("/hide", index)))
    });
    let unlike = |name: &str| name.contains(['?', '[', ']', '{', '}']);
    let found: Vec<_> = tools.chain(hide).filter(|(name, ..)| unlike(name)).collect();
    for (_, place, pointer) in found {
        let words = format!("`{pointer}` matches no tool: the only wildcard in names is `*`");
        loader.warnings.add(place, &pointer, Complaint::new(words));
    }
}
