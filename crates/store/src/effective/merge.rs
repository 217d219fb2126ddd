//! Puts the objects of `gate.db` and `tollgate.toml` together and says what does not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{Effective, TokenPlace};
use crate::nearest::did_you_mean;
use crate::registry::{Grant, Origin, Snapshot, Thing, TokenHash};
use crate::settings::Settings;

/// Two places that disagree, or a name that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeProblem {
    /// Both places define it; neither is in force.
    Clash { thing: Thing, name: String, line: Option<usize> },
    /// Two grants have one token; it opens neither.
    TokenTwice { grants: [String; 2] },
    /// A grant holds something that does not exist; calls to it are denied.
    Dangling {
        grant: String,
        origin: Origin,
        line: Option<usize>,
        thing: Thing,
        name: String,
        near: String,
    },
}

impl MergeProblem {
    /// What a changed file is refused for. `gate.db` may lose a server at any time.
    pub fn is_error(&self) -> bool {
        !matches!(self, MergeProblem::Dangling { origin: Origin::Registry, .. })
    }
}

impl fmt::Display for MergeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeProblem::Clash { thing, name, line } => write!(
                f,
                "{} `{name}` is defined twice: in tollgate.toml{} and in gate.db\nhint: rename it in the file{}",
                thing.as_str(),
                at_line(*line),
                or_take_out(*thing, name)
            ),
            MergeProblem::TokenTwice { grants: [one, other] } => write!(
                f,
                "grants `{one}` and `{other}` have the same token; it opens neither\nhint: give one of them a token of its own"
            ),
            MergeProblem::Dangling { grant, origin, line, thing, name, near } => write!(
                f,
                "grant `{grant}` ({}{}) names the {} `{name}`, which does not exist{near}{}",
                origin.as_str(),
                at_line(*line),
                thing.as_str(),
                how_to_make(*thing, name)
            ),
        }
    }
}

/// The command that takes it out of `gate.db`; every version of a policy stays there.
fn or_take_out(thing: Thing, name: &str) -> String {
    match thing {
        Thing::Server => format!(", or run `tollgate server remove {name}`"),
        Thing::Grant => format!(", or run `tollgate grant revoke {name}`"),
        _ => String::new(),
    }
}

fn how_to_make(thing: Thing, name: &str) -> String {
    match thing {
        Thing::Server => format!("\nhint: `tollgate server add {name} -- COMMAND` makes one"),
        Thing::Policy => format!("\nhint: `tollgate policy set {name} FILE` makes one"),
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

pub(super) fn merge(snapshot: Snapshot, settings: Arc<Settings>) -> Effective {
    let mut problems = Vec::new();
    let servers = snapshot.servers.into_iter().map(|server| (server.name.clone(), server));
    let servers = union(Thing::Server, servers, &settings, &settings.servers, &mut problems);
    let policies = snapshot.policies.into_iter().map(|policy| (policy.name.clone(), policy));
    let policies = union(Thing::Policy, policies, &settings, &settings.policies, &mut problems);
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

/// Objects of both places by name; a name in both is a problem and in neither result.
fn union<T: Clone>(
    thing: Thing,
    kept: impl Iterator<Item = (String, T)>,
    settings: &Settings,
    file: &BTreeMap<String, T>,
    problems: &mut Vec<MergeProblem>,
) -> BTreeMap<String, T> {
    let mut all = file.clone();
    for (name, object) in kept {
        if all.insert(name.clone(), object).is_some() {
            all.remove(&name);
            let line = settings.line_of(thing, &name);
            problems.push(MergeProblem::Clash { thing, name, line });
        }
    }
    all
}

/// Revoked grants keep their labels without taking them.
fn union_of_grants(
    kept: Vec<Grant>,
    settings: &Settings,
    problems: &mut Vec<MergeProblem>,
) -> Vec<Grant> {
    let (live, revoked): (Vec<Grant>, Vec<Grant>) =
        kept.into_iter().partition(|grant| grant.revoked_at_us.is_none());
    let live = live.into_iter().map(|grant| (grant.label.clone(), grant));
    let live = union(Thing::Grant, live, settings, &settings.grants, problems);
    live.into_values().chain(revoked).collect()
}

fn tokens_of(grants: &[Grant], problems: &mut Vec<MergeProblem>) -> HashMap<TokenHash, TokenPlace> {
    let mut tokens: HashMap<TokenHash, TokenPlace> = HashMap::new();
    let mut twice = BTreeSet::new();
    for (index, grant) in grants.iter().enumerate() {
        for token in &grant.tokens {
            let (hash, valid_until_us) = (token.hash, token.valid_until_us);
            let place = TokenPlace { hash, grant: index, valid_until_us };
            let Some(earlier) = tokens.insert(hash, place) else { continue };
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
        Origin::File => effective.settings.line_of(Thing::Grant, &grant.label),
        Origin::Registry => None,
    };
    let problem = |thing: Thing, name: &str, near: String| MergeProblem::Dangling {
        grant: grant.label.clone(),
        origin: grant.origin,
        line,
        thing,
        name: name.to_owned(),
        near,
    };
    let mut found = Vec::new();
    if grant.revoked_at_us.is_some() {
        return found;
    }
    for holding in &grant.holdings {
        if !effective.servers.contains_key(&holding.server) {
            let near = did_you_mean(&holding.server, keys(&effective.servers));
            found.push(problem(Thing::Server, &holding.server, near));
        }
        if let Some(policy) = &holding.policy
            && !effective.policies.contains_key(policy)
        {
            let near = did_you_mean(policy, keys(&effective.policies));
            found.push(problem(Thing::Policy, policy, near));
        }
    }
    found
}

fn keys<T>(map: &BTreeMap<String, T>) -> impl Iterator<Item = &str> {
    map.keys().map(String::as_str)
}
