//! Well-known server packages that keep no state between sessions, so that all clients may share
//! one process. A package is listed only if its tools read and write files, repositories or
//! services, never process memory, and if it sends no requests to its client.

/// Name of the package on npm or PyPI, or of its program, and how many arguments it needs to be independent of its client.
const PACKAGES: &[(&str, usize)] = &[
    // Without folders it uses those that its client names as roots.
    ("@modelcontextprotocol/server-filesystem", 1),
    ("mcp-server-filesystem", 1),
    ("@modelcontextprotocol/server-memory", 0),
    ("mcp-server-memory", 0),
    ("@modelcontextprotocol/server-github", 0),
    ("@modelcontextprotocol/server-gitlab", 0),
    ("@modelcontextprotocol/server-brave-search", 0),
    ("@modelcontextprotocol/server-google-maps", 0),
    ("@modelcontextprotocol/server-slack", 0),
    ("@modelcontextprotocol/server-postgres", 0),
    ("@upstash/context7-mcp", 0),
    ("@notionhq/notion-mcp-server", 0),
    ("exa-mcp-server", 0),
    ("tavily-mcp", 0),
    ("mcp-server-fetch", 0),
    ("mcp-server-git", 0),
    ("mcp-server-time", 0),
];

/// Words before the package's name: a program that runs packages, and its subcommands.
const RUNNERS: &[&[&str]] = &[
    &["npx"],
    &["bunx"],
    &["pnpx"],
    &["pnpm", "dlx"],
    &["uvx"],
    &["uv", "tool", "run"],
    &["pipx", "run"],
];

/// The package of a command that is known to be stateless.
pub fn stateless_package(argv: &[String]) -> Option<&'static str> {
    let mut words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let program = words.first()?.rsplit(['/', '\\']).next()?;
    if let Some(first) = words.first_mut() {
        *first = program;
    }
    let runner = RUNNERS.iter().find(|runner| words.starts_with(runner));
    let rest = words.get(runner.map_or(0, |runner| runner.len())..)?;
    // Flags with a value are unknown here; a command with one is not treated as stateless.
    let skipped = if runner.is_some() {
        rest.iter().take_while(|word| matches!(**word, "-y" | "--yes" | "-q" | "--quiet")).count()
    } else {
        0
    };
    let (package, arguments) = rest.get(skipped..)?.split_first()?;
    let package = without_version(package);
    let known = PACKAGES.iter().find(|(name, _)| *name == package)?;
    (arguments.len() >= known.1).then_some(known.0)
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
