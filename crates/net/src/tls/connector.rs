//! The client's side of TLS, for connections to other servers.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    SignatureScheme, StreamOwned,
};

use crate::outbound::Wait;

use super::listed::{OrListed, or_version_1};
use super::own::own;
use super::settings::{TlsError, authorities, roots, versions};
use super::version_1;

/// What a client's side of TLS is made of.
#[derive(Debug, Clone)]
pub struct TlsClientFiles {
    /// The certificate that is shown when the server asks for one, and its private key, PEM.
    pub own: Option<(PathBuf, PathBuf)>,
    /// Authorities of servers' certificates, PEM.
    pub authorities: Option<PathBuf>,
    /// A directory of files with such authorities.
    pub authority_dir: Option<PathBuf>,
    /// Whether certificates may be for any name, as with Redis: servers of a group often share one.
    pub any_name: bool,
    /// Versions, as `TLSv1.2 TLSv1.3`; empty for all that are safe.
    pub protocols: String,
}

/// Begins the TLS side of connections to other servers, whose certificates must be of a known authority.
#[derive(Debug, Clone)]
pub struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// One of them cannot be used, or no authority is known.
    pub fn new(files: &TlsClientFiles) -> Result<TlsConnector, TlsError> {
        let known = authorities(files.authorities.as_deref(), files.authority_dir.as_deref())?;
        if known.is_empty() {
            return Err(TlsError::new(
                "authorities are needed to check the certificate of the master: set tls-ca-cert-file or tls-ca-cert-dir",
            ));
        }
        TlsConnector::trusting(known, files)
    }

    /// The same with authorities that were read before.
    ///
    /// # Errors
    ///
    /// One of them or of the other files cannot be used.
    pub fn trusting(
        known: Vec<CertificateDer<'static>>,
        files: &TlsClientFiles,
    ) -> Result<TlsConnector, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(roots(&known)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(TlsError::new)?;
        let verifier = Check {
            or_listed: OrListed::new(verifier, known),
            any_name: files.any_name,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(&files.protocols)?)
            .map_err(TlsError::new)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match &files.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder.with_client_cert_resolver(own(certificate, key)?.0),
        };
        Ok(TlsConnector(Arc::new(config)))
    }

    /// What connections agree on, for a client that is not of this crate.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }

    /// Agrees with the server at the other end of `stream` before the wait is over. How long a read waits is left changed.
    pub(crate) fn begin(
        &self,
        host: &str,
        mut stream: TcpStream,
        wait: &Wait<'_>,
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        // A host that is no name for TLS, as one with an underscore, is not told to the server.
        let name = ServerName::try_from(host.to_owned()).or_else(|_| {
            stream
                .peer_addr()
                .map(|peer| ServerName::IpAddress(peer.ip().into()))
        })?;
        let mut connection =
            ClientConnection::new(Arc::clone(&self.0), name).map_err(std::io::Error::other)?;
        while connection.is_handshaking() {
            stream.set_read_timeout(Some(wait.step()?))?;
            match connection.complete_io(&mut stream) {
                // Nothing has come so far.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                done => drop(done?),
            }
        }
        Ok(StreamOwned::new(connection, stream))
    }
}

/// What is asked of a server's certificate.
#[derive(Debug)]
struct Check {
    or_listed: OrListed<WebPkiServerVerifier>,
    any_name: bool,
}

impl ServerCertVerifier for Check {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.or_listed.checked.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The name is looked at last, when all else is right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            Err(error) => {
                self.or_listed.admit(end_entity, error, now)?;
                if !self.any_name {
                    names(end_entity, server_name)?;
                }
                Ok(ServerCertVerified::assertion())
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
            self.or_listed
                .checked
                .verify_tls12_signature(message, cert, dss),
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
            self.or_listed
                .checked
                .verify_tls13_signature(message, cert, dss),
            || version_1::verify_tls13_signature(message, cert, dss),
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.or_listed.checked.supported_verify_schemes()
    }
}

/// Whether a certificate is for that name. One of version 1 has no word for it.
fn names(shown: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    webpki::EndEntityCert::try_from(shown)
        .and_then(|shown| shown.verify_is_valid_for_subject_name(name))
        .map_err(|_| CertificateError::NotValidForName.into())
}
