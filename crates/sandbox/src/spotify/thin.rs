//! What Development Mode leaves out of an answer since February 2026.

use serde_json::{Map, Value};

use crate::http::Reply;

/// The fields that are gone, by the type of the object they were in.
const GONE: &[(&str, &[&str])] = &[
    ("track", &["popularity", "available_markets", "preview_url", "linked_from", "external_ids"]),
    ("artist", &["followers", "genres", "popularity"]),
    ("album", &["available_markets", "popularity", "label", "album_group"]),
    ("show", &["available_markets", "publisher"]),
    ("audiobook", &["available_markets", "publisher"]),
    ("user", &["email", "country", "followers", "product", "explicit_content"]),
];

pub(super) fn thin(reply: Reply) -> Reply {
    let Ok(mut body) = serde_json::from_slice::<Value>(&reply.body) else { return reply };
    leave_out(&mut body);
    Reply { body: body.to_string().into(), ..reply }
}

fn leave_out(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(leave_out),
        Value::Object(object) => {
            let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
            if kind == "playlist" {
                rename(object);
            }
            let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
            let gone = GONE.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, gone)| gone);
            for name in gone {
                object.shift_remove(*name);
            }
            object.values_mut().for_each(leave_out);
        }
        _ => {}
    }
}

/// The summary of a playlist says `items` where it said `tracks`.
fn rename(playlist: &mut Map<String, Value>) {
    if let Some(summary) = playlist.shift_remove("tracks") {
        playlist.insert("items".to_owned(), summary);
    }
}
