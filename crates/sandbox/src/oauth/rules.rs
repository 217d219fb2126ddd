//! What differs between the providers of services, as data, and how it is changed while they run.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::control::Trouble;

/// The application that is registered with the service.
#[derive(Clone, Debug)]
pub struct Client {
    pub id: String,
    pub secret: String,
    /// Registered redirect addresses; empty takes any.
    pub redirects: Vec<String>,
    /// What the application may ask for.
    pub scopes: Vec<String>,
}

/// Where the client secret has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    Body,
    Basic,
    Either,
}

/// What a refresh does to the tokens before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rotation {
    /// Both old tokens are void at once.
    Strict,
    /// A new refresh token comes, and the old ones stay good.
    Gentle,
    /// No new refresh token comes; the old one stays.
    Kept,
}

/// How a refresh token that is void, used or unknown is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reused {
    InvalidGrant,
    InvalidRequest,
}

impl Reused {
    pub(super) fn code(self) -> &'static str {
        match self {
            Reused::InvalidGrant => "invalid_grant",
            Reused::InvalidRequest => "invalid_request",
        }
    }
}

/// What the owner does on the authorisation page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// Agrees before the page is seen.
    AtOnce,
    /// Decides on a page with two buttons.
    Form,
    Refused,
}

/// Which tokens to make useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Access,
    Refresh,
    All,
}

/// What a client must do to get a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// Nothing.
    Always,
    /// Ask for this scope.
    Scope(&'static str),
    /// Send this field with this value to the authorisation page.
    Field(&'static str, &'static str),
}

/// Which redirect addresses a service takes at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    Any,
    /// https, or plain http to a loopback address in figures; the name `localhost` is refused.
    NoLocalhost,
}

/// How one service does OAuth.
#[derive(Clone, Debug)]
pub struct Rules {
    pub client_auth: ClientAuth,
    /// The status of `invalid_client`.
    pub client_status: u16,
    /// An application whose access was taken away is `invalid_client` however well it signs.
    pub client_known: bool,
    /// A code that was asked for with a PKCE challenge needs no secret.
    pub pkce_replaces_secret: bool,
    pub rotation: Rotation,
    /// The same for sign-ins without a secret.
    pub rotation_public: Rotation,
    pub reused: Reused,
    /// The status of `invalid_grant` and its like.
    pub refusal_status: u16,
    pub consent: Consent,
    pub redirects: Redirects,
    pub offline: Offline,
    pub state_chars_min: usize,
    /// As the answer writes it.
    pub token_type: &'static str,
    pub expires_in_s: i64,
    /// A consent ends after this long, however often its token is refreshed.
    pub refresh_life_s: Option<i64>,
    /// Whether answers say how long it still lasts.
    pub refresh_life_told: bool,
    pub device: Option<DeviceRules>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            client_auth: ClientAuth::Body,
            client_status: 401,
            client_known: true,
            pkce_replaces_secret: false,
            rotation: Rotation::Strict,
            rotation_public: Rotation::Strict,
            reused: Reused::InvalidGrant,
            refusal_status: 400,
            consent: Consent::AtOnce,
            redirects: Redirects::Any,
            offline: Offline::Always,
            state_chars_min: 0,
            token_type: "bearer",
            expires_in_s: 3_600,
            refresh_life_s: None,
            refresh_life_told: false,
            device: None,
        }
    }
}

/// How one service does sign-in by a code typed elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRules {
    pub life_s: i64,
    pub interval_s: i64,
    /// Status while the owner has not decided, and when the client asks too often or was refused.
    pub pending_status: u16,
    pub refused_status: u16,
    /// The owner decides by themselves after so many answers of `authorization_pending`.
    pub pending: Option<u32>,
    /// What they decide then.
    pub lets_in: bool,
}

impl Rules {
    /// Takes the settings that are a provider's out of `settings`.
    pub(super) fn change(&mut self, settings: &mut Map<String, Value>) -> Result<(), Trouble> {
        take(settings, "expires_in_s", &mut self.expires_in_s)?;
        take(settings, "consent", &mut self.consent)?;
        take(settings, "reused", &mut self.reused)?;
        if settings.contains_key("rotation") {
            take(settings, "rotation", &mut self.rotation)?;
            self.rotation_public = self.rotation;
        }
        take(settings, "refresh_life_s", &mut self.refresh_life_s)?;
        take(settings, "client_known", &mut self.client_known)?;
        take(settings, "refusal_status", &mut self.refusal_status)?;
        if let Some(device) = &mut self.device {
            take(settings, "device_life_s", &mut device.life_s)?;
            take(settings, "device_interval_s", &mut device.interval_s)?;
            take(settings, "device_pending", &mut device.pending)?;
            take(settings, "device_lets_in", &mut device.lets_in)?;
        }
        Ok(())
    }
}

fn take<T: DeserializeOwned>(
    settings: &mut Map<String, Value>,
    name: &str,
    into: &mut T,
) -> Result<(), Trouble> {
    let Some(value) = settings.shift_remove(name) else { return Ok(()) };
    *into = serde_json::from_value(value)
        .map_err(|error| Trouble::Bad(format!("`{name}`: {error}")))?;
    Ok(())
}
