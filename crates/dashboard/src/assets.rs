//! The stylesheet and the script. Their addresses carry a hash of their content, so that browsers keep them
//! until they change.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

use crate::response::Response;

const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = include_str!("../assets/dashboard.js");
const PASSKEYS: &str = include_str!("../assets/passkeys.js");
const BUILDER: &str = include_str!("../assets/builder.js");

const ICON: &str = include_str!("../assets/icon.svg");

pub(crate) static ICON_PATH: LazyLock<String> = LazyLock::new(|| hashed("icon", ICON, "svg"));
pub(crate) static STYLE_PATH: LazyLock<String> = LazyLock::new(|| hashed("style", STYLE, "css"));
pub(crate) static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| hashed("script", SCRIPT, "js"));

/// Charts of health and activity.
pub(crate) static CHART_PATH: LazyLock<String> =
    LazyLock::new(|| hashed("chart", insights::chart::STYLE, "css"));

pub(crate) static BUILDER_PATH: LazyLock<String> =
    LazyLock::new(|| hashed("builder", BUILDER, "js"));

pub(crate) static PASSKEYS_PATH: LazyLock<String> =
    LazyLock::new(|| hashed("passkeys", PASSKEYS, "js"));

fn hashed(name: &str, text: &str, extension: &str) -> String {
    let digest = Sha256::digest(text);
    let start = digest.first_chunk().copied().unwrap_or_default();
    format!("/assets/{name}-{:016x}.{extension}", u64::from_be_bytes(start))
}

pub(crate) fn find(path: &str) -> Option<Response> {
    if !path.starts_with("/assets/") {
        return None;
    }
    if path == *STYLE_PATH {
        return Some(Response::asset("text/css; charset=utf-8", STYLE.as_bytes()));
    }
    if path == *CHART_PATH {
        return Some(Response::asset("text/css; charset=utf-8", insights::chart::STYLE.as_bytes()));
    }
    if path == *ICON_PATH {
        return Some(Response::asset("image/svg+xml", ICON.as_bytes()));
    }
    if path == *BUILDER_PATH {
        return Some(Response::asset("text/javascript; charset=utf-8", BUILDER.as_bytes()));
    }
    if path == *PASSKEYS_PATH {
        return Some(Response::asset("text/javascript; charset=utf-8", PASSKEYS.as_bytes()));
    }
    (path == *SCRIPT_PATH)
        .then(|| Response::asset("text/javascript; charset=utf-8", SCRIPT.as_bytes()))
}
