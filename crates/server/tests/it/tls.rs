//! TLS and mutual TLS, with certificates made here.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tollgate_net::signal::Signals;
use tollgate_server::config::{Config, find};
use tollgate_server::{Log, Server};
use tollgate_testkit::PATIENCE;
use tollgate_testkit::peers;
use tollgate_testkit::process::{free_port, temp_root};

use crate::harness::BACKEND_VARIABLE;

mod version_1;

/// A certificate of version 1 and its key, made once by `openssl x509 -req -signkey`: rcgen makes those of version 3 only.
const VERSION_1: [(&str, &str); 3] = [
    ("ca", VERSION_1_CERTIFICATE),
    ("cert", VERSION_1_CERTIFICATE),
    ("key", VERSION_1_KEY),
];
const VERSION_1_CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBJDCBywIULBYtn++nvTO3g0wMTwUZVoGpdT8wCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMzA3MjU1MVoYDzIxMjYxMDMwMDcyNTUx
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQys/8rdigbKET1hSJU0G3sgl6h3ozPWeA3Uvsp/BK6YmRHJimLt71pJ7tkhNMt
vPhC17WutizHvfEoBdgnTZyGMAoGCCqGSM49BAMCA0gAMEUCIQDJ52sxBHIikl7K
SvaHl42w71/uoq7zTYMHM3NBxLbdSAIgZ/MTxuMjRzNIczHPAWCJX1uyuw5P1kmV
EYXJXnfmB3Y=
-----END CERTIFICATE-----
";
const VERSION_1_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgsb3X9WoP2CkBToc8
eDgFtwtDB0gxdLPfVXJfWYgEkPihRANCAAQys/8rdigbKET1hSJU0G3sgl6h3ozP
WeA3Uvsp/BK6YmRHJimLt71pJ7tkhNMtvPhC17WutizHvfEoBdgnTZyG
-----END PRIVATE KEY-----
";

/// An authority and what it has signed, in a folder of its own.
pub(crate) struct Files {
    dir: PathBuf,
}

impl Files {
    pub(crate) fn new(name: &str) -> Files {
        let dir = temp_root().join(format!("tollgate-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let files = Files { dir };
        files.sign("server", false);
        files.sign("client", false);
        files.sign("late", true);
        files.alone("alone", false);
        files.alone("stale", true);
        files
    }

    /// Makes a certificate that is its own authority; one that has expired when `late`.
    fn alone(&self, name: &str, late: bool) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        if late {
            expire(&mut params);
        }
        let certificate = params.self_signed(&key).unwrap().pem();
        for (kind, pem) in [
            ("ca", &certificate),
            ("cert", &certificate),
            ("key", &key.serialize_pem()),
        ] {
            std::fs::write(self.path(name, kind), pem).unwrap();
        }
    }

    /// Makes the authority `NAME-ca` and a certificate of it; one that has expired when `late`.
    fn sign(&self, name: &str, late: bool) {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name
            .push(DnType::CommonName, format!("{name} authority"));
        let authority = ca.self_signed(&ca_key).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        if late {
            expire(&mut params);
        }
        let issuer = Issuer::new(ca, ca_key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        for (kind, pem) in [
            ("ca", authority.pem()),
            ("cert", certificate.pem()),
            ("key", key.serialize_pem()),
        ] {
            std::fs::write(self.path(name, kind), pem).unwrap();
        }
    }

    fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.dir.join(format!("{name}-{kind}.pem"))
    }

    pub(crate) fn text(&self, name: &str, kind: &str) -> String {
        self.path(name, kind).to_str().unwrap().to_owned()
    }

    /// Whether the server at this address speaks TLS and shows the certificate `server`.
    pub(crate) fn is_served(&self, addr: SocketAddr) -> bool {
        let mut client = self.connect(addr, "server", None);
        let mut answer = [0; 7];
        let asked = client.0.write_all(b"PING\r\n");
        asked
            .and_then(|()| client.0.read_exact(&mut answer))
            .is_ok()
            && &answer == b"+PONG\r\n"
    }

    /// A client that trusts `authority` and shows the certificate of `own`.
    fn connect(&self, addr: SocketAddr, authority: &str, own: Option<&str>) -> Client {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(self.path(authority, "ca")).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = vec![CertificateDer::from_pem_file(self.path(own, "cert")).unwrap()];
                let key = PrivateKeyDer::from_pem_file(self.path(own, "key")).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Client::new(addr, config)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

fn expire(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2001, 1, 1);
    params.not_after = date_time_ymd(2002, 1, 1);
}

/// A server with a TLS port only.
pub(crate) struct Tls {
    server: Option<Server>,
    pub(crate) addr: SocketAddr,
}

impl Tls {
    pub(crate) fn start(files: &Files, settings: &[(&str, &str)]) -> Tls {
        let port = free_port().unwrap();
        let server = Tls::try_start(files, port, settings).unwrap();
        Tls {
            server: Some(server),
            addr: (Ipv4Addr::LOCALHOST, port).into(),
        }
    }

    fn try_start(files: &Files, port: u16, settings: &[(&str, &str)]) -> Result<Server, String> {
        let mut config = Config::default();
        let backend = std::env::var(BACKEND_VARIABLE).unwrap_or_else(|_| "auto".to_owned());
        for (name, value) in [
            ("port", "0"),
            ("tls-port", &port.to_string()),
            ("threads", "2"),
            ("io-backend", &backend),
            ("dir", files.dir.to_str().unwrap()),
            ("tls-cert-file", &files.text("server", "cert")),
            ("tls-key-file", &files.text("server", "key")),
            ("tls-ca-cert-file", &files.text("client", "ca")),
        ]
        .iter()
        .chain(settings)
        {
            config.set(find(name).unwrap().key, value).unwrap();
        }
        Server::start(config, Signals::pipe().unwrap(), Arc::new(Log::silent()))
            .map_err(|error| error.to_string())
    }

    fn connect(&self, files: &Files, authority: &str, own: Option<&str>) -> Client {
        files.connect(self.addr, authority, own)
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.server.take().unwrap().shutdown().unwrap();
    }
}

struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    fn new(addr: SocketAddr, config: ClientConfig) -> Client {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(StreamOwned::new(session, socket))
    }

    /// Sends the bytes and reads an answer of the same length as the expected one.
    fn expect(&mut self, send: &[u8], expected: &[u8]) {
        self.0.write_all(send).unwrap();
        let mut answer = vec![0; expected.len()];
        self.0.read_exact(&mut answer).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&answer),
            String::from_utf8_lossy(expected)
        );
    }

    /// The error with which the server refuses the client.
    fn refusal(&mut self) -> String {
        let sent = self.0.write_all(b"PING\r\n");
        let answer = sent.and_then(|()| self.0.read_exact(&mut [0; 7]));
        answer.expect_err("the server refuses").to_string()
    }
}

#[test]
fn a_client_of_the_authority_is_served() {
    let files = Files::new("served");
    let server = Tls::start(&files, &[]);
    let mut client = server.connect(&files, "server", Some("client"));
    client.expect(b"PING\r\n", b"+PONG\r\n");
    let value = "v".repeat(300_000);
    let set = format!(
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n",
        value.len()
    );
    client.expect(set.as_bytes(), b"+OK\r\n");
    let get = format!("${}\r\n{value}\r\n", value.len());
    client.expect(b"GET k\r\n", get.as_bytes());
    let many = get.repeat(40);
    client.expect("GET k\r\n".repeat(40).as_bytes(), many.as_bytes());
    client.expect(b"QUIT\r\n", b"+OK\r\n");
    assert_eq!(
        client.0.read(&mut [0; 1]).unwrap(),
        0,
        "the end is announced"
    );
}

#[test]
fn messages_reach_a_subscriber_and_waits_end() {
    let files = Files::new("pushes");
    let server = Tls::start(&files, &[]);
    let mut reader = server.connect(&files, "server", Some("client"));
    let mut writer = server.connect(&files, "server", Some("client"));
    reader.expect(
        b"SUBSCRIBE c\r\n",
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    );
    writer.expect(b"PUBLISH c hello\r\n", b":1\r\n");
    reader.expect(b"", b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n");
}

#[test]
fn what_a_plain_client_asks_is_told_to_nobody_else() {
    let files = Files::new("beside");
    let path = files.dir.join("socket");
    let server = Tls::start(
        &files,
        &[("threads", "1"), ("unixsocket", path.to_str().unwrap())],
    );
    let mut client = server.connect(&files, "server", Some("client"));
    client.expect(b"PING\r\n", b"+PONG\r\n");
    let mut plain = std::os::unix::net::UnixStream::connect(&path).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut record = Vec::new();
    client.0.conn.writer().write_all(b"PING\r\n").unwrap();
    client.0.conn.write_tls(&mut record).unwrap();
    // A part of a record has no answer.
    client.0.sock.write_all(&record[..10]).unwrap();
    plain.write_all(b"ECHO secret\r\n").unwrap();
    let mut answer = [0; 12];
    plain.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"$6\r\nsecret\r\n");
    client.0.sock.write_all(&record[10..]).unwrap();
    client.expect(b"", b"+PONG\r\n");
}

#[test]
fn what_was_sent_before_the_end_is_answered() {
    let files = Files::new("end");
    let server = Tls::start(&files, &[]);
    let mut other = server.connect(&files, "server", Some("client"));
    let value = "v".repeat(100_000);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{value}\r\n");
    other.expect(set.as_bytes(), b"+OK\r\n");
    let asked = format!("{}INCR n\r\n", "GET k\r\n".repeat(20));
    let answer = format!("$100000\r\n{value}\r\n").repeat(20);
    // Each answer is so large that the next command is run later.
    let mut client = server.connect(&files, "server", Some("client"));
    client.expect(b"PING\r\n", b"+PONG\r\n");
    client.0.conn.writer().write_all(asked.as_bytes()).unwrap();
    client.0.conn.send_close_notify();
    client.expect(b"", format!("{answer}:1\r\n").as_bytes());
    // The same behind a command that waits.
    let mut client = server.connect(&files, "server", Some("client"));
    let blocked = format!("BLPOP q 0\r\n{asked}");
    client.0.write_all(blocked.as_bytes()).unwrap();
    other.expect(b"LPUSH q e\r\n", b":1\r\n");
    let answer = format!("*2\r\n$1\r\nq\r\n$1\r\ne\r\n{answer}:2\r\n");
    client.expect(b"", answer.as_bytes());
}

#[test]
fn who_shows_no_certificate_or_a_wrong_one_is_refused() {
    let files = Files::new("refused");
    let server = Tls::start(&files, &[]);
    let nothing = server.connect(&files, "server", None).refusal();
    assert!(nothing.contains("CertificateRequired"), "{nothing}");
    let foreign = server.connect(&files, "server", Some("server")).refusal();
    assert!(
        foreign.contains("UnknownCA") || foreign.contains("DecryptError"),
        "{foreign}"
    );
    let mut client = server.connect(&files, "server", Some("client"));
    client.expect(b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn an_expired_certificate_is_refused() {
    let files = Files::new("expired");
    let authority = files.text("late", "ca");
    let server = Tls::start(&files, &[("tls-ca-cert-file", &authority)]);
    let refusal = server.connect(&files, "server", Some("late")).refusal();
    assert!(refusal.contains("CertificateExpired"), "{refusal}");
}

#[test]
fn a_certificate_of_the_list_of_authorities_may_be_shown() {
    let files = Files::new("listed");
    let listed = files.text("alone", "cert");
    let server = Tls::start(&files, &[("tls-ca-cert-file", &listed)]);
    let mut client = server.connect(&files, "server", Some("alone"));
    client.expect(b"PING\r\n", b"+PONG\r\n");
    let foreign = server.connect(&files, "server", Some("stale")).refusal();
    assert!(foreign.contains("received fatal alert"), "{foreign}");
    let expired = files.text("stale", "cert");
    let server = Tls::start(&files, &[("tls-ca-cert-file", &expired)]);
    let refusal = server.connect(&files, "server", Some("stale")).refusal();
    assert!(refusal.contains("CertificateExpired"), "{refusal}");
    // An authority that is not of the list, though valid.
    let refusal = server.connect(&files, "server", Some("alone")).refusal();
    assert!(refusal.contains("received fatal alert"), "{refusal}");
}

#[test]
fn certificates_of_clients_may_be_optional_or_not_asked_for() {
    let files = Files::new("optional");
    for asked in ["optional", "no"] {
        let server = Tls::start(&files, &[("tls-auth-clients", asked)]);
        let mut client = server.connect(&files, "server", None);
        client.expect(b"PING\r\n", b"+PONG\r\n");
    }
}

#[test]
fn plain_text_on_the_tls_port_is_survived() {
    let files = Files::new("plain");
    let server = Tls::start(&files, &[]);
    for garbage in [
        &b"PING\r\n"[..],
        b"\x16\x03\x01\xff\xff",
        b"\0\0\0\0\0\0\0\0",
    ] {
        let mut socket = TcpStream::connect(server.addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // Either fails once the server has closed the connection.
        socket.write_all(garbage).ok();
        socket.shutdown(std::net::Shutdown::Write).ok();
        let mut answer = Vec::new();
        // The connection may also be reset, as bytes are left unread.
        socket.read_to_end(&mut answer).ok();
        assert!(!answer.starts_with(b"+"), "{answer:?}");
    }
    let mut client = server.connect(&files, "server", Some("client"));
    client.expect(b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn new_certificates_are_taken_over() {
    let files = Files::new("reload");
    let server = Tls::start(&files, &[("tls-auth-clients", "no")]);
    let mut old = server.connect(&files, "server", None);
    old.expect(b"PING\r\n", b"+PONG\r\n");
    let set = |name: &str| {
        format!(
            "CONFIG SET tls-cert-file {} tls-key-file {}\r\n",
            files.text(name, "cert"),
            files.text(name, "key")
        )
    };
    old.expect(
        b"CONFIG SET tls-cert-file /nonexistent\r\n",
        b"-ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - \
          Unable to update TLS configuration. Check server logs.\r\n",
    );
    old.expect(set("client").as_bytes(), b"+OK\r\n");
    old.expect(b"PING\r\n", b"+PONG\r\n");
    let mut new = server.connect(&files, "client", None);
    new.expect(b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn a_server_without_what_it_needs_does_not_start() {
    let files = Files::new("start");
    let start = |settings: &[(&str, &str)]| match Tls::try_start(&files, 1, settings) {
        Ok(_) => panic!("the server started"),
        Err(error) => error,
    };
    let none = start(&[("tls-cert-file", "")]);
    assert_eq!(none, "tls-port needs tls-cert-file and tls-key-file");
    let other = files.text("client", "key");
    assert!(start(&[("tls-key-file", &other)]).starts_with("TLS cannot be set up: "));
    assert!(start(&[("tls-ca-cert-file", "")]).contains("tls-ca-cert-file"));
    assert!(start(&[("tls-protocols", "TLSv1.1")]).contains("TLSv1.2 and TLSv1.3"));
}

#[test]
fn redis_cli_speaks_with_it() {
    let files = Files::new("cli");
    let server = Tls::start(&files, &[]);
    cli_is_served("redis_cli_speaks_with_it", &files, server.addr, "server");
}

/// OpenSSL's clients take it, and `tls-auth-clients no` asks none of them.
#[test]
fn a_certificate_of_version_1_is_shown() {
    let files = Files::new("version-1");
    for (kind, pem) in VERSION_1 {
        std::fs::write(files.path("old", kind), pem).unwrap();
    }
    let (certificate, key) = (files.text("old", "cert"), files.text("old", "key"));
    let shown = ("tls-cert-file", &*certificate);
    let other = ("tls-key-file", &*files.text("server", "key"));
    let refused = Tls::try_start(&files, 1, &[shown, other]).err().unwrap();
    assert!(refused.starts_with("TLS cannot be set up: "), "{refused}");
    let own = ("tls-key-file", &*key);
    let server = Tls::start(&files, &[shown, own, ("tls-auth-clients", "no")]);
    cli_is_served(
        "a_certificate_of_version_1_is_shown",
        &files,
        server.addr,
        "old",
    );
}

/// Has redis-cli ask, which trusts `authority` and shows a client's certificate.
fn cli_is_served(test: &str, files: &Files, addr: SocketAddr, authority: &str) {
    let port = addr.port().to_string();
    let asked = Command::new("redis-cli")
        .args(["-h", "localhost", "-p", &port, "--tls"])
        .args(["--cacert", &files.text(authority, "ca")])
        .args(["--cert", &files.text("client", "cert")])
        .args(["--key", &files.text("client", "key")])
        .arg("PING")
        .output();
    let Ok(output) = asked else {
        return peers::skip(test, "redis-cli");
    };
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("Unrecognized option") {
        return peers::skip(test, "a redis-cli with TLS");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "PONG\n", "{error}");
}
