//! Ports that are unix sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_rls::{Backend, RlsConfig, RlsServer, StartError};
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Server, peers};
use tollgate_wire::rls::rate_limit_response::Code;

use crate::support::{Client, RULES, config, descriptor, request, system_clock};

/// A folder that goes with its guard.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let dir = temp_dir().expect("a temporary folder");
        std::fs::write(dir.join("rules.yaml"), RULES).expect("the folder is ours");
        Folder(dir)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn config(&self, backend: Backend) -> RlsConfig {
        RlsConfig {
            grpc_socket: Some(self.socket("grpc")),
            http_socket: Some(self.socket("http")),
            ..config(self.0.clone(), backend)
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder is the system's to clean up if it will not go.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn start(config: RlsConfig) -> Result<RlsServer, StartError> {
    let embedded = config.backend == Backend::Embedded;
    let store = embedded.then(|| Handle::new(Engine::new(EngineConfig::default())));
    RlsServer::start(config, store, system_clock)
}

fn health(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).expect("the service listens");
    let ask = "GET /healthcheck HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it writes");
    reply
}

async fn ask(path: &Path) -> Code {
    let mut client = Client::connect_to(format!("unix://{}", path.display())).await;
    let asked = request(vec![descriptor(&["ten=unix"])]);
    client.ask(asked).await.expect("a decision").overall_code()
}

async fn both_ports_are_sockets(backend: Backend) {
    let folder = Folder::new();
    let server = start(folder.config(backend.clone())).expect("the service starts");
    assert!(server.grpc_addr().is_none() && server.http_addr().is_none());
    let (grpc, http) = (folder.socket("grpc"), folder.socket("http"));
    let told = server.ports();
    assert_eq!(told[0], format!("grpc {}", grpc.display()));
    assert_eq!(told[1], format!("http {}", http.display()));
    assert_eq!(ask(&grpc).await, Code::Ok);
    assert!(health(&http).starts_with("HTTP/1.1 200 OK\r\n"));
    // Somebody listens there.
    let second = start(folder.config(backend.clone())).expect_err("a socket in use");
    let reason = second.to_string();
    assert!(reason.starts_with("gRPC: cannot listen on "), "{reason}");
    assert!(
        reason.ends_with("the address is already in use"),
        "{reason}"
    );
    server.shutdown();
    server.wait();
    assert!(!grpc.exists() && !http.exists());
    // A socket that a killed service left behind is nobody's.
    drop(std::os::unix::net::UnixListener::bind(&grpc).expect("the folder is ours"));
    let server = start(folder.config(backend)).expect("the service starts");
    assert_eq!(ask(&grpc).await, Code::Ok);
    drop(server);
}

#[tokio::test]
async fn event_loops_serve_unix_sockets() {
    both_ports_are_sockets(Backend::Embedded).await;
}

#[tokio::test]
async fn runtimes_serve_unix_sockets() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        peers::skip("runtimes_serve_unix_sockets", "redis-server");
        return;
    };
    let url = format!("redis://{}", redis.addr());
    both_ports_are_sockets(Backend::Remote(url)).await;
}
