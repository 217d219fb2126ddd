//! Writes JSON-RPC envelopes around bodies that are already JSON.

use policy::json::write_string;

use crate::id::Id;

/// A response with a raw JSON result.
pub fn result_body(id: &Id, raw_result: &str) -> Vec<u8> {
    let mut out = opening(Some(id), raw_result.len());
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(raw_result.as_bytes());
    out.push(b'}');
    out
}

/// A response up to its result, for a long one that the caller appends together with the closing
/// brace.
pub fn result_prefix(id: &Id) -> Vec<u8> {
    let mut out = opening(Some(id), 0);
    out.extend_from_slice(b",\"result\":");
    out
}

/// An error response. `raw_data` is raw JSON; without an id the response has `null`.
pub fn error_body(id: Option<&Id>, code: i64, message: &str, raw_data: Option<&str>) -> Vec<u8> {
    let mut out = opening(id, message.len() + 64);
    out.extend_from_slice(format!(",\"error\":{{\"code\":{code},\"message\":").as_bytes());
    write_string(message, &mut out);
    if let Some(data) = raw_data {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(data.as_bytes());
    }
    out.extend_from_slice(b"}}");
    out
}

/// A request with raw JSON params.
pub fn request_body(id: &Id, method: &str, raw_params: Option<&str>) -> Vec<u8> {
    let mut out = opening(Some(id), method.len() + raw_params.map_or(0, str::len));
    write_call(method, raw_params, &mut out);
    out
}

/// A notification with raw JSON params.
pub fn notification_body(method: &str, raw_params: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"jsonrpc\":\"2.0\"".to_vec();
    write_call(method, raw_params, &mut out);
    out
}

fn opening(id: Option<&Id>, body_len: usize) -> Vec<u8> {
    let raw_id = id.map_or("null", Id::raw);
    let mut out = Vec::with_capacity(body_len + raw_id.len() + 48);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(raw_id.as_bytes());
    out
}

fn write_call(method: &str, raw_params: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"method\":");
    write_string(method, out);
    if let Some(params) = raw_params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params.as_bytes());
    }
    out.push(b'}');
}
