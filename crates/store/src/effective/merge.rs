//! Merges the objects of `gate.db` and `tollgate.toml` and reports conflicts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{Effective, TokenEntry};
use crate::registry::{Grant, ObjectKind, Origin, RegistrySnapshot, TokenHash};
use crate::settings::Settings;
use policy::did_you_mean;

/// Two sources that conflict, or a reference to something missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeProblem {
    /// Both sources define it; neither is active.
    Clash { kind: ObjectKind, name: String, line: Option<usize> },
    /// Two grants have the same token; it is valid for neither.
    TokenTwice { grants: [String; 2] },
    /// A grant refers to something that does not exist; calls to it are denied.
    Dangling {
        grant: String,
        origin: Origin,
        line: Option<usize>,
        kind: ObjectKind,
        name: String,
        near: String,
    },
}

impl MergeProblem {
    /// Whether a changed file is rejected for it. `gate.db` may lose a server at any time.
    pub fn is_error(&self) -> bool {
        !matches!(self, MergeProblem::Dangling { origin: Origin::Registry, .. })
    }
}

impl fmt::Display for MergeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeProblem::Clash { kind, name, line } => write!(
                f,
                "{} `{name}` is defined twice: in tollgate.toml{} and in gate.db\nhint: rename it in the file{}",
                kind.as_str(),
                at_line(*line),
                or_take_out(*kind, name)
            ),
            MergeProblem::TokenTwice { grants: [one, other] } => write!(
                f,
                "grants `{one}` and `{other}` have the same token; it is valid for neither\nhint: give one of them another token"
            ),
            MergeProblem::Dangling { grant, origin, line, kind, name, near } => write!(
                f,
                "grant `{grant}` ({}{}) refers to the {} `{name}`, which does not exist{near}{}",
                origin.as_str(),
                at_line(*line),
                kind.as_str(),
                how_to_make(*kind, name)
            ),
        }
    }
}

/// The command that removes it from `gate.db`; every version of a policy stays there.
fn or_take_out(kind: ObjectKind, name: &str) -> String {
    match kind {
        ObjectKind::Server => format!(", or run `tollgate server remove {name}`"),
        ObjectKind::Grant => format!(", or run `tollgate grant revoke {name}`"),
        _ => String::new(),
    }
}

fn how_to_make(kind: ObjectKind, name: &str) -> String {
    match kind {
        ObjectKind::Server => {
            format!("\nhint: `tollgate server add {name} -- COMMAND` creates one")
        }
        ObjectKind::Policy => format!("\nhint: `tollgate policy set {name} FILE` creates one"),
        _ => String::new(),
    }
}

fn at_line(line: Option<usize>) -> String {
    line.map(|line| format!(", line {line},")).unwrap_or_default()
}

/// Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeError {
    pub problems: Vec<MergeProblem>,
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for MergeError {}

pub(super) fn merge(snapshot: RegistrySnapshot, settings: Arc<Settings>) -> Effective {
    let mut problems = Vec::new();
    let servers = snapshot.servers.into_iter().map(|server| (server.name.clone(), server));
    let servers = union(ObjectKind::Server, servers, &settings, &settings.servers, &mut problems);
    let policies = snapshot.policies.into_iter().map(|policy| (policy.name.clone(), policy));
    let policies =
        union(ObjectKind::Policy, policies, &settings, &settings.policies, &mut problems);
    let grants = union_of_grants(snapshot.grants, &settings, &mut problems);
    let tokens = tokens_of(&grants, &mut problems);
    let effective = Effective {
        generation: snapshot.generation,
        values: snapshot.values,
        settings,
        servers,
        policies,
        problems: Vec::new(),
        grants,
        tokens,
    };
    problems.extend(effective.grants.iter().flat_map(|grant| dangling(grant, &effective)));
    Effective { problems, ..effective }
}

/// Objects of both sources by name; a name in both is a problem and appears in neither result.
fn union<T: Clone>(
    kind: ObjectKind,
    kept: impl Iterator<Item = (String, T)>,
    settings: &Settings,
    file: &BTreeMap<String, T>,
    problems: &mut Vec<MergeProblem>,
) -> BTreeMap<String, T> {
    let mut all = file.clone();
    for (name, object) in kept {
        if all.insert(name.clone(), object).is_some() {
            all.remove(&name);
            let line = settings.line_of(kind, &name);
            problems.push(MergeProblem::Clash { kind, name, line });
        }
    }
    all
}

/// Revoked grants keep their labels without reserving them.
fn union_of_grants(
    kept: Vec<Grant>,
    settings: &Settings,
    problems: &mut Vec<MergeProblem>,
) -> Vec<Grant> {
    let (live, revoked): (Vec<Grant>, Vec<Grant>) =
        kept.into_iter().partition(|grant| grant.revoked_at_us.is_none());
    let live = live.into_iter().map(|grant| (grant.label.clone(), grant));
    let live = union(ObjectKind::Grant, live, settings, &settings.grants, problems);
    live.into_values().chain(revoked).collect()
}

fn tokens_of(grants: &[Grant], problems: &mut Vec<MergeProblem>) -> HashMap<TokenHash, TokenEntry> {
    let mut tokens: HashMap<TokenHash, TokenEntry> = HashMap::new();
    let mut twice = BTreeSet::new();
    for (index, grant) in grants.iter().enumerate() {
        for token in &grant.tokens {
            let (hash, valid_until_us) = (token.hash, token.valid_until_us);
            let audience = token.audience.as_deref().map(Arc::from);
            let entry = TokenEntry { hash, grant: index, valid_until_us, audience };
            let Some(earlier) = tokens.insert(hash, entry) else { continue };
            twice.insert(hash);
            let other = grants.get(earlier.grant).map_or("", |grant| &grant.label).to_owned();
            let grants = [other, grant.label.clone()];
            problems.push(MergeProblem::TokenTwice { grants });
        }
    }
    tokens.retain(|hash, _| !twice.contains(hash));
    tokens
}

fn dangling(grant: &Grant, effective: &Effective) -> Vec<MergeProblem> {
    let line = match grant.origin {
        Origin::File => effective.settings.line_of(ObjectKind::Grant, &grant.label),
        Origin::Registry => None,
    };
    let problem = |kind: ObjectKind, name: &str, near: String| MergeProblem::Dangling {
        grant: grant.label.clone(),
        origin: grant.origin,
        line,
        kind,
        name: name.to_owned(),
        near,
    };
    let mut found = Vec::new();
    if grant.revoked_at_us.is_some() {
        return found;
    }
    for access in &grant.server_access {
        if !effective.servers.contains_key(&access.server) {
            let near = did_you_mean(&access.server, keys(&effective.servers));
            found.push(problem(ObjectKind::Server, &access.server, near));
        }
        if let Some(policy) = &access.policy
            && !effective.policies.contains_key(policy)
        {
            let near = did_you_mean(policy, keys(&effective.policies));
            found.push(problem(ObjectKind::Policy, policy, near));
        }
    }
    found
}

fn keys<T>(map: &BTreeMap<String, T>) -> impl Iterator<Item = &str> {
    map.keys().map(String::as_str)
}
