//! Opens the owner's browser, without a shell, and never with anything but a web address.

use std::ffi::{OsStr, OsString};
use std::process::{Child, Command, Stdio};

use url::Url;

use super::SignInError;
use crate::http::is_loopback;

/// The environment variables that a browser needs for its display, profile and language. No other is
/// passed on: the vault key, the metrics token and client secrets may be among them.
const ENV_NAMES: [&str; 28] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "BROWSER",
    "DISPLAY",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DESKTOP_SESSION",
    "GNOME_DESKTOP_SESSION_ID",
    "KDE_FULL_SESSION",
    "KDE_SESSION_VERSION",
    "WSL_DISTRO_NAME",
    "WSL_INTEROP",
    "__CF_USER_TEXT_ENCODING",
    "SYSTEMROOT",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMFILES",
    "TEMP",
    "TMP",
];
/// And variables with these prefixes.
const ENV_PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// Starts the browser with those variables. A machine without a browser is not an error: the result
/// is `None` then.
pub fn open(
    url: &Url,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Option<Child>, SignInError> {
    check(url)?;
    let Some((program, args)) = platform::programs::BROWSER.split_first() else { return Ok(None) };
    let child = Command::new(program)
        .args(args)
        .arg(url.as_str())
        .env_clear()
        .envs(env.into_iter().filter(|(name, _)| may_pass(name)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Ok(child.ok())
}

fn may_pass(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    ENV_NAMES.contains(&name) || ENV_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn check(url: &Url) -> Result<(), SignInError> {
    let is_web = url.host().is_some() && url.username().is_empty() && url.password().is_none();
    match url.scheme() {
        "https" if is_web => Ok(()),
        "http" if is_web && is_loopback(url) => Ok(()),
        _ => Err(SignInError::Address),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_web_urls_are_opened() {
        for (url, is_good) in [
            ("https://accounts.example/auth?x=1", true),
            ("http://127.0.0.1:9/auth", true),
            ("http://accounts.example/auth", false),
            ("https://user:pw@accounts.example/", false),
            ("file:///etc/passwd", false),
            ("javascript:alert(1)", false),
            ("ms-settings:x", false),
        ] {
            assert_eq!(check(&Url::parse(url).unwrap()).is_ok(), is_good, "{url}");
        }
    }
}
