//! TLS as the settings want it.

use crate::config::Key;
use crate::log::Log;
use crate::shared::Shared;
use tollgate_net::Clock;
use tollgate_net::tls::{
    TlsAcceptor, TlsClientFiles, TlsClients, TlsConnector, TlsFiles, expiry_warning,
};

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
pub(crate) fn acceptor<'a>(get: impl Fn(Key) -> &'a str) -> Result<TlsAcceptor, String> {
    if get(Key::TlsCertFile).is_empty() || get(Key::TlsKeyFile).is_empty() {
        return Err("tls-port needs tls-cert-file and tls-key-file".to_owned());
    }
    TlsAcceptor::new(&files(get)).map_err(|error| format!("TLS cannot be set up: {error}"))
}

/// Says that the certificate has expired, or soon will.
pub(crate) fn warn_of_expiry(acceptor: &TlsAcceptor, file: &str, log: &Log) {
    let now = Clock::now() / 1_000_000_000;
    let warning = acceptor
        .expiry()
        .and_then(|expiry| expiry_warning(file.as_ref(), expiry, now));
    if let Some(line) = warning {
        log.warning(format_args!("Warning: {line}"));
    }
}

/// What the settings say of connections to other servers; `None` without `tls-replication`. The files are read anew each
/// time, so that certificates which were replaced are taken up.
pub(crate) fn connector(shared: &Shared) -> Result<Option<TlsConnector>, String> {
    let files = shared.settings.with_values(|values| {
        let path = |key| Some(values.get(key)).filter(|path| !path.is_empty());
        if values.get(Key::TlsReplication) != "yes" {
            return None;
        }
        let pair = |certificate, key| Some((path(certificate)?.into(), path(key)?.into()));
        Some(TlsClientFiles {
            own: pair(Key::TlsClientCertFile, Key::TlsClientKeyFile)
                .or_else(|| pair(Key::TlsCertFile, Key::TlsKeyFile)),
            authorities: path(Key::TlsCaCertFile).map(Into::into),
            authority_dir: path(Key::TlsCaCertDir).map(Into::into),
            any_name: true,
            protocols: values.get(Key::TlsProtocols).to_owned(),
        })
    });
    let connector = files.map(|files| TlsConnector::new(&files));
    connector
        .transpose()
        .map_err(|error| format!("TLS cannot be set up: {error}"))
}
