//! What differs between OAuth providers, as data, and how to change it at run time.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::ControlError;

/// The registered application.
#[derive(Clone, Debug)]
pub struct Client {
    pub id: String,
    pub secret: String,
    /// Registered redirect URIs; empty accepts any.
    pub redirects: Vec<String>,
    /// The scopes that the application may request.
    pub scopes: Vec<String>,
}

/// Where the client sends its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    Body,
    Basic,
    Either,
}

/// What a refresh does to the previous tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rotation {
    /// Both old tokens are invalid at once.
    Strict,
    /// A new refresh token is issued; the old ones stay valid.
    Gentle,
    /// No new refresh token is issued; the old one stays valid.
    Kept,
}

/// The error code for an invalid, used or unknown refresh token.
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
    /// Consents without seeing the page.
    AtOnce,
    /// Decides on a page with two buttons.
    Form,
    Refused,
}

/// Which tokens to invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Access,
    Refresh,
    All,
}

/// What a client must do to get a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// Nothing.
    Always,
    /// Request this scope.
    Scope(&'static str),
    /// Send this field with this value to the authorisation page.
    Field(&'static str, &'static str),
}

/// Which redirect URIs a service accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    Any,
    /// https, or plain http to a loopback IP address; the name `localhost` is rejected.
    NoLocalhost,
}

/// How one service does OAuth.
#[derive(Clone, Debug)]
pub struct Rules {
    pub client_auth: ClientAuth,
    /// The status of `invalid_client`.
    pub client_status: u16,
    /// False for an application whose access was revoked: it is always `invalid_client`.
    pub client_known: bool,
    /// A code requested with a PKCE challenge needs no secret.
    pub pkce_replaces_secret: bool,
    pub rotation: Rotation,
    /// The same for sign-ins without a secret.
    pub rotation_public: Rotation,
    pub reused: Reused,
    /// The status of `invalid_grant` and similar errors.
    pub refusal_status: u16,
    pub consent: Consent,
    pub redirects: Redirects,
    pub offline: Offline,
    pub state_chars_min: usize,
    /// As written in the response.
    pub token_type: &'static str,
    pub expires_in_s: i64,
    /// Consent expires after this time, even if its token is refreshed.
    pub refresh_life_s: Option<i64>,
    /// Whether responses include the remaining lifetime of the consent.
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

/// How a service does the device sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRules {
    pub life_s: i64,
    pub interval_s: i64,
    /// The status while the owner has not decided, and when the client polls too often or was denied.
    pub pending_status: u16,
    pub refused_status: u16,
    /// The owner decides automatically after this many `authorization_pending` responses.
    pub pending: Option<u32>,
    /// The automatic decision.
    pub lets_in: bool,
}

impl Rules {
    /// Applies and removes the provider's settings from `settings`.
    pub(super) fn change(&mut self, settings: &mut Map<String, Value>) -> Result<(), ControlError> {
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
) -> Result<(), ControlError> {
    let Some(value) = settings.shift_remove(name) else { return Ok(()) };
    *into = serde_json::from_value(value)
        .map_err(|error| ControlError::Bad(format!("`{name}`: {error}")))?;
    Ok(())
}
