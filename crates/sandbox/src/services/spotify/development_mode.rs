//! Fields that Development Mode removes from responses since February 2026.

use serde_json::{Map, Value};

use crate::http::Response;

/// The removed fields, by the type of their object.
const REMOVED_FIELDS: &[(&str, &[&str])] = &[
    ("track", &["popularity", "available_markets", "preview_url", "linked_from", "external_ids"]),
    ("artist", &["followers", "genres", "popularity"]),
    ("album", &["available_markets", "popularity", "label", "album_group"]),
    ("show", &["available_markets", "publisher"]),
    ("audiobook", &["available_markets", "publisher"]),
    ("user", &["email", "country", "followers", "product", "explicit_content"]),
];

pub(super) fn remove_fields(response: Response) -> Response {
    let Ok(mut body) = serde_json::from_slice::<Value>(&response.body) else { return response };
    remove_from(&mut body);
    Response { body: body.to_string().into(), ..response }
}

fn remove_from(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(remove_from),
        Value::Object(object) => {
            let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
            if kind == "playlist" {
                rename(object);
            }
            let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
            let gone =
                REMOVED_FIELDS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, gone)| gone);
            for name in gone {
                object.shift_remove(*name);
            }
            object.values_mut().for_each(remove_from);
        }
        _ => {}
    }
}

/// The summary of a playlist has `items` instead of `tracks`.
fn rename(playlist: &mut Map<String, Value>) {
    if let Some(summary) = playlist.shift_remove("tracks") {
        playlist.insert("items".to_owned(), summary);
    }
}
