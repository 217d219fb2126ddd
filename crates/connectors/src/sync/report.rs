//! The report of a sync. Tools show it as JSON; commands and logs read its fields.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::ResourceError;
use super::job::SyncJob;
use crate::when::{instant_us, utc_micros};

/// What a sync did. Serializes as the output of the sync tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReport {
    pub started_us: i64,
    pub completed_us: i64,
    pub resources: Vec<ResourceReport>,
    /// Requested names that the service does not have. With any of them nothing is fetched.
    pub unknown: Vec<String>,
}

/// What a sync did with one resource. Counts include what was stored before a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceReport {
    pub name: &'static str,
    pub fetched: u64,
    pub upserted: u64,
    pub removed: u64,
    pub doubtful: u64,
    pub warnings: Vec<String>,
    /// The newest stamp of change, or why the resource failed.
    pub outcome: Result<Option<String>, ResourceError>,
}

// Variants and members below are documented with `//`, because schemas would show `///`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncStatus {
    Success,
    // Some resources failed.
    Partial,
    // All resources failed, or the request names unknown ones.
    Error,
}

// The output of a sync tool and of `--json`.
#[derive(Serialize, JsonSchema)]
struct SyncOutput {
    status: SyncStatus,
    started_at: String,
    completed_at: String,
    // By name, in the order of the service.
    #[serde(serialize_with = "as_map")]
    #[schemars(with = "BTreeMap<String, ResourceOutput>")]
    resources: Vec<(&'static str, ResourceOutput)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct ResourceOutput {
    records_fetched: u64,
    records_upserted: u64,
    #[serde(skip_serializing_if = "is_zero")]
    records_removed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    records_doubtful: u64,
    cursor_after: Option<String>,
    status: SyncStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    error: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn as_map<S: Serializer>(
    resources: &[(&'static str, ResourceOutput)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(resources.iter().map(|(name, resource)| (name, resource)))
}

impl Serialize for SyncReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.output().serialize(to)
    }
}

impl JsonSchema for SyncReport {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SyncReport".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        SyncOutput::json_schema(generator)
    }
}

impl SyncStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            SyncStatus::Success => "success",
            SyncStatus::Partial => "partial",
            SyncStatus::Error => "error",
        }
    }
}

impl SyncReport {
    pub(super) fn of_unknown(now_us: i64, unknown: Vec<String>) -> SyncReport {
        SyncReport { started_us: now_us, completed_us: now_us, resources: Vec::new(), unknown }
    }

    pub fn status(&self) -> SyncStatus {
        let failed = self.faults().count();
        match failed {
            _ if !self.unknown.is_empty() => SyncStatus::Error,
            0 => SyncStatus::Success,
            all if all == self.resources.len() => SyncStatus::Error,
            _ => SyncStatus::Partial,
        }
    }

    pub fn resource(&self, name: &str) -> Option<&ResourceReport> {
        self.resources.iter().find(|resource| resource.name == name)
    }

    pub fn faults(&self) -> impl Iterator<Item = &ResourceError> {
        self.resources.iter().filter_map(|resource| resource.outcome.as_ref().err())
    }

    /// The fault of all resources, if all failed for the same reason.
    pub fn common_fault(&self) -> Option<&ResourceError> {
        let first = self.faults().next()?;
        let is_common = self.status() == SyncStatus::Error && self.faults().all(|one| one == first);
        is_common.then_some(first)
    }

    /// New and changed records of all resources.
    pub fn upserted(&self) -> u64 {
        self.resources.iter().map(|resource| resource.upserted).sum()
    }

    /// The time of the newest change that any resource has.
    pub fn newest_us(&self) -> Option<i64> {
        let stamps = self.resources.iter().filter_map(|one| one.outcome.as_ref().ok()?.as_deref());
        stamps.filter_map(instant_us).max()
    }

    /// Warnings and faults; `fault_line` renders a fault.
    pub fn warnings(&self, fault_line: impl Fn(&ResourceError) -> String) -> Vec<String> {
        let mut warnings: Vec<String> =
            self.unknown.iter().map(|name| format!("unknown resource: {name}")).collect();
        for resource in &self.resources {
            warnings.extend(resource.warnings.iter().cloned());
            let fault = resource.outcome.as_ref().err();
            warnings.extend(fault.map(|fault| format!("{}: {}", resource.name, fault_line(fault))));
        }
        warnings
    }

    /// The report as tools and `--json` show it.
    pub fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn output(&self) -> SyncOutput {
        SyncOutput {
            status: self.status(),
            started_at: utc_micros(self.started_us),
            completed_at: utc_micros(self.completed_us),
            resources: self.resources.iter().map(|one| (one.name, one.output())).collect(),
            warnings: self.warnings(ResourceError::line),
        }
    }
}

impl ResourceReport {
    pub(super) fn of(
        job: &SyncJob<'_>,
        outcome: Result<Option<String>, ResourceError>,
    ) -> ResourceReport {
        let (name, tally) = (job.resource.name, job.tally());
        ResourceReport {
            name,
            fetched: tally.fetched,
            upserted: tally.upserted,
            removed: tally.removed,
            doubtful: tally.doubtful,
            warnings: tally.warnings(name),
            outcome,
        }
    }

    fn output(&self) -> ResourceOutput {
        let (cursor_after, status, error) = match &self.outcome {
            Ok(cursor) => (cursor.clone(), SyncStatus::Success, None),
            Err(fault) => (None, SyncStatus::Error, Some(fault.line())),
        };
        ResourceOutput {
            records_fetched: self.fetched,
            records_upserted: self.upserted,
            records_removed: self.removed,
            records_doubtful: self.doubtful,
            cursor_after,
            status,
            error,
        }
    }
}
