//! TLS as the settings want it.

use crate::config::Key;
use crate::shared::Shared;
use std::sync::Arc;
use tollgate_net::tls::{TlsAcceptor, TlsClients, TlsError, TlsFiles};

/// Settings of which a change is a change of the certificates.
pub(crate) const SETTINGS: &[Key] = &[
    Key::TlsCertFile,
    Key::TlsKeyFile,
    Key::TlsCaCertFile,
    Key::TlsCaCertDir,
    Key::TlsAuthClients,
    Key::TlsProtocols,
];

/// What the settings, read by `get`, say of TLS.
fn files<'a>(get: impl Fn(Key) -> &'a str) -> TlsFiles {
    let path = |key| Some(get(key)).filter(|path| !path.is_empty());
    TlsFiles {
        certificate: get(Key::TlsCertFile).into(),
        key: get(Key::TlsKeyFile).into(),
        authorities: path(Key::TlsCaCertFile).map(Into::into),
        authority_dir: path(Key::TlsCaCertDir).map(Into::into),
        clients: match get(Key::TlsAuthClients) {
            "no" => TlsClients::Ignored,
            "optional" => TlsClients::Optional,
            _ => TlsClients::Required,
        },
        protocols: get(Key::TlsProtocols).to_owned(),
    }
}

/// Reads the certificates for a TLS port.
pub(crate) fn acceptor<'a>(get: impl Fn(Key) -> &'a str) -> Result<Arc<TlsAcceptor>, String> {
    if get(Key::TlsCertFile).is_empty() || get(Key::TlsKeyFile).is_empty() {
        return Err("tls-port needs tls-cert-file and tls-key-file".to_owned());
    }
    TlsAcceptor::new(&files(get))
        .map(Arc::new)
        .map_err(|error| format!("TLS cannot be set up: {error}"))
}

impl Shared {
    /// Takes over certificates that have changed. Without a TLS port there is nothing to do.
    pub(crate) fn reload_tls<'a>(&self, get: impl Fn(Key) -> &'a str) -> Result<(), TlsError> {
        match &self.tls {
            Some((_, acceptor)) => acceptor.reload(&files(get)),
            None => Ok(()),
        }
    }
}
