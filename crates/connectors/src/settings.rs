//! Where the services are and which client of theirs we are. Parsed once from what the cli read.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use store::secret::Secret;
use url::{Host, Url};

use crate::account::{Account, Place, SignIn};
use crate::{ALL, Service};

/// The settings of every service that has accounts.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    services: BTreeMap<&'static str, ServiceSettings>,
}

/// The settings of one service.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    pub api_base: Base,
    pub oauth_base: Base,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// An access token that serves where nobody has signed in.
    pub access: Option<Secret>,
    pub redirect_uri: Option<String>,
    /// What the owner's environment holds of the service's values, by the names of their fields.
    pub values: BTreeMap<&'static str, Secret>,
}

/// An address that requests may go to: https anywhere, plain http to this machine only.
#[derive(Clone, PartialEq, Eq)]
pub struct Base(Url);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{variable}` cannot be used: {why}\nhint: an address such as `https://api.example.com`, or `http://127.0.0.1:PORT` on this machine"
)]
pub struct SettingsError {
    pub variable: &'static str,
    pub why: String,
}

impl Settings {
    /// Reads the settings of all services. `look` gives the value of a variable.
    pub fn read(look: &dyn Fn(&str) -> Option<String>) -> Result<Settings, SettingsError> {
        let with_account = ALL.iter().filter_map(|service| Some((service.name, service.account?)));
        let services = with_account
            .map(|(name, account)| Ok((name, ServiceSettings::read(account, look)?)))
            .collect::<Result<_, _>>()?;
        Ok(Settings { services })
    }

    pub fn of(&self, service: &Service) -> Option<&ServiceSettings> {
        self.services.get(service.name)
    }

    /// The settings of a service, changed by hand: for demonstrations and tests.
    pub fn put(&mut self, service: &Service, settings: ServiceSettings) {
        self.services.insert(service.name, settings);
    }
}

impl ServiceSettings {
    pub fn read(
        account: &Account,
        look: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ServiceSettings, SettingsError> {
        let look = |name: &str| look(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let redirect_uri = match account.sign_in {
            SignIn::Code { redirect_variable, .. } => look(redirect_variable),
            _ => None,
        };
        let fields = account.values.iter().chain(account.sign_in.fields());
        let values =
            fields.filter_map(|f| Some((f.name, Secret::new(look(f.variable)?)))).collect();
        Ok(ServiceSettings {
            api_base: place(&account.api, &[], &look)?,
            oauth_base: place(&account.oauth, &account.sign_in.paths(), &look)?,
            client_id: look(account.client_id),
            client_secret: look(account.client_secret).map(Secret::new),
            access: account.access_token.and_then(look).filter(|t| t != "null").map(Secret::new),
            redirect_uri,
            values,
        })
    }
}

/// `paths` are what is asked for below the place.
fn place(
    place: &Place,
    paths: &[&[&str]],
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<Base, SettingsError> {
    let mut names = std::iter::once(place.variable).chain(place.also.iter().copied());
    let set = names.find_map(|name| Some((name, look(name)?)));
    let (variable, text) = set.unwrap_or_else(|| (place.variable, place.url.to_owned()));
    let base = above(&text, paths).unwrap_or_else(|| completed(&text, place.completions));
    Base::parse(&base).map_err(|why| SettingsError { variable, why })
}

/// People also write the whole address that is asked in the end; what stands above it was meant.
fn above(text: &str, paths: &[&[&str]]) -> Option<String> {
    let text = text.trim_end_matches('/');
    paths.iter().find_map(|path| {
        let rest = text.strip_suffix(&format!("/{}", path.join("/")))?;
        Some(rest.to_owned())
    })
}

/// People write an origin, or half of the path; the rest of it is known.
fn completed(text: &str, completions: &[(&str, &str)]) -> String {
    let text = text.trim_end_matches('/');
    let path = text.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    let path = path.map(|(_, path)| format!("/{path}")).unwrap_or_default();
    let fits = |ends: &str| if ends.is_empty() { path.is_empty() } else { path.ends_with(ends) };
    match completions.iter().find(|(ends, _)| fits(ends)) {
        Some((_, add)) => format!("{text}{add}"),
        None => text.to_owned(),
    }
}

impl Base {
    pub fn parse(text: &str) -> Result<Base, String> {
        let url = Url::parse(text).map_err(|e| e.to_string())?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it carries a user name or password".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("it carries a query or a fragment".to_owned());
        }
        match url.scheme() {
            "https" if url.host().is_some() => Ok(Base(url)),
            "http" if is_loopback(&url) => Ok(Base(url)),
            "http" => Err("plain http is for this machine only".to_owned()),
            scheme => Err(format!("`{scheme}` is no scheme we speak")),
        }
    }

    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Host and port, for people.
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The address of a path below the base. Each segment is escaped, so that an id cannot lead
    /// elsewhere; an empty last segment leaves a slash at the end.
    pub fn join(&self, segments: &[&str]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            for segment in segments {
                // The writer of the path drops these two as if they were not there.
                path.push(match *segment {
                    "." => "%2E",
                    ".." => "%2E%2E",
                    other => other,
                });
            }
        }
        url
    }
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// Is the address one of this machine?
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::account::WHOOP;

    fn whoop(api: &str, oauth: &str) -> Result<(String, String), SettingsError> {
        let look = |name: &str| match name {
            "WHOOP_API_BASE_URL" => Some(api.to_owned()),
            "WHOOP_OAUTH_BASE_URL" => Some(oauth.to_owned()),
            _ => None,
        };
        let read = ServiceSettings::read(&WHOOP, &look)?;
        Ok((format!("{:?}", read.api_base), format!("{:?}", read.oauth_base)))
    }

    #[test]
    fn short_addresses_are_completed_and_long_ones_taken_as_they_are() {
        for (given, api) in [
            ("", "https://api.prod.whoop.com/developer/v2"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/developer/v2"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/developer/v2"),
            ("http://localhost:1/developer", "http://localhost:1/developer/v2"),
            ("http://localhost:1/developer/", "http://localhost:1/developer/v2"),
            ("http://[::1]:1/developer/v2", "http://[::1]:1/developer/v2"),
            ("https://x.example/v2", "https://x.example/v2"),
            ("https://x.example/other", "https://x.example/other"),
        ] {
            assert_eq!(whoop(given, "").unwrap().0, api, "{given}");
        }
        for (given, oauth) in [
            ("", "https://api.prod.whoop.com/oauth/oauth2"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/oauth/oauth2"),
            ("http://127.0.0.1:8080/oauth/oauth2/", "http://127.0.0.1:8080/oauth/oauth2"),
            ("http://127.0.0.1:8080/oauth/", "http://127.0.0.1:8080/oauth/oauth2"),
            ("https://x.example/oauth2", "https://x.example/oauth2"),
            ("https://x.example/oauth/oauth2/token", "https://x.example/oauth/oauth2"),
            ("https://x.example/oauth/oauth2/token/", "https://x.example/oauth/oauth2"),
            ("https://x.example/oauth/oauth2/auth", "https://x.example/oauth/oauth2"),
            ("https://x.example/token", "https://x.example/"),
            ("https://x.example/mytoken", "https://x.example/mytoken"),
        ] {
            assert_eq!(whoop("", given).unwrap().1, oauth, "{given}");
        }
    }

    #[test]
    fn plain_http_leaves_this_machine_for_nobody() {
        for given in [
            "http://api.example.com",
            "http://192.168.0.1",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com",
            "http://user:pw@127.0.0.1",
            "file:///etc/passwd",
            "https://x.example/?a=b",
            "not an address",
        ] {
            assert!(whoop(given, "").is_err(), "{given}");
        }
    }

    #[test]
    fn an_id_cannot_steer_a_request_elsewhere() {
        let base = Base::parse("https://x.example/v2").unwrap();
        for (id, expected) in [
            ("7", "https://x.example/v2/cycle/7"),
            ("../user/access", "https://x.example/v2/cycle/..%2Fuser%2Faccess"),
            ("a?b#c", "https://x.example/v2/cycle/a%3Fb%23c"),
            ("..", "https://x.example/v2/cycle/%252E%252E"),
            ("", "https://x.example/v2/cycle/"),
        ] {
            assert_eq!(base.join(&["cycle", id]).as_str(), expected, "{id}");
        }
    }
}
