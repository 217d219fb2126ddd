//! `[grants.LABEL]`: servers with their policies, and the token by hash or by reference.

use toml::de::DeValue;

use super::problem::Problems;
use super::reference::ExternalValues;
use super::section::{Field, NamedField, Section};
use crate::registry::grants::SERVERS_PER_GRANT_MAX;
use crate::registry::names::{check_label, check_name};
use crate::registry::{
    Grant, ObjectKind, Origin, Prefix, ServerAccess, Token, TokenHash, TokenRecord,
};
use crate::secret::Secret;

const KEYS: &[&str] =
    &["servers", "token_sha256", "token_env", "token_file", "expires", "prefix", "operator"];
/// Two hashes let a token be replaced without a gap.
const TOKENS_MAX: usize = 4;

pub(super) fn read(
    entry: &NamedField<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Option<Grant> {
    if let Err(e) = check_label(entry.name) {
        problems.error(&entry.name_span, &e);
    }
    let section = entry.field.section(KEYS, problems)?;
    let server_access = read_server_access(&section, problems);
    let tokens = read_tokens(&section, outside, problems);
    let expires_at_us = section.field("expires").and_then(|field| read_expiry(&field, problems));
    let record =
        |hash| TokenRecord { hash, created_at_us: 0, valid_until_us: None, audience: None };
    Some(Grant {
        id: format!("file:{}", entry.name),
        label: entry.name.to_owned(),
        server_access,
        created_at_us: 0,
        expires_at_us,
        expired_at_us: None,
        revoked_at_us: None,
        tokens: tokens.into_iter().map(record).collect(),
        prefix: section
            .field("prefix")
            .and_then(|field| read_prefix(&field, problems))
            .unwrap_or_default(),
        operator: section.flag("operator", problems).unwrap_or_default(),
        client: None,
        person: None,
        origin: Origin::File,
    })
}

/// `servers = { whoop = "read_only", notes = false }`: a policy by name, or no policy yet.
fn read_server_access(section: &Section<'_>, problems: &mut Problems<'_>) -> Vec<ServerAccess> {
    let Some(field) = section.field("servers") else {
        problems.add(&section.span, format!("`{}` holds no `servers`", section.path));
        return Vec::new();
    };
    let mut server_access = Vec::new();
    for entry in field.entries(problems) {
        let server = entry.name.to_owned();
        if let Err(e) = check_name(ObjectKind::Server, entry.name) {
            problems.error(&entry.name_span, &e);
        }
        match entry.field.value {
            DeValue::String(policy) => {
                server_access
                    .push(ServerAccess { server, policy: Some(policy.clone().into_owned()) });
            }
            DeValue::Boolean(false) => server_access.push(ServerAccess { server, policy: None }),
            _ => entry.field.wrong("the name of a policy, or `false` for none", problems),
        }
    }
    if server_access.len() > SERVERS_PER_GRANT_MAX {
        field.wrong(&format!("{SERVERS_PER_GRANT_MAX} servers at most"), problems);
    }
    server_access
}

fn read_tokens(
    section: &Section<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Vec<TokenHash> {
    let kinds = ["token_sha256", "token_env", "token_file"];
    let given: Vec<Field<'_>> = kinds.iter().filter_map(|kind| section.field(kind)).collect();
    let [field] = given.as_slice() else {
        let message = format!(
            "`{}` must have one of `token_sha256`, `token_env`, `token_file`",
            section.path
        );
        problems.hint(&section.span, message, "`tollgate grant token` makes a token and its hash");
        return Vec::new();
    };
    match field.path.rsplit('.').next() {
        Some("token_sha256") => read_hashes(field, problems),
        Some("token_env") => {
            let name = field.text(problems);
            let value = name.and_then(|name| outside.variable(name, field, problems));
            token_hash(value, field, problems).into_iter().collect()
        }
        _ => {
            let path = field.text(problems);
            let value = path.and_then(|path| outside.file_value(path, field, problems));
            token_hash(value, field, problems).into_iter().collect()
        }
    }
}

fn read_hashes(field: &Field<'_>, problems: &mut Problems<'_>) -> Vec<TokenHash> {
    let texts = match field.value.as_str() {
        Some(one) => vec![one],
        None => field.texts(problems).into_iter().map(|(text, _)| text).collect(),
    };
    let hashes: Vec<TokenHash> =
        texts.iter().filter_map(|text| TokenHash::from_hex(text)).collect();
    if hashes.len() != texts.len() || hashes.is_empty() || hashes.len() > TOKENS_MAX {
        let wanted = "the SHA-256 of a token as 64 hexadecimal digits, or a list of up to 4";
        field.wrong(wanted, problems);
    }
    hashes
}

fn token_hash(
    value: Option<Secret>,
    field: &Field<'_>,
    problems: &mut Problems<'_>,
) -> Option<TokenHash> {
    match Token::parse(value?.expose().trim()) {
        Ok(token) => Some(token.hash()),
        Err(e) => {
            problems.error(&field.span, &e);
            None
        }
    }
}

fn read_prefix(field: &Field<'_>, problems: &mut Problems<'_>) -> Option<Prefix> {
    let prefix = Prefix::parse(field.value.as_str().unwrap_or_default());
    if prefix.is_none() {
        field.wrong("`always` or `never`", problems);
    }
    prefix
}

/// A time with its offset: `2027-01-31T00:00:00Z`, as a TOML date or as text.
fn read_expiry(field: &Field<'_>, problems: &mut Problems<'_>) -> Option<i64> {
    let text = match field.value {
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::String(text) => text.clone().into_owned(),
        _ => String::new(),
    };
    let moment = text.parse::<jiff::Timestamp>().ok();
    if moment.is_none() {
        field.wrong("a moment with its offset, such as `2027-01-31T00:00:00Z`", problems);
    }
    moment.map(jiff::Timestamp::as_microsecond)
}
