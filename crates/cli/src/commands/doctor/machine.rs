//! Checks the machine: clock, disk, port, open files.

use std::net::TcpListener;
use std::path::Path;

use store::settings::Settings;

use super::Finding;
use crate::context::{Context, Stores};
use crate::gate::open_files;
use crate::hints::word;
use crate::{moment, running};

const MIB: u64 = 1 << 20;
/// With less than this the audit log will soon refuse rows, and the gate every call.
const DISK_BYTES_MIN: u64 = 64 * MIB;
const DISK_BYTES_LOW: u64 = 1024 * MIB;
/// 2025-01-01 and 2100-01-01. Outside, the clock was never set.
const SANE_US: std::ops::Range<i64> = 1_735_689_600_000_000..4_102_444_800_000_000;
/// A clock that is further behind the latest time seen by this home was set back.
const BEHIND_US_MAX: i64 = 60 * 1_000_000;

pub(super) fn clock(context: &Context, findings: &mut Vec<Finding>) {
    let now_us = context.clock.now().wall_us;
    if !SANE_US.contains(&now_us) {
        let message = format!("the clock says {}", moment::utc(now_us));
        findings.push(Finding::wrong("clock", message, "`sudo timedatectl set-ntp true`"));
        return;
    }
    if context.clock.boot_id().is_none() {
        findings.push(Finding::careful(
            "clock",
            "the machine has no boot id, so limits depend on the wall clock after each start",
            platform::clock::BOOT_ID_HINT,
        ));
        return;
    }
    findings.push(Finding::good("clock", format!("it is {} here", moment::local(now_us))));
}

/// Expired grants stay expired when the clock goes back.
pub(super) fn noted_time(stores: &Stores, findings: &mut Vec<Finding>) {
    let now_us = stores.now_us();
    let Ok(latest_us) = stores.registry.note_time(now_us) else { return };
    if latest_us.saturating_sub(now_us) > BEHIND_US_MAX {
        let message = format!(
            "the clock is {} behind the latest time this home has seen",
            moment::span(moment::seconds_between(now_us, latest_us))
        );
        findings.push(Finding::wrong("clock", message, "`sudo timedatectl set-ntp true`"));
    }
}

pub(super) fn disk(home: &Path, findings: &mut Vec<Finding>) {
    let Ok(free) = platform::disk::free_bytes(home) else { return };
    let message = format!("{} MiB free", free / MIB);
    let fix = || format!("free some space: `df -h {}`", word(home));
    findings.push(match free {
        0..DISK_BYTES_MIN => Finding::wrong("disk", message, fix()),
        DISK_BYTES_MIN..DISK_BYTES_LOW => Finding::careful("disk", message, fix()),
        _ => Finding::good("disk", message),
    });
}

pub(super) fn port(context: &Context, home: &Path, findings: &mut Vec<Finding>) {
    // Settings that do not load name no port, and the default one may be another gate's.
    let Ok(settings) = context.settings() else { return };
    let running = running::all(home);
    if let Some(gate) = running.iter().find_map(|facts| facts.url.as_ref()) {
        findings.push(Finding::good("port", format!("a gate of this home listens at {gate}")));
        return;
    }
    findings.push(match TcpListener::bind(settings.listen) {
        Ok(_) => Finding::good("port", format!("{} is free", settings.listen)),
        Err(e) => port_taken(&settings, &e),
    });
}

fn port_taken(settings: &Settings, error: &std::io::Error) -> Finding {
    let port = settings.listen.port();
    let message = format!("cannot listen on {}: {error}", settings.listen);
    let fix = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!(
                "`ss -ltnp 'sport = :{port}'` shows which process uses it; or `tollgate up --listen 127.0.0.1:PORT`"
            )
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need privileges; set `listen` in tollgate.toml to a higher one"
                .to_owned()
        }
        _ => "set `listen` in tollgate.toml to an address of this machine".to_owned(),
    };
    Finding::wrong("port", message, fix)
}

pub(super) fn open_files(context: &Context, findings: &mut Vec<Finding>) {
    let settings = context.settings().unwrap_or_default();
    let wanted = settings.limits.connections_max;
    match open_files::connections_possible(wanted) {
        possible if possible < wanted => findings.push(Finding::careful(
            "files",
            format!(
                "the limit on open files allows {possible} connections, {wanted} are configured"
            ),
            open_files::fix(possible, wanted),
        )),
        _ => findings.push(Finding::good("files", "enough open files allowed".to_owned())),
    }
}
