//! Spans to a collector over HTTP/1.1.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    USER_AGENT,
};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tollgate_wire::trace::{ExportRequest, ExportResponse};

use super::TraceConfig;
use super::export::{AGENT, Refused, Taken};

/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// A collector, and the connection to it while there is one.
pub(super) struct HttpCollector {
    uri: Uri,
    host: String,
    port: u16,
    headers: HeaderMap,
    gzip: bool,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl HttpCollector {
    /// Reads the files of TLS; nothing is sent yet.
    pub(super) fn new(config: &TraceConfig) -> Result<Self, String> {
        let bad = |what: &str| format!("'{}' is {what}", config.endpoint.escape_debug());
        let uri: Uri = config.endpoint.parse().map_err(|_| bad("no URL"))?;
        let authority = uri.authority().ok_or_else(|| bad("no URL"))?;
        let is_secure = uri.scheme_str() == Some("https");
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let tls = match is_secure {
            false => None,
            true => {
                let name = ServerName::try_from(host.clone()).map_err(|_| bad("for no name"))?;
                Some((connector(config)?, name))
            }
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let bad = || format!("'{}' is not a header", name.escape_debug());
            let name: HeaderName = name.parse().map_err(|_| bad())?;
            headers.insert(name, value.parse().map_err(|_| bad())?);
        }
        let text = |text: &str| HeaderValue::from_str(text).map_err(|_| bad("no URL"));
        headers.insert(HOST, text(authority.as_str())?);
        headers.insert(USER_AGENT, text(AGENT)?);
        headers.insert(CONTENT_TYPE, text("application/x-protobuf")?);
        if config.gzip {
            headers.insert(CONTENT_ENCODING, text("gzip")?);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            port: authority
                .port_u16()
                .unwrap_or(if is_secure { 443 } else { 80 }),
            host,
            headers,
            gzip: config.gzip,
            tls,
            uri: path.parse().map_err(|_| bad("no URL"))?,
            connection: None,
        })
    }

    /// Sends spans once.
    pub(super) async fn send(&mut self, spans: &ExportRequest) -> Result<Taken, Refused> {
        let mut kept = self.connection.take();
        if let Some(connection) = &mut kept
            && connection.ready().await.is_err()
        {
            kept = None;
        }
        let mut connection = match kept {
            Some(kept) => kept,
            None => {
                let made = self.connect().await;
                made.map_err(|error| Refused::passing(&error))?
            }
        };
        let mut request = Request::post(self.uri.clone());
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&self.headers);
        }
        let message = spans.encode_to_vec();
        let message = match self.gzip {
            true => packed(&message).map_err(|error| Refused::passing(&error))?,
            false => message,
        };
        let body = Full::new(Bytes::from(message));
        let request = request
            .body(body)
            .map_err(|error| Refused::passing(&error))?;
        let response = connection.send_request(request).await;
        let (head, body) = response
            .map_err(|error| Refused::passing(&error))?
            .into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(|error| Refused::passing(&*error))?.to_bytes();
        self.connection = Some(connection);
        let status = head.status;
        if status.is_success() {
            return Ok(match ExportResponse::decode(body) {
                Ok(answer) => Taken::of(answer),
                // It took them; what else it says is not for us.
                Err(_) => Taken::default(),
            });
        }
        let again = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        let wait = head.headers.get(RETRY_AFTER);
        let wait = wait.and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        Err(Refused {
            reason: format!("HTTP status {status}"),
            again,
            wait: wait.map(Duration::from_secs),
        })
    }

    async fn connect(&self) -> std::io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        match &self.tls {
            None => begin(stream).await,
            Some((tls, name)) => begin(tls.connect(name.clone(), stream).await?).await,
        }
    }
}

async fn begin<IO>(stream: IO) -> std::io::Result<SendRequest<Full<Bytes>>>
where
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(std::io::Error::other)?;
    // It ends with its sender; what goes wrong is told to whoever sends.
    drop(tokio::task::spawn_local(connection));
    Ok(sender)
}

fn packed(message: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(message)?;
    packer.finish()
}

/// Trusts the system's authorities and the one given.
fn connector(config: &TraceConfig) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = &config.tls_authority {
        let of_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let given = CertificateDer::pem_file_iter(path).map_err(|error| of_file(&error))?;
        for certificate in given {
            let certificate = certificate.map_err(|error| of_file(&error))?;
            roots.add(certificate).map_err(|error| of_file(&error))?;
        }
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match &config.tls_own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let of_file = |error: &dyn std::fmt::Display| {
                format!("{}, {}: {error}", certificate.display(), key.display())
            };
            let chain = CertificateDer::pem_file_iter(certificate);
            let chain = chain.and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let chain = chain.map_err(|error| of_file(&error))?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| of_file(&error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| of_file(&error))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
