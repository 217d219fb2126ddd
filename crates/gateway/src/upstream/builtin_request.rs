//! Requests to a built-in server, which runs inside the gate.

use std::sync::Arc;

use bytes::Bytes;
use connectors::{Admitted, Caller};
use serde_json::{Map, Value};

use super::{Events, MessageKind, Reply, UpstreamMessage};
use crate::builtin::{self, Builtin, Call, ProgressFeed, RunningCall};
use crate::runtime::response_buffer::{self, BufferQuota};
use mcp::{code, error_body, result_prefix};

/// A call of a built-in tool with progress notifications before its response.
pub(super) fn with_progress(
    builtin: &Arc<Builtin>,
    (caller, quota): (&Caller, &BufferQuota),
    admitted: Admitted,
    out: UpstreamMessage,
    token: Box<str>,
) -> Events {
    let progress = ProgressFeed::new(token);
    let (builtin, caller, quota) = (Arc::clone(builtin), caller.clone(), quota.clone());
    let feed = progress.clone();
    let answer = async move {
        // A tool that reports progress has no app.
        let (progress, shows_apps) = (Some(&feed), false);
        let call = Call { admitted: &admitted, caller: &caller, progress, shows_apps };
        match respond(&builtin, &quota, &call, &out).await {
            Reply::Builtin { body, .. } | Reply::One { body, .. } => body,
            Reply::Many(_) | Reply::Accepted => Bytes::new(),
        }
    };
    Events::of_work(RunningCall::new(answer, progress))
}

pub(super) async fn respond(
    builtin: &Builtin,
    quota: &BufferQuota,
    call: &Call<'_>,
    out: &UpstreamMessage,
) -> Reply {
    let message: Value = serde_json::from_slice(&out.body).unwrap_or_default();
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let none = Map::new();
    let params = message.get("params").and_then(Value::as_object).unwrap_or(&none);
    let MessageKind::Request(id) = &out.kind else { return Reply::Accepted };
    let mut body = result_prefix(id);
    match builtin.answer(call, method, params, &mut body).await {
        Ok(()) => {
            let failed = builtin::is_failure(&body);
            body.push(b'}');
            match response_buffer::reserve_own(quota, body.into()).await {
                Ok(body) => Reply::Builtin { body, failed },
                Err(why) => {
                    let body = error_body(Some(id), code::INTERNAL, &why.to_string(), None);
                    Reply::One { status: 200, body: body.into() }
                }
            }
        }
        Err(error) => {
            let data = error.data.map(|data| data.to_string());
            let body = error_body(Some(id), error.code, &error.message, data.as_deref()).into();
            Reply::One { status: 200, body }
        }
    }
}
