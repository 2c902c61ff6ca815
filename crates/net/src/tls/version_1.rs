//! Peers that show a certificate of version 1 of X.509, as `openssl x509 -req` makes it unless told otherwise. rustls reads
//! version 3 only, so what it asks of a certificate is asked here: that an authority of the list has signed it, and that now is
//! within its time. None may stand between the two, since version 1 has no word for who may sign others.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use super::listed::has_found;

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
    let shown = version_1(shown)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < shown.validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > shown.validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    let mut refusal = CertificateError::UnknownIssuer;
    for authority in authorities.iter().filter_map(|it| read(it)) {
        if authority.subject.as_raw() != shown.issuer.as_raw() {
            continue;
        }
        if is_signed_by(&shown, &authority) {
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
    let shown = version_1(shown)?;
    let known = algorithms().mapping.iter();
    let mut named = known.filter(|(scheme, _)| *scheme == dss.scheme).peekable();
    if named.peek().is_none() {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    let key = key(&shown);
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
    let shown = version_1(shown)?;
    verify_tls13_signature_with_raw_key(message, &key(&shown), dss, &algorithms())
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

fn version_1<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    let is_version_1 = |read: &X509Certificate<'_>| {
        // Those came later.
        let later = read.issuer_uid.is_some() || read.subject_uid.is_some();
        read.version == X509Version::V1 && !later && read.extensions().is_empty()
    };
    let read = read(der).filter(is_version_1);
    read.ok_or_else(|| CertificateError::BadEncoding.into())
}

/// None when it is no certificate, or one that names two algorithms of its signature.
fn read<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, read) = X509Certificate::from_der(der).ok()?;
    let is_one = rest.is_empty() && read.signature_algorithm == read.tbs_certificate.signature;
    is_one.then_some(read)
}

fn key<'a>(certificate: &X509Certificate<'a>) -> SubjectPublicKeyInfoDer<'a> {
    SubjectPublicKeyInfoDer::from(certificate.subject_pki.raw)
}

/// By whichever algorithm: each that is tried is one that rustls takes, and fits the authority's key.
fn is_signed_by(shown: &X509Certificate<'_>, authority: &X509Certificate<'_>) -> bool {
    let key = key(authority);
    let Ok(key) = webpki::RawPublicKeyEntity::try_from(&key) else {
        return false;
    };
    let (signed, signature) = (shown.tbs_certificate.as_ref(), &shown.signature_value);
    signature.unused_bits == 0
        && algorithms()
            .all
            .iter()
            .any(|it| key.verify_signature(*it, signed, &signature.data).is_ok())
}
