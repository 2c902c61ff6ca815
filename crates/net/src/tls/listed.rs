//! Peers that show a certificate of the list of authorities itself, as `openssl req -x509` makes it.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

/// A check of certificates that lets one of the list of authorities be shown, as OpenSSL does. That admits nobody else: who
/// has the key of an authority could sign any other certificate.
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

    /// Whether all that `error` finds wrong is that `shown` is an authority, and it is one of the list. The check looks at
    /// the time that a certificate is valid for before it looks at that.
    pub(super) fn is_listed(&self, shown: &CertificateDer<'_>, error: &Error) -> bool {
        let Error::InvalidCertificate(CertificateError::Other(OtherError(error))) = error else {
            return false;
        };
        let found = error.downcast_ref::<webpki::Error>();
        found == Some(&webpki::Error::CaUsedAsEndEntity) && self.listed.contains(shown)
    }
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
            Err(error) if self.is_listed(end_entity, &error) => Ok(ClientCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.checked.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.checked.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.checked.supported_verify_schemes()
    }
}
