//! A running service, and clients for it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_limiter::Timestamp;
use tollgate_rls::{
    Backend, HeaderForm, HealthNeeds, Modes, RlsConfig, RlsServer, RuleFiles, StoreConfig,
};
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client as Control, Server, peers};
use tollgate_wire::resp::Value;
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::rls::{
    RateLimitDescriptor, RateLimitRequest, RateLimitResponse, SHOULD_RATE_LIMIT,
};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// Files that may be open at the same time; 1,024 is a common default.
const OPEN_FILES: u64 = 16_384;

/// Rules that the tests share. Units are long, so that no test meets the end of a window.
pub(crate) const RULES: &str = "
domain: test
descriptors:
  - key: one
    rate_limit: {unit: year, requests_per_unit: 1, name: one-per-year}
  - key: ten
    rate_limit: {unit: month, requests_per_unit: 10}
  - key: hundred
    rate_limit: {unit: week, requests_per_unit: 100}
    descriptors:
      - key: user
        rate_limit: {unit: day, requests_per_unit: 3}
  - key: none
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: open
    rate_limit: {unlimited: true}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: quota
    quota_mode: all
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: shared
    value: files*
    share_threshold: true
    rate_limit: {unit: year, requests_per_unit: 2}
";

/// The system's time.
pub(crate) fn system_clock() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    Timestamp::from_nanos(since.as_nanos() as i64)
}

/// A time that tests set, in milliseconds since the Unix epoch.
pub(crate) static SET_CLOCK: AtomicI64 = AtomicI64::new(0);

pub(crate) fn set_clock() -> Timestamp {
    Timestamp::from_millis(SET_CLOCK.load(Ordering::SeqCst))
}

/// A service with its rules in a folder of its own.
pub(crate) struct Service {
    pub(crate) server: Option<RlsServer>,
    dir: PathBuf,
}

impl Service {
    pub(crate) fn embedded() -> Self {
        Self::with_clock(system_clock)
    }

    pub(crate) fn with_modes(modes: Modes) -> Self {
        let engine = Engine::new(EngineConfig::default());
        Self::start_with(
            Backend::Embedded,
            Some(Handle::new(engine)),
            system_clock,
            modes,
        )
    }

    /// Embedded, with a configuration that the caller changes; its folder holds [`RULES`] by then.
    pub(crate) fn with_config(change: impl FnOnce(&mut RlsConfig)) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        std::fs::write(dir.join("rules.yaml"), RULES).expect("the folder is ours");
        let mut config = config(dir.clone(), Backend::Embedded);
        change(&mut config);
        let store = Handle::new(Engine::new(EngineConfig::default()));
        let server =
            RlsServer::start(config, Some(store), system_clock).expect("the service starts");
        Self {
            server: Some(server),
            dir,
        }
    }

    /// On a store of this process, with rules of its own.
    pub(crate) fn with_store(store: Handle, rules: &str) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        std::fs::write(dir.join("rules.yaml"), rules).expect("the folder is ours");
        let config = config(dir.clone(), Backend::Embedded);
        let server =
            RlsServer::start(config, Some(store), system_clock).expect("the service starts");
        Self {
            server: Some(server),
            dir,
        }
    }

    pub(crate) fn with_clock(clock: fn() -> Timestamp) -> Self {
        let engine = Engine::new(EngineConfig::default());
        Self::start(Backend::Embedded, Some(Handle::new(engine)), clock)
    }

    /// On a store elsewhere, with rules of its own.
    pub(crate) fn remote_with(url: &str, rules: &str) -> Self {
        Self::on_store(url, rules, |_| {})
    }

    /// The same, with a configuration that the caller changes.
    pub(crate) fn on_store(url: &str, rules: &str, change: impl FnOnce(&mut RlsConfig)) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        std::fs::write(dir.join("rules.yaml"), rules).expect("the folder is ours");
        let mut config = config(dir.clone(), Backend::Remote(url.to_owned()));
        change(&mut config);
        let server = RlsServer::start(config, None, system_clock).expect("the service starts");
        Self {
            server: Some(server),
            dir,
        }
    }

    /// With a clock and rules of its own, on the store of a URL or else embedded.
    pub(crate) fn with_clock_and_rules(
        clock: fn() -> Timestamp,
        url: Option<&str>,
        rules: &str,
    ) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        std::fs::write(dir.join("rules.yaml"), rules).expect("the folder is ours");
        let backend = url.map_or(Backend::Embedded, |url| Backend::Remote(url.to_owned()));
        let store = url
            .is_none()
            .then(|| Handle::new(Engine::new(EngineConfig::default())));
        let server = RlsServer::start(config(dir.clone(), backend), store, clock)
            .expect("the service starts");
        Self {
            server: Some(server),
            dir,
        }
    }

    pub(crate) fn remote(url: &str) -> Self {
        Self::start(Backend::Remote(url.to_owned()), None, system_clock)
    }

    fn start(backend: Backend, store: Option<Handle>, clock: fn() -> Timestamp) -> Self {
        Self::start_with(backend, store, clock, Modes::default())
    }

    fn start_with(
        backend: Backend,
        store: Option<Handle>,
        clock: fn() -> Timestamp,
        modes: Modes,
    ) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        std::fs::write(dir.join("rules.yaml"), RULES).expect("the folder is ours");
        let server = RlsServer::start(
            RlsConfig {
                modes,
                ..config(dir.clone(), backend)
            },
            store,
            clock,
        )
        .expect("the service starts");
        Self {
            server: Some(server),
            dir,
        }
    }

    /// Writes a file of rules.
    pub(crate) fn write_rules(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).expect("the folder is ours");
    }

    pub(crate) fn server(&self) -> &RlsServer {
        self.server.as_ref().expect("not yet stopped")
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.server().grpc_addr().expect("TCP")).await
    }

    /// One HTTP exchange on a connection of its own: the status and the body.
    pub(crate) fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, _, body) = self.http_with_head(method, path, body);
        (status, body)
    }

    pub(crate) fn http_with_head(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, String, String) {
        http_exchange(self.server().http_addr().expect("TCP"), method, path, body)
    }

    pub(crate) fn json(&self, body: &str) -> (u16, String) {
        self.http("POST", "/json", body)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.server.take());
        // The folder is the system's to clean up if it will not go.
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

/// A store is waited for as long as a busy machine may take.
pub(crate) fn patient() -> StoreConfig {
    StoreConfig {
        timeout: Duration::from_secs(20),
        ..StoreConfig::default()
    }
}

pub(crate) fn config(rules_dir: PathBuf, backend: Backend) -> RlsConfig {
    // Hundreds of clients and their services share this process.
    tollgate_net::process::raise_open_files(OPEN_FILES).expect("limits can be read");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    RlsConfig {
        grpc_addr: any,
        grpc_socket: None,
        http_addr: any,
        http_socket: None,
        rules_dir,
        rule_files: RuleFiles::Yaml,
        xds: None,
        backend,
        store: patient(),
        per_second: None,
        envoy_counters: None,
        local_cache_bytes: 0,
        modes: Modes::default(),
        http_headers: HeaderForm::Draft11,
        grpc_tls: None,
        http_tls: None,
        health: HealthNeeds::default(),
        connection_age: None,
        merge_domains: false,
        start_without_rules: false,
        near_limit_ratio: 0.8,
        debug_addr: None,
        prometheus: None,
        statsd: None,
        traces: None,
        // A busy machine makes anything wait.
        shed_after: Duration::ZERO,
        monotonic: Instant::now,
        log: |_, _| {},
        threads: 2,
        io: tollgate_net::Backend::Auto,
    }
}

pub(crate) fn http_exchange(
    addr: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String, String) {
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n"
    );
    http_request(addr, head.as_bytes(), body.as_bytes())
}

/// One exchange on a connection that ends with it: status, head in lower case, body.
pub(crate) fn http_request(addr: SocketAddr, head: &[u8], body: &[u8]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(addr).expect("somebody listens");
    stream.write_all(head).expect("somebody reads");
    // A body that is refused for its length may find the connection closed.
    stream.write_all(body).ok();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok();
    let reply = String::from_utf8(reply).expect("text");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head and a body");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status line");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// A gRPC client on a connection of its own.
#[derive(Clone)]
pub(crate) struct Client {
    grpc: tonic::client::Grpc<Channel>,
    /// What goes with every call.
    metadata: MetadataMap,
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self::connect_to(format!("http://{addr}")).await
    }

    /// To any address that tonic knows: `unix:///path` is one.
    pub(crate) async fn connect_to(address: String) -> Self {
        let client = Self::try_connect(address).await;
        client.expect("the service listens")
    }

    /// The same where nobody may listen.
    pub(crate) async fn try_connect(address: String) -> Option<Self> {
        let endpoint = Endpoint::from_shared(address).expect("a valid address");
        let channel = endpoint.connect().await.ok()?;
        Some(Self {
            grpc: tonic::client::Grpc::new(channel),
            metadata: MetadataMap::new(),
        })
    }

    /// Sends this with every call from now on.
    pub(crate) fn metadata(&mut self, name: &'static str, value: &str) {
        let value = value.parse().expect("a value");
        self.metadata.insert(name, value);
    }

    pub(crate) async fn ask(
        &mut self,
        request: RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        self.call(SHOULD_RATE_LIMIT, request).await
    }

    pub(crate) async fn call<I, O>(&mut self, path: &'static str, message: I) -> Result<O, Status>
    where
        I: prost::Message + Default + 'static,
        O: prost::Message + Default + 'static,
    {
        self.grpc
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<I, O>::default();
        let mut request = Request::new(message);
        *request.metadata_mut() = self.metadata.clone();
        let path = PathAndQuery::from_static(path);
        let reply = self.grpc.unary(request, path, codec).await;
        reply.map(tonic::Response::into_inner)
    }
}

impl Client {
    /// A call that is answered by a stream.
    pub(crate) async fn follow<I, O>(
        &mut self,
        path: &'static str,
        message: I,
    ) -> Result<tonic::Streaming<O>, Status>
    where
        I: prost::Message + Default + 'static,
        O: prost::Message + Default + 'static,
    {
        self.grpc
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<I, O>::default();
        let path = PathAndQuery::from_static(path);
        let reply = self
            .grpc
            .server_streaming(Request::new(message), path, codec)
            .await;
        reply.map(tonic::Response::into_inner)
    }
}

/// A descriptor from `key=value` pairs.
pub(crate) fn descriptor(pairs: &[&str]) -> RateLimitDescriptor {
    let entry = |pair: &&str| {
        let (key, value) = pair.split_once('=').expect("key=value");
        Entry {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    };
    RateLimitDescriptor {
        entries: pairs.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    }
}

pub(crate) fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: "test".to_owned(),
        descriptors,
        hits_addend: 0,
    }
}

/// A redis-server with these flags; without one the test says that it is skipped.
pub(crate) fn redis(test: &str, flags: &[&str]) -> Option<Server> {
    let redis = Server::redis(flags).expect("redis-server starts");
    if redis.is_none() {
        peers::skip(test, "redis-server");
    }
    redis
}

/// Runs a Python script of `tests/clients/` against the service's HTTP port; its last line is `ok` when all was right.
pub(crate) fn run_python_client(script: &str, service: &Service) {
    let Some(python) = peers::python() else {
        return peers::skip(script, "the Python clients");
    };
    let output = Command::new(python)
        .arg(peers::clients().join(script))
        .arg(service.server().http_addr().expect("TCP").to_string())
        .output()
        .expect("Python starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.lines().last(), Some("ok"), "{text}{errors}");
}

/// What a store answers; no error is expected.
pub(crate) fn told(store: &mut Control, words: &[&str]) -> Value {
    let reply = store.call(words).expect("the store answers");
    assert!(reply.as_error().is_none(), "{words:?}: {reply:?}");
    reply
}

/// The text of a reply that is one.
pub(crate) fn text(reply: &Value) -> String {
    let bytes = reply.as_bytes();
    let bytes = bytes.unwrap_or_else(|| panic!("not a text: {reply:?}"));
    String::from_utf8_lossy(bytes).into_owned()
}
