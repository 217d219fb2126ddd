//! Well-known server packages that keep no state between sessions, so that all clients may share
//! one process. A package is listed only if its tools read and write files, repositories or
//! services, never process memory, and if it sends no requests to its client.

/// A package that keeps no state between sessions.
struct Known {
    registry: Registry,
    package: &'static str,
    /// The program that the package installs.
    program: &'static str,
    /// How many arguments it needs to be independent of its client.
    arguments_min: usize,
}

/// Where a package comes from. A name that only one registry vouches for means nothing in another:
/// `mcp-server-memory` on PyPI is somebody else's server.
#[derive(Clone, Copy, PartialEq)]
enum Registry {
    Npm,
    PyPi,
}

const fn npm(package: &'static str, program: &'static str) -> Known {
    Known { registry: Registry::Npm, package, program, arguments_min: 0 }
}

const fn pypi(package: &'static str) -> Known {
    Known { registry: Registry::PyPi, package, program: package, arguments_min: 0 }
}

const PACKAGES: &[Known] = &[
    // Without folders it uses those that its client names as roots.
    Known {
        arguments_min: 1,
        ..npm("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem")
    },
    npm("@modelcontextprotocol/server-memory", "mcp-server-memory"),
    npm("@modelcontextprotocol/server-github", "mcp-server-github"),
    npm("@modelcontextprotocol/server-gitlab", "mcp-server-gitlab"),
    npm("@modelcontextprotocol/server-brave-search", "mcp-server-brave-search"),
    npm("@modelcontextprotocol/server-google-maps", "mcp-server-google-maps"),
    npm("@modelcontextprotocol/server-slack", "mcp-server-slack"),
    npm("@modelcontextprotocol/server-postgres", "mcp-server-postgres"),
    npm("@upstash/context7-mcp", "context7-mcp"),
    npm("@notionhq/notion-mcp-server", "notion-mcp-server"),
    npm("exa-mcp-server", "exa-mcp-server"),
    npm("tavily-mcp", "tavily-mcp"),
    pypi("mcp-server-fetch"),
    pypi("mcp-server-git"),
    pypi("mcp-server-time"),
];

/// Words before the package's name: a program that runs packages, and its subcommands.
const RUNNERS: &[(Registry, &[&str])] = &[
    (Registry::Npm, &["npx"]),
    (Registry::Npm, &["bunx"]),
    (Registry::Npm, &["pnpx"]),
    (Registry::Npm, &["pnpm", "dlx"]),
    (Registry::PyPi, &["uvx"]),
    (Registry::PyPi, &["uv", "tool", "run"]),
    (Registry::PyPi, &["pipx", "run"]),
];

/// The package of a command that is known to be stateless.
pub fn stateless_package(argv: &[String]) -> Option<&'static str> {
    let mut words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let program = words.first()?.rsplit(['/', '\\']).next()?;
    if let Some(first) = words.first_mut() {
        *first = program;
    }
    let runner = RUNNERS.iter().find(|(_, runner)| words.starts_with(runner));
    let rest = words.get(runner.map_or(0, |(_, runner)| runner.len())..)?;
    // Flags with a value are unknown here; a command with one is not treated as stateless.
    let skipped = if runner.is_some() {
        rest.iter().take_while(|word| matches!(**word, "-y" | "--yes" | "-q" | "--quiet")).count()
    } else {
        0
    };
    let (name, arguments) = rest.get(skipped..)?.split_first()?;
    let known = PACKAGES.iter().find(|known| match runner {
        Some((registry, _)) => {
            known.registry == *registry && known.package == without_version(name)
        }
        None => known.program == *name,
    })?;
    (arguments.len() >= known.arguments_min).then_some(known.package)
}

/// `name` of `name@1.2`, `@scope/name@1.2` or `name==1.2`.
fn without_version(package: &str) -> &str {
    let package = package.split_once("==").map_or(package, |(name, _)| name);
    match package.get(1..).and_then(|rest| rest.find('@')) {
        Some(at) => package.get(..=at).unwrap_or(package),
        None => package,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_package_that_is_named_where_packages_are_named_is_known() {
        let cases = [
            ("npx -y @modelcontextprotocol/server-filesystem /data", true),
            ("npx -y @modelcontextprotocol/server-filesystem", false),
            ("npx @modelcontextprotocol/server-memory@2025.9.1", true),
            ("/usr/bin/uvx mcp-server-time==1.0 --local-timezone=UTC", true),
            ("uv tool run mcp-server-git --repository .", true),
            ("mcp-server-fetch", true),
            ("/usr/local/bin/mcp-server-github", true),
            ("context7-mcp", true),
            ("notion-mcp-server", true),
            ("mcp-server-filesystem", false),
            ("mcp-server-filesystem /data", true),
            ("mcp-server-filesystem@2 /data", false),
            // The other registry does not have it, or has a server of another author.
            ("uvx mcp-server-memory", false),
            ("npx -y mcp-server-fetch", false),
            ("uvx exa-mcp-server", false),
            ("npx -y @modelcontextprotocol/server-everything", false),
            ("npx -y @modelcontextprotocol/server-sequential-thinking", false),
            ("npx -p evil mcp-server-time", false),
            ("sh -c mcp-server-time", false),
            ("evil mcp-server-time", false),
            ("", false),
        ];
        for (command, known) in cases {
            let argv: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            assert_eq!(stateless_package(&argv).is_some(), known, "{command}");
        }
    }
}
