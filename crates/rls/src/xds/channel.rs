//! The connection to a management server.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tonic::metadata::{AsciiMetadataKey, BinaryMetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::XdsConfig;

/// Longest wait for a connection and its TLS, as gRPC's clients have it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// After so long without a word the system asks whether the other side is still there, and at this interval. Servers may take pings
/// of HTTP/2 amiss that nobody told them of.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// TLS to a management server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdsTls {
    /// PEM files of the certificate to show and of its key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// PEM file of an authority to trust beside the system's.
    pub authority: Option<PathBuf>,
    /// The name that the server's certificate must be for; the host of its address otherwise.
    pub server_name: Option<String>,
}

/// How to connect, with what the files of TLS hold now.
pub(super) fn endpoint(config: &XdsConfig) -> Result<Endpoint, String> {
    let scheme = match config.tls {
        Some(_) => "https",
        None => "http",
    };
    let address = match place(&config.server)? {
        Place::Unix(path) => format!("unix:{path}"),
        Place::Tcp(authority) => format!("{scheme}://{authority}"),
    };
    let endpoint = Endpoint::from_shared(address).map_err(|error| reason_of(&error))?;
    let endpoint = endpoint
        .user_agent(concat!("tollgate/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| reason_of(&error))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Some(KEEPALIVE))
        .tcp_keepalive_interval(Some(KEEPALIVE));
    match &config.tls {
        Some(tls) => with_tls(endpoint, tls),
        None => Ok(endpoint),
    }
}

/// Where a management server is.
pub(super) enum Place<'a> {
    Tcp(Authority),
    Unix(&'a str),
}

/// As gRPC writes it: `host:port`, with `dns:///` or `passthrough:///` before it or not, or `unix:path`.
pub(super) fn place(text: &str) -> Result<Place<'_>, String> {
    let bad = || {
        format!(
            "'{}' is neither host:port nor unix:path",
            text.escape_debug()
        )
    };
    read_place(text).ok_or_else(bad)
}

fn read_place(text: &str) -> Option<Place<'_>> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return (!path.is_empty()).then_some(Place::Unix(path));
    }
    let schemes = ["dns:///", "passthrough:///", "dns:", "passthrough:"];
    // A host may have the name of a scheme.
    let bare = schemes
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme).filter(|rest| rest.contains(':')));
    let authority: Authority = bare.unwrap_or(text).parse().ok()?;
    let is_whole = authority.port_u16().is_some() && !authority.as_str().contains('@');
    (is_whole && !authority.host().is_empty()).then_some(Place::Tcp(authority))
}

/// Trusts the system's authorities and the one given.
pub(crate) fn with_tls(endpoint: Endpoint, tls: &XdsTls) -> Result<Endpoint, String> {
    let mut config = ClientTlsConfig::new().timeout(CONNECT_TIMEOUT);
    if let Some(path) = &tls.authority {
        let pem = read(path)?;
        if !matches!(CertificateDer::pem_slice_iter(&pem).next(), Some(Ok(_))) {
            return Err(format!("{}: no certificate", path.display()));
        }
        config = config.ca_certificate(Certificate::from_pem(pem));
    }
    if let Some((certificate, key)) = &tls.own {
        config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    let mut endpoint = endpoint;
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
        // Requests are for it as well, as gRPC's clients write them.
        if let Ok(origin) = Uri::builder()
            .scheme("https")
            .authority(&**name)
            .path_and_query("/")
            .build()
        {
            endpoint = endpoint.origin(origin);
        }
    }
    let secured = endpoint
        .clone()
        .tls_config(config.clone().with_native_roots());
    let secured = match secured {
        // A system without authorities will do where one is given.
        Err(_) if tls.authority.is_some() => endpoint.tls_config(config),
        secured => secured,
    };
    secured.map_err(|error| reason_of(&error))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What goes with a request beside its messages.
pub(crate) fn metadata(headers: &[(String, String)]) -> Result<MetadataMap, String> {
    let mut map = MetadataMap::new();
    for (name, value) in headers {
        let bad = || format!("'{}' is not a header", name.escape_debug());
        let name = name.to_ascii_lowercase();
        if name.ends_with("-bin") {
            let key = BinaryMetadataKey::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            map.insert_bin(key, MetadataValue::from_bytes(value.as_bytes()));
        } else {
            let key = AsciiMetadataKey::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            map.insert(key, value.parse().map_err(|_| bad())?);
        }
    }
    Ok(map)
}

/// An error with what lies behind it, of which only that says what happened.
pub(crate) fn reason_of(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        behind = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        read_place(text).map(|place| match place {
            Place::Tcp(authority) => authority.to_string(),
            Place::Unix(path) => format!("unix {path}"),
        })
    }

    #[test]
    fn places_are_written_as_grpc_writes_them() {
        for (text, wanted) in [
            ("localhost:18000", Some("localhost:18000")),
            ("envoy-gateway:18001", Some("envoy-gateway:18001")),
            ("[::1]:1", Some("[::1]:1")),
            ("dns:///a.b:1", Some("a.b:1")),
            ("dns:a.b:1", Some("a.b:1")),
            ("passthrough:///1.2.3.4:5", Some("1.2.3.4:5")),
            ("dns:53", Some("dns:53")),
            ("unix:/run/x.sock", Some("unix /run/x.sock")),
            ("unix:///run/x.sock", Some("unix /run/x.sock")),
            ("unix:", None),
            ("localhost", None),
            ("localhost:", None),
            (":1", None),
            ("localhost:99999", None),
            ("user@host:1", None),
            ("http://host:1", None),
            ("host:1/path", None),
            ("two words:1", None),
            ("", None),
        ] {
            assert_eq!(found(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn headers_are_what_grpc_can_carry() {
        let of = |name: &str, value: &str| metadata(&[(name.to_owned(), value.to_owned())]);
        let map = of("X-Team", "a b").expect("valid");
        assert_eq!(map.get("x-team").expect("there"), "a b");
        let map = of("key-bin", "\u{fc}").expect("valid");
        let bytes = map.get_bin("key-bin").expect("there").to_bytes();
        assert_eq!(&bytes.expect("decodes")[..], "\u{fc}".as_bytes());
        for (name, value) in [("a b", ""), ("", ""), ("x", "line\nline"), (":path", "/")] {
            assert!(of(name, value).is_err(), "{name} {value}");
        }
    }
}
