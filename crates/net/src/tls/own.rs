//! The certificate that is shown.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, InconsistentKeys};

use super::settings::{TlsError, certificates, of_file};
use super::validity::expiry;
use super::version_1::is_version_1;

/// The chain of `certificate` with the private key that it is for, and the second after which it has expired. It may be of version 1 of X.509, as `openssl x509 -req`
/// makes it unless told otherwise: rustls cannot read those, but who is shown one judges it.
pub(super) fn own(
    certificate: &Path,
    key: &Path,
) -> Result<(Arc<SingleCertAndKey>, Option<i64>), TlsError> {
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| of_file(key, error))?;
    let secret = ring::default_provider()
        .key_provider
        .load_private_key(secret)
        .map_err(|error| of_file(key, error))?;
    let expiry = expiry(&chain);
    let own = CertifiedKey::new(chain, secret);
    match own.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(error) if is_version_1(&error) && names_its_key(&own) => {}
        Err(error) => return Err(of_file(certificate, error)),
    }
    Ok((Arc::new(SingleCertAndKey::from(own)), expiry))
}

/// Whether the public key, with the name of its algorithm, stands in the certificate word for word.
fn names_its_key(own: &CertifiedKey) -> bool {
    let (Some(public), Ok(certificate)) = (own.key.public_key(), own.end_entity_cert()) else {
        return false;
    };
    certificate
        .windows(public.len())
        .any(|part| part == public.as_ref())
}
