//! Policies: named texts with all their versions. A text that does not load or whose own tests fail
//! never becomes a version.

use policy::{Format, Policy};
use rusqlite::{Connection, OptionalExtension, Row};
use sha2::{Digest, Sha256};

use super::Registry;
use super::error::{ObjectKind, Origin, RegistryError};
use super::names::{FileNames, check_name, taken};
use crate::hex;
use policy::did_you_mean;

/// A policy text with the names that audit rows use for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyText {
    pub name: String,
    /// Counts from 1; 0 for a policy of `tollgate.toml`, whose versions the owner keeps.
    pub version: u64,
    pub sha256: String,
    pub format: Format,
    pub source: String,
    pub origin: Origin,
}

/// One line of a policy's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    pub version: u64,
    pub sha256: String,
    pub format: Format,
    pub bytes: u64,
    pub created_at_us: i64,
    pub created_by: String,
}

impl PolicyText {
    /// The name of this text in rows and approvals. A policy from a file has no version; the first
    /// twelve digits of its hash replace it, so that texts can be distinguished.
    pub fn number(&self) -> u64 {
        match self.version {
            0 => {
                let digits = self.sha256.get(..12).unwrap_or_default();
                u64::from_str_radix(digits, 16).unwrap_or_default()
            }
            version => version,
        }
    }

    /// A policy from a file, named by the hash of its text.
    pub(crate) fn from_file(name: &str, format: Format, source: String) -> PolicyText {
        PolicyText {
            name: name.to_owned(),
            version: 0,
            sha256: sha256(&source),
            format,
            source,
            origin: Origin::File,
        }
    }

    /// The name in audit rows and lists: `home@3`, or `home@` and the start of the hash.
    pub fn label(&self) -> String {
        match self.version {
            0 => format!("{}@{}", self.name, self.sha256.get(..12).unwrap_or(&self.sha256)),
            version => format!("{}@{version}", self.name),
        }
    }
}

impl Registry {
    /// Saves and activates a new version. The same text again keeps the current version.
    pub fn put_policy(
        &self,
        name: &str,
        source: &str,
        format: Format,
        by: &str,
        file: &FileNames,
        now_us: i64,
    ) -> Result<PolicyText, RegistryError> {
        check_name(ObjectKind::Policy, name)?;
        if file.policies.contains(name) {
            return Err(taken(ObjectKind::Policy, name, Origin::File));
        }
        Policy::load(source, format)
            .map_err(|source| RegistryError::PolicyDoesNotLoad { name: name.to_owned(), source })?;
        let known = self.read(|db| current(db, name))?;
        if let Some(known) = known.filter(|k| k.source == source && k.format == format) {
            return Ok(known);
        }
        self.act(("policy_saved", name, now_us), |db| {
            put_version(db, name, source, format, by, now_us)?;
            let saved = current(db, name)?.map_or_else(|| Err(missing(db, name)?), Ok)?;
            let label = saved.label();
            Ok((saved, label))
        })
    }

    /// Activates the text of an older version, as a new version.
    pub fn roll_back_policy(
        &self,
        name: &str,
        version: u64,
        by: &str,
        now_us: i64,
    ) -> Result<PolicyText, RegistryError> {
        let old = self.policy_version(name, version)?;
        self.put_policy(name, &old.source, old.format, by, &FileNames::default(), now_us)
    }

    /// Removes a policy. Its versions stay, because audit rows refer to them.
    pub fn remove_policy(&self, name: &str, now_us: i64) -> Result<(), RegistryError> {
        self.act(("policy_removed", name, now_us), |db| {
            if current(db, name)?.is_none() {
                return Err(missing(db, name)?);
            }
            let grants = users(db, name)?;
            if !grants.is_empty() {
                return Err(RegistryError::PolicyInUse { name: name.to_owned(), grants });
            }
            db.execute("UPDATE policies SET removed_at_us = ?2 WHERE name = ?1", (name, now_us))?;
            Ok(((), String::new()))
        })
    }

    /// The active version of every policy, by name.
    pub fn policies(&self) -> Result<Vec<PolicyText>, RegistryError> {
        self.read(|db| all(db))
    }

    pub fn policy(&self, name: &str) -> Result<PolicyText, RegistryError> {
        self.read(|db| current(db, name)?.map_or_else(|| Err(missing(db, name)?), Ok))
    }

    /// The history, oldest first; also of a policy that was removed.
    pub fn policy_versions(&self, name: &str) -> Result<Vec<PolicyVersion>, RegistryError> {
        self.read(|db| {
            let mut select = db.prepare(
                "SELECT v.version, v.sha256, v.format, length(CAST(v.source AS BLOB)),
                        v.created_at_us, v.created_by
                 FROM policy_versions v JOIN policies p ON p.id = v.policy_id
                 WHERE p.name = ?1 ORDER BY v.version",
            )?;
            Ok(select.query_map([name], version_of)?.collect::<Result<_, _>>()?)
        })
    }

    pub fn policy_version(&self, name: &str, version: u64) -> Result<PolicyText, RegistryError> {
        let by_number = format!("{SELECT} WHERE p.name = ?1 AND v.version = ?2");
        self.read(|db| {
            let number = i64::try_from(version).unwrap_or(i64::MAX);
            let found = db.query_row(&by_number, (name, number), text_of).optional()?;
            found.ok_or_else(|| RegistryError::Missing {
                kind: ObjectKind::PolicyVersion,
                name: format!("{name}@{version}"),
                near: String::new(),
            })
        })
    }

    /// Stores the text of a policy from a file, so that an audit row that refers to it can be read
    /// later.
    pub fn keep_file_policy(&self, text: &PolicyText, now_us: i64) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            db.execute(
                "INSERT INTO file_policies (sha256, name, format, source, first_used_at_us)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (sha256) DO NOTHING",
                (&text.sha256, &text.name, word_of(text.format), &text.source, now_us),
            )?;
            Ok(())
        })
    }

    /// The text that an audit row refers to by its hash, wherever it came from.
    pub fn policy_by_sha256(&self, sha256: &str) -> Result<Option<PolicyText>, RegistryError> {
        let kept = format!("{SELECT} WHERE v.sha256 = ?1 ORDER BY v.version DESC LIMIT 1");
        let from_file =
            "SELECT name, 0, sha256, format, source FROM file_policies WHERE sha256 = ?1";
        self.read(|db| {
            let found = db.query_row(&kept, [sha256], text_of).optional()?;
            match found {
                Some(found) => Ok(Some(found)),
                None => Ok(db.query_row(from_file, [sha256], text_of).optional()?),
            }
        })
    }
}

pub(crate) fn sha256(source: &str) -> String {
    hex::encode(&Sha256::digest(source.as_bytes()))
}

const SELECT: &str = "SELECT p.name, v.version, v.sha256, v.format, v.source
    FROM policy_versions v JOIN policies p ON p.id = v.policy_id";
const LATEST: &str = "p.removed_at_us IS NULL AND v.version =
    (SELECT max(version) FROM policy_versions WHERE policy_id = p.id)";

pub(super) fn all(db: &Connection) -> Result<Vec<PolicyText>, RegistryError> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE {LATEST} ORDER BY p.name"))?;
    Ok(select.query_map([], text_of)?.collect::<Result<_, _>>()?)
}

pub(super) fn names(db: &Connection) -> Result<Vec<String>, RegistryError> {
    let mut select =
        db.prepare_cached("SELECT name FROM policies WHERE removed_at_us IS NULL ORDER BY name")?;
    Ok(select.query_map([], |r| r.get(0))?.collect::<Result<_, _>>()?)
}

fn current(db: &Connection, name: &str) -> Result<Option<PolicyText>, RegistryError> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE {LATEST} AND p.name = ?1"))?;
    Ok(select.query_row([name], text_of).optional()?)
}

fn put_version(
    db: &Connection,
    name: &str,
    source: &str,
    format: Format,
    by: &str,
    now_us: i64,
) -> Result<(), RegistryError> {
    db.execute(
        "INSERT INTO policies (name) VALUES (?1)
         ON CONFLICT (name) DO UPDATE SET removed_at_us = NULL",
        [name],
    )?;
    db.execute(
        "INSERT INTO policy_versions
             (policy_id, version, format, source, sha256, created_at_us, created_by)
         SELECT p.id, 1 + (SELECT coalesce(max(version), 0) FROM policy_versions
                           WHERE policy_id = p.id), ?2, ?3, ?4, ?5, ?6
         FROM policies p WHERE p.name = ?1",
        (name, word_of(format), source, sha256(source), now_us, by),
    )?;
    Ok(())
}

fn users(db: &Connection, name: &str) -> Result<Vec<String>, RegistryError> {
    let mut select = db.prepare(
        "SELECT DISTINCT g.label FROM holdings h JOIN grants g ON g.id = h.grant_id
         WHERE h.policy = ?1 AND g.revoked_at_us IS NULL ORDER BY g.label",
    )?;
    Ok(select.query_map([name], |r| r.get(0))?.collect::<Result<_, _>>()?)
}

fn missing(db: &Connection, name: &str) -> Result<RegistryError, RegistryError> {
    let near = did_you_mean(name, names(db)?.iter().map(String::as_str));
    Ok(RegistryError::Missing { kind: ObjectKind::Policy, name: name.to_owned(), near })
}

fn text_of(row: &Row<'_>) -> rusqlite::Result<PolicyText> {
    let version: i64 = row.get(1)?;
    Ok(PolicyText {
        name: row.get(0)?,
        version: version.unsigned_abs(),
        sha256: row.get(2)?,
        format: format_of(row, 3)?,
        source: row.get(4)?,
        origin: if version == 0 { Origin::File } else { Origin::Registry },
    })
}

fn version_of(row: &Row<'_>) -> rusqlite::Result<PolicyVersion> {
    let (version, bytes): (i64, i64) = (row.get(0)?, row.get(3)?);
    Ok(PolicyVersion {
        version: version.unsigned_abs(),
        sha256: row.get(1)?,
        format: format_of(row, 2)?,
        bytes: bytes.unsigned_abs(),
        created_at_us: row.get(4)?,
        created_by: row.get(5)?,
    })
}

fn format_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Format> {
    let word: String = row.get(column)?;
    match word.as_str() {
        "json" => Ok(Format::Json),
        "yaml" => Ok(Format::Yaml),
        _ => Err(rusqlite::Error::InvalidQuery),
    }
}

fn word_of(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
    }
}
