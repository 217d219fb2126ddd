//! Where a server is, and which addresses, headers and commands are valid.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use url::{Host, Url};

use super::credential::{Credential, EnvValue};
use crate::secret::Secret;

pub const URL_BYTES_MAX: usize = 2048;
pub const HEADERS_MAX: usize = 32;
pub const HEADER_VALUE_BYTES_MAX: usize = 8 << 10;
pub const ARGUMENTS_MAX: usize = 256;
pub const COMMAND_BYTES_MAX: usize = 64 << 10;
pub const ENVIRONMENT_MAX: usize = 128;

/// Headers that belong to the connection or the protocol; the gateway writes them itself.
const REFUSED_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const REFUSED_HEADER_BEGINNINGS: &[&str] = &["content-", "mcp-", "proxy-", "sec-", "tollgate-"];

/// The built-in server that decides approvals; only operator grants can use it.
pub const OPERATOR_SERVICE: &str = "operator";

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Builtin {
        service: String,
    },
    /// A child process with stdio transport. No shell is involved.
    Command {
        argv: Vec<String>,
        env: Vec<(String, EnvValue)>,
        cwd: Option<PathBuf>,
        /// Arguments that are kept sealed, by position. In `argv` stands what may be shown of them.
        secret_args: Vec<(usize, Credential)>,
    },
    Url {
        /// Without its query, so that it can be shown.
        url: String,
        /// Services put keys into the query, so it is stored as a secret.
        query: Option<Credential>,
        headers: Vec<(String, Credential)>,
        /// The owner allowed clear text to another machine.
        allow_plain_http: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the address is not a URL: {0}\nhint: an address looks like `https://example.com/mcp`")]
    NotAUrl(String),
    #[error("the address is longer than {URL_BYTES_MAX} bytes")]
    LongUrl,
    #[error("`{0}` is not `https` or `http`")]
    Scheme(String),
    #[error(
        "`http` to `{0}` would send calls and credentials in clear text\nhint: use `https`, or allow plain http for this server on purpose"
    )]
    PlainHttp(String),
    #[error(
        "the address holds a user name or password\nhint: give it as an `Authorization` header, which is kept sealed"
    )]
    UserInfo,
    #[error("the address has a part after `#`, which is never sent")]
    Fragment,
    #[error(
        "the address has a query, which may hold a key\nhint: give it apart from the address, where it is kept sealed"
    )]
    Query,
    #[error("`{0}` is not a header name")]
    HeaderName(String),
    #[error("the header `{0}` is written by the gateway itself and cannot be set")]
    HeaderRefused(String),
    #[error("the header `{0}` is given twice")]
    HeaderTwice(String),
    #[error(
        "the value of `{0}` is empty, too long, or holds characters that a header cannot carry"
    )]
    HeaderValue(String),
    #[error("more than {HEADERS_MAX} headers")]
    ManyHeaders,
    #[error("the command is empty\nhint: give the program and its arguments after `--`")]
    EmptyCommand,
    #[error("the command is too long, or an argument holds a NUL character")]
    Command,
    #[error(
        "`{0}` cannot be the name of an environment variable, or its value holds a NUL character"
    )]
    Environment(String),
    #[error("the environment variable `{0}` is given twice")]
    EnvironmentTwice(String),
    #[error("more than {ENVIRONMENT_MAX} environment variables")]
    ManyVariables,
    #[error("the working folder `{0}` is not an absolute path")]
    RelativeFolder(String),
    #[error("`{0}` cannot be the name of a built-in service")]
    Service(String),
}

impl Target {
    /// Whether it is the server that only operator grants can use.
    pub fn is_operator(&self) -> bool {
        matches!(self, Target::Builtin { service } if service == OPERATOR_SERVICE)
    }

    /// Whether it is the gate's own address: its calls would come back to the gate.
    pub fn leads_to(&self, listens_at: SocketAddr) -> bool {
        let Target::Url { url, .. } = self else { return false };
        let Ok(url) = Url::parse(url) else { return false };
        let host: Option<IpAddr> = match url.host() {
            Some(Host::Ipv4(ip)) => Some(ip.into()),
            Some(Host::Ipv6(ip)) => Some(ip.into()),
            Some(Host::Domain(name)) if name == "localhost" || name.ends_with(".localhost") => {
                Some(Ipv4Addr::LOCALHOST.into())
            }
            _ => None,
        };
        let is_local = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
        let gate = listens_at.ip();
        host.is_some_and(|host| host == gate || is_local(host) && is_local(gate))
            && url.port_or_known_default() == Some(listens_at.port())
    }

    /// A target by address. A query in the address is split off and stored as a secret.
    pub fn from_url(
        address: &str,
        headers: Vec<(String, Credential)>,
        allow_plain_http: bool,
    ) -> Result<Target, TargetError> {
        let mut url = parse_url(address)?;
        let query = url.query().map(|query| Credential::Held(Secret::new(query)));
        url.set_query(None);
        let target = Target::Url { url: url.into(), query, headers, allow_plain_http };
        target.check()?;
        Ok(target)
    }

    /// One word for lists: `builtin`, `command` or `url`.
    pub fn kind(&self) -> &'static str {
        match self {
            Target::Builtin { .. } => "builtin",
            Target::Command { .. } => "command",
            Target::Url { .. } => "url",
        }
    }

    /// Checks that the gate may use this target. Sealed values were checked when they were entered.
    pub fn check(&self) -> Result<(), TargetError> {
        match self {
            Target::Builtin { service } => check_service(service),
            Target::Command { argv, env, cwd, secret_args } => {
                check_command(argv)?;
                check_secret_args(argv, secret_args)?;
                check_environment(env)?;
                check_folder(cwd.as_ref())
            }
            Target::Url { url, query, headers, allow_plain_http } => {
                check_url(url, *allow_plain_http)?;
                check_query(query.as_ref())?;
                check_headers(headers)
            }
        }
    }
}

fn check_service(service: &str) -> Result<(), TargetError> {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
    if !service.is_empty() && service.len() <= 64 && service.bytes().all(fits) {
        return Ok(());
    }
    Err(TargetError::Service(shown(service)))
}

fn check_command(argv: &[String]) -> Result<(), TargetError> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(TargetError::EmptyCommand);
    }
    let bytes: usize = argv.iter().map(String::len).sum();
    let has_nul = argv.iter().any(|word| word.contains('\0'));
    if has_nul || argv.len() > ARGUMENTS_MAX || bytes > COMMAND_BYTES_MAX {
        return Err(TargetError::Command);
    }
    Ok(())
}

/// The program itself is no secret, and a position is given once.
fn check_secret_args(
    argv: &[String],
    secret_args: &[(usize, Credential)],
) -> Result<(), TargetError> {
    for (i, (at, value)) in secret_args.iter().enumerate() {
        let fits = match value {
            Credential::Held(secret) => fits_environment(secret.expose()),
            Credential::Sealed(_) => true,
        };
        let is_twice = secret_args.iter().take(i).any(|(earlier, _)| earlier == at);
        if !fits || is_twice || *at == 0 || *at >= argv.len() {
            return Err(TargetError::Command);
        }
    }
    Ok(())
}

fn check_environment(env: &[(String, EnvValue)]) -> Result<(), TargetError> {
    if env.len() > ENVIRONMENT_MAX {
        return Err(TargetError::ManyVariables);
    }
    for (i, (name, value)) in env.iter().enumerate() {
        let value_fits = match value {
            EnvValue::Plain(text) => fits_environment(text),
            EnvValue::Hidden(Credential::Held(secret)) => fits_environment(secret.expose()),
            EnvValue::Hidden(Credential::Sealed(_)) => true,
        };
        if name.is_empty() || name.contains(['=', '\0']) || !value_fits {
            return Err(TargetError::Environment(shown(name)));
        }
        if env.iter().take(i).any(|(earlier, _)| earlier == name) {
            return Err(TargetError::EnvironmentTwice(shown(name)));
        }
    }
    Ok(())
}

fn fits_environment(value: &str) -> bool {
    !value.contains('\0') && value.len() <= COMMAND_BYTES_MAX
}

fn check_folder(cwd: Option<&PathBuf>) -> Result<(), TargetError> {
    match cwd {
        Some(path) if !path.is_absolute() => {
            Err(TargetError::RelativeFolder(path.display().to_string()))
        }
        _ => Ok(()),
    }
}

fn parse_url(address: &str) -> Result<Url, TargetError> {
    if address.len() > URL_BYTES_MAX {
        return Err(TargetError::LongUrl);
    }
    // URL parsers drop white space and control characters, each in its own way.
    if address.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(TargetError::NotAUrl("it holds white space or control characters".into()));
    }
    Url::parse(address).map_err(|e| TargetError::NotAUrl(e.to_string()))
}

fn check_url(address: &str, allow_plain_http: bool) -> Result<(), TargetError> {
    let url = parse_url(address)?;
    let host = url.host().ok_or_else(|| TargetError::NotAUrl("it names no host".into()))?;
    match url.scheme() {
        "https" => {}
        "http" if allow_plain_http || is_loopback(&host) => {}
        "http" => return Err(TargetError::PlainHttp(host.to_string())),
        other => return Err(TargetError::Scheme(shown(other))),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(TargetError::UserInfo);
    }
    if url.query().is_some() {
        return Err(TargetError::Query);
    }
    if url.fragment().is_some() { Err(TargetError::Fragment) } else { Ok(()) }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

fn check_query(query: Option<&Credential>) -> Result<(), TargetError> {
    let Some(Credential::Held(query)) = query else { return Ok(()) };
    let visible = query.expose().bytes().all(|c| c.is_ascii_graphic() && c != b'#');
    if visible && query.expose().len() <= URL_BYTES_MAX {
        return Ok(());
    }
    Err(TargetError::NotAUrl("its query holds characters that must be escaped".into()))
}

fn check_headers(headers: &[(String, Credential)]) -> Result<(), TargetError> {
    if headers.len() > HEADERS_MAX {
        return Err(TargetError::ManyHeaders);
    }
    for (i, (name, value)) in headers.iter().enumerate() {
        check_header_name(name)?;
        if headers.iter().take(i).any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
            return Err(TargetError::HeaderTwice(name.clone()));
        }
        if let Credential::Held(secret) = value
            && !fits_header(secret.expose())
        {
            return Err(TargetError::HeaderValue(name.clone()));
        }
    }
    Ok(())
}

fn check_header_name(name: &str) -> Result<(), TargetError> {
    let in_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(in_token) {
        return Err(TargetError::HeaderName(shown(name)));
    }
    let lower = name.to_ascii_lowercase();
    let refused = REFUSED_HEADERS.contains(&lower.as_str())
        || REFUSED_HEADER_BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning));
    if refused { Err(TargetError::HeaderRefused(name.to_owned())) } else { Ok(()) }
}

fn fits_header(value: &str) -> bool {
    let visible = value.bytes().all(|c| c == b' ' || c == b'\t' || c.is_ascii_graphic());
    visible && value.trim() == value && !value.is_empty() && value.len() <= HEADER_VALUE_BYTES_MAX
}

fn shown(text: &str) -> String {
    text.escape_debug().take(64).collect()
}
