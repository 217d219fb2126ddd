//! From when until when a certificate holds, read from the few bytes that say so. Whether it is to be
//! believed is for clients to judge.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Two moments in UTC, written as `2026-11-17T08:30:00Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: String,
    pub until: String,
}

impl Validity {
    /// Of the first certificate in a PEM file, which is the server's own.
    pub fn of_file(cert_file: &Path) -> Option<Validity> {
        let certificate = CertificateDer::pem_file_iter(cert_file).ok()?.next()?.ok()?;
        Validity::of(&certificate)
    }

    /// By RFC 5280: a certificate begins with its content, which begins with a version that may be left
    /// out, a number, an algorithm and an issuer; then come the two times.
    fn of(der: &[u8]) -> Option<Validity> {
        let mut content = part(&mut part(&mut &*der, SEQUENCE)?, SEQUENCE)?;
        if content.first() == Some(&VERSION) {
            part(&mut content, VERSION)?;
        }
        part(&mut content, INTEGER)?;
        part(&mut content, SEQUENCE)?;
        part(&mut content, SEQUENCE)?;
        let mut times = part(&mut content, SEQUENCE)?;
        Some(Validity { from: time(&mut times)?, until: time(&mut times)? })
    }
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The content of the next part, which must be of this kind; what follows it is left in `rest`.
fn part<'d>(rest: &mut &'d [u8], kind: u8) -> Option<&'d [u8]> {
    let (&[found, first], after) = rest.split_first_chunk()?;
    let (length, after) = if first < 0x80 {
        (usize::from(first), after)
    } else {
        // So many bytes of length follow; four are more than any certificate needs.
        let (bytes, after) = after.split_at_checked(usize::from(first & 0x7f))?;
        let length = bytes.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        ((1..=4).contains(&bytes.len()).then_some(length)?, after)
    };
    let (content, after) = after.split_at_checked(length)?;
    *rest = after;
    (found == kind).then_some(content)
}

fn time(rest: &mut &[u8]) -> Option<String> {
    let kind = *rest.first()?;
    let text = std::str::from_utf8(part(rest, kind)?).ok()?;
    let digits = text.strip_suffix('Z').filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?;
    let whole = match (kind, digits.len()) {
        // Two digits of a year mean 1950 to 2049.
        (UTC_TIME, 12) if digits < "50" => format!("20{digits}"),
        (UTC_TIME, 12) => format!("19{digits}"),
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        _ => return None,
    };
    let (date, clock) = whole.split_at_checked(8)?;
    let ((year, day), (hour, second)) = (date.split_at_checked(4)?, clock.split_at_checked(2)?);
    let ((month, day), (minute, second)) = (day.split_at_checked(2)?, second.split_at_checked(2)?);
    Some(format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::Validity;

    #[test]
    fn the_times_of_a_certificate_are_read_and_junk_is_not() {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        // After 2049 the times are written otherwise.
        (params.not_before, params.not_after) =
            (date_time_ymd(1999, 2, 3), date_time_ymd(2051, 4, 5));
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let expected = Validity {
            from: "1999-02-03T00:00:00Z".to_owned(),
            until: "2051-04-05T00:00:00Z".to_owned(),
        };
        assert_eq!(Validity::of(made.der()), Some(expected));
        for end in 0..100 {
            assert_eq!(Validity::of(made.der().get(..end).unwrap()), None, "{end}");
        }
        assert_eq!(Validity::of(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0x30]), None);
    }
}
