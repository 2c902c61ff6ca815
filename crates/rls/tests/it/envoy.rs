//! A real Envoy asks the service: what it lets through, which headers it makes of the statuses, and what it does
//! when there is no decision.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testkit::process::{free_port, temp_dir};
use tollgate_testkit::{PATIENCE, Server, peers};
use tollgate_wire::rls::rate_limit_response::Code;

use crate::replica::Replica;
use crate::support::{Client, RULES, Service, descriptor, http_request, request};

/// The request's header `x-ten` becomes the descriptor `ten`, and so on; what `x-cost` says counts for `/cost`. The path
/// behind Envoy is the service's own health check. A second listener deals gRPC calls out to the services in turn.
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
              timeout: 30s
              failure_mode_deny: DENY
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
              - match: {prefix: /cost}
                route: {cluster: behind, prefix_rewrite: /healthcheck}
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions: [{request_headers: {header_name: x-ten, descriptor_key: ten}}]
                      hits_addend: {format: "%REQ(x-cost)%"}
                    - actions: [{request_headers: {header_name: x-hundred, descriptor_key: hundred}}]
                      hits_addend: {number: 30}
              - match: {prefix: /}
                route:
                  cluster: behind
                  prefix_rewrite: /healthcheck
                  rate_limits:
                  - actions: [{request_headers: {header_name: x-one, descriptor_key: one}}]
                  - actions: [{request_headers: {header_name: x-ten, descriptor_key: ten}}]
                  - actions: [{request_headers: {header_name: x-all, descriptor_key: hundred}}]
                  - actions:
                    - {request_headers: {header_name: x-hundred, descriptor_key: hundred}}
                    - {request_headers: {header_name: x-user, descriptor_key: user}}
  - address: {socket_address: {address: 127.0.0.1, port_value: BALANCE}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: balance
          codec_type: HTTP2
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{match: {prefix: /}, route: {cluster: tollgate, timeout: 60s}}]
  clusters:
  - name: tollgate
    lb_policy: ROUND_ROBIN
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: tollgate
      endpoints: [{lb_endpoints: [GRPC]}]
  - name: behind
    connect_timeout: 5s
    load_assignment:
      cluster_name: behind
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: BEHIND}}}}]}]
"#;

pub(crate) struct Envoy {
    process: Child,
    addr: SocketAddr,
    balance: SocketAddr,
    dir: PathBuf,
}

impl Envoy {
    /// In front of services by their gRPC addresses; `behind` answers what passes.
    fn start(program: PathBuf, services: &[SocketAddr], behind: SocketAddr, deny: bool) -> Self {
        let [port, balance] = [(); 2].map(|()| free_port().expect("a free port"));
        let endpoint = |service: &SocketAddr| {
            let port = service.port();
            format!(
                "{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}"
            )
        };
        let endpoints: Vec<String> = services.iter().map(endpoint).collect();
        let text = CONFIG
            .replace("LISTEN", &port.to_string())
            .replace("BALANCE", &balance.to_string())
            .replace("DENY", &deny.to_string())
            .replace("[GRPC]", &format!("[{}]", endpoints.join(", ")))
            .replace("BEHIND", &behind.port().to_string());
        let mut envoy = Self::run(program, &text, port);
        envoy.balance = SocketAddr::from((Ipv4Addr::LOCALHOST, balance));
        envoy
    }

    /// With a configuration whose listeners are on loopback; ready once this port is.
    pub(crate) fn run(program: PathBuf, config: &str, port: u16) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        let path = dir.join("envoy.yaml");
        std::fs::write(&path, config).expect("the folder is ours");
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
        let deadline = Instant::now() + PATIENCE;
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
        Self {
            process,
            addr,
            balance: addr,
            dir,
        }
    }

    /// In front of one service in this process.
    fn of(program: PathBuf, service: &Service, deny: bool) -> Self {
        let server = service.server();
        Self::start(
            program,
            &[server.grpc_addr().expect("TCP")],
            server.http_addr().expect("TCP"),
            deny,
        )
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Status and head of the reply to a request with these header lines.
    pub(crate) fn get(&self, headers: &str) -> (u16, String) {
        self.get_path("/", headers)
    }

    pub(crate) fn get_path(&self, path: &str, headers: &str) -> (u16, String) {
        get(self.addr, path, headers)
    }
}

pub(crate) fn get(addr: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    let (status, head, _) = http_request(addr, request.as_bytes(), b"");
    (status, head)
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
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
    let envoy = Envoy::of(program, &service, true);

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

#[test]
fn without_the_service_envoy_lets_pass_unless_told_to_deny() {
    let test = "without_the_service_envoy_lets_pass_unless_told_to_deny";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    // What stands behind Envoy lives on.
    let (mut service, behind) = (Service::embedded(), Service::embedded());
    let envoy = Envoy::start(
        program,
        &[service.server().grpc_addr().expect("TCP")],
        behind.server().http_addr().expect("TCP"),
        false,
    );
    assert_eq!(
        [envoy.get("x-one: a\r\n").0, envoy.get("x-one: a\r\n").0],
        [200, 429]
    );
    drop(service.server.take());
    assert_eq!(envoy.get("x-one: a\r\n").0, 200);
}

#[test]
fn envoy_says_how_many_hits_each_descriptor_counts() {
    let test = "envoy_says_how_many_hits_each_descriptor_counts";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let service = Service::embedded();
    let envoy = Envoy::of(program, &service, true);
    let ask = |path: &str, headers: &str| {
        let (status, head) = envoy.get_path(path, headers);
        let left = header(&head, "x-ratelimit-remaining").map(str::to_owned);
        (status, left)
    };
    let left = |left: u32| Some(left.to_string());
    assert_eq!(ask("/cost", "x-ten: a\r\nx-cost: 7\r\n"), (200, left(3)));
    // Too much is denied, and takes nothing.
    assert_eq!(ask("/cost", "x-ten: a\r\nx-cost: 4\r\n").0, 429);
    assert_eq!(ask("/", "x-ten: a\r\n"), (200, left(2)));
    // Two descriptors, each by its own number: 30 of a hundred, and 9 and 1 of ten.
    let both = |cost| format!("x-ten: b\r\nx-hundred: b\r\nx-cost: {cost}\r\n");
    assert_eq!(ask("/cost", &both(9)), (200, left(1)));
    assert_eq!(ask("/cost", &both(1)), (200, left(0)));
    assert_eq!(ask("/cost", "x-hundred: b\r\n"), (200, left(10)));
    assert_eq!(ask("/cost", "x-hundred: b\r\n").0, 429);
}

/// Clients that ask at the same time.
const CLIENTS: usize = 20;
/// Requests of each: together four times the limit.
const EACH: usize = 20;

/// Two replicas on one store, behind Envoy as the filter's service and as a balancer of gRPC calls: a limit of a hundred
/// admits a hundred, whoever decides.
async fn replicas_admit_exactly_the_limit(program: PathBuf, store: &Server) {
    let rules = temp_dir().expect("a temporary folder");
    std::fs::write(rules.join("rules.yaml"), RULES).expect("the folder is ours");
    let url = format!("redis://{}", store.addr());
    let replicas = [(); 2].map(|()| Replica::start(&rules, &["--backend", &url]));
    let addrs = [replicas[0].grpc, replicas[1].grpc];
    let envoy = Envoy::start(program, &addrs, replicas[0].http, true);

    let filtered: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let addr = envoy.addr;
            thread::spawn(move || {
                let statuses = (0..EACH).map(|_| get(addr, "/", "x-all: filter\r\n").0);
                statuses.fold([0; 2], |[passed, denied], status| match status {
                    200 => [passed + 1, denied],
                    429 => [passed, denied + 1],
                    other => panic!("status {other}"),
                })
            })
        })
        .collect();
    let mut sums = [0; 2];
    for client in filtered {
        let [passed, denied] = client.join().expect("no panic");
        sums = [sums[0] + passed, sums[1] + denied];
    }
    assert_eq!(sums, [100, CLIENTS * EACH - 100]);

    let calling: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let addr = envoy.balance;
            tokio::spawn(async move {
                let mut client = Client::connect(addr).await;
                let mut passed = 0;
                for _ in 0..EACH {
                    let asked = request(vec![descriptor(&["hundred=balanced"])]);
                    let response = client.ask(asked).await.expect("an answer");
                    passed += usize::from(response.overall_code() == Code::Ok);
                }
                passed
            })
        })
        .collect();
    let mut passed = 0;
    for client in calling {
        passed += client.await.expect("no panic");
    }
    assert_eq!(passed, 100);

    // In turn means that each decided about half.
    let asked = replicas.each_ref().map(Replica::asked);
    let all = 2 * (CLIENTS * EACH) as u64;
    assert_eq!(asked[0] + asked[1], all, "{asked:?}");
    assert!(asked.iter().all(|&asked| asked > all / 4), "{asked:?}");
    std::fs::remove_dir_all(&rules).expect("the folder is ours");
}

#[tokio::test(flavor = "current_thread")]
async fn two_replicas_behind_envoy_share_redis() {
    let test = "two_replicas_behind_envoy_share_redis";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let Some(store) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip(test, "redis-server");
    };
    replicas_admit_exactly_the_limit(program, &store).await;
}

#[tokio::test(flavor = "current_thread")]
async fn two_replicas_behind_envoy_share_a_tollgate() {
    let test = "two_replicas_behind_envoy_share_a_tollgate";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let store = Server::tollgate(&[]).expect("tollgate starts");
    replicas_admit_exactly_the_limit(program, &store).await;
}
