//! `audit show`: one entry with all its fields, and the captured arguments of its call.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use store::ledger::Entry;

use super::{ShowArgs, log};
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, visible};

pub(super) fn run(args: &ShowArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let entry = log(context)?.entry(args.number)?;
    let entry = entry.with_context(|| format!("the audit log has no entry {}", args.number))?;
    let arguments = if args.arguments { Some(arguments(&entry, context)?) } else { None };
    if out.wants_json() {
        let mut shown = serde_json::to_value(&entry)?;
        if let (Value::Object(fields), Some(arguments)) = (&mut shown, arguments) {
            fields.insert("arguments".to_owned(), json!(arguments));
        }
        out.json(&shown)?;
        return Ok(Ending::Yes);
    }
    if let Value::Object(fields) = serde_json::to_value(&entry)? {
        for (name, value) in fields {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            out.line(format_args!("{name}: {}", visible(&value)))?;
        }
    }
    if let Some(arguments) = arguments {
        out.line(format_args!("arguments: {}", visible(&arguments)))?;
    }
    Ok(Ending::Yes)
}

/// The captured arguments. Reading them is recorded first.
fn arguments(entry: &Entry, context: &Context) -> Result<String> {
    let stores = context.open()?;
    let captured = stores.registry.captures().get(&entry.server, &entry.digest)?;
    let Some(captured) = captured else {
        bail!(
            "the arguments of entry {} were not captured, or are deleted by now\nhint: `tollgate server capture NAME on` keeps them from now on",
            entry.seq
        );
    };
    let Some(params) = captured.params else {
        bail!(
            "the arguments of entry {} were too large to keep: {} bytes\nhint: `capture_params_bytes_max` in tollgate.toml sets how large they may be",
            entry.seq,
            captured.bytes
        );
    };
    stores.ready_to_note()?;
    stores.note("arguments_read", &format!("entry {}", entry.seq), &entry.server)?;
    Ok(String::from_utf8_lossy(params.expose()).into_owned())
}
