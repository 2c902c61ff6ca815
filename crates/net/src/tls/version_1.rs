//! Peers that show a certificate of version 1 of X.509, as `openssl x509 -req` makes it unless told otherwise. rustls reads
//! version 3 only, so what it asks of a certificate is asked here: that an authority of the list has signed it, and that now is
//! within its time. None may stand between the two, since version 1 has no word for who may sign others.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};

use super::listed::has_found;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0]`, in which later versions tell which they are.
const VERSION: u8 = 0xa0;

/// Whether all that is wrong so far is that rustls does not read this version.
pub(super) fn is_version_1(error: &Error) -> bool {
    has_found(error, &webpki::Error::UnsupportedCertVersion)
}

/// Whether one of `authorities` has signed `shown`, which is valid now.
pub(super) fn verify(
    shown: &CertificateDer<'_>,
    authorities: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), Error> {
    let shown = Certificate::version_1(shown)?;
    if now.as_secs() < shown.valid.0 {
        return Err(CertificateError::NotValidYet.into());
    }
    if now.as_secs() > shown.valid.1 {
        return Err(CertificateError::Expired.into());
    }
    let mut refusal = CertificateError::UnknownIssuer;
    for authority in authorities.iter().filter_map(|it| Certificate::read(it)) {
        if authority.subject != shown.issuer {
            continue;
        }
        if shown.is_signed_by(&authority) {
            return Ok(());
        }
        refusal = CertificateError::BadSignature;
    }
    Err(refusal.into())
}

/// Whether who shows the certificate has its key, in TLS 1.2.
pub(super) fn verify_tls12_signature(
    message: &[u8],
    shown: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let shown = Certificate::version_1(shown)?;
    let known = algorithms().mapping.iter();
    let mut named = known.filter(|(scheme, _)| *scheme == dss.scheme).peekable();
    if named.peek().is_none() {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    let key = SubjectPublicKeyInfoDer::from(shown.key);
    let key = webpki::RawPublicKeyEntity::try_from(&key)
        .map_err(|_| Error::from(CertificateError::BadEncoding))?;
    let is_signed = named
        .flat_map(|(_, algorithms)| *algorithms)
        .any(|it| key.verify_signature(*it, message, dss.signature()).is_ok());
    match is_signed {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// The same in TLS 1.3.
pub(super) fn verify_tls13_signature(
    message: &[u8],
    shown: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let shown = Certificate::version_1(shown)?;
    let key = SubjectPublicKeyInfoDer::from(shown.key);
    verify_tls13_signature_with_raw_key(message, &key, dss, &algorithms())
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

/// The parts of a certificate that are asked about. Names and keys have their tags and lengths, as they are compared.
struct Certificate<'a> {
    is_version_1: bool,
    signed: &'a [u8],
    issuer: &'a [u8],
    /// The first and the last second, in Unix time.
    valid: (u64, u64),
    subject: &'a [u8],
    key: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Certificate<'a> {
    fn version_1(der: &'a [u8]) -> Result<Certificate<'a>, Error> {
        let read = Certificate::read(der).filter(|read| read.is_version_1);
        read.ok_or_else(|| CertificateError::BadEncoding.into())
    }

    /// None when it is not one, or one of version 1 has what came later.
    fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut outer = Reader(der);
        let mut all = Reader(outer.content(SEQUENCE)?);
        let (signed, content) = all.part(SEQUENCE)?;
        let algorithm = all.content(SEQUENCE)?;
        // How many bits of the last byte are none comes first.
        let signature = all.content(BIT_STRING)?.strip_prefix(&[0])?;
        if !all.0.is_empty() || !outer.0.is_empty() {
            return None;
        }
        let mut content = Reader(content);
        let is_version_1 = content.content(VERSION).is_none();
        content.content(INTEGER)?;
        if content.content(SEQUENCE)? != algorithm {
            return None;
        }
        let (issuer, _) = content.part(SEQUENCE)?;
        let mut valid = Reader(content.content(SEQUENCE)?);
        let valid = (valid.time()?, valid.time()?);
        let (subject, _) = content.part(SEQUENCE)?;
        let (key, _) = content.part(SEQUENCE)?;
        if is_version_1 && !content.0.is_empty() {
            return None;
        }
        Some(Certificate {
            is_version_1,
            signed,
            issuer,
            valid,
            subject,
            key,
            algorithm,
            signature,
        })
    }

    fn is_signed_by(&self, authority: &Certificate<'_>) -> bool {
        let key = SubjectPublicKeyInfoDer::from(authority.key);
        let Ok(key) = webpki::RawPublicKeyEntity::try_from(&key) else {
            return false;
        };
        let known = algorithms().all.iter();
        known
            .filter(|it| it.signature_alg_id().as_ref() == self.algorithm)
            .any(|it| {
                key.verify_signature(*it, self.signed, self.signature)
                    .is_ok()
            })
    }
}

/// DER, from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        Some(self.part(tag)?.1)
    }

    /// What has this tag, with its head and without. Nothing is read when something else comes.
    fn part(&mut self, tag: u8) -> Option<(&'a [u8], &'a [u8])> {
        let (&[found, first], rest) = self.0.split_first_chunk::<2>()?;
        if found != tag {
            return None;
        }
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81 => {
                let (&[len], rest) = rest.split_first_chunk::<1>()?;
                (usize::from(len), rest)
            }
            0x82 => {
                let (&len, rest) = rest.split_first_chunk::<2>()?;
                (usize::from(u16::from_be_bytes(len)), rest)
            }
            _ => return None,
        };
        let (content, behind) = rest.split_at_checked(len)?;
        let whole = &self.0[..self.0.len() - behind.len()];
        self.0 = behind;
        Some((whole, content))
    }

    /// A time in seconds of Unix time, as RFC 5280 has it: with seconds, and in Greenwich.
    fn time(&mut self) -> Option<u64> {
        let (century, digits) = match self.content(UTC_TIME) {
            Some(digits) => (None, digits),
            None => {
                let (century, digits) = self.content(GENERALIZED_TIME)?.split_at_checked(2)?;
                (Some(two(century)?), digits)
            }
        };
        let digits = digits.strip_suffix(b"Z").filter(|it| it.len() == 12)?;
        let mut numbers = digits.chunks(2).map(two);
        let mut next = || numbers.next().flatten();
        let (year, month, day) = (next()?, next()?, next()?);
        let (hour, minute, second) = (next()?, next()?, next()?);
        let century = century.unwrap_or(if year < 50 { 20 } else { 19 });
        let is_time = (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
        if !is_time || !(1..=31).contains(&day) {
            return None;
        }
        let days = days(century * 100 + year, month, day)?;
        Some(((days * 24 + hour) * 60 + minute) * 60 + second)
    }
}

/// Two digits.
fn two(digits: &[u8]) -> Option<u64> {
    match digits {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(u64::from(tens - b'0') * 10 + u64::from(ones - b'0'))
        }
        _ => None,
    }
}

/// Days from 1970 to one of a later year. Years begin in March here, so that a leap day is the last of one.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = match month {
        ..=2 => (year.checked_sub(1)?, month + 9),
        _ => (year, month - 3),
    };
    let before = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5;
    // Those from March of the year 0.
    (before + day - 1).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(tag: u8, text: &str) -> Option<u64> {
        let mut der = vec![tag, u8::try_from(text.len()).unwrap()];
        der.extend(text.bytes());
        Reader(&der).time()
    }

    #[test]
    fn times_are_read() {
        assert_eq!(time(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(time(UTC_TIME, "240229235959Z"), Some(1_709_251_199));
        assert_eq!(time(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(
            time(GENERALIZED_TIME, "20500101000000Z"),
            Some(2_524_608_000)
        );
        assert_eq!(
            time(GENERALIZED_TIME, "21000301000000Z"),
            Some(4_107_542_400)
        );
        for text in [
            "",
            "Z",
            "7001010000Z",
            "701301000000Z",
            "700100000000Z",
            "70010100000xZ",
        ] {
            assert_eq!(time(UTC_TIME, text), None, "{text}");
        }
        assert_eq!(time(GENERALIZED_TIME, "19690101000000Z"), None);
        assert_eq!(time(GENERALIZED_TIME, "2Z"), None);
    }

    #[test]
    fn what_is_cut_off_is_not_read() {
        assert!(Certificate::read(&[]).is_none());
        assert!(Reader(&[SEQUENCE, 0x82, 1]).part(SEQUENCE).is_none());
        assert!(Reader(&[SEQUENCE, 2, 1]).part(SEQUENCE).is_none());
        assert!(
            Reader(&[SEQUENCE, 0x84, 0, 0, 0, 0])
                .part(SEQUENCE)
                .is_none()
        );
        assert_eq!(
            Reader(&[INTEGER, 1, 7, 9]).part(INTEGER),
            Some((&[INTEGER, 1, 7][..], &[7][..]))
        );
    }
}
