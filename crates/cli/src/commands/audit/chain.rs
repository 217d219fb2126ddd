//! `audit verify` and `audit checkpoint`.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;
use store::ledger::{Alarm, Checkpoint, Seal, Verified, VerifyError};

use super::{CheckpointArgs, VerifyArgs};
use crate::audit_log::seal::{LogEvidence, LogStatus};
use crate::context::{Context, Stores, read_text};
use crate::failure::Ending;
use crate::output::{Out, Progress, visible};

/// Needs neither the settings nor the database nor the key: without them, such as for a copy, only the
/// chain is checked, and the output says so.
pub(super) fn verify(args: &VerifyArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let home = context.home_path()?;
    let checkpoint = args.checkpoint.as_deref().map(read_checkpoint).transpose()?;
    store::files::refuse_special(&home)
        .with_context(|| format!("cannot read `{}`", home.display()))?;
    // Not opened for writing: a check must not repair or truncate the log.
    let reader = context.read_log()?;
    let mut evidence = LogEvidence::collect(&home, context, &reader)?;
    let verified = Progress::during("verifying", || evidence.verify(&reader, checkpoint.as_ref()));
    match verified {
        Ok(verified) => {
            let status = evidence.status(&verified);
            if let LogStatus::Lost(message) = &status {
                return lost(message, &verified, out);
            }
            let doubt = verified.alarms.iter().find(|alarm| alarm.is_open(checkpoint.as_ref()));
            if let Some(alarm) = doubt {
                return doubtful(alarm, &verified, out);
            }
            whole(&verified, &status, checkpoint.as_ref(), out)?;
            Ok(Ending::Yes)
        }
        Err(VerifyError::Found(finding)) => {
            if out.wants_json() {
                out.json(&json!({ "whole": false, "finding": finding }))?;
            } else {
                let word = out.paint().bad("broken");
                out.line(format_args!("{word}: the audit log is not as it was written"))?;
                out.line(format_args!("first bad record: {}", visible(&finding.to_string())))?;
            }
            Ok(Ending::No)
        }
        Err(VerifyError::Unproven(log)) => {
            unproven(&log, checkpoint.as_ref(), out)?;
            Ok(Ending::No)
        }
        Err(VerifyError::Ledger(error)) => Err(error.into()),
    }
}

/// The chain is intact, but a row says that the log did not match its seal at some time.
fn doubtful(alarm: &Alarm, log: &Verified, out: &mut Out) -> Result<Ending> {
    if out.wants_json() {
        out.json(&json!({ "whole": false, "seal_broken": alarm, "log": log }))?;
    } else {
        let word = out.paint().bad("broken");
        let (time, message) = (visible(&alarm.time), visible(&alarm.words));
        out.line(format_args!("{word}: row {} of {time} says: {message}", alarm.seq))?;
        out.line(format_args!("rows {} to {} are intact", log.first_seq, log.last_seq))?;
        out.say("do not trust the rows before it; to accept the log from here on, make a checkpoint (`tollgate audit checkpoint --out FILE`) and verify with it");
    }
    Ok(Ending::No)
}

/// The chain is intact, but `gate.db` knows of rows that are not in it.
fn lost(message: &str, log: &Verified, out: &mut Out) -> Result<Ending> {
    if out.wants_json() {
        out.json(&json!({ "whole": false, "lost": message, "log": log }))?;
    } else {
        let word = out.paint().bad("broken");
        out.line(format_args!("{word}: {}", visible(message)))?;
        out.say("restore `audit/` from a copy; the next command that writes a row continues this log and says so in the row");
    }
    Ok(Ending::No)
}

fn whole(
    verified: &Verified,
    status: &LogStatus,
    checkpoint: Option<&Checkpoint>,
    out: &mut Out,
) -> Result<()> {
    if out.wants_json() {
        let seal = match status {
            LogStatus::Sealed(seal) => Some(seal),
            _ => None,
        };
        let report =
            json!({ "whole": true, "checkpoint": checkpoint, "seal": seal, "log": verified });
        return out.json(&report);
    }
    let word = out.paint().good("whole");
    out.line(format_args!(
        "{word}: rows {} to {}, hash {}",
        verified.first_seq,
        verified.last_seq,
        verified.hash.get(..16).unwrap_or(&verified.hash)
    ))?;
    if let Some(retired) = &verified.retired {
        out.line(format_args!(
            "rows up to {} were retired at {}",
            retired.last_seq,
            visible(&retired.time)
        ))?;
    }
    for alarm in &verified.alarms {
        let (time, message) = (visible(&alarm.time), visible(&alarm.words));
        out.line(format_args!("row {} of {time} says: {message}", alarm.seq))?;
    }
    sealed(verified, status, out)?;
    match checkpoint {
        Some(Checkpoint { seq, .. }) if *seq < verified.first_seq => {
            out.line(format_args!("holds the checkpoint of row {seq}, which was retired"))?;
        }
        Some(Checkpoint { seq, .. }) => {
            out.line(format_args!("holds the checkpoint of row {seq}"))?;
        }
        None => out.say(
            "only a checkpoint kept elsewhere detects an older copy of the log and its seal; `tollgate audit checkpoint --out FILE`",
        ),
    }
    Ok(())
}

/// Which rows are sealed.
fn sealed(verified: &Verified, status: &LogStatus, out: &mut Out) -> Result<()> {
    match status {
    LogStatus::Sealed(Seal { row, since }) => {
            out.line(format_args!("sealed with the vault key up to row {}", row.seq))?;
            if *since > 1 {
                out.line(format_args!("rows before {since} were not sealed when they were written"))?;
            }
            if row.seq < verified.last_seq {
                out.say(format_args!(
                    "rows {} to {} are not sealed yet; the gate seals within two seconds",
                    row.seq + 1,
                    verified.last_seq
                ));
            }
        }
        LogStatus::NotYetSealed => out.say(
            "not sealed: an older version wrote this log; the next command that writes a row seals it",
        ),
        LogStatus::Unchecked(why) => out.say(format_args!(
            "the seal was not checked: {}; a rewritten log cannot be detected without it",
            visible(why)
        )),
        LogStatus::Lost(_) => {}
    }
    Ok(())
}

/// The answer is no: the checkpoint was given to learn whether this is still that log.
fn unproven(log: &Verified, checkpoint: Option<&Checkpoint>, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        let report =
            json!({ "whole": false, "unproven": true, "checkpoint": checkpoint, "log": log });
        return out.json(&report);
    }
    let word = out.paint().bad("unproven");
    let seq = checkpoint.map_or(0, |checkpoint| checkpoint.seq);
    out.line(format_args!(
        "{word}: row {seq} of the checkpoint was retired, and its hash is no longer known"
    ))?;
    out.line(format_args!("rows {} to {} are intact", log.first_seq, log.last_seq))?;
    if let Some(retired) = &log.retired {
        let time = visible(&retired.time);
        out.line(format_args!("rows up to {} were retired at {time}", retired.last_seq))?;
    }
    out.say("verify with a newer checkpoint; `tollgate audit checkpoint --out FILE` makes one");
    Ok(())
}

pub(super) fn checkpoint(args: &CheckpointArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let checkpoint = stores.ledger()?.checkpoint()?;
    match &args.out {
        None => out.json(&checkpoint)?,
        Some(path) => {
            let text = format!("{}\n", serde_json::to_string_pretty(&checkpoint)?);
            super::export::write_whole(path, |file| {
                Ok(std::io::Write::write_all(file, text.as_bytes())?)
            })?;
            if out.wants_json() {
                out.json(&checkpoint)?;
            } else {
                out.line(format_args!(
                    "checkpoint of row {} written to `{}`",
                    checkpoint.seq,
                    path.display()
                ))?;
            }
        }
    }
    Ok(Ending::Yes)
}

fn read_checkpoint(path: &Path) -> Result<Checkpoint> {
    let shown = path.display();
    let text = read_text(path).with_context(|| format!("cannot read checkpoint `{shown}`"))?;
    serde_json::from_str(&text).with_context(|| format!("`{shown}` is not a checkpoint"))
}
