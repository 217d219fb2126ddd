//! Endpoints and client ids of the services, parsed once from the settings that the cli read.

use std::collections::BTreeMap;

use store::secret::Secret;

use crate::account::{Account, Endpoint, SignIn};
use crate::http::BaseUrl;
use crate::service::Service;

/// The settings of every service that has accounts.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    services: BTreeMap<&'static str, ServiceSettings>,
}

/// The settings of one service.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    pub api_base: BaseUrl,
    pub oauth_base: BaseUrl,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// An access token, used while there is no login.
    pub access: Option<Secret>,
    pub redirect_uri: Option<String>,
    /// The service's values from environment variables, by field name.
    pub values: BTreeMap<&'static str, Secret>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{variable}` cannot be used: {why}\nhint: a URL such as `https://api.example.com`, or `http://127.0.0.1:PORT` on this machine"
)]
pub struct SettingsError {
    pub variable: &'static str,
    pub why: String,
}

impl Settings {
    /// Reads the settings of the services that have accounts. `look` returns the value of a variable.
    pub fn read(
        services: impl IntoIterator<Item = &'static Service>,
        look: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Settings, SettingsError> {
        let with_account = |service: &'static Service| Some((service.name, service.account?));
        let services = services
            .into_iter()
            .filter_map(with_account)
            .map(|(name, account)| Ok((name, ServiceSettings::read(account, look)?)))
            .collect::<Result<_, _>>()?;
        Ok(Settings { services })
    }

    pub fn of(&self, service: &Service) -> Option<&ServiceSettings> {
        self.services.get(service.name)
    }

    /// Mutable settings of a service, for the demo and tests.
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
            api_base: endpoint(&account.api, &[], &look)?,
            oauth_base: endpoint(&account.oauth, &account.sign_in.paths(), &look)?,
            client_id: look(account.client_id),
            client_secret: look(account.client_secret).map(Secret::new),
            access: account.access_token.and_then(look).filter(|t| t != "null").map(Secret::new),
            redirect_uri,
            values,
        })
    }
}

/// `paths` are the paths below the endpoint.
fn endpoint(
    endpoint: &Endpoint,
    paths: &[&[&str]],
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<BaseUrl, SettingsError> {
    let mut names = std::iter::once(endpoint.variable).chain(endpoint.also.iter().copied());
    let set = names.find_map(|name| Some((name, look(name)?)));
    let (variable, text) = set.unwrap_or_else(|| (endpoint.variable, endpoint.url.to_owned()));
    let base = above(&text, paths).unwrap_or_else(|| completed(&text, endpoint.completions));
    BaseUrl::parse(&base).map_err(|why| SettingsError { variable, why })
}

/// Owners also write the full URL of a request; its base is meant.
fn above(text: &str, paths: &[&[&str]]) -> Option<String> {
    let text = text.trim_end_matches('/');
    paths.iter().find_map(|path| {
        let rest = text.strip_suffix(&format!("/{}", path.join("/")))?;
        Some(rest.to_owned())
    })
}

/// Owners write an origin or a part of the path; it is completed.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::whoop::account::ACCOUNT;

    fn whoop(api: &str, oauth: &str) -> Result<(String, String), SettingsError> {
        let look = |name: &str| match name {
            "WHOOP_API_BASE_URL" => Some(api.to_owned()),
            "WHOOP_OAUTH_BASE_URL" => Some(oauth.to_owned()),
            _ => None,
        };
        let read = ServiceSettings::read(&ACCOUNT, &look)?;
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
    fn plain_http_is_refused_beyond_this_machine() {
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
}
