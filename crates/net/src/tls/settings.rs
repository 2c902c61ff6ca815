//! Certificates and what is asked of clients.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion, version};

use super::listed::OrListed;
use super::own::own;

/// Whether clients show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsClients {
    /// They must.
    Required,
    /// They may; one that is shown must be right.
    Optional,
    /// They are not asked.
    Ignored,
}

/// What a server's side of TLS is made of.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate and those that lead to its authority, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Authorities of clients' certificates, PEM.
    pub authorities: Option<PathBuf>,
    /// A directory of files with such authorities.
    pub authority_dir: Option<PathBuf>,
    /// What clients show.
    pub clients: TlsClients,
    /// Versions, as `TLSv1.2 TLSv1.3`; empty for all that are safe.
    pub protocols: String,
}

/// Why TLS cannot be set up; one line that names the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError(String);

impl TlsError {
    pub(super) fn new(reason: impl fmt::Display) -> TlsError {
        TlsError(reason.to_string())
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

pub(super) fn of_file(path: &Path, error: impl fmt::Display) -> TlsError {
    TlsError(format!("{}: {error}", path.display()))
}

/// Begins the TLS side of connections, by certificates that may be replaced at any time.
#[derive(Debug)]
pub struct TlsAcceptor {
    /// And the second after which what is shown has expired.
    config: RwLock<(Arc<ServerConfig>, Option<i64>)>,
}

impl TlsAcceptor {
    /// Reads the files.
    pub fn new(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
        Ok(TlsAcceptor {
            config: RwLock::new(configure(files)?),
        })
    }

    /// Takes over what `other` has; connections that are open keep what they have agreed on.
    pub fn replace(&self, other: TlsAcceptor) {
        let config = other
            .config
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// What connections that begin now agree on, for a server that is not of this crate.
    pub fn config(&self) -> Arc<ServerConfig> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&config.0)
    }

    /// The second of the Unix epoch after which the certificate that is shown has expired, if it can be read.
    pub fn expiry(&self) -> Option<i64> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        config.1
    }

    pub(super) fn begin(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(self.config())
    }
}

fn configure(files: &TlsFiles) -> Result<(Arc<ServerConfig>, Option<i64>), TlsError> {
    let (own, expiry) = own(&files.certificate, &files.key)?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(&files.protocols)?)
        .map_err(|error| TlsError(error.to_string()))?;
    let builder = match files.clients {
        TlsClients::Ignored => builder.with_no_client_auth(),
        asked => {
            let known = authorities(files.authorities.as_deref(), files.authority_dir.as_deref())?;
            if known.is_empty() {
                return Err(TlsError::new(
                    "authorities are needed to check the certificates of clients: set tls-ca-cert-file or \
                     tls-ca-cert-dir, or tls-auth-clients no",
                ));
            }
            let roots = Arc::new(roots(&known)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = match asked {
                TlsClients::Optional => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            let verifier = verifier.build();
            let verifier = verifier.map_err(|error| TlsError(error.to_string()))?;
            builder.with_client_cert_verifier(Arc::new(OrListed::new(verifier, known)))
        }
    };
    Ok((Arc::new(builder.with_cert_resolver(own)), expiry))
}

pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(|found| found.collect::<Result<Vec<_>, _>>())
        .map_err(|error| of_file(path, error))?;
    match found.is_empty() {
        true => Err(of_file(path, "no certificate in it")),
        false => Ok(found),
    }
}

/// The certificates of a file and of those of a directory; none without either.
pub(super) fn authorities(
    file: Option<&Path>,
    dir: Option<&Path>,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut paths: Vec<PathBuf> = file.map(Path::to_owned).into_iter().collect();
    if let Some(dir) = dir {
        let entries = std::fs::read_dir(dir).map_err(|error| of_file(dir, error))?;
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.extend(files.filter(|path| path.is_file()));
    }
    let mut known = Vec::new();
    for path in &paths {
        let found = certificates(path)?;
        roots(&found).map_err(|error| of_file(path, error))?;
        known.extend(found);
    }
    Ok(known)
}

/// The certificates as what others may be signed by.
pub(super) fn roots(known: &[CertificateDer<'static>]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in known {
        roots.add(certificate.clone()).map_err(TlsError::new)?;
    }
    Ok(roots)
}

pub(super) fn versions(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let mut versions = Vec::new();
    for word in text.split_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => versions.push(&version::TLS12),
            "tlsv1.3" => versions.push(&version::TLS13),
            // Named by older configurations beside the others; neither is safe.
            "tlsv1" | "tlsv1.1" => {}
            _ => return Err(TlsError(format!("'{word}' is not a version of TLS"))),
        }
    }
    match (versions.is_empty(), text.trim().is_empty()) {
        (true, true) => Ok(vec![&version::TLS12, &version::TLS13]),
        (true, false) => Err(TlsError(
            "TLSv1.2 and TLSv1.3 are spoken; older versions are not safe".to_owned(),
        )),
        _ => Ok(versions),
    }
}
