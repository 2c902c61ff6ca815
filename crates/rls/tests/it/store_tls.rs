//! A store that speaks TLS and wants a certificate.

use tollgate_rls::{Backend, RlsServer, StoreConfig};
use tollgate_testkit::{Server, peers, process::free_port};

use crate::support::{Client, config, descriptor, patient, request, system_clock};
use crate::tls::Files;

#[tokio::test]
async fn a_store_is_asked_over_tls_with_a_certificate() {
    let files = Files::new();
    files.sign("store", "127.0.0.1", false);
    files.sign("own", "service", false);
    let path = |name, kind| files.path(name, kind).display().to_string();
    let port = free_port().expect("a free port").to_string();
    let flags = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &path("store", "cert"),
        "--tls-key-file",
        &path("store", "key"),
        "--tls-ca-cert-file",
        &path("own", "ca"),
        "--tls-auth-clients",
        "yes",
    ];
    let Some(_redis) = Server::redis(&flags).expect("redis-server starts with TLS") else {
        peers::skip(
            "a_store_is_asked_over_tls_with_a_certificate",
            "redis-server",
        );
        return;
    };
    let start = |authority: &str, own: Option<&str>| {
        let url = format!("rediss://127.0.0.1:{port}");
        let mut config = config(files.folder(), Backend::Remote(url));
        config.store = StoreConfig {
            tls_authority: Some(files.path(authority, "ca")),
            tls_certificate: own.map(|own| files.path(own, "cert")),
            tls_key: own.map(|own| files.path(own, "key")),
            ..patient()
        };
        RlsServer::start(config, None, system_clock)
    };
    for (authority, own, passes) in [
        ("store", Some("own"), true),
        ("store", None, false),
        ("store", Some("store"), false),
        ("own", Some("own"), false),
    ] {
        let service = start(authority, own).expect("the service starts");
        let mut client = Client::connect(service.grpc_addr().expect("TCP")).await;
        let answer = client.ask(request(vec![descriptor(&["ten=tls"])])).await;
        assert_eq!(answer.is_ok(), passes, "{authority} {own:?}: {answer:?}");
    }
    // What cannot be read is told at the start.
    let error = start("nobody", None).expect_err("no such file").to_string();
    assert!(error.contains("nobody-ca.pem"), "{error}");
}

/// Redis with the certificate of that name, which asks for none.
fn redis_with(files: &Files, name: &str) -> Option<(Server, String)> {
    let path = |kind| files.path(name, kind).display().to_string();
    let port = free_port().expect("a free port").to_string();
    let flags = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &path("cert"),
        "--tls-key-file",
        &path("key"),
        "--tls-ca-cert-file",
        &path("ca"),
        "--tls-auth-clients",
        "no",
    ];
    let server = Server::redis(&flags).expect("redis-server starts with TLS")?;
    Some((server, format!("rediss://127.0.0.1:{port}")))
}

/// A certificate as `openssl req -x509` makes it is trusted where it is named as the authority, as envoyproxy/ratelimit does: it
/// must be that very one, for that name, and of this time.
#[tokio::test]
async fn a_store_that_signed_its_certificate_itself_is_trusted_by_name() {
    const TEST: &str = "a_store_that_signed_its_certificate_itself_is_trusted_by_name";
    let files = Files::new();
    for (name, host, is_authority, late) in [
        ("authority", "127.0.0.1", true, false),
        ("plain", "127.0.0.1", false, false),
        ("elsewhere", "store.example", true, false),
        ("late", "127.0.0.1", true, true),
        ("other", "127.0.0.1", true, false),
    ] {
        files.sign_itself(name, host, is_authority, late);
    }
    for (shown, trusted, any_name, passes) in [
        ("authority", "authority", false, true),
        ("plain", "plain", false, true),
        ("elsewhere", "elsewhere", false, false),
        ("elsewhere", "elsewhere", true, true),
        ("late", "late", true, false),
        ("authority", "other", true, false),
        ("plain", "other", true, false),
    ] {
        let Some((_redis, url)) = redis_with(&files, shown) else {
            return peers::skip(TEST, "redis-server");
        };
        let mut config = config(files.folder(), Backend::Remote(url));
        config.store = StoreConfig {
            tls_authority: Some(files.path(trusted, "ca")),
            tls_any_name: any_name,
            ..patient()
        };
        let service = RlsServer::start(config, None, system_clock).expect("the service starts");
        let mut client = Client::connect(service.grpc_addr().expect("TCP")).await;
        let answer = client.ask(request(vec![descriptor(&["ten=self"])])).await;
        let row = (shown, trusted, any_name);
        assert_eq!(answer.is_ok(), passes, "{row:?}: {answer:?}");
    }
}

/// A store whose certificate has expired is not asked, and the error says why.
#[tokio::test]
async fn a_store_whose_certificate_has_expired_is_refused() {
    let files = Files::new();
    files.sign("store", "127.0.0.1", true);
    let Some((_redis, url)) = redis_with(&files, "store") else {
        let test = "a_store_whose_certificate_has_expired_is_refused";
        return peers::skip(test, "redis-server");
    };
    let mut config = config(files.folder(), Backend::Remote(url));
    config.store.tls_authority = Some(files.path("store", "ca"));
    let service = RlsServer::start(config, None, system_clock).expect("the service starts");
    let mut client = Client::connect(service.grpc_addr().expect("TCP")).await;
    let answer = client.ask(request(vec![descriptor(&["ten=late"])])).await;
    let status = answer.expect_err("it must not be trusted");
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(status.message().contains("xpired"), "{status}");
    // What needs no store is answered.
    let free = client.ask(request(vec![descriptor(&["free=x"])])).await;
    free.expect("an answer");
}
