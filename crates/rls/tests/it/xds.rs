//! Rules from a management server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_rustls::TlsAcceptor;
use tollgate_net::tls::TlsAcceptor as NetAcceptor;
use tollgate_rls::{LogLevel, RlsConfig, XdsBackoff, XdsConfig, XdsTls};
use tollgate_testkit::PATIENCE;
use tollgate_testkit::process::{free_port, temp_dir};
use tollgate_wire::xds::{Any, RateLimitConfig, RateLimitDescriptor, RateLimitPolicy};

use crate::management::Management;
use crate::support::Service;
use crate::tls::Files;

/// What services of these tests have written into their logs.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(_: LogLevel, line: &str) {
    LOG.lock()
        .expect("no test fails with it")
        .push(line.to_owned());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} never comes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for a line of the log that has all these words.
fn wait_for_line(words: &[&str]) {
    wait_until(&format!("{words:?}"), || {
        let log = LOG.lock().expect("no test fails with it");
        log.iter()
            .any(|line| words.iter().all(|word| line.contains(word)))
    });
}

fn xds(server: String) -> XdsConfig {
    let soon = Duration::from_millis(100);
    XdsConfig {
        server,
        node_id: "ours".to_owned(),
        node_metadata: Vec::new(),
        headers: Vec::new(),
        connect_interval: soon,
        backoff: XdsBackoff {
            initial: soon,
            most: soon,
            factor: 0.5,
            jitter: true,
        },
        max_message: 4 << 20,
        tls: None,
    }
}

/// A service that starts without rules and is given them there.
fn service(server: &str, change: impl FnOnce(&mut RlsConfig, &mut XdsConfig)) -> Service {
    Service::with_config(|config| {
        let mut xds = xds(server.to_owned());
        config.start_without_rules = true;
        config.health.rules = false;
        config.log = log;
        change(config, &mut xds);
        config.xds = Some(xds);
    })
}

/// Rules of a domain: a limit per year for each of these keys.
fn rules(domain: &str, limits: &[(&str, u32)]) -> RateLimitConfig {
    let descriptor = |(key, requests): &(&str, u32)| RateLimitDescriptor {
        key: (*key).to_owned(),
        rate_limit: Some(RateLimitPolicy {
            unit: 6,
            requests_per_unit: *requests,
            ..RateLimitPolicy::default()
        }),
        ..RateLimitDescriptor::default()
    };
    RateLimitConfig {
        name: format!("config of {domain}"),
        domain: domain.to_owned(),
        descriptors: limits.iter().map(descriptor).collect(),
    }
}

/// The limit of a key and the status of the answer; `None` without a limit.
fn limit(service: &Service, domain: &str, key: &str) -> (u16, Option<u32>) {
    let body = format!(
        r#"{{"domain":"{domain}","descriptors":[{{"entries":[{{"key":"{key}","value":"x"}}]}}]}}"#
    );
    let (status, reply) = service.json(&body);
    let limit = reply.split_once(r#""requestsPerUnit":"#).map(|(_, rest)| {
        let digits = rest.split([',', '}']).next();
        digits.and_then(|digits| digits.parse().ok()).expect(&reply)
    });
    (status, limit)
}

fn loads(service: &Service) -> (u64, u64) {
    let (_, body) = service.http("GET", "/metrics", "");
    let metric = |name: &str| {
        let prefix = format!("ratelimit_service_config_load_{name} ");
        let mut lines = body.lines();
        lines.find_map(|line| line.strip_prefix(&*prefix)?.parse().ok())
    };
    (
        metric("success").expect("there"),
        metric("error").expect("there"),
    )
}

fn healthy(service: &Service) -> bool {
    service.http("GET", "/healthcheck", "").0 == 200
}

fn said(version: &str, nonce: &str, refused: Option<&str>) -> (String, String, Option<String>) {
    (
        version.to_owned(),
        nonce.to_owned(),
        refused.map(str::to_owned),
    )
}

#[test]
fn rules_are_in_force_once_they_are_acknowledged() {
    let server = Management::start();
    let service = service(&server.addr().to_string(), |_, _| {});
    assert_eq!(limit(&service, "d", "a"), (500, None));
    assert!(healthy(&service) && loads(&service) == (0, 0));
    let first = server.wait_for("request", |_| true);
    assert_eq!(first.said(), said("", "", None));
    assert_eq!(first.node(), "ours");
    assert_eq!(
        first.request.type_url,
        tollgate_wire::xds::RATE_LIMIT_CONFIG
    );

    server.give("one", &[rules("d", &[("a", 5)]), rules("e", &[("a", 6)])]);
    assert_eq!(server.answer("0/1"), said("one", "0/1", None));
    assert_eq!(limit(&service, "d", "a"), (200, Some(5)));
    assert_eq!(limit(&service, "e", "a"), (200, Some(6)));
    assert_eq!(loads(&service), (1, 0));

    // What is not valid is refused whole, and the rules before stay.
    server.give(
        "two",
        &[rules("d", &[("a", 7)]), rules("e", &[("a", 1), ("a", 2)])],
    );
    let why = "config of e: duplicate descriptor composite key 'e.a'";
    assert_eq!(server.answer("0/2"), said("one", "0/2", Some(why)));
    assert_eq!(limit(&service, "d", "a"), (200, Some(5)));
    assert_eq!(loads(&service), (1, 1));
    let other = Any {
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
        value: Vec::new(),
    };
    server.give_any("three", vec![other]);
    let (version, _, why) = server.answer("0/3");
    assert_eq!(version, "one");
    let why = why.expect("refused");
    assert!(why.starts_with("proto: mismatched message type"), "{why}");
    assert_eq!(loads(&service), (1, 2));

    server.give("four", &[rules("d", &[("a", 8)])]);
    assert_eq!(server.answer("0/4"), said("four", "0/4", None));
    assert_eq!(limit(&service, "d", "a"), (200, Some(8)));
    assert_eq!(limit(&service, "e", "a"), (200, None));
    // No rules are rules, too: everything passes.
    server.give("five", &[]);
    assert_eq!(server.answer("0/5"), said("five", "0/5", None));
    assert_eq!(limit(&service, "d", "a"), (200, None));
    assert_eq!(loads(&service), (3, 2));
    assert!(healthy(&service));
}

#[test]
fn nobody_is_served_before_the_first_rules_unless_told_to() {
    let server = Management::start();
    let service = service(&server.addr().to_string(), |config, _| {
        config.start_without_rules = false;
    });
    assert!(!healthy(&service));
    server.wait_for("request", |_| true);
    // Rules that are not valid are none.
    server.give("bad", &[rules("", &[])]);
    let why = "config of : config file cannot have empty domain";
    assert_eq!(server.answer("0/1"), said("", "0/1", Some(why)));
    assert!(!healthy(&service));
    server.give("good", &[]);
    assert_eq!(server.answer("0/2"), said("good", "0/2", None));
    wait_until("health", || healthy(&service));
}

#[test]
fn without_domains_a_service_that_needs_them_is_not_healthy() {
    let server = Management::start();
    let service = service(&server.addr().to_string(), |config, _| {
        config.health.rules = true;
    });
    assert!(!healthy(&service));
    for (version, rules, health) in [
        ("one", vec![rules("d", &[])], true),
        ("two", Vec::new(), false),
        ("three", vec![rules("d", &[])], true),
    ] {
        server.give(version, &rules);
        server.wait_for(version, |heard| heard.request.version_info == version);
        wait_until(version, || healthy(&service) == health);
    }
}

#[test]
fn a_stream_that_fails_is_opened_again() {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().expect("a port")));
    // Nobody is there yet.
    let service = service(&addr.to_string(), |_, _| {});
    wait_for_line(&[&addr.to_string(), "no rules from", "refused"]);
    let server = Management::start_at(addr, None);
    server.give("one", &[rules("d", &[("a", 5)])]);
    assert_eq!(server.answer("0/1"), said("one", "0/1", None));
    server.give("bad", &[rules("", &[])]);
    assert!(server.answer("0/2").2.is_some());

    server.cut();
    // On a new stream the nonce of another says nothing, and what was refused is not what the client has.
    let again = server.wait_for("second stream", |heard| heard.stream == 1);
    assert_eq!(again.said(), said("one", "", None));
    wait_for_line(&[&addr.to_string(), "Unavailable: gone for now"]);
    // It is given again what it has not taken.
    assert!(server.answer("1/2").2.is_some());
    server.give("three", &[rules("d", &[("a", 6)])]);
    assert_eq!(server.answer("1/3"), said("three", "1/3", None));

    drop(server);
    assert_eq!(limit(&service, "d", "a"), (200, Some(6)));
    assert!(healthy(&service));
    let server = Management::start_at(addr, None);
    server.give("four", &[rules("d", &[("a", 7)])]);
    let first = server.wait_for("request", |_| true);
    assert_eq!(first.said(), said("three", "", None));
    assert_eq!(server.answer("0/1"), said("four", "0/1", None));
    assert_eq!(limit(&service, "d", "a"), (200, Some(7)));
}

/// As go-control-plane gives what a client has not: a client that answers at once, and a log with a line for each, would do nothing
/// else any more.
#[test]
fn rules_that_are_given_again_are_refused_without_another_word() {
    let server = Management::start();
    server.insist();
    let service = service(&server.addr().to_string(), |_, _| {});
    server.give("bad", &[rules("insistent", &[("a", 1), ("a", 2)])]);
    let refused = |heard: &&crate::management::Heard| heard.request.error_detail.is_some();
    wait_until("three refusals", || {
        server.heard().iter().filter(refused).count() >= 3
    });
    assert_eq!(loads(&service), (0, 1));
    let log = LOG.lock().expect("no test fails with it").clone();
    let told = log.iter().filter(|line| line.contains("'insistent.a'"));
    assert_eq!(told.count(), 1);
    server.give("good", &[rules("d", &[("a", 5)])]);
    server.wait_for("answer", |heard| heard.request.version_info == "good");
    assert_eq!(limit(&service, "d", "a"), (200, Some(5)));
    // What is refused once more after that is told again.
    server.give("bad", &[rules("insistent", &[("a", 1), ("a", 2)])]);
    wait_until("another error", || loads(&service).1 == 2);
}

#[test]
fn the_server_is_told_what_the_settings_say() {
    let dir = temp_dir().expect("a temporary folder");
    let path = dir.join("xds.sock");
    let server = Management::start_on_socket(&path);
    let _service = service(&format!("unix:{}", path.display()), |_, xds| {
        xds.node_id = "gateway".to_owned();
        xds.node_metadata = vec![("zone".to_owned(), "a".to_owned())];
        xds.headers = vec![("X-Team".to_owned(), "limits".to_owned())];
    });
    let heard = server.wait_for("request", |_| true);
    assert_eq!(heard.headers.get("x-team").expect("given"), "limits");
    let node = heard.request.node.expect("told");
    assert_eq!(node.id, "gateway");
    let zone = node.metadata.expect("told").fields["zone"].kind.clone();
    assert_eq!(
        zone,
        Some(tollgate_wire::rls::value::Kind::StringValue("a".to_owned()))
    );
    std::fs::remove_dir_all(dir).ok();
}

#[test]
fn a_response_that_is_too_long_ends_the_stream() {
    let server = Management::start();
    let addr = server.addr().to_string();
    let service = service(&addr, |_, xds| xds.max_message = 1_000);
    server.wait_for("request", |_| true);
    server.give("long", &[rules(&"x".repeat(1_000), &[])]);
    wait_for_line(&[&addr, "OutOfRange"]);
    server.give("short", &[rules("d", &[("a", 5)])]);
    server.wait_for("answer", |heard| heard.request.version_info == "short");
    assert_eq!(limit(&service, "d", "a"), (200, Some(5)));
}

pub(crate) fn acceptor(files: &Files, clients: Option<&str>) -> TlsAcceptor {
    let acceptor = NetAcceptor::new(&files.tls(clients).files).expect("made here");
    let mut config = (*acceptor.config()).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config).into()
}

/// The certificate of the server is for `localhost`, and clients must show one of `own-ca`.
#[test]
fn certificates_are_looked_at_on_both_sides() {
    let files = Files::new();
    files.sign("own", "service", false);
    files.sign("late", "service", true);
    let own = |name: &str| Some((files.path(name, "cert"), files.path(name, "key")));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    for (clients, authority, shown, name, trouble) in [
        (None, Some("server"), None, None, None),
        (Some("own"), Some("server"), own("own"), None, None),
        (Some("own"), Some("server"), None, None, Some("")),
        (Some("own"), Some("server"), own("server"), None, Some("")),
        (None, Some("own"), None, None, Some("UnknownIssuer")),
        (None, None, None, None, Some("UnknownIssuer")),
        (
            None,
            Some("server"),
            None,
            Some("elsewhere"),
            Some("not valid for name"),
        ),
    ] {
        let server = Management::start_at(any, Some(acceptor(&files, clients)));
        let addr = format!("localhost:{}", server.addr().port());
        let _service = service(&addr, |_, xds| {
            xds.tls = Some(XdsTls {
                own: shown.clone(),
                authority: authority.map(|name| files.path(name, "ca")),
                server_name: name.map(str::to_owned),
            });
        });
        match trouble {
            None => {
                server.wait_for("request", |_| true);
            }
            Some(words) => {
                wait_for_line(&[&addr, "no rules from", words]);
                assert!(server.heard().is_empty(), "{shown:?} {authority:?}");
            }
        }
    }
}

/// The address need not be what the certificate is for, and requests are for that name, too.
#[test]
fn the_name_of_the_server_may_be_another_than_its_address() {
    let files = Files::new();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Management::start_at(any, Some(acceptor(&files, None)));
    let addr = server.addr().to_string();
    let tls = |name: Option<&str>| XdsTls {
        own: None,
        authority: Some(files.path("server", "ca")),
        server_name: name.map(str::to_owned),
    };
    let _other = service(&addr, |_, xds| xds.tls = Some(tls(None)));
    wait_for_line(&[&addr, "not valid for name"]);
    let _service = service(&addr, |_, xds| xds.tls = Some(tls(Some("localhost"))));
    let heard = server.wait_for("request", |_| true);
    assert_eq!(heard.authority, "localhost");
}

/// Certificates of services live for hours where something renews them.
#[test]
fn files_of_tls_are_read_again_for_each_connection() {
    let files = Files::new();
    files.sign("own", "service", true);
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    files.sign("fresh", "service", false);
    let server = Management::start_at(any, Some(acceptor(&files, Some("fresh"))));
    let addr = format!("localhost:{}", server.addr().port());
    let service = service(&addr, |_, xds| {
        xds.tls = Some(XdsTls {
            own: Some((files.path("own", "cert"), files.path("own", "key"))),
            authority: Some(files.path("server", "ca")),
            server_name: None,
        });
    });
    server.give("one", &[rules("d", &[("a", 5)])]);
    wait_for_line(&[&addr, "no rules from"]);
    assert!(server.heard().is_empty());
    for kind in ["key", "cert"] {
        std::fs::copy(files.path("fresh", kind), files.path("own", kind)).expect("ours");
    }
    assert_eq!(server.answer("0/1"), said("one", "0/1", None));
    assert_eq!(limit(&service, "d", "a"), (200, Some(5)));
}

#[test]
fn what_cannot_work_is_told_at_the_start() {
    let files = Files::new();
    let start = |change: &dyn Fn(&mut XdsConfig)| {
        let mut config = crate::support::config(files.folder(), tollgate_rls::Backend::Embedded);
        let mut given = xds("localhost:1".to_owned());
        change(&mut given);
        config.xds = Some(given);
        let store = tollgate_engine::Handle::new(tollgate_engine::Engine::new(
            tollgate_engine::EngineConfig::default(),
        ));
        let started =
            tollgate_rls::RlsServer::start(config, Some(store), crate::support::system_clock);
        started.map(drop).expect_err("it cannot").to_string()
    };
    let tls = |change: &dyn Fn(&mut XdsTls)| {
        let mut tls = XdsTls::default();
        change(&mut tls);
        start(&|xds| xds.tls = Some(tls.clone()))
    };
    let told = start(&|xds| xds.server = "nowhere".to_owned());
    assert_eq!(told, "xDS: 'nowhere' is neither host:port nor unix:path");
    let told = tls(&|tls| tls.authority = Some(files.path("nobody", "ca")));
    assert!(told.contains("nobody-ca.pem"), "{told}");
    let told = tls(&|tls| tls.authority = Some(files.path("server", "key")));
    assert!(told.contains("server-key.pem: no certificate"), "{told}");
    let key_alone = (files.path("server", "key"), files.path("server", "key"));
    let told = tls(&|tls| tls.own = Some(key_alone.clone()));
    assert!(told.starts_with("xDS: "), "{told}");
}
