//! `audit verify` and `audit checkpoint`.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;
use store::ledger::{Checkpoint, Reader, Verified, VerifyError};
use store::registry::log_remembered_by;

use super::{CheckpointArgs, VerifyArgs};
use crate::context::{Stores, read_text};
use crate::failure::Ending;
use crate::output::{Out, Progress, visible};

/// Needs neither the settings nor the database nor the key: whoever has lost those, or looks at a copy
/// that is not theirs, can still tell whether the log is whole.
pub(super) fn verify(args: &VerifyArgs, home: &Path, out: &mut Out) -> Result<Ending> {
    let checkpoint = args.checkpoint.as_deref().map(read_checkpoint).transpose()?;
    let known = log_remembered_by(&home.join("gate.db"));
    // Not opened for writing: looking must not mend or cut what it looks at.
    let reader = Reader::open(&home.join("audit"))?;
    let verified = Progress::during("verifying", || reader.verify(checkpoint.as_ref()));
    match verified {
        Ok(verified) => {
            let missed = known.and_then(|known| known.missed_in(&verified.last_row()));
            if let Some(words) = missed {
                return lost(&words, &verified, out);
            }
            whole(&verified, checkpoint.as_ref(), out)?;
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

/// The log holds together, but `gate.db` knows of rows that are not in it.
fn lost(words: &str, log: &Verified, out: &mut Out) -> Result<Ending> {
    if out.wants_json() {
        out.json(&json!({ "whole": false, "lost": words, "log": log }))?;
    } else {
        let word = out.paint().bad("broken");
        out.line(format_args!("{word}: {}", visible(words)))?;
        out.say("put `audit/` back from a copy; the next command that writes a row takes what is there, and says so in it");
    }
    Ok(Ending::No)
}

fn whole(verified: &Verified, checkpoint: Option<&Checkpoint>, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        return out.json(&json!({ "whole": true, "checkpoint": checkpoint, "log": verified }));
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
    match checkpoint {
        Some(Checkpoint { seq, .. }) if *seq < verified.first_seq => {
            out.line(format_args!("holds the checkpoint of row {seq}, which was retired"))?;
        }
        Some(Checkpoint { seq, .. }) => {
            out.line(format_args!("holds the checkpoint of row {seq}"))?;
        }
        None => out.say(
            "without a checkpoint kept elsewhere, removed rows at the end cannot be detected; `tollgate audit checkpoint --out FILE`",
        ),
    }
    Ok(())
}

/// No, because whoever asks with a checkpoint wants to know whether this is still that log.
fn unproven(log: &Verified, checkpoint: Option<&Checkpoint>, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        let told =
            json!({ "whole": false, "unproven": true, "checkpoint": checkpoint, "log": log });
        return out.json(&told);
    }
    let word = out.paint().bad("unproven");
    let seq = checkpoint.map_or(0, |checkpoint| checkpoint.seq);
    out.line(format_args!(
        "{word}: row {seq} of the checkpoint was retired, and nothing that is left tells its hash"
    ))?;
    out.line(format_args!("rows {} to {} hold together", log.first_seq, log.last_seq))?;
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
