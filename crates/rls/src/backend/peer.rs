//! One server that speaks Redis' protocol, and how it is connected to.
//!
//! TLS is spoken here, not by the client library, which has no word for a certificate that is an authority of itself, as
//! `openssl req -x509` makes it. Clusters are the exception: the library connects to their nodes.

use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult,
};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::ServerName;
use tollgate_net::tls::{TlsClientFiles, TlsConnector};

use crate::config::StoreConfig;

/// A host and a port.
pub(super) type At = (String, u16);

/// A server, and what is spoken with it.
#[derive(Clone)]
pub(crate) struct Peer {
    client: Client,
    tls: Option<TlsConnector>,
}

impl Peer {
    /// With `tls`, `info` is of a host.
    pub(super) fn new(info: ConnectionInfo, tls: Option<TlsConnector>) -> RedisResult<Self> {
        let client = Client::open(info)?;
        Ok(Self { client, tls })
    }

    /// At a host, without or with TLS.
    pub(super) fn at_host(
        (host, port): At,
        settings: RedisConnectionInfo,
        tls: Option<TlsConnector>,
    ) -> RedisResult<Self> {
        let addr = match tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
        };
        let info = addr.into_connection_info()?.set_redis_settings(settings);
        Self::new(info, tls)
    }

    /// Where it is; `None` where that is no host.
    pub(super) fn at(&self) -> Option<At> {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some((host.clone(), *port))
            }
            _ => None,
        }
    }

    /// A connection made within `timeout`, on which no answer is waited for longer than `answers`.
    pub(super) async fn connect(
        &self,
        timeout: Duration,
        answers: Duration,
    ) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(answers));
        let Some(tls) = &self.tls else {
            let client = &self.client;
            return client
                .get_multiplexed_async_connection_with_config(&config)
                .await;
        };
        let settings = self.client.get_connection_info().redis_settings();
        within(timeout, async {
            let stream = self.agree(tls).await?;
            let (made, driver) =
                MultiplexedConnection::new_with_config(settings, stream, config).await?;
            // It ends with the last clone of the connection.
            tokio::task::spawn_local(driver);
            Ok(made)
        })
        .await
    }

    /// A connection to hear what is published.
    pub(super) async fn listen(&self, timeout: Duration) -> RedisResult<PubSub> {
        within(timeout, async {
            let Some(tls) = &self.tls else {
                return self.client.get_async_pubsub().await;
            };
            let settings = self.client.get_connection_info().redis_settings();
            PubSub::new(settings, self.agree(tls).await?).await
        })
        .await
    }

    /// A session of TLS with it.
    async fn agree(&self, tls: &TlsConnector) -> RedisResult<TlsStream<TcpStream>> {
        let no_host = || RedisError::from((ErrorKind::InvalidClientConfig, "no host"));
        let (host, port) = self.at().ok_or_else(no_host)?;
        let stream = TcpStream::connect((&*host, port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
        let connector = tokio_rustls::TlsConnector::from(tls.config());
        Ok(connector.connect(name, stream).await?)
    }
}

/// What is done, unless it takes longer.
pub(super) async fn within<T>(
    timeout: Duration,
    done: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let late = || RedisError::from((ErrorKind::Io, "no answer in time"));
    tokio::time::timeout(timeout, done)
        .await
        .unwrap_or_else(|_| Err(late()))
}

/// How TLS is spoken with the servers of a store.
pub(super) fn connector(store: &StoreConfig) -> Result<TlsConnector, String> {
    let own = match (&store.tls_certificate, &store.tls_key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        _ => return Err("the backend's certificate and key go together".to_owned()),
    };
    let files = TlsClientFiles {
        own,
        authorities: store.tls_authority.clone(),
        authority_dir: None,
        any_name: store.tls_any_name,
        protocols: String::new(),
    };
    let connector = match files.authorities {
        Some(_) => TlsConnector::new(&files),
        None => {
            let mut known = rustls_native_certs::load_native_certs().certs;
            // A system's list may have some that cannot be read.
            known.retain(|it| RootCertStore::empty().add(it.clone()).is_ok());
            if known.is_empty() {
                return Err(
                    "the system knows no authorities: name one (backend-tls-ca-cert-file)"
                        .to_owned(),
                );
            }
            TlsConnector::trusting(known, &files)
        }
    };
    connector.map_err(|error| error.to_string())
}
