//! TLS of the service's ports: certificates that are taken up when their files change, and clients that must show one.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::server::TlsStream;
use tollgate_net::tls::{TlsAcceptor, TlsFiles, expiry_warning};

use crate::clock;
use crate::config::{StartError, TlsConfig};
use crate::log::{LogLevel, LogLine};
use crate::reload::Stamp;

/// Longest wait for a client to agree on a session.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between two lines that say that the certificate expires: a day.
const WARN_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Least time between two lines about refused clients of one thread; those between are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// One port's side of TLS.
pub(crate) struct Tls {
    files: TlsFiles,
    /// What the port speaks within TLS, as ALPN names it.
    protocol: &'static [u8],
    /// The name that clients' certificates are for.
    client_name: Option<ServerName<'static>>,
    acceptor: RwLock<tokio_rustls::TlsAcceptor>,
    /// The second of the Unix epoch after which the certificate has expired; [`NEVER`] where it cannot be read.
    expiry: AtomicI64,
}

const NEVER: i64 = i64::MAX;

impl Tls {
    pub(crate) fn new(config: &TlsConfig, protocol: &'static [u8]) -> Result<Self, StartError> {
        let client_name = match &config.client_name {
            None => None,
            Some(_) if config.files.authorities.is_none() => {
                return Err(StartError::Tls(
                    "a name of clients' certificates needs their authority as well".to_owned(),
                ));
            }
            Some(name) => Some(ServerName::try_from(name.clone()).map_err(|_| {
                StartError::Tls(format!(
                    "'{}' is not a name that a certificate can have",
                    name.escape_debug()
                ))
            })?),
        };
        let (acceptor, expiry) = read(&config.files, protocol).map_err(StartError::Tls)?;
        Ok(Self {
            files: config.files.clone(),
            protocol,
            client_name,
            acceptor: RwLock::new(acceptor),
            expiry: AtomicI64::new(expiry),
        })
    }

    /// Agrees with a client on a session, or says why not.
    pub(crate) async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: IO,
    ) -> Result<TlsStream<IO>, String> {
        let acceptor = self
            .acceptor
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
        let stream = agreed
            .map_err(|_| "the handshake did not come to its end".to_owned())?
            .map_err(|error| error.to_string())?;
        if let Some(name) = &self.client_name {
            let shown = stream.get_ref().1.peer_certificates();
            let shown = shown.and_then(<[_]>::first);
            let shown = shown.ok_or("the client shows no certificate")?;
            webpki::EndEntityCert::try_from(shown)
                .and_then(|shown| shown.verify_is_valid_for_subject_name(name))
                .map_err(|_| format!("the client's certificate is not for {}", name.to_str()))?;
        }
        Ok(stream)
    }

    /// The second of the Unix epoch after which the certificate has expired, if it can be read.
    pub(crate) fn expiry(&self) -> Option<i64> {
        Some(self.expiry.load(Ordering::Relaxed)).filter(|expiry| *expiry != NEVER)
    }

    /// Takes up changed files until the service stops; on an error those before stay. Says each day that the
    /// certificate expires, when it soon does.
    pub(crate) async fn follow(self: Arc<Self>, log: LogLine, mut stopped: watch::Receiver<bool>) {
        let paths: Vec<PathBuf> = [&self.files.certificate, &self.files.key]
            .into_iter()
            .chain(&self.files.authorities)
            .cloned()
            .collect();
        // What was read at the start may have changed since: the first look reads again.
        let mut seen = None;
        let mut warned: Option<Instant> = None;
        loop {
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            let now: Vec<Option<Stamp>> = paths.iter().map(|path| Stamp::of(path)).collect();
            if warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY)
                && let Some(line) = self.expiry_warning()
            {
                log(LogLevel::Warning, &line);
                warned = Some(Instant::now());
            }
            let first = seen.is_none();
            if seen.as_ref() == Some(&now) {
                continue;
            }
            seen = Some(now);
            match read(&self.files, self.protocol) {
                Ok((acceptor, expiry)) => {
                    let before = self.expiry.swap(expiry, Ordering::Relaxed);
                    warned = warned.filter(|_| before == expiry);
                    let mut current = self
                        .acceptor
                        .write()
                        .unwrap_or_else(PoisonError::into_inner);
                    *current = acceptor;
                    if !first {
                        let path = self.files.certificate.display();
                        log(LogLevel::Info, &format!("certificate loaded: {path}"));
                    }
                }
                Err(reason) => {
                    let line = format!("the certificate stays as it was: {reason}");
                    log(LogLevel::Error, &line);
                }
            }
        }
    }
}

impl Tls {
    fn expiry_warning(&self) -> Option<String> {
        let now = clock::now().nanos() / 1_000_000_000;
        expiry_warning(&self.files.certificate, self.expiry()?, now)
    }
}

/// Reads the files for connections that speak `protocol`; and when the certificate expires.
fn read(files: &TlsFiles, protocol: &[u8]) -> Result<(tokio_rustls::TlsAcceptor, i64), String> {
    let acceptor = TlsAcceptor::new(files).map_err(|error| error.to_string())?;
    let mut config = (*acceptor.config()).clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    let expiry = acceptor.expiry().unwrap_or(NEVER);
    Ok((Arc::new(config).into(), expiry))
}

/// Lines about refused clients, few enough that clients cannot fill a disk with them.
#[derive(Default)]
pub(crate) struct Refusals {
    last: Cell<Option<Instant>>,
    left_out: Cell<u64>,
}

impl Refusals {
    /// Tells of a client that was refused, unless one has been told of just now.
    pub(crate) fn tell(&self, log: LogLine, peer: &str, reason: &str) {
        let recent = self
            .last
            .get()
            .is_some_and(|last| last.elapsed() < LOG_INTERVAL);
        if recent {
            self.left_out.set(self.left_out.get() + 1);
            return;
        }
        self.last.set(Some(Instant::now()));
        let more = match self.left_out.replace(0) {
            0 => String::new(),
            count => format!(" ({count} more since the last such line)"),
        };
        let line = format!("TLS: {peer} refused: {reason}{more}");
        log(LogLevel::Warning, &line);
    }
}
