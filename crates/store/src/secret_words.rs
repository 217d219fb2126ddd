//! Recognises secrets in command lines and addresses, so that they are masked wherever a command line or
//! what its process says is shown.

/// A name that ends so is followed by a secret.
const NAMES: &[&str] = &[
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "auth",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "pat",
    "bearer",
    "dsn",
];
/// Options whose next word is `Name: value`.
const HEADER_OPTIONS: &[&str] = &["-H", "--header", "--headers"];
/// How well-known keys begin.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "pk_live",
    "rk_live",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "tg_",
    "npm_",
    "pypi-",
    "hf_",
    "lin_api_",
    "ntn_",
    "secret_",
    "figd_",
    "shpat_",
    "dop_v1_",
    "SG.",
    "Bearer ",
    "Basic ",
];
/// A random word of so many characters is taken for a key.
const RANDOM_CHARS_MIN: usize = 20;
const VARIABLE_BYTES_MIN: usize = 8;
/// The short option for a password, and for much else.
const SHORT_PASSWORD: &str = "-p";
const SHOWN: &str = crate::secret::SHOWN;

/// Programs that start a server named by a later word; what stands before it are their own options.
const RUNNERS: &[&str] = &[
    "npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman",
    "env",
];

/// Every word of a command line as it may be shown.
pub fn shown_argv(argv: &[String]) -> Vec<String> {
    with_option(argv).map(|(option, word)| shown(option, word)).collect()
}

/// The position of the first argument that looks like a secret.
pub fn secret_argument(argv: &[String]) -> Option<usize> {
    secret_arguments(argv).first().copied()
}

/// The positions of all arguments that look like secrets.
pub fn secret_arguments(argv: &[String]) -> Vec<usize> {
    let words = with_option(argv).enumerate().skip(1);
    words.filter(|(_, (option, word))| is_secret(*option, word)).map(|(at, _)| at).collect()
}

/// What is secret in a command line, each with its position. An argument that the owner sealed is secret
/// whatever it looks like.
pub fn secret_values(argv: &[String], sealed: &[usize]) -> Vec<(usize, String)> {
    let words = with_option(argv).enumerate().skip(1);
    let of_word = |(at, (option, word))| {
        let mut values = values(option, word);
        if values.is_empty() && sealed.contains(&at) {
            let value = assignment(word).map_or(word, |(_, value)| value);
            values.push(value.to_owned());
        }
        values.into_iter().map(move |value| (at, value))
    };
    words.flat_map(of_word).collect()
}

/// What is secret in a variable of a server, by its name or its value. A short value as a whole may be an ordinary word.
pub fn secret_values_of_variable(name: &str, value: &str) -> Vec<String> {
    let mut found = values(None, &format!("{name}={value}"));
    found.retain(|found| found != value || value.len() >= VARIABLE_BYTES_MIN);
    found
}

/// What is secret in an address: a password and keys in the path.
pub fn secret_values_of_url(address: &str) -> Vec<String> {
    let Some((_, rest)) = address.split_once("://") else { return Vec::new() };
    let mut values = Vec::new();
    if let Some((from, to)) = userinfo(address) {
        let info = address.get(from..to).unwrap_or_default();
        let password = info.split_once(':').map_or(info, |(_, password)| password);
        values.extend([info.to_owned(), password.to_owned(), percent_decoded(password)]);
        values.dedup();
    }
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    values.extend(path.split('/').skip(1).filter(|part| is_key(part)).map(str::to_owned));
    values
}

/// A password in an address is escaped there and not where a server quotes it.
fn percent_decoded(text: &str) -> String {
    let one_value = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    let decoded = url::form_urlencoded::parse(one_value.as_bytes()).next();
    decoded.map_or_else(|| text.to_owned(), |(value, _)| value.into_owned())
}

/// Every word with the option whose value it may be.
fn with_option(argv: &[String]) -> impl Iterator<Item = (Option<&str>, &str)> {
    let own = runner_words(argv);
    let before = std::iter::once(None).chain(argv.iter().map(|word| Some(word.as_str())));
    before.zip(argv.iter().map(String::as_str)).enumerate().map(move |(at, (before, word))| {
        // A package or a project, not a password.
        let is_other = before == Some(SHORT_PASSWORD) && (at < own || !may_be_password(word));
        (before.filter(|_| !is_other), word)
    })
}

/// How many words belong to the program that starts the server: up to the first that is no option.
fn runner_words(argv: &[String]) -> usize {
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    if program == "cargo" {
        return argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    }
    if !RUNNERS.contains(&program) {
        return 1;
    }
    let mut is_value = false;
    let server = argv.iter().skip(1).position(|word| {
        let is_server = !is_value && !word.starts_with('-');
        is_value = word == SHORT_PASSWORD;
        is_server
    });
    server.map_or(argv.len(), |at| at + 1)
}

/// A word of a command line as it may be shown. `option` is the word in front of it.
fn shown(option: Option<&str>, word: &str) -> String {
    if is_reference(word) {
        return word.to_owned();
    }
    if let Some((name, value)) = header(option, word) {
        let value = if is_reference(value.trim_start()) { value } else { &format!(" {SHOWN}") };
        return format!("{name}:{value}");
    }
    if let Some((name, value)) = assignment(word) {
        let is_masked = asks_for(name, value) && !is_reference(value);
        let value = if is_masked { SHOWN.to_owned() } else { shown(None, value) };
        return format!("{name}={value}");
    }
    if is_secret(option, word) { SHOWN.to_owned() } else { shown_url(word) }
}

/// Does this word of a command line look like a secret?
fn is_secret(option: Option<&str>, word: &str) -> bool {
    !values(option, word).is_empty()
}

/// What is secret in a word of a command line.
fn values(option: Option<&str>, word: &str) -> Vec<String> {
    if is_reference(word) || word.is_empty() {
        return Vec::new();
    }
    if let Some((_, value)) = header(option, word) {
        let value = value.trim();
        let token = value.split_whitespace().next_back().unwrap_or_default();
        let values = if is_reference(value) { Vec::new() } else { vec![value.to_owned()] };
        let token = (!values.is_empty() && token != value).then(|| token.to_owned());
        return values.into_iter().chain(token).collect();
    }
    if let Some((name, value)) = assignment(word) {
        if asks_for(name, value) && !is_reference(value) {
            return vec![value.to_owned()];
        }
        return values(None, value);
    }
    let is_asked = option.is_some_and(|option| option.starts_with('-') && asks_for(option, word));
    if (is_asked && !word.starts_with('-')) || is_key(word) {
        return vec![word.to_owned()];
    }
    secret_values_of_url(word)
}

/// The shell or the vault knows what it stands for.
fn is_reference(word: &str) -> bool {
    word.starts_with('$') || word == SHOWN
}

/// `Name: value` behind an option for headers.
fn header<'w>(before: Option<&str>, word: &'w str) -> Option<(&'w str, &'w str)> {
    before.filter(|option| HEADER_OPTIONS.contains(option))?;
    word.split_once(':').filter(|(_, value)| !value.trim().is_empty())
}

/// `--option=value` or `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    word.split_once('=')
        .filter(|(name, value)| !name.is_empty() && name.chars().all(is_name) && !value.is_empty())
}

/// Does the option or variable of this name take a secret?
fn asks_for(name: &str, value: &str) -> bool {
    if name == SHORT_PASSWORD {
        return may_be_password(value);
    }
    let lower = name.trim_start_matches('-').to_ascii_lowercase();
    NAMES.iter().any(|word| lower.ends_with(word))
}

/// `-p` also takes ports, folders and packages.
fn may_be_password(value: &str) -> bool {
    let is_port = value.split('/').next().is_some_and(|ports| {
        ports.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.' | '-'))
    });
    !is_port && !value.starts_with(['/', '.', '~', '@']) && !value.contains("://")
}

/// A known kind of key, or a word that no person would choose.
fn is_key(word: &str) -> bool {
    let known = BEGINNINGS.iter().any(|b| word.starts_with(b) && word.len() >= b.len() + 8);
    known || is_random(word)
}

/// Long, with digits and letters that alternate as in a generated key.
fn is_random(word: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-+/=.".contains(c);
    let is_path = word.starts_with(['/', '.', '~', '@', '-']);
    if word.len() < RANDOM_CHARS_MIN || is_path || !word.chars().all(fits) {
        return false;
    }
    let kinds: Vec<char> = word
        .chars()
        .filter_map(|c| match c {
            '0'..='9' => Some('0'),
            'a'..='z' => Some('a'),
            'A'..='Z' => Some('A'),
            _ => None,
        })
        .collect();
    let digits = kinds.iter().filter(|kind| **kind == '0').count();
    let changes = kinds.iter().zip(kinds.iter().skip(1)).filter(|(a, b)| a != b).count();
    digits >= 3 && digits < kinds.len() && changes * 5 >= kinds.len()
}

/// An address without what may be secret in it: a password, a query, a key in the path.
pub fn shown_url(text: &str) -> String {
    if !text.contains("://") {
        return text.to_owned();
    }
    let text = match userinfo(text) {
        Some((from, to)) => {
            format!("{}{SHOWN}{}", text.get(..from).unwrap_or(""), text.get(to..).unwrap_or(""))
        }
        None => text.to_owned(),
    };
    match text.split_once('?') {
        Some((address, _)) => format!("{}?{SHOWN}", shown_path(address)),
        None => shown_path(&text),
    }
}

/// An address whose path has its keys masked.
fn shown_path(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let mut parts = rest.split('/');
    let host = parts.next().unwrap_or_default();
    let parts = parts.map(|part| if is_key(part) { SHOWN } else { part });
    let parts: Vec<&str> = std::iter::once(host).chain(parts).collect();
    format!("{scheme}://{}", parts.join("/"))
}

/// Where `user:password`, or a key alone, stands in an address.
fn userinfo(text: &str) -> Option<(usize, usize)> {
    let start = text.find("://")? + 3;
    let rest = text.get(start..)?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let at = authority.rfind('@')?;
    let info = authority.get(..at)?;
    (info.contains(':') && info != SHOWN || is_key(info)).then_some((start, start + at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_on_a_command_line_are_not_shown() {
        for (before, word, expected) in [
            (Some("--api-key"), "abc", "[secret]"),
            (Some("--verbose"), "abc", "abc"),
            (Some("--api-key"), "--verbose", "--verbose"),
            (None, "--token=abc", "--token=[secret]"),
            (Some("-e"), "API_KEY=abc", "API_KEY=[secret]"),
            (Some("-e"), "API_KEY=${KEY}", "API_KEY=${KEY}"),
            (None, "--level=debug", "--level=debug"),
            (None, "--with=ghp_0123456789abcdef", "--with=[secret]"),
            (None, "DB=postgres://me:pw@db/x", "DB=[secret]"),
            (None, "ghp_0123456789abcdef", "[secret]"),
            (Some("--header"), "Authorization: Bearer abc", "Authorization: [secret]"),
            (Some("-H"), "X-Any:${KEY}", "X-Any:${KEY}"),
            (None, "eyJhbGciOiJIUzI1NiJ9.e30.abc", "[secret]"),
            (None, "q7Zp2LxV9mT4sRb8Kd1WfQ", "[secret]"),
            (None, "5f1d8a93bc0277aa41de90c2b7f6e518", "[secret]"),
            (None, "postgres://me:pw@db/x", "[secret]"),
            (None, "https://a.example/mcp?key=1", "https://a.example/mcp?[secret]"),
            (Some("--api-key"), "${input:key}", "${input:key}"),
            (Some("--token"), "[secret]", "[secret]"),
            (Some("-p"), "hunter2", "[secret]"),
            (None, "-p=hunter2", "-p=[secret]"),
            (None, "-p=8080", "-p=8080"),
            (Some("--password"), "hunter2", "[secret]"),
            (None, "--api-key=abc", "--api-key=[secret]"),
            (None, "https://ghp_0123456789abcdef@git.example/x", "[secret]"),
            (None, "ssh://git@git.example/x", "ssh://git@git.example/x"),
        ] {
            assert_eq!(shown(before, word), expected, "{word}");
        }
    }

    #[test]
    fn ordinary_words_are_shown_and_draw_no_advice() {
        for word in [
            "@modelcontextprotocol/server-filesystem",
            "modelcontextprotocol-server-filesystem",
            "mcp-server-sqlite-2026.11.18",
            "/srv/data/5f1d8a93bc0277aa41de90c2b7f6e518",
            "--local-timezone=Europe/Berlin",
            "server-backup-2026-11-18-file",
            "https://mcp.example.com/v1/mcp",
            "AllowEverythingInThisFolder",
            "",
        ] {
            assert_eq!(shown(None, word), word);
            assert!(!is_secret(None, word), "{word}");
        }
    }

    #[test]
    fn a_key_in_the_path_of_an_address_is_masked() {
        let url = "https://mcp.example/s/q7Zp2LxV9mT4sRb8Kd1WfQ/mcp";
        assert_eq!(shown_url(url), "https://mcp.example/s/[secret]/mcp");
        assert!(is_secret(None, url));
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_short_option_is_a_password_only_where_it_can_be_one() {
        for (line, expected) in [
            ("mysql-mcp -u root -p hunter2", Some(4)),
            ("npx -y mysql-mcp -p hunter2", Some(4)),
            ("npx -p typescript tsc-mcp", None),
            ("npx -p typescript tsc-mcp -p hunter2", Some(5)),
            ("docker run -p 8080:80/tcp image", None),
            ("cargo run -p server", None),
            ("cargo run -p server -- -p hunter2", Some(6)),
            ("server -p 8080", None),
            ("server -p ./tsconfig.json", None),
            ("server -p @scope/package", None),
            ("server -p [secret]", None),
            ("server -p=[secret]", None),
        ] {
            assert_eq!(secret_argument(&words(line)), expected, "{line}");
        }
    }

    #[test]
    fn a_plain_variable_may_hold_a_secret() {
        for (name, value, expected) in [
            ("API_KEY", "abc-1234", &["abc-1234"][..]),
            ("API_KEY", "open", &[]),
            ("DATABASE_URL", "postgres://me:pw@db/x", &["me:pw", "pw"]),
            ("ANY", "ghp_0123456789abcdef", &["ghp_0123456789abcdef"]),
            ("API_KEY", "${KEY}", &[]),
            ("LEVEL", "debug", &[]),
        ] {
            assert_eq!(secret_values_of_variable(name, value), expected, "{name}={value}");
        }
    }

    #[test]
    fn the_values_are_what_a_server_may_quote() {
        for (line, sealed, expected) in [
            ("s --token=abc --api-key def", &[][..], &["abc", "def"][..]),
            ("s postgres://me:p%40ss@db/x", &[], &["me:p%40ss", "p%40ss", "p@ss"]),
            ("s plain other", &[2], &["other"]),
            ("s --who=me", &[1], &["me"]),
            ("s --level=debug file", &[], &[]),
        ] {
            let found = secret_values(&words(line), sealed);
            let found: Vec<&str> = found.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!(found, expected, "{line}");
        }
        let header = ["s", "-H", "Authorization: Bearer abc"].map(str::to_owned);
        let found = secret_values(&header, &[]);
        assert_eq!(found, [(2, "Bearer abc".to_owned()), (2, "abc".to_owned())]);
    }
}
