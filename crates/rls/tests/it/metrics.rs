//! What the service tells about itself: on the debug port, to Prometheus, and to statsd.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use tollgate_rls::{StatsdConfig, StatsdProtocol};
use tollgate_testkit::PATIENCE;

use crate::support::{Service, http_exchange};

const RULES: &str = "
domain: counted
descriptors:
  - key: detailed
    detailed_metric: true
    rate_limit: {unit: year, requests_per_unit: 5}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
";

fn ask(service: &Service, key: &str, value: &str, hits: u32) {
    let body = format!(
        r#"{{"domain":"counted","hitsAddend":{hits},"descriptors":[{{"entries":[{{"key":"{key}","value":"{value}"}}]}}]}}"#
    );
    let (status, reply) = service.json(&body);
    assert!(status == 200 || status == 429, "{status} {reply}");
}

fn started(change: impl FnOnce(&mut tollgate_rls::RlsConfig)) -> Service {
    Service::with_config(|config| {
        std::fs::write(config.rules_dir.join("counted.yaml"), RULES).expect("the folder is ours");
        change(config);
    })
}

#[test]
fn rules_count_by_the_names_of_the_peer() {
    let service = started(|_| {});
    ask(&service, "detailed", "10.0.0.1", 5);
    ask(&service, "detailed", "10.0.0.1", 1);
    ask(&service, "shadow", "x", 2);
    let (status, text) = service.http("GET", "/metrics", "");
    assert_eq!(status, 200);
    for line in [
        "ratelimit_service_rate_limit_total_hits{domain=\"counted\",key1=\"detailed_10_0_0_1\"} 6",
        "ratelimit_service_rate_limit_over_limit{domain=\"counted\",key1=\"detailed_10_0_0_1\"} 1",
        "ratelimit_service_rate_limit_near_limit{domain=\"counted\",key1=\"detailed_10_0_0_1\"} 1",
        "ratelimit_service_rate_limit_within_limit{domain=\"counted\",key1=\"detailed_10_0_0_1\"} 5",
        "ratelimit_service_rate_limit_shadow_mode{domain=\"counted\",key1=\"shadow\"} 2",
        // Rules that nobody has met yet are there.
        "ratelimit_service_rate_limit_total_hits{domain=\"test\",key1=\"hundred\",key2=\"user\"} 0",
        "ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} 3",
        "ratelimit_service_config_load_success 1",
        "tollgate_serving 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    service.json("{");
    service.json(r#"{"domain":"nowhere","descriptors":[{"entries":[{"key":"a"}]}]}"#);
    let (_, text) = service.http("GET", "/metrics", "");
    assert!(text.contains("\nratelimit_service_rate_limit_domain_not_found 1\n"));
}

#[test]
fn the_debug_port_shows_rules_and_counters() {
    let any = "127.0.0.1:0".parse().expect("an address");
    let service = started(|config| {
        config.debug_addr = Some(any);
        config.prometheus = Some((any, "/numbers".to_owned()));
    });
    ask(&service, "shadow", "x", 1);
    let debug = service.server().debug_addr().expect("it listens");
    let get = |path: &str| {
        let (status, _, body) = http_exchange(debug, "GET", path, "");
        (status, body)
    };
    let (status, rules) = get("/rlconfig");
    assert_eq!(status, 200);
    for line in [
        "counted.shadow: unit=YEAR requests_per_unit=1, shadow_mode: true, quota_mode: false",
        "test.open: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false",
    ] {
        assert!(rules.lines().any(|found| found == line), "{line}\n{rules}");
    }
    let (status, stats) = get("/stats");
    assert_eq!(status, 200);
    assert!(
        stats.contains("ratelimit.service.rate_limit.counted.shadow.total_hits: 1\n"),
        "{stats}"
    );
    assert_eq!(get("/").0, 200);
    let (status, refusal) = get("/debug/pprof/heap");
    assert_eq!(status, 501);
    assert!(refusal.contains("perf record"), "{refusal}");
    assert_eq!(get("/json").0, 404);
    assert_eq!(http_exchange(debug, "POST", "/stats", "").0, 405);
    let prometheus = service.server().prometheus_addr().expect("it listens");
    let (status, _, text) = http_exchange(prometheus, "GET", "/numbers", "");
    assert!(
        status == 200 && text.contains("# TYPE ratelimit_service_rate_limit_total_hits counter")
    );
    assert_eq!(http_exchange(prometheus, "GET", "/metrics", "").0, 404);
}

#[test]
fn statsd_is_told_what_has_been_added() {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    receiver
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a timeout");
    let addr = receiver.local_addr().expect("bound").to_string();
    let service = started(|config| {
        config.statsd = Some(StatsdConfig {
            protocol: StatsdProtocol::Udp,
            addr,
            dog: true,
            tags: vec![("env".to_owned(), "test".to_owned())],
            interval: Duration::from_millis(50),
        });
    });
    ask(&service, "shadow", "x", 3);
    let deadline = Instant::now() + PATIENCE;
    let mut seen = String::new();
    let wanted = [
        "ratelimit.service.rate_limit.counted.shadow.total_hits:3|c|#env:test",
        "ratelimit.service.config_load_success:1|c|#env:test",
    ];
    let has = |seen: &str, want: &str| seen.lines().any(|line| line == want);
    while !wanted.iter().all(|want| has(&seen, want)) {
        assert!(Instant::now() < deadline, "{seen}");
        let mut datagram = [0; 2_048];
        if let Ok(len) = receiver.recv(&mut datagram) {
            seen.push_str(std::str::from_utf8(&datagram[..len]).expect("text"));
            seen.push('\n');
        }
    }
}

#[test]
fn a_service_may_wait_for_its_rules() {
    let service = Service::with_config(|config| {
        std::fs::remove_file(config.rules_dir.join("rules.yaml")).expect("it was written");
        config.start_without_rules = true;
    });
    assert_eq!(service.http("GET", "/healthcheck", "").0, 500);
    let (status, reply) =
        service.json(r#"{"domain":"late","descriptors":[{"entries":[{"key":"a"}]}]}"#);
    assert_eq!(status, 500);
    assert!(
        reply.contains("no rate limit configuration loaded"),
        "{reply}"
    );
    service.write_rules("rules.yaml", "domain: late\n");
    let deadline = Instant::now() + PATIENCE;
    while service.http("GET", "/healthcheck", "").0 != 200 {
        assert!(Instant::now() < deadline, "the rules are not taken up");
        std::thread::sleep(Duration::from_millis(20));
    }
}
