//! What an authenticator sends: its data, the attestation object around it, and the COSE key in it. Everything is
//! read strictly, with nothing left over.

use minicbor::Decoder;
use minicbor::data::Type;
use oauth::signature::PublicKey;

use super::ceremony::PasskeyRefused;

const PRESENT: u8 = 1;
const VERIFIED: u8 = 1 << 2;
const BACKUP_ELIGIBLE: u8 = 1 << 3;
const BACKED_UP: u8 = 1 << 4;
const HAS_CREDENTIAL: u8 = 1 << 6;
const HAS_EXTENSIONS: u8 = 1 << 7;

const AAGUID_BYTES: usize = 16;
pub(super) const CREDENTIAL_ID_BYTES_MAX: usize = 1023;
/// More members than any key has.
const KEY_MEMBERS_MAX: u64 = 8;

/// The authenticator data of WebAuthn 6.1.
pub(super) struct AuthenticatorData<'a> {
    pub(super) rp_id_hash: [u8; 32],
    pub(super) sign_count: u32,
    /// The new credential: its id and its key as COSE.
    pub(super) credential: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> AuthenticatorData<'a> {
    /// Reads the data and checks that the person was present and verified.
    pub(super) fn read(bytes: &'a [u8]) -> Result<AuthenticatorData<'a>, PasskeyRefused> {
        let (rp_id_hash, rest) = bytes.split_first_chunk().ok_or(PasskeyRefused::Malformed)?;
        let ([flags], rest) = rest.split_first_chunk().ok_or(PasskeyRefused::Malformed)?;
        let (sign_count, mut rest) = rest.split_first_chunk().ok_or(PasskeyRefused::Malformed)?;
        let has = |flag: u8| flags & flag != 0;
        if !has(PRESENT) || !has(VERIFIED) {
            return Err(PasskeyRefused::NotVerified);
        }
        if has(BACKED_UP) && !has(BACKUP_ELIGIBLE) {
            return Err(PasskeyRefused::Malformed);
        }
        let credential = if has(HAS_CREDENTIAL) {
            let (found, after) = attested(rest)?;
            rest = after;
            Some(found)
        } else {
            None
        };
        if has(HAS_EXTENSIONS) {
            let mut decoder = Decoder::new(rest);
            if !matches!(decoder.datatype(), Ok(Type::Map)) || decoder.skip().is_err() {
                return Err(PasskeyRefused::Malformed);
            }
            rest = rest.get(decoder.position()..).unwrap_or_default();
        }
        if !rest.is_empty() {
            return Err(PasskeyRefused::Malformed);
        }
        let sign_count = u32::from_be_bytes(*sign_count);
        Ok(AuthenticatorData { rp_id_hash: *rp_id_hash, sign_count, credential })
    }
}

type Credential<'a> = (&'a [u8], &'a [u8]);

fn attested(bytes: &[u8]) -> Result<(Credential<'_>, &[u8]), PasskeyRefused> {
    let cut = |bytes, at| <[u8]>::split_at_checked(bytes, at).ok_or(PasskeyRefused::Malformed);
    let (_, rest) = cut(bytes, AAGUID_BYTES)?;
    let (length, rest) = rest.split_first_chunk().ok_or(PasskeyRefused::Malformed)?;
    let length = usize::from(u16::from_be_bytes(*length));
    if length == 0 || length > CREDENTIAL_ID_BYTES_MAX {
        return Err(PasskeyRefused::Malformed);
    }
    let (id, rest) = cut(rest, length)?;
    let mut decoder = Decoder::new(rest);
    decoder.skip().map_err(|_| PasskeyRefused::Malformed)?;
    let (key, rest) = cut(rest, decoder.position())?;
    Ok(((id, key), rest))
}

/// The authenticator data of an attestation object. We ask for no attestation, so any statement is refused.
pub(super) fn unattested(object: &[u8]) -> Result<&[u8], PasskeyRefused> {
    let mut decoder = Decoder::new(object);
    let read = read_object(&mut decoder).map_err(|_| PasskeyRefused::Malformed)?;
    let (format, is_statement_empty, data) = read.ok_or(PasskeyRefused::Malformed)?;
    if decoder.position() != object.len() {
        return Err(PasskeyRefused::Malformed);
    }
    if format != "none" || !is_statement_empty {
        return Err(PasskeyRefused::Attestation);
    }
    Ok(data)
}

type AttestationObject<'a> = (&'a str, bool, &'a [u8]);

fn read_object<'b>(
    decoder: &mut Decoder<'b>,
) -> Result<Option<AttestationObject<'b>>, minicbor::decode::Error> {
    let (mut format, mut statement, mut data) = (None, None, None);
    if decoder.map()? != Some(3) {
        return Ok(None);
    }
    for _ in 0..3 {
        let is_twice = match decoder.str()? {
            "fmt" => format.replace(decoder.str()?).is_some(),
            "attStmt" => {
                let is_empty = decoder.clone().map()? == Some(0);
                decoder.skip()?;
                statement.replace(is_empty).is_some()
            }
            "authData" => data.replace(decoder.bytes()?).is_some(),
            _ => true,
        };
        if is_twice {
            return Ok(None);
        }
    }
    Ok(format.zip(statement).zip(data).map(|((format, empty), data)| (format, empty, data)))
}

enum CborMember<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

/// The key of a credential. A COSE key has exactly the members that its kind needs.
pub(super) fn public_key(cose: &[u8]) -> Option<PublicKey> {
    let members = members(cose)?;
    let number = |label: i64| match members.iter().find(|(at, _)| *at == label)?.1 {
        CborMember::Number(number) => Some(number),
        CborMember::Bytes(_) => None,
    };
    let bytes = |label: i64| match members.iter().find(|(at, _)| *at == label)?.1 {
        CborMember::Bytes(bytes) => Some(bytes),
        CborMember::Number(_) => None,
    };
    // Labels of RFC 9052 and 9053: 1 is the kind, 3 the algorithm, negative ones depend on the kind.
    match (number(1)?, number(3)?, members.len()) {
        (2, -7, 5) if number(-1)? == 1 => PublicKey::p256(bytes(-2)?, bytes(-3)?),
        (1, -8, 4) if number(-1)? == 6 => PublicKey::ed25519(bytes(-2)?),
        (3, -257, 4) => PublicKey::rsa(bytes(-1)?, bytes(-2)?),
        _ => None,
    }
}

fn members(cose: &[u8]) -> Option<Vec<(i64, CborMember<'_>)>> {
    let mut decoder = Decoder::new(cose);
    let count = decoder.map().ok()?.filter(|count| *count <= KEY_MEMBERS_MAX)?;
    let mut members: Vec<(i64, CborMember<'_>)> = Vec::new();
    for _ in 0..count {
        let label = decoder.i64().ok()?;
        let value = match decoder.datatype().ok()? {
            Type::Bytes => CborMember::Bytes(decoder.bytes().ok()?),
            _ => CborMember::Number(decoder.i64().ok()?),
        };
        if members.iter().any(|(known, _)| *known == label) {
            return None;
        }
        members.push((label, value));
    }
    (decoder.position() == cose.len()).then_some(members)
}
