//! A real Envoy asks the service: what it lets through, which headers it makes of the statuses, and what it does
//! when there is no decision.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testkit::peers;
use tollgate_testkit::process::{free_port, temp_dir};

use crate::support::{Service, http_request};

/// The request's header `x-ten` becomes the descriptor `ten`, and so on; the path behind Envoy is the service's
/// own health check.
const CONFIG: &str = r#"
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: LISTEN}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: test
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: test
              timeout: 5s
              failure_mode_deny: true
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {envoy_grpc: {cluster_name: tollgate}}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route:
                  cluster: behind
                  prefix_rewrite: /healthcheck
                  rate_limits:
                  - actions: [{request_headers: {header_name: x-one, descriptor_key: one}}]
                  - actions: [{request_headers: {header_name: x-ten, descriptor_key: ten}}]
                  - actions:
                    - {request_headers: {header_name: x-hundred, descriptor_key: hundred}}
                    - {request_headers: {header_name: x-user, descriptor_key: user}}
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
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: HTTP}}}}]}]
"#;

struct Envoy {
    process: Child,
    addr: SocketAddr,
    dir: PathBuf,
}

impl Envoy {
    fn start(program: PathBuf, service: &Service) -> Self {
        let port = free_port().expect("a free port");
        let dir = temp_dir().expect("a temporary folder");
        let text = CONFIG
            .replace("LISTEN", &port.to_string())
            .replace("GRPC", &service.server().grpc_addr().port().to_string())
            .replace(
                "HTTP}",
                &format!("{}}}", service.server().http_addr().port()),
            );
        let path = dir.join("envoy.yaml");
        std::fs::write(&path, text).expect("the folder is ours");
        let log = File::create(dir.join("log")).expect("the folder is ours");
        let mut process = Command::new(program)
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "--log-level",
                "warn",
                "--config-path",
            ])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("Envoy starts");
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(addr).is_err() {
            let ended = process.try_wait().expect("our process").is_some();
            let log = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            assert!(
                !ended && Instant::now() < deadline,
                "Envoy does not listen:\n{}",
                log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { process, addr, dir }
    }

    /// Status and head of the reply to a request with these header lines.
    fn get(&self, headers: &str) -> (u16, String) {
        let request = format!("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
        let (status, head, _) = http_request(self.addr, request.as_bytes(), b"");
        (status, head)
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn envoy_enforces_what_the_service_decides() {
    let Some(program) = peers::find_or_skip("envoy_enforces_what_the_service_decides", "envoy")
    else {
        return;
    };
    let mut service = Service::embedded();
    let envoy = Envoy::start(program, &service);

    let (status, head) = envoy.get("x-one: a\r\n");
    assert_eq!(status, 200, "{head}");
    assert_eq!(
        header(&head, "x-ratelimit-limit"),
        Some("1, 1;w=31536000;name=\"one-per-year\"")
    );
    assert_eq!(header(&head, "x-ratelimit-remaining"), Some("0"));
    let reset = header(&head, "x-ratelimit-reset").and_then(|text| text.parse::<u32>().ok());
    assert!(
        reset.is_some_and(|reset| (1..=31_536_000).contains(&reset)),
        "{head}"
    );
    let (status, head) = envoy.get("x-one: a\r\n");
    assert_eq!(
        (status, header(&head, "x-envoy-ratelimited")),
        (429, Some("true"))
    );
    assert_eq!(envoy.get("x-one: b\r\n").0, 200);

    // Of several descriptors the tightest makes the headers, and a denial takes from none.
    let both = "x-ten: a\r\nx-hundred: a\r\nx-user: u\r\n";
    let (status, head) = envoy.get(both);
    assert_eq!(
        (status, header(&head, "x-ratelimit-remaining")),
        (200, Some("2"))
    );
    assert_eq!(
        header(&head, "x-ratelimit-limit"),
        Some("3, 10;w=2592000, 3;w=86400")
    );
    assert_eq!(
        [envoy.get(both).0, envoy.get(both).0, envoy.get(both).0],
        [200, 200, 429]
    );
    let (_, head) = envoy.get("x-ten: a\r\n");
    assert_eq!(header(&head, "x-ratelimit-remaining"), Some("6"));

    // No descriptor, no question; no rule, no limit.
    assert_eq!(envoy.get("").0, 200);

    // Without the service Envoy decides by its own failure mode, which is to deny with 500 here.
    drop(service.server.take());
    assert_eq!(envoy.get("x-ten: b\r\n").0, 500);
}
