//! The two ceremonies of WebAuthn: a new credential (7.1) and an assertion (7.2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oauth::signature::EcdsaForm;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::authenticator::{self, AuthenticatorData};
use super::challenges::{Challenges, Purpose};
use super::site::Site;

/// Larger messages are refused unread.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Why a passkey is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PasskeyRefused {
    #[error("its message cannot be read")]
    Malformed,
    #[error("its message is for another purpose")]
    OtherType,
    #[error("the page was open too long, or its challenge was used before")]
    Challenge,
    #[error("it was used on a page of another address")]
    OtherOrigin,
    #[error("it belongs to another host")]
    OtherHost,
    #[error("the device did not verify who uses it")]
    NotVerified,
    #[error("it carries an attestation, which was not asked for")]
    Attestation,
    #[error("its key is not ES256, EdDSA or RS256")]
    Key,
    #[error("its signature does not match")]
    Signature,
}

/// What the browser adds to what is signed.
#[derive(Deserialize)]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(rename = "crossOrigin", default)]
    is_cross_origin: bool,
    #[serde(rename = "topOrigin")]
    top_origin: Option<String>,
}

/// A new credential that was checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewCredential {
    pub(crate) id: Vec<u8>,
    pub(crate) public_key: Vec<u8>,
    pub(crate) sign_count: u32,
}

/// The parts of an assertion.
pub(crate) struct Signed<'a> {
    pub(crate) client_data: &'a [u8],
    pub(crate) authenticator_data: &'a [u8],
    pub(crate) signature: &'a [u8],
}

/// Checks a new credential and uses its challenge up.
pub(crate) fn new_credential(
    (challenges, purpose, site): (&Challenges, Purpose<'_>, &Site),
    client_data: &[u8],
    attestation: &[u8],
    now_us: i64,
) -> Result<NewCredential, PasskeyRefused> {
    let challenge = check_client(client_data, "webauthn.create", site)?;
    if !challenges.is_open(purpose, &challenge, now_us) {
        return Err(PasskeyRefused::Challenge);
    }
    if attestation.len() > MESSAGE_BYTES_MAX {
        return Err(PasskeyRefused::Malformed);
    }
    let data = AuthenticatorData::read(authenticator::unattested(attestation)?)?;
    check_host(&data, site)?;
    let (id, key) = data.credential.ok_or(PasskeyRefused::Malformed)?;
    authenticator::public_key(key).ok_or(PasskeyRefused::Key)?;
    if !challenges.spend(&challenge, now_us) {
        return Err(PasskeyRefused::Challenge);
    }
    let (id, public_key) = (id.to_vec(), key.to_vec());
    Ok(NewCredential { id, public_key, sign_count: data.sign_count })
}

/// Checks an assertion, uses its challenge up, and returns the counter. The caller compares it with the last one.
pub(crate) fn assertion(
    (challenges, purpose, site): (&Challenges, Purpose<'_>, &Site),
    signed: &Signed<'_>,
    public_key: &[u8],
    now_us: i64,
) -> Result<u32, PasskeyRefused> {
    let challenge = check_client(signed.client_data, "webauthn.get", site)?;
    if !challenges.is_open(purpose, &challenge, now_us) {
        return Err(PasskeyRefused::Challenge);
    }
    if signed.authenticator_data.len() > MESSAGE_BYTES_MAX {
        return Err(PasskeyRefused::Malformed);
    }
    let data = AuthenticatorData::read(signed.authenticator_data)?;
    check_host(&data, site)?;
    let key = authenticator::public_key(public_key).ok_or(PasskeyRefused::Key)?;
    let digest = Sha256::digest(signed.client_data);
    let message = [signed.authenticator_data, &digest].concat();
    if !key.is_signature_of(&message, signed.signature, EcdsaForm::Der) {
        return Err(PasskeyRefused::Signature);
    }
    // Only a signature uses a challenge up, so that others cannot use up that of an open page.
    if !challenges.spend(&challenge, now_us) {
        return Err(PasskeyRefused::Challenge);
    }
    Ok(data.sign_count)
}

fn check_client(bytes: &[u8], kind: &str, site: &Site) -> Result<Vec<u8>, PasskeyRefused> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(PasskeyRefused::Malformed);
    }
    let client: ClientData =
        serde_json::from_slice(bytes).map_err(|_| PasskeyRefused::Malformed)?;
    if client.kind != kind {
        return Err(PasskeyRefused::OtherType);
    }
    if !site.is_origin(&client.origin) || client.is_cross_origin || client.top_origin.is_some() {
        return Err(PasskeyRefused::OtherOrigin);
    }
    URL_SAFE_NO_PAD.decode(&client.challenge).map_err(|_| PasskeyRefused::Malformed)
}

fn check_host(data: &AuthenticatorData<'_>, site: &Site) -> Result<(), PasskeyRefused> {
    let rp_id = site.rp_id().ok_or(PasskeyRefused::OtherHost)?;
    let is_same: bool = data.rp_id_hash.ct_eq(&Sha256::digest(rp_id)).into();
    if is_same { Ok(()) } else { Err(PasskeyRefused::OtherHost) }
}
