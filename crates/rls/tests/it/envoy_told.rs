//! What clients of a real Envoy are told: the headers, bodies and metadata that the service gives it, and those it makes of
//! the statuses; and the ways in which Envoy asks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_rls::{HeaderForm, Modes};
use tollgate_testkit::PATIENCE;
use tollgate_testkit::peers;
use tollgate_testkit::process::free_port;

use crate::envoy::{Envoy, header};
use crate::support::{Service, http_request};

const RULES: &str = "
domain: test
descriptors:
  - key: bucket
    rate_limit: {name: bucket, period: 1h, requests_per_unit: 10, algorithm: gcra}
  - key: window
    rate_limit: {name: window, unit: year, requests_per_unit: 10}
  - key: one
    rate_limit: {unit: year, requests_per_unit: 1}
    metadata: {plan: gold}
  - key: job
    rate_limit: {concurrency: 1, lease: 1h}
    metadata: {places: 1}
";

/// Each header `x-KEY` becomes a descriptor of that key. `/cost` counts what `x-cost` says, `/given` brings a limit of its
/// own from the metadata, `/later` counts at the end of the response, `/job` gives back there what it took before.
const CONFIG: &str = r#"
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: LISTEN}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: told
          http_filters:
          - name: envoy.filters.http.set_metadata
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
              metadata:
              - {metadata_namespace: limits, value: {given: {requests_per_unit: 2, unit: HOUR}}}
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: test
              timeout: 30s
              failure_mode_deny: true
              OPTIONS
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {envoy_grpc: {cluster_name: tollgate}}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            response_headers_to_add:
            - {header: {key: x-plan, value: "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:metadata:plan)%"}}
            - {header: {key: x-domain, value: "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:domain)%"}}
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /cost}
                route: {cluster: behind, prefix_rewrite: /healthcheck}
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions: [{request_headers: {header_name: x-window, descriptor_key: window}}]
                      hits_addend: {format: "%REQ(x-cost)%"}
                    - actions: [{request_headers: {header_name: x-bucket, descriptor_key: bucket}}]
                      hits_addend: {format: "%REQ(x-cost)%"}
              - match: {prefix: /given}
                route:
                  cluster: behind
                  prefix_rewrite: /healthcheck
                  rate_limits:
                  - actions: [{request_headers: {header_name: x-one, descriptor_key: one}}]
                    limit: {dynamic_metadata: {metadata_key: {key: limits, path: [{key: given}]}}}
              - match: {prefix: /later}
                route: {cluster: behind, prefix_rewrite: /healthcheck}
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions: [{request_headers: {header_name: x-window, descriptor_key: window}}]
                      hits_addend: {number: 3}
                      apply_on_stream_done: true
              - match: {prefix: /job}
                route: {cluster: behind, prefix_rewrite: /healthcheck}
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions: [{request_headers: {header_name: x-job, descriptor_key: job}}]
                    - actions: [{request_headers: {header_name: x-job, descriptor_key: job}}]
                      hits_addend:
                        format: "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:metadata:places)%"
                        is_negative_hits: true
                      apply_on_stream_done: true
              - match: {prefix: /}
                route:
                  cluster: behind
                  prefix_rewrite: /healthcheck
                  rate_limits:
                  - actions: [{request_headers: {header_name: x-bucket, descriptor_key: bucket}}]
                  - actions: [{request_headers: {header_name: x-window, descriptor_key: window}}]
                  - actions: [{request_headers: {header_name: x-one, descriptor_key: one}}]
  clusters:
  - name: tollgate
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: tollgate
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: GRPC}}}}]}]
  - name: behind
    connect_timeout: 5s
    load_assignment:
      cluster_name: behind
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: BEHIND}}}}]}]
"#;

/// A service, and an Envoy in front of it.
struct Front {
    envoy: Envoy,
    service: Service,
}

impl Front {
    /// `options` are those of the filter, each in `key: value`.
    fn start(program: PathBuf, modes: Modes, options: &[&str]) -> Self {
        let service = Service::with_config(|config| {
            std::fs::write(config.rules_dir.join("rules.yaml"), RULES).expect("the folder is ours");
            config.modes = modes;
        });
        let port = free_port().expect("a free port");
        let port_of = |addr: Option<SocketAddr>| addr.expect("TCP").port().to_string();
        let config = CONFIG
            .replace("LISTEN", &port.to_string())
            .replace("OPTIONS", &options.join("\n              "))
            .replace("GRPC", &port_of(service.server().grpc_addr()))
            .replace("BEHIND", &port_of(service.server().http_addr()));
        Self {
            envoy: Envoy::run(program, &config, port),
            service,
        }
    }

    fn get(&self, path: &str, headers: &str) -> (u16, String, String) {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
        http_request(self.envoy.addr(), request.as_bytes(), b"")
    }

    /// Status, and what is left by `x-ratelimit-remaining`.
    fn left(&self, path: &str, headers: &str) -> (u16, Option<u32>) {
        let (status, head, _) = self.get(path, headers);
        (status, number(&head, "x-ratelimit-remaining"))
    }
}

fn number(head: &str, name: &str) -> Option<u32> {
    header(head, name)?.parse().ok()
}

/// The head's lines of a header.
fn count(head: &str, name: &str) -> usize {
    head.lines()
        .filter(|line| line.starts_with(&format!("{name}: ")))
        .count()
}

const DRAFT_03: &str = "enable_x_ratelimit_headers: DRAFT_VERSION_03";
const RETRY_AFTER: &str = "enable_retry_after_header: true";

/// Ten an hour, one every six minutes: nobody who is denied needs to stay away for the hour that all ten take.
#[test]
fn envoy_tells_a_denied_client_when_the_next_unit_is_there() {
    let test = "envoy_tells_a_denied_client_when_the_next_unit_is_there";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let front = Front::start(program, Modes::default(), &[DRAFT_03, RETRY_AFTER]);
    for left in (0..10).rev() {
        assert_eq!(front.left("/", "x-bucket: a\r\n"), (200, Some(left)));
    }
    let (status, head, _) = front.get("/", "x-bucket: a\r\n");
    assert_eq!(status, 429, "{head}");
    for name in ["x-ratelimit-reset", "retry-after"] {
        let told = number(&head, name);
        assert!(told.is_some_and(|told| (1..=360).contains(&told)), "{head}");
    }
    // What never passes is not asked for every second.
    let (status, head, _) = front.get("/cost", "x-bucket: b\r\nx-cost: 11\r\n");
    assert_eq!(status, 429, "{head}");
    let (status, head, _) = front.get("/cost", "x-window: b\r\nx-cost: 11\r\n");
    assert_eq!(status, 429, "{head}");
    assert!(number(&head, "retry-after") > Some(1), "{head}");
}

#[test]
fn envoy_hands_on_headers_bodies_and_metadata_of_the_service() {
    let test = "envoy_hands_on_headers_bodies_and_metadata_of_the_service";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let modes = Modes {
        headers: Some(HeaderForm::Draft11),
        dynamic_metadata: true,
        ..Modes::default()
    };
    let front = Front::start(program, modes, &[RETRY_AFTER]);
    let (status, head, body) = front.get("/", "x-one: a\r\nx-bucket: a\r\n");
    assert_eq!((status, &*body), (200, "OK"), "{head}");
    assert_eq!(
        header(&head, "ratelimit-policy"),
        Some("\"bucket\";q=10;w=3600, \"one\";q=1;w=31536000")
    );
    let told = header(&head, "ratelimit").expect("what is left");
    assert!(told.starts_with("\"bucket\";r=9;t="), "{head}");
    assert_eq!(header(&head, "retry-after"), None, "{head}");
    assert_eq!(header(&head, "x-domain"), Some("test"), "{head}");
    assert_eq!(header(&head, "x-plan"), Some("gold"), "{head}");

    let (status, head, body) = front.get("/", "x-one: a\r\nx-bucket: a\r\n");
    assert_eq!(status, 429, "{head}");
    assert_eq!(
        header(&head, "content-type"),
        Some("application/problem+json"),
        "{head}"
    );
    assert_eq!(
        header(&head, "content-length"),
        Some(&*body.len().to_string()),
        "{head}"
    );
    let problem: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["violated-policies"], serde_json::json!(["one"]));
    // The one of the service, which Envoy adds none to.
    assert_eq!(count(&head, "retry-after"), 1, "{head}");
    assert!(number(&head, "retry-after") > Some(3_600), "{head}");
    // The limit that would have passed took nothing.
    let told = header(&head, "ratelimit").expect("what is left");
    assert!(told.starts_with("\"bucket\";r=9;t="), "{head}");
}

#[test]
fn envoy_denies_in_the_way_it_is_told_to() {
    let test = "envoy_denies_in_the_way_it_is_told_to";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let options = [
        "rate_limited_status: {code: ServiceUnavailable}",
        "rate_limited_as_resource_exhausted: true",
        "disable_x_envoy_ratelimited_header: true",
        "response_headers_to_add: [{header: {key: x-denied, value: \"yes\"}}]",
    ];
    let front = Front::start(program, Modes::default(), &options);
    let one = "x-one: a\r\n";
    assert_eq!(front.get("/", one).0, 200);
    let (status, head, body) = front.get("/", one);
    assert_eq!((status, &*body), (503, ""), "{head}");
    assert_eq!(header(&head, "x-denied"), Some("yes"), "{head}");
    assert_eq!(header(&head, "x-envoy-ratelimited"), None, "{head}");
    // gRPC calls are told by their own status, RESOURCE_EXHAUSTED.
    let call = format!("{one}content-type: application/grpc\r\n");
    let (status, head, _) = front.get("/", &call);
    assert_eq!(
        (status, number(&head, "grpc-status")),
        (200, Some(8)),
        "{head}"
    );
}

#[test]
fn envoy_brings_limits_and_hits_and_asks_when_responses_end() {
    let test = "envoy_brings_limits_and_hits_and_asks_when_responses_end";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let front = Front::start(program, Modes::default(), &[DRAFT_03]);
    // Two an hour, whatever the rule says.
    for (status, left) in [(200, 1), (200, 0), (429, 0)] {
        let (told, head, _) = front.get("/given", "x-one: given\r\n");
        assert_eq!(told, status, "{head}");
        assert_eq!(header(&head, "x-ratelimit-limit"), Some("2, 2;w=3600"));
        assert_eq!(number(&head, "x-ratelimit-remaining"), Some(left), "{head}");
    }
    // Nothing is asked before the response, and three are taken after it.
    let look = || front.left("/cost", "x-window: later\r\nx-cost: 0\r\n");
    assert_eq!(look(), (200, Some(10)));
    assert_eq!(front.left("/later", "x-window: later\r\n"), (200, None));
    until(|| look() == (200, Some(7)));
}

/// Envoy ends the stream of a denied request, too: what it gave back then would be another's place. The metadata of the rule are
/// told of requests that pass alone.
#[test]
fn envoy_gives_back_the_places_of_requests_that_passed() {
    let test = "envoy_gives_back_the_places_of_requests_that_passed";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let modes = Modes {
        dynamic_metadata: true,
        ..Modes::default()
    };
    let front = Front::start(program, modes, &[DRAFT_03]);
    let decide = |path: &str, id: &str| {
        let entry = r#"{"entries":[{"key":"job","value":"a"}]}"#;
        let body = format!(r#"{{"domain":"test","descriptors":[{entry}]{id}}}"#);
        let (status, told) = front.service.http("POST", path, &body);
        assert_eq!(status, 200, "{told}");
        serde_json::from_str::<serde_json::Value>(&told).expect("JSON")
    };
    let job = || front.get("/job", "x-job: a\r\n").0;
    let taken = decide("/v1/decide", "");
    for _ in 0..5 {
        assert_eq!(job(), 429);
    }
    // What Envoy asks at the end of this one comes behind what it would have asked before.
    assert_eq!(front.left("/later", "x-window: marks\r\n").0, 200);
    until(|| front.left("/cost", "x-window: marks\r\nx-cost: 0\r\n").1 == Some(7));
    assert_eq!(job(), 429);
    decide("/v1/release", &format!(r#","id":{}"#, taken["lease"]));
    // A place comes back with the end of each response, and the next one has it.
    for _ in 0..5 {
        until(|| job() == 200);
    }
}

fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it never came");
        thread::sleep(Duration::from_millis(10));
    }
}
