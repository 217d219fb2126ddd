//! Plans an import: what happens to every server in a client's file, before anything is changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use store::registry::{Credential, EnvValue, Target};
use store::secret::Secret;

use super::discover::ConfigFile;
use super::entry::{Entry, Launch};
use super::folders::UserFolders;
use super::resolve::Resolver;
use crate::context::Stores;
use crate::masking;
use crate::program::resolved;

/// The longest name of a server, less space for a number.
const NAME_CHARS_MAX: usize = 56;

/// The planned action for one server.
pub(crate) struct Step<'f> {
    pub(crate) file: &'f ConfigFile,
    pub(crate) entry: &'f Entry,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    Import {
        server: String,
        target: Target,
        is_new: bool,
        warning: Option<String>,
    },
    /// The entry stays as it is, for this reason.
    Skip(String),
}

impl Step<'_> {
    /// The name behind the gate; none for an entry that stays.
    pub(crate) fn server(&self) -> Option<&str> {
        match &self.action {
            Action::Import { server, .. } => Some(server),
            Action::Skip(_) => None,
        }
    }
}

/// Makes the plan for these files.
pub(crate) fn plan<'f>(
    files: &'f [ConfigFile],
    at: &UserFolders,
    variable: &dyn Fn(&str) -> Option<String>,
    stores: &Stores,
) -> Result<Vec<Step<'f>>> {
    let mut known = known_servers(stores)?;
    let mut steps = Vec::new();
    for file in files {
        for entry in &file.entries {
            let action = action(file, entry, at, variable, &mut known);
            steps.push(Step { file, entry, action });
        }
    }
    Ok(steps)
}

/// Skips servers in a project's file under version control: others share that file.
pub(crate) fn skip_versioned(steps: &mut [Step<'_>]) {
    for step in steps.iter_mut().filter(|step| step.file.is_shared()) {
        if matches!(step.action, Action::Import { .. }) && is_versioned(&step.file.path) {
            let why = "its file is under version control; `--project-files` changes it, too";
            step.action = Action::Skip(why.to_owned());
        }
    }
}

/// Whether a parent folder is a repository.
fn is_versioned(path: &Path) -> bool {
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    let has_one =
        |folder: &Path| [".git", ".hg", ".jj", ".svn"].iter().any(|r| folder.join(r).exists());
    real.ancestors().skip(1).any(has_one)
}

/// Every registered server with its secrets opened, for comparison.
fn known_servers(stores: &Stores) -> Result<BTreeMap<String, Option<Target>>> {
    let vault = stores.registry.vault();
    let servers = stores.servers()?;
    // Older versions did not store the full path of a program; it is the same server.
    let opened =
        |target: Target| Some(resolved(target.opened(vault).ok()?.with_arguments_in_clear()));
    Ok(servers.into_iter().map(|s| (s.name, opened(s.target))).collect())
}

fn action(
    file: &ConfigFile,
    entry: &Entry,
    at: &UserFolders,
    variable: &dyn Fn(&str) -> Option<String>,
    known: &mut BTreeMap<String, Option<Target>>,
) -> Action {
    let target = match target_of(file, entry, at, variable) {
        Ok(target) => target,
        Err(why) => return Action::Skip(why),
    };
    let (server, is_new) = name_for(&entry.name, file.client.name, &target, known);
    known.insert(server.clone(), Some(target.clone()));
    Action::Import { warning: masking::advice(&server, &target), server, target, is_new }
}

/// The server of an entry as the gate would start it, or why it stays with its client.
pub(crate) fn target_of(
    file: &ConfigFile,
    entry: &Entry,
    at: &UserFolders,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Target, String> {
    if !entry.enabled {
        return Err("it is turned off".to_owned());
    }
    if is_behind_gate(&entry.launch) {
        return Err("it is behind the gate already".to_owned());
    }
    let resolver = Resolver {
        client: file.client.name,
        variable,
        home: at.home(),
        project: entry.project.as_deref(),
    };
    target(entry, &resolver).map(resolved)
}

/// Whether an entry points at a gate, this one or another.
pub(crate) fn is_behind_gate(launch: &Launch) -> bool {
    match launch {
        Launch::Command { argv, .. } => {
            let program = argv.first().map(String::as_str).unwrap_or_default();
            let named = program.rsplit(['/', '\\']).next().unwrap_or_default();
            let has = |wanted: &str| argv.iter().any(|word| word == wanted);
            let ours = named == "tollgate" || named == "tollgate.exe";
            // The program may be renamed; no other program has `stdio` and `--grant`.
            (ours && (has("stdio") || has("wrap"))) || (has("stdio") && has("--grant"))
        }
        Launch::Url { headers, .. } => headers.iter().any(|(_, value)| {
            let token = value.split_whitespace().next_back().unwrap_or_default();
            store::registry::Token::parse(token).is_ok()
        }),
        Launch::Other => false,
    }
}

pub(crate) fn target(entry: &Entry, resolver: &Resolver<'_>) -> Result<Target, String> {
    let fill = |text: &str| {
        resolver.resolve(text).map_err(|reference| {
            format!("`{reference}` is not set; set it, or add the server by hand")
        })
    };
    let target = match &entry.launch {
        Launch::Other => return Err("it names neither a command nor an address".to_owned()),
        Launch::Command { env_file: Some(elsewhere), .. } => {
            return Err(format!("its variables are in `{elsewhere}`; add the server by hand"));
        }
        Launch::Command { argv, env, cwd, .. } => {
            let message = argv.iter().map(|word| fill(word)).collect::<Result<_, _>>()?;
            let mut sealed = Vec::new();
            for (name, value) in env {
                let value = fill(value)?;
                sealed.push((name.clone(), EnvValue::Hidden(Credential::Held(Secret::new(value)))));
            }
            let cwd = cwd.as_deref().map(fill).transpose()?.map(PathBuf::from);
            let folder = match (cwd, &entry.project) {
                (Some(cwd), Some(project)) => Some(project.join(cwd)),
                (cwd, project) => cwd.or_else(|| project.clone()),
            };
            Target::Command { argv: message, env: sealed, cwd: folder, secret_args: Vec::new() }
        }
        Launch::Url { url, headers } => {
            let mut sealed = Vec::new();
            for (name, value) in headers {
                sealed.push((name.clone(), Credential::Held(Secret::new(fill(value)?))));
            }
            let message = |e: store::registry::TargetError| first_line(&e.to_string());
            Target::from_url(&fill(url)?, sealed, false).map_err(message)?
        }
    };
    target.check().map_err(|e| first_line(&e.to_string()))?;
    Ok(target)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// The name behind the gate: the same server of two clients has one name, two servers have two.
fn name_for(
    wanted: &str,
    client: &str,
    target: &Target,
    known: &BTreeMap<String, Option<Target>>,
) -> (String, bool) {
    let plain = plain_name(wanted);
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    let candidates = [plain.clone(), format!("{plain}-{client}")].into_iter().chain(numbered);
    for name in candidates {
        match known.get(&name) {
            None => return (name, true),
            Some(Some(same)) if same == target => return (name, false),
            Some(_) => {}
        }
    }
    (plain, true)
}

fn plain_name(wanted: &str) -> String {
    let mut name = String::new();
    for c in wanted.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => name.push(c),
            c @ ('_' | '-') if !name.is_empty() => name.push(c),
            _ if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_behind_the_gate_are_plain_and_unique() {
        for (wanted, plain) in [
            ("GitHub", "github"),
            ("my server (prod)", "my-server-prod"),
            ("@scope/pkg", "scope-pkg"),
            ("日本", "server"),
            ("_x", "x"),
        ] {
            assert_eq!(plain_name(wanted), plain);
        }
        let target = |word: &str| Target::Command {
            argv: vec![word.into()],
            env: vec![],
            cwd: None,
            secret_args: vec![],
        };
        let known = BTreeMap::from([("a".to_owned(), Some(target("one")))]);
        assert_eq!(name_for("a", "cursor", &target("one"), &known), ("a".into(), false));
        assert_eq!(name_for("a", "cursor", &target("two"), &known), ("a-cursor".into(), true));
    }
}
