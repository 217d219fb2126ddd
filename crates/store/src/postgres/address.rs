//! Where a Postgres store is and how to sign in there, parsed from a `postgres://` address. Every
//! part that is not understood is refused, and the password is never printed.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::files;
use crate::secret::Secret;

const PASSWORD_BYTES_MAX: u64 = 4 << 10;
const PORT: u16 = 5432;

/// How the connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslMode {
    /// No TLS: for a Unix socket or loopback.
    Disable,
    /// TLS without checking whose certificate it is: protects from listeners, not from impostors.
    Require,
    /// TLS with a certificate of the named host from a trusted authority.
    VerifyFull,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    /// The folder of the server's Unix socket.
    Socket(String),
}

/// A parsed address. It prints without its password.
#[derive(Clone, Debug)]
pub struct Address {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<Secret>,
    pub(super) database: String,
    pub(super) schema: Option<String>,
    pub(super) ssl_mode: SslMode,
    pub(super) root_certificates: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error(
        "this is not an address of a Postgres store\nhint: `postgres://USER@HOST:PORT/DATABASE?sslmode=verify-full`"
    )]
    NotAnAddress,
    #[error("the Postgres address names no {0}")]
    Missing(&'static str),
    #[error(
        "the Postgres address has the unknown option `{0}`\nhint: the options are `host`, `password_file`, `schema`, `sslmode` and `sslrootcert`"
    )]
    UnknownOption(String),
    #[error("the Postgres address has the option `{0}` twice")]
    Repeated(String),
    #[error(
        "`sslmode={0}` is not supported: it can fall back to an unprotected connection or is unknown\nhint: use `disable`, `require` or `verify-full`"
    )]
    SslMode(String),
    #[error("`schema={0}` is not a name of lower-case letters, digits and `_`")]
    Schema(String),
    #[error("cannot read the password file `{}`: {why}", .path.display())]
    PasswordFile { path: PathBuf, why: String },
}

impl Address {
    /// Parses an address. The password comes from the address, from the file that it names, or is
    /// `password`, which the binary reads from its environment; in this order.
    pub fn parse(text: &str, password: Option<Secret>) -> Result<Address, AddressError> {
        let parts = Parts::split(text).ok_or(AddressError::NotAnAddress)?;
        let options = Options::read(parts.options)?;
        let host = host(parts.host, options.host.as_deref())?;
        let ssl_mode = match options.ssl_mode {
            Some(mode) => mode,
            None if is_local(&host) => SslMode::Disable,
            None => SslMode::VerifyFull,
        };
        let given = parts.password.map(decoded).transpose()?.map(Secret::new);
        let from_file = options.password_file.as_deref().map(read_password).transpose()?;
        Ok(Address {
            host,
            port: parts.port,
            user: named(decoded(parts.user)?, "user")?,
            password: given.or(from_file).or(password),
            database: named(decoded(parts.database)?, "database")?,
            schema: options.schema,
            ssl_mode,
            root_certificates: options.root_certificates,
        })
    }

    /// Tells stores apart, without a secret.
    pub(crate) fn identity(&self) -> String {
        format!("{self} {}", self.schema.as_deref().unwrap_or_default())
    }

    /// Whether the password stands in this text of an address, understood or not.
    pub fn has_password(text: &str) -> bool {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        rest.rsplit_once('@').is_some_and(|(who, _)| who.contains(':'))
    }

    pub fn ssl_mode(&self) -> SslMode {
        self.ssl_mode
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { port, user, database, .. } = self;
        match &self.host {
            Host::Name(host) => write!(f, "postgres://{user}@{host}:{port}/{database}"),
            Host::Socket(folder) => {
                write!(f, "postgres://{user}@:{port}/{database}?host={folder}")
            }
        }
    }
}

/// The parts as they stand in the address. A URL reader refuses a user without a host, which a Unix
/// socket has.
struct Parts<'a> {
    user: &'a str,
    password: Option<&'a str>,
    host: &'a str,
    port: u16,
    database: &'a str,
    options: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Option<Parts<'a>> {
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '#' | ',');
        let (scheme, rest) = text.split_once("://")?;
        if !matches!(scheme, "postgres" | "postgresql") || !rest.chars().all(plain) {
            return None;
        }
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (who, server) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (who, None),
        };
        let (host, port) = match server.strip_prefix('[') {
            Some(v6) => v6.split_once(']').map(|(host, rest)| (host, rest.strip_prefix(':')))?,
            None => server.split_once(':').map_or((server, None), |(h, port)| (h, Some(port))),
        };
        let port = port.map_or(Some(PORT), |port| port.parse().ok())?;
        Some(Parts { user, password, host, port, database, options })
    }
}

#[derive(Default)]
struct Options {
    host: Option<String>,
    password_file: Option<PathBuf>,
    schema: Option<String>,
    ssl_mode: Option<SslMode>,
    root_certificates: Option<PathBuf>,
}

impl Options {
    fn read(text: &str) -> Result<Options, AddressError> {
        let mut options = Options::default();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or(AddressError::NotAnAddress)?;
            let value = decoded(value)?;
            let repeated = match name {
                "host" => options.host.replace(value).is_some(),
                "password_file" => options.password_file.replace(value.into()).is_some(),
                "schema" => options.schema.replace(schema(value)?).is_some(),
                "sslmode" => options.ssl_mode.replace(ssl_mode(&value)?).is_some(),
                "sslrootcert" => options.root_certificates.replace(value.into()).is_some(),
                _ => return Err(AddressError::UnknownOption(name.to_owned())),
            };
            if repeated {
                return Err(AddressError::Repeated(name.to_owned()));
            }
        }
        Ok(options)
    }
}

fn ssl_mode(value: &str) -> Result<SslMode, AddressError> {
    match value {
        "disable" => Ok(SslMode::Disable),
        "require" => Ok(SslMode::Require),
        "verify-full" => Ok(SslMode::VerifyFull),
        _ => Err(AddressError::SslMode(value.to_owned())),
    }
}

/// The name is part of a statement, so it has no quotes to escape.
fn schema(value: String) -> Result<String, AddressError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let fits = (1..=63).contains(&value.len()) && value.bytes().all(plain);
    if fits { Ok(value) } else { Err(AddressError::Schema(value)) }
}

fn host(in_address: &str, option: Option<&str>) -> Result<Host, AddressError> {
    let in_address = Some(in_address).filter(|host| !host.is_empty());
    match (in_address, option) {
        (Some(_), Some(_)) => Err(AddressError::Repeated("host".to_owned())),
        (None, None) => Err(AddressError::Missing("host")),
        (None, Some(folder)) if folder.starts_with('/') => Ok(Host::Socket(folder.to_owned())),
        (None, Some(name)) => Ok(Host::Name(name.to_owned())),
        (Some(host), None) => {
            let host = decoded(host)?;
            Ok(if host.starts_with('/') { Host::Socket(host) } else { Host::Name(host) })
        }
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Socket(_) => true,
        Host::Name(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}

fn named(text: String, what: &'static str) -> Result<String, AddressError> {
    if text.is_empty() { Err(AddressError::Missing(what)) } else { Ok(text) }
}

/// Percent-decoded. A NUL would end the text at the server.
fn decoded(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => u8::try_from(high * 16 + low).unwrap_or(0),
                _ => return Err(AddressError::NotAnAddress),
            },
            other => other,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| AddressError::NotAnAddress)?;
    if text.contains('\0') { Err(AddressError::NotAnAddress) } else { Ok(text) }
}

/// The first line of the file.
fn read_password(path: &Path) -> Result<Secret, AddressError> {
    let refused = |why: String| AddressError::PasswordFile { path: path.to_owned(), why };
    let bytes = files::read(path, PASSWORD_BYTES_MAX).map_err(|e| refused(e.to_string()))?;
    let text = Secret::<Vec<u8>>::new(bytes);
    let line = text.expose().split(|b| *b == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| refused("it is not UTF-8".to_owned()))?;
    match line.trim_end_matches('\r') {
        "" => Err(refused("its first line is empty".to_owned())),
        password => Ok(Secret::new(password)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn parse(text: &str) -> Result<Address, AddressError> {
        Address::parse(text, None)
    }

    #[test]
    fn an_address_names_a_server_a_user_and_a_database() {
        let table = [
            ("postgres://u@db.example/tollgate", "postgres://u@db.example:5432/tollgate"),
            ("postgresql://u:pw@127.0.0.1:6000/t", "postgres://u@127.0.0.1:6000/t"),
            ("postgres://u%40x@[::1]:1/t", "postgres://u@x@::1:1/t"),
            ("postgres://u@/t?host=/run/pg", "postgres://u@:5432/t?host=/run/pg"),
            ("postgres://u@%2Frun%2Fpg/t", "postgres://u@:5432/t?host=/run/pg"),
        ];
        for (text, shown) in table {
            assert_eq!(parse(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn unknown_syntax_is_refused() {
        let table = [
            ("mysql://u@h/d", "not an address"),
            ("postgres", "not an address"),
            ("postgres://u@h/d#x", "not an address"),
            ("postgres://u@h,h2/d", "not an address"),
            ("postgres://u@h:x/d", "not an address"),
            ("postgres://u@h/d?sslmode", "not an address"),
            ("postgres://u%zz@h/d", "not an address"),
            ("postgres://u%00@h/d", "not an address"),
            ("postgres://h/d", "no user"),
            ("postgres://u@h", "no database"),
            ("postgres://u@/d", "no host"),
            ("postgres://u@h/d?host=/run", "`host` twice"),
            ("postgres://u@h/d?sslmode=prefer", "not supported"),
            ("postgres://u@h/d?sslmode=allow", "not supported"),
            ("postgres://u@h/d?sslmode=verify-ca", "not supported"),
            ("postgres://u@h/d?sslmode=disable&sslmode=disable", "`sslmode` twice"),
            ("postgres://u@h/d?options=-cfsync%3Doff", "unknown option `options`"),
            ("postgres://u@h/d?schema=a%22b", "not a name"),
            ("postgres://u@h/d?password_file=/no/such/file", "cannot read the password file"),
        ];
        for (text, words) in table {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn only_a_local_server_is_reached_without_tls_unless_the_address_says_so() {
        let table = [
            ("postgres://u@db.example/t", SslMode::VerifyFull),
            ("postgres://u@10.0.0.1/t", SslMode::VerifyFull),
            ("postgres://u@localhost/t", SslMode::Disable),
            ("postgres://u@127.9.9.9/t", SslMode::Disable),
            ("postgres://u@[::1]/t", SslMode::Disable),
            ("postgres://u@/t?host=/run/pg", SslMode::Disable),
            ("postgres://u@localhost/t?sslmode=verify-full", SslMode::VerifyFull),
            ("postgres://u@db.example/t?sslmode=require", SslMode::Require),
        ];
        for (text, mode) in table {
            assert_eq!(parse(text).unwrap().ssl_mode(), mode, "{text}");
        }
    }

    #[test]
    fn the_password_has_three_sources_and_is_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pw");
        std::fs::write(&file, "from file\nsecond line\n").unwrap();
        let base = "postgres://u@h/d";
        let by_file = format!("{base}?password_file={}", file.display());
        let from_environment = || Some(Secret::new("from environment"));
        let table = [
            ("postgres://u:in%20address@h/d".to_owned(), "in address"),
            (by_file, "from file"),
            (base.to_owned(), "from environment"),
        ];
        for (text, expected) in table {
            let address = Address::parse(&text, from_environment()).unwrap();
            assert_eq!(address.password.as_ref().unwrap().expose(), expected);
            let shown = format!("{address} {address:?}");
            assert!(!shown.contains(expected), "{shown}");
        }
        let error = parse("postgres://u:hunter2@h/d?sslmode=hm").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        std::fs::write(&file, "\n").unwrap();
        assert!(parse(&format!("{base}?password_file={}", file.display())).is_err());
    }
}
