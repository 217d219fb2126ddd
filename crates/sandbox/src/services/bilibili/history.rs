//! The watch history: by cursor, as the site reads it now, and by page, as it did before.

use serde_json::{Value, json};

use super::api::{BilibiliCall, page, slice};
use super::{good, refusal};
use crate::http::Response;

const SIZE_DEFAULT: usize = 20;
const SIZE_MAX: usize = 30;

/// Newest first, after the time of the last entry of the previous page.
pub(super) fn cursor(call: &mut BilibiliCall<'_>) -> Response {
    let Ok(size) = call.number("ps", SIZE_DEFAULT, 1..=SIZE_MAX) else {
        return refusal(-400, "请求错误");
    };
    let wanted = call.request.value("type").unwrap_or("all");
    if !["all", "archive", "live", "article", ""].contains(&wanted) {
        return refusal(-400, "请求错误");
    }
    let bound = call.request.value("view_at").map_or(Some(0), |text| text.parse::<i64>().ok());
    let Some(bound) = bound else { return refusal(-400, "请求错误") };
    let business = |item: &Value| {
        item.pointer("/history/business").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let number =
        |item: &Value, pointer: &str| item.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let older = call.state.records.all("history").iter().rev().filter(|item| {
        let in_time = bound == 0 || number(item, "/view_at") < bound;
        in_time && (wanted == "all" || wanted.is_empty() || business(item) == wanted)
    });
    let list: Vec<&Value> = older.take(size).collect();
    let cursor = match list.last() {
        Some(end) => json!({
            "max": number(end, "/history/oid"),
            "view_at": number(end, "/view_at"),
            "business": business(end),
            "ps": size,
        }),
        None => json!({ "max": 0, "view_at": 0, "business": "", "ps": size }),
    };
    let tabs = json!([{ "type": "archive", "name": "视频" }, { "type": "live", "name": "直播" }, { "type": "article", "name": "专栏" }]);
    good(&json!({ "cursor": cursor, "tab": tabs, "list": list }))
}

/// Videos only, as a plain list without the cursor's details.
pub(super) fn pages(call: &mut BilibiliCall<'_>) -> Response {
    let (number, size) = match page(call, 20, 100) {
        Ok(page) => page,
        Err(refused) => return refused,
    };
    let videos = call.state.records.all("history").iter().rev().filter_map(|item| {
        let bvid =
            item.pointer("/history/bvid").and_then(Value::as_str).filter(|id| !id.is_empty())?;
        let mut video = call.state.records.get("video", bvid)?.clone();
        if let Some(video) = video.as_object_mut() {
            video.insert("view_at".to_owned(), item.get("view_at").cloned().unwrap_or_default());
            video.insert("progress".to_owned(), item.get("progress").cloned().unwrap_or_default());
        }
        Some(video)
    });
    let videos: Vec<Value> = videos.collect();
    good(&Value::Array(slice(&videos, number, size)))
}
