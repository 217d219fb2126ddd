//! The settings of the gate itself: addresses, retention, limits.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use oauth::server::Issuer;
use url::Url;

use super::problem::Problems;
use super::section::{Field, Section};
use super::{
    HOSTNAMES_MAX, Limits, Log, LogFormat, LogLevel, RETENTION_BYTES_MIN, RETENTION_DAYS_MAX,
    Settings, TlsFiles,
};
use crate::ledger::{Durability, Retention};

const SECONDS_PER_DAY: u64 = 86_400;

pub(super) fn read(root: &Section<'_>, settings: &mut Settings, problems: &mut Problems<'_>) {
    settings.tls = read_tls(root, problems);
    if let Some((text, field)) = root.text("listen", problems) {
        let listen = read_listen(text, &field, settings.tls.is_some(), problems);
        settings.listen = listen.unwrap_or(settings.listen);
    }
    settings.hostnames = read_hostnames(root, problems);
    settings.public_url = read_public_url(root, problems);
    settings.public_dashboard = root.flag("public_dashboard", problems).unwrap_or_default();
    let message = [("process", Durability::Process), ("power", Durability::Power)];
    settings.durability = root.choice("durability", &message, problems).unwrap_or_default();
    settings.retention = read_retention(root, problems).unwrap_or_default();
    settings.log = read_log(root, problems).unwrap_or_default();
    settings.otel_endpoint = read_endpoint(root, problems);
    settings.time_zone = read_time_zone(root, problems);
    let units = [("metric", false), ("imperial", true)];
    settings.shown_in.imperial = root.choice("units", &units, problems).unwrap_or_default();
    let energy = [("kcal", false), ("kj", true)];
    settings.shown_in.kilojoules = root.choice("energy", &energy, problems).unwrap_or_default();
    read_limits(root, &mut settings.limits, problems);
}

fn read_tls(root: &Section<'_>, problems: &mut Problems<'_>) -> Option<TlsFiles> {
    let cert = root.text("tls_cert_file", problems);
    let key = root.text("tls_key_file", problems);
    match (cert, key) {
        (Some((cert, _)), Some((key, _))) => {
            Some(TlsFiles { cert_file: cert.into(), key_file: key.into() })
        }
        (None, None) => None,
        (Some((_, only)), None) | (None, Some((_, only))) => {
            let message = "TLS needs both `tls_cert_file` and `tls_key_file`";
            problems.add(&only.span, message);
            None
        }
    }
}

fn read_listen(
    text: &str,
    field: &Field<'_>,
    has_tls: bool,
    problems: &mut Problems<'_>,
) -> Option<SocketAddr> {
    let local = |rest: &str| Some((IpAddr::V4(Ipv4Addr::LOCALHOST), rest.parse().ok()?).into());
    let address = match text.strip_prefix("localhost:") {
        Some(port) => local(port),
        None => text.parse::<SocketAddr>().ok(),
    };
    let Some(address) = address else {
        field.wrong("an address and a port, such as `127.0.0.1:4180` or `[::1]:4180`", problems);
        return None;
    };
    if !address.ip().is_loopback() && !has_tls {
        let message = "this address can be reached from other machines and there is no TLS";
        let hint = "listen on 127.0.0.1, or name `tls_cert_file` and `tls_key_file`";
        problems.hint(&field.span, message, hint);
    }
    Some(address)
}

fn read_hostnames(root: &Section<'_>, problems: &mut Problems<'_>) -> Vec<String> {
    let Some(field) = root.field("hostnames") else { return Vec::new() };
    let mut names = Vec::new();
    for (text, item) in field.texts(problems) {
        if is_hostname(text) {
            names.push(text.to_ascii_lowercase());
        } else {
            let message = "a host name with an optional port, such as `gate.example.com`";
            item.wrong(message, problems);
        }
    }
    if names.len() > HOSTNAMES_MAX {
        field.wrong(&format!("{HOSTNAMES_MAX} names at most"), problems);
    }
    names
}

fn read_public_url(root: &Section<'_>, problems: &mut Problems<'_>) -> Option<Issuer> {
    let (text, field) = root.text("public_url", problems)?;
    match Issuer::parse(text) {
        Ok(issuer) => Some(issuer),
        Err(why) => {
            field.wrong(&format!("an origin such as `https://gate.example`: {why}"), problems);
            None
        }
    }
}

/// A name that is the same in a Host header and in a URL: no wildcard, scheme, path or user.
fn is_hostname(text: &str) -> bool {
    let Ok(url) = Url::parse(&format!("http://{text}/")) else { return false };
    let host = url.host_str().unwrap_or_default();
    let with_port = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let lower = text.to_ascii_lowercase();
    !text.is_empty() && !text.contains('*') && (lower == with_port || lower == format!("{host}:80"))
}

fn read_retention(root: &Section<'_>, problems: &mut Problems<'_>) -> Option<Retention> {
    let section = root.field("retention")?.section(&["days_max", "bytes_max"], problems)?;
    let days = section.integer("days_max", (1, RETENTION_DAYS_MAX), problems);
    Some(Retention {
        age_seconds_max: days.map(|days| days * SECONDS_PER_DAY),
        bytes_max: section.integer("bytes_max", (RETENTION_BYTES_MIN, u64::MAX), problems),
    })
}

fn read_log(root: &Section<'_>, problems: &mut Problems<'_>) -> Option<Log> {
    let section = root.field("log")?.section(&["format", "level"], problems)?;
    let formats = [("human", LogFormat::Human), ("json", LogFormat::Json)];
    let levels = LogLevel::ALL.map(|level| (level.as_str(), level));
    Some(Log {
        format: section.choice("format", &formats, problems).unwrap_or_default(),
        level: section.choice("level", &levels, problems).unwrap_or_default(),
    })
}

fn read_endpoint(root: &Section<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let (text, field) = root.text("otel_endpoint", problems)?;
    let fits = Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    });
    if !fits {
        field.wrong("an address such as `http://127.0.0.1:4318`, without a password", problems);
    }
    Some(text.to_owned())
}

fn read_time_zone(root: &Section<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let (text, field) = root.text("time_zone", problems)?;
    if jiff::tz::TimeZone::get(text).is_err() {
        field.wrong("a time zone such as `Europe/Vienna` or `UTC`", problems);
    }
    Some(text.to_owned())
}

fn read_limits(root: &Section<'_>, limits: &mut Limits, problems: &mut Problems<'_>) {
    /// The former name of `approval_hold_seconds`, still accepted.
    const HOLD_MS: &str = "approval_hold_ms";
    let known: Vec<&str> = Limits::TABLE.iter().map(|row| row.name).chain([HOLD_MS]).collect();
    let section = root.field("limits").and_then(|field| field.section(&known, problems));
    let Some(section) = section else { return };
    if let Some(value) = section.integer(HOLD_MS, (0, 3_600_000), problems) {
        limits.approval_hold_seconds = value.div_ceil(1_000);
    }
    for row in Limits::TABLE {
        if let Some(value) = section.integer(row.name, (row.least, row.most), problems) {
            limits.set(row.name, value);
        }
    }
}
