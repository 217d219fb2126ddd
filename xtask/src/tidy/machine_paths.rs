//! No committed file names the machine it was written on: no local path, no private package mirror.

use super::{Finding, SourceFile};

/// Top folders of the machines this is built on. The slashes are added where they are compared, so
/// that this file does not find itself.
const MACHINE_FOLDERS: &[&str] = &["root", "work", "farm"];

/// Hosts a lock file may name. Any other is a private mirror that others cannot reach.
const PUBLIC_HOSTS: &[&str] = &[
    "github.com",
    "registry.npmjs.org",
    "pypi.org",
    "files.pythonhosted.org",
    "opencollective.com",
];

/// Files whose addresses are where packages come from.
const LOCKS: &[&str] =
    &["Cargo.lock", "package-lock.json", "uv.lock", "requirements.txt", ".npmrc", "config.toml"];

pub(super) fn check(file: &SourceFile, findings: &mut Vec<Finding>) {
    let is_lock = LOCKS.iter().any(|name| file.path.ends_with(name));
    for (number, line) in file.text.lines().enumerate() {
        let mut say = |words: String| {
            findings.push(Finding { place: format!("{}:{}", file.path, number + 1), words });
        };
        if !is_lock && names_machine(line) {
            say("a path of the machine it was written on".to_owned());
        }
        if let Some(host) = is_lock.then(|| private_host(line)).flatten() {
            say(format!("packages come from `{host}`, which others cannot reach"));
        }
    }
}

fn names_machine(line: &str) -> bool {
    MACHINE_FOLDERS.iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, found)| {
            let before = line.get(..at).and_then(|text| text.chars().next_back());
            let after = line.get(at + found.len()..).and_then(|text| text.chars().next());
            starts_path(before) && after.is_some_and(|c| c.is_ascii_lowercase() || c == '.')
        })
    })
}

/// Is the slash behind `before` the first of an absolute path, not one inside an address?
fn starts_path(before: Option<char>) -> bool {
    before.is_none_or(|c| !c.is_ascii_alphanumeric() && !"_-./*}".contains(c))
}

fn private_host(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("https://").or_else(|| line.split_once("http://"))?;
    let host = rest.split(['/', '"', '\'', ' ', ':', '?']).next()?;
    let public =
        PUBLIC_HOSTS.iter().any(|known| host == *known || host.ends_with(&format!(".{known}")));
    (!public && !host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found_and_addresses_are_not() {
        for (line, found) in [
            (format!("cd {}root{}x", '/', '/'), true),
            (format!("\"{}work{}main\"", '/', '/'), true),
            (format!("https://example.com{}work{}main", '/', '/'), false),
            ("/workspace/main".to_owned(), false),
        ] {
            assert_eq!(names_machine(&line), found, "{line}");
        }
    }

    #[test]
    fn a_lock_file_names_public_hosts_only() {
        assert_eq!(private_host("source = \"registry+https://github.com/x\""), None);
        assert_eq!(
            private_host("\"resolved\": \"https://mirror.local/a.tgz\""),
            Some("mirror.local")
        );
    }
}
