//! The validity dates of a TLS certificate. Its signature is not checked here: clients do that.

use std::path::Path;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;

use super::FILE_BYTES_MAX;

/// Two times in UTC, written as `2026-11-17T08:30:00Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: String,
    pub until: String,
}

impl Validity {
    /// The dates of the first certificate in a PEM file, which is the server's own.
    pub fn of_file(cert_file: &Path) -> Option<Validity> {
        let text = store::files::read(cert_file, FILE_BYTES_MAX).ok()?;
        let certificate = CertificateDer::pem_slice_iter(&text).next()?.ok()?;
        Validity::of(&certificate)
    }

    fn of(der: &[u8]) -> Option<Validity> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let dates = certificate.validity();
        Some(Validity { from: text(dates.not_before)?, until: text(dates.not_after)? })
    }
}

fn text(time: ASN1Time) -> Option<String> {
    Timestamp::from_second(time.timestamp()).ok().map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::Validity;

    #[test]
    fn the_dates_of_a_certificate_are_read_and_junk_is_not() {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        // From 2050 on, dates are encoded as GeneralizedTime instead of UTCTime.
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
