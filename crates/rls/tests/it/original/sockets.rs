//! Both services on unix sockets.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use tollgate_testkit::process::temp_dir;
use tollgate_wire::rls::rate_limit_response::Code;

use super::pair::redis;
use super::program::{Ground, Kind, Program, is_there, wait_for};
use crate::support::{Client, descriptor, request};

const RULES: &str =
    "domain: test\ndescriptors: [{key: two, rate_limit: {unit: year, requests_per_unit: 2}}]\n";

/// With `GRPC_UDS` gRPC is there alone.
#[tokio::test]
async fn both_listen_where_they_are_told() {
    let test = "both_listen_where_they_are_told";
    let Some(store) = redis(test).filter(|_| is_there(test)) else {
        return;
    };
    let addr = store.addr().to_string();
    let ground = Ground::new(&[("rules.yaml", RULES)]);
    for kind in [Kind::Original, Kind::Ours] {
        let dir = temp_dir().expect("a temporary folder");
        let socket: PathBuf = dir.join("ratelimit.sock");
        let program = Program::start(
            kind,
            &ground,
            &[
                ("BACKEND_TYPE", "redis"),
                ("REDIS_SOCKET_TYPE", "tcp"),
                ("REDIS_URL", &addr),
                ("CACHE_KEY_PREFIX", &format!("{kind:?}")),
                ("TOLLGATE_COUNTER_KEYS", "envoy"),
                ("GRPC_UDS", socket.to_str().expect("text")),
            ],
        );
        wait_for("socket", || UnixStream::connect(&socket).is_ok());
        assert!(TcpStream::connect(program.grpc).is_err(), "{kind:?}");
        let mut client = Client::connect_to(format!("unix://{}", socket.display())).await;
        for code in [Code::Ok, Code::Ok, Code::OverLimit] {
            let asked = request(vec![descriptor(&["two=all"])]);
            let response = client.ask(asked).await.expect("an answer");
            assert_eq!(response.overall_code(), code, "{kind:?}");
        }
        drop(program);
        std::fs::remove_dir_all(&dir).ok();
    }
}
