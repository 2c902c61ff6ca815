//! TLS and mutual TLS on both ports, with certificates made here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_rls::{Backend, LogLevel, RlsConfig, RlsServer, TlsConfig};
use tollgate_testkit::PATIENCE;
use tollgate_testkit::process::temp_dir;
use tollgate_wire::rls::SHOULD_RATE_LIMIT;

use crate::support::{RULES, config, descriptor, http_exchange, request, system_clock};

/// What services of these tests have written into their logs.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(_: LogLevel, line: &str) {
    LOG.lock()
        .expect("no test fails with it")
        .push(line.to_owned());
}

/// An authority for each certificate, in a folder of its own.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self(temp_dir().expect("a temporary folder"));
        std::fs::write(files.0.join("rules.yaml"), RULES).expect("the folder is ours");
        files.sign("server", "localhost", false);
        files
    }

    /// Makes the authority `NAME-ca` and a certificate of it for a host; one that has expired when `late`.
    pub(crate) fn sign(&self, name: &str, host: &str, late: bool) {
        let ca_key = KeyPair::generate().expect("a key");
        let mut ca = CertificateParams::new(Vec::new()).expect("valid");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name
            .push(DnType::CommonName, format!("{name} authority"));
        let authority = ca.self_signed(&ca_key).expect("signed");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("valid");
        if late {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let certificate = params
            .signed_by(&key, &Issuer::new(ca, ca_key))
            .expect("signed");
        for (kind, pem) in [
            ("ca", authority.pem()),
            ("cert", certificate.pem()),
            ("key", key.serialize_pem()),
        ] {
            std::fs::write(self.path(name, kind), pem).expect("the folder is ours");
        }
    }

    /// Makes a certificate that nobody else has signed, as `openssl req -x509` does: an authority, unless told otherwise.
    pub(crate) fn sign_itself(&self, name: &str, host: &str, is_authority: bool, late: bool) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("valid");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = match is_authority {
            true => IsCa::Ca(BasicConstraints::Unconstrained),
            false => IsCa::ExplicitNoCa,
        };
        if late {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let certificate = params.self_signed(&key).expect("signed");
        for (kind, pem) in [
            ("ca", certificate.pem()),
            ("cert", certificate.pem()),
            ("key", key.serialize_pem()),
        ] {
            std::fs::write(self.path(name, kind), pem).expect("the folder is ours");
        }
    }

    /// Where rules and certificates are.
    pub(crate) fn folder(&self) -> PathBuf {
        self.0.clone()
    }

    pub(crate) fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.0.join(format!("{name}-{kind}.pem"))
    }

    pub(crate) fn tls(&self, clients: Option<&str>) -> TlsConfig {
        TlsConfig::new(
            self.path("server", "cert"),
            self.path("server", "key"),
            clients.map(|clients| self.path(clients, "ca")),
        )
    }

    fn serve(&self, change: impl FnOnce(&mut RlsConfig)) -> RlsServer {
        let store = Handle::new(Engine::new(EngineConfig::default()));
        self.serve_on(store, change)
    }

    /// The same, with a store that the caller knows.
    pub(crate) fn serve_on(&self, store: Handle, change: impl FnOnce(&mut RlsConfig)) -> RlsServer {
        let mut config = config(self.0.clone(), Backend::Embedded);
        config.log = log;
        change(&mut config);
        RlsServer::start(config, Some(store), system_clock).expect("the service starts")
    }

    /// A session with a server that `authority` signed for, showing the certificate of `own`.
    pub(crate) async fn connect(
        &self,
        addr: SocketAddr,
        authority: &str,
        own: Option<&str>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(self.path(authority, "ca")).expect("made here");
        roots.add(ca).expect("made here");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("known")
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = CertificateDer::from_pem_file(self.path(own, "cert"));
                let key = PrivateKeyDer::from_pem_file(self.path(own, "key"));
                builder
                    .with_client_auth_cert(vec![chain.expect("made here")], key.expect("made here"))
                    .expect("made here")
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(addr).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    /// The status line of a health check over TLS; empty where the server hangs up.
    async fn health(&self, addr: SocketAddr, authority: &str, own: Option<&str>) -> String {
        let Ok(mut stream) = self.connect(addr, authority, own).await else {
            return String::new();
        };
        let request = b"GET /healthcheck HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let mut reply = Vec::new();
        // With TLS 1.3 a client hears of its refusal only now.
        if stream.write_all(request).await.is_err() || stream.read_to_end(&mut reply).await.is_err()
        {
            return String::new();
        }
        let reply = String::from_utf8(reply).expect("text");
        reply.lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // The folder is the system's to clean up if it will not go.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

const GOOD: &str = "HTTP/1.1 200 OK";

fn wait_for_line(parts: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let log = LOG.lock().expect("no test fails with it").clone();
        if log
            .iter()
            .any(|line| parts.iter().all(|part| line.contains(part)))
        {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "no line with {parts:?} in {log:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn both_ports_speak_tls_and_nothing_else() {
    let files = Files::new();
    let server = files.serve(|config| {
        config.grpc_tls = Some(files.tls(None));
        config.http_tls = Some(files.tls(None));
    });
    let http = server.http_addr().expect("TCP");
    assert_eq!(files.health(http, "server", None).await, GOOD);
    let stream = files
        .connect(server.grpc_addr().expect("TCP"), "server", None)
        .await
        .expect("a session");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(async move { connection.await.ok() });
    let mut sender = sender.ready().await.expect("HTTP/2");
    let head = http::Request::post("https://localhost/grpc.health.v1.Health/Check")
        .header("content-type", "application/grpc")
        .body(())
        .expect("a head");
    let (response, mut body) = sender.send_request(head, false).expect("a stream");
    body.send_data(Bytes::from_static(&[0; 5]), true)
        .expect("open");
    let mut response = response.await.expect("a response").into_body();
    let data = response
        .data()
        .await
        .expect("a message")
        .expect("a message");
    assert_eq!(&data[..], [0, 0, 0, 0, 2, 8, 1]);
    // In plain text there is no answer.
    let mut plain = TcpStream::connect(http).await.expect("it listens");
    plain
        .write_all(b"GET /healthcheck HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("it reads");
    let mut reply = Vec::new();
    plain.read_to_end(&mut reply).await.ok();
    assert!(!reply.starts_with(b"HTTP/"), "{reply:?}");
}

/// Connections with TLS are served by other code than those without; what they may not do is the same.
#[tokio::test]
async fn calls_over_tls_are_refused_as_those_without() {
    let files = Files::new();
    let server = files.serve(|config| {
        config.grpc_tls = Some(files.tls(None));
        config.shed_after = Duration::from_secs(3_600);
    });
    let stream = files
        .connect(server.grpc_addr().expect("TCP"), "server", None)
        .await;
    let (sender, connection) = h2::client::handshake(stream.expect("a session"))
        .await
        .expect("HTTP/2");
    tokio::spawn(async move { connection.await.ok() });
    let ask = async |timeout: &str, message: &[u8]| {
        let mut sender = sender.clone().ready().await.expect("HTTP/2");
        let head = http::Request::post(format!("https://localhost{SHOULD_RATE_LIMIT}"))
            .header("content-type", "application/grpc")
            .header("grpc-timeout", timeout)
            .body(())
            .expect("a head");
        let (response, mut body) = sender.send_request(head, false).expect("a stream");
        let mut framed = vec![0];
        framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
        framed.extend_from_slice(message);
        // Refused before it has come whole, the rest of it is wanted by nobody.
        body.send_data(framed.into(), true).ok();
        let head = response.await.expect("a response");
        match head.headers().get("grpc-status") {
            Some(status) => status.to_str().expect("text").to_owned(),
            None => {
                let mut body = head.into_body();
                body.data().await.expect("a message").expect("a message");
                let trailers = body.trailers().await.expect("trailers").expect("trailers");
                trailers["grpc-status"].to_str().expect("text").to_owned()
            }
        }
    };
    let message = |count| request(vec![descriptor(&["hundred=t"]); count]).encode_to_vec();
    let long = "x".repeat(10 << 20);
    let long = request(vec![descriptor(&[&format!("hundred={long}")])]).encode_to_vec();
    // INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE.
    for (what, timeout, message, status) in [
        ("a decision", "3600S", message(1), "0"),
        (
            "no message of this kind",
            "3600S",
            vec![10, 255, 255, 255],
            "3",
        ),
        ("10,000 descriptors", "3600S", message(10_000), "3"),
        ("a descriptor of 10 MB", "3600S", long, "8"),
        ("no time", "0m", message(1), "14"),
        ("another decision", "3600S", message(1), "0"),
    ] {
        assert_eq!(ask(timeout, &message).await, status, "{what}");
    }
}

#[tokio::test]
async fn clients_without_the_right_certificate_are_refused_and_logged() {
    let files = Files::new();
    files.sign("client", "caller.test", false);
    files.sign("late", "late.test", true);
    files.sign("stranger", "stranger.test", false);
    let server = files.serve(|config| config.http_tls = Some(files.tls(Some("client"))));
    let http = server.http_addr().expect("TCP");
    assert_eq!(files.health(http, "server", Some("client")).await, GOOD);
    for own in [None, Some("stranger")] {
        assert_eq!(files.health(http, "server", own).await, "", "{own:?}");
    }
    wait_for_line(&["TLS: 127.0.0.1:", " refused: "]);
    // One that would be right, had it not expired.
    let server = files.serve(|config| config.http_tls = Some(files.tls(Some("late"))));
    let late = files
        .health(server.http_addr().expect("TCP"), "server", Some("late"))
        .await;
    assert_eq!(late, "");
    wait_for_line(&["TLS: 127.0.0.1:", " refused: ", "certificate expired"]);
}

#[tokio::test]
async fn a_client_is_known_by_the_name_of_its_certificate() {
    let files = Files::new();
    files.sign("client", "caller.test", false);
    let of = |name: &str| TlsConfig {
        client_name: Some(name.to_owned()),
        ..files.tls(Some("client"))
    };
    let server = files.serve(|config| config.http_tls = Some(of("caller.test")));
    let reply = files
        .health(server.http_addr().expect("TCP"), "server", Some("client"))
        .await;
    assert_eq!(reply, GOOD);
    let server = files.serve(|config| config.http_tls = Some(of("other.test")));
    let reply = files
        .health(server.http_addr().expect("TCP"), "server", Some("client"))
        .await;
    assert_eq!(reply, "");
    wait_for_line(&["the client's certificate is not for other.test"]);
}

#[tokio::test]
async fn a_changed_certificate_is_taken_up_and_a_broken_one_is_not() {
    let files = Files::new();
    let server = files.serve(|config| config.http_tls = Some(files.tls(None)));
    let http = server.http_addr().expect("TCP");
    assert_eq!(files.health(http, "server", None).await, GOOD);
    // The old one stays while the new one is not whole.
    let old = std::fs::read(files.path("server", "ca")).expect("made here");
    std::fs::write(files.0.join("old-ca.pem"), old).expect("the folder is ours");
    std::fs::write(files.path("server", "cert"), "half").expect("the folder is ours");
    wait_for_line(&["the certificate stays as it was: ", "server-cert.pem"]);
    assert_eq!(files.health(http, "old", None).await, GOOD);
    files.sign("server", "localhost", false);
    let deadline = Instant::now() + PATIENCE;
    while files.health(http, "server", None).await != GOOD {
        assert!(Instant::now() < deadline, "the new certificate is not used");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(files.health(http, "old", None).await, "");
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_told_of_until_it_is_replaced() {
    let files = Files::new();
    files.sign("server", "localhost", true);
    let server = files.serve(|config| config.grpc_tls = Some(files.tls(None)));
    let path = files.path("server", "cert");
    wait_for_line(&["has expired", path.to_str().expect("text")]);
    let expires = || {
        let addr = server.http_addr().expect("TCP");
        let (_, _, text) = http_exchange(addr, "GET", "/metrics", "");
        let name = "tollgate_tls_certificate_expiry_timestamp_seconds{port=\"grpc\"} ";
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.expect("a line").parse::<i64>().expect("a number")
    };
    // The first second of 2002.
    assert_eq!(expires(), 1_009_843_200);
    files.sign("server", "localhost", false);
    let deadline = Instant::now() + PATIENCE;
    while expires() == 1_009_843_200 {
        assert!(Instant::now() < deadline, "the new one is taken up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn what_cannot_be_used_keeps_the_service_from_starting() {
    let files = Files::new();
    let error = |tls: TlsConfig| {
        let mut config = config(files.0.clone(), Backend::Embedded);
        config.grpc_tls = Some(tls);
        let store = Handle::new(Engine::new(EngineConfig::default()));
        let started = RlsServer::start(config, Some(store), system_clock);
        started.expect_err("it must not start").to_string()
    };
    let missing = TlsConfig::new("/no/such.pem".into(), files.path("server", "key"), None);
    assert!(error(missing).starts_with("TLS: /no/such.pem: "));
    let nameless = TlsConfig {
        client_name: Some("a b".to_owned()),
        ..files.tls(Some("server"))
    };
    assert_eq!(
        error(nameless),
        "TLS: 'a b' is not a name that a certificate can have"
    );
    let unchecked = TlsConfig {
        client_name: Some("caller.test".to_owned()),
        ..files.tls(None)
    };
    assert!(error(unchecked).contains("needs their authority"));
}
