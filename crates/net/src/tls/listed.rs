//! Peers that show a certificate of the list of authorities itself, as `openssl req -x509` makes it, or one of version 1.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

use super::version_1::{self, is_version_1};

/// A check of certificates that lets one of the list of authorities be shown, as OpenSSL does. That admits nobody else: who
/// has the key of an authority could sign any other certificate. One of version 1 may be shown as well, when an authority
/// of the list has signed it.
#[derive(Debug)]
pub(super) struct OrListed<V: ?Sized> {
    pub(super) checked: Arc<V>,
    listed: Vec<CertificateDer<'static>>,
}

impl<V: ?Sized> OrListed<V> {
    /// `checked` asks for a certificate that one of `listed` leads to.
    pub(super) fn new(checked: Arc<V>, listed: Vec<CertificateDer<'static>>) -> OrListed<V> {
        OrListed { checked, listed }
    }

    /// Whether what `error` finds wrong with a certificate is let pass: it is an authority, and one of the list, or it is of
    /// version 1. The check looks at the time that a certificate is valid for before it looks at the first.
    pub(super) fn admit(
        &self,
        shown: &CertificateDer<'_>,
        error: Error,
        now: UnixTime,
    ) -> Result<(), Error> {
        if is_version_1(&error) {
            return version_1::verify(shown, &self.listed, now);
        }
        let is_authority = has_found(&error, &webpki::Error::CaUsedAsEndEntity);
        match is_authority && self.listed.contains(shown) {
            true => Ok(()),
            false => Err(error),
        }
    }
}

/// `checked`, unless that is that rustls does not read version 1.
pub(super) fn or_version_1<T>(
    checked: Result<T, Error>,
    read: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    match checked {
        Err(error) if is_version_1(&error) => read(),
        checked => checked,
    }
}

/// Whether this is what the check has found.
pub(super) fn has_found(error: &Error, wrong: &webpki::Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(error))) = error else {
        return false;
    };
    error.downcast_ref::<webpki::Error>() == Some(wrong)
}

impl ClientCertVerifier for OrListed<dyn ClientCertVerifier> {
    fn offer_client_auth(&self) -> bool {
        self.checked.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.checked.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.checked.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self
            .checked
            .verify_client_cert(end_entity, intermediates, now)
        {
            Err(error) => {
                self.admit(end_entity, error, now)?;
                Ok(ClientCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        or_version_1(
            self.checked.verify_tls12_signature(message, cert, dss),
            || version_1::verify_tls12_signature(message, cert, dss),
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        or_version_1(
            self.checked.verify_tls13_signature(message, cert, dss),
            || version_1::verify_tls13_signature(message, cert, dss),
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.checked.supported_verify_schemes()
    }
}
