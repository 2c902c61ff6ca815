//! A master that fails, and Sentinels that name another.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client, Server, peers};
use tollgate_wire::resp::Value;

use crate::support::{Service, descriptor, request};

struct Sentinel {
    process: Child,
    dir: PathBuf,
    addr: SocketAddr,
}

impl Sentinel {
    /// Watches a master under the name `main`.
    fn start(program: PathBuf, master: SocketAddr) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let addr = free.local_addr().expect("its address");
        drop(free);
        let settings = format!(
            "port {}\nbind 127.0.0.1\nprotected-mode no\ndir {}\nsentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 3000\n",
            addr.port(),
            dir.display(),
            master.port()
        );
        let file = dir.join("sentinel.conf");
        std::fs::write(&file, settings).expect("the folder is ours");
        let process = Command::new(program)
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts as a Sentinel");
        Self { process, dir, addr }
    }

    /// The number of replicas that it could promote.
    fn replicas(&self) -> usize {
        let Ok(mut client) = Client::connect(self.addr) else {
            return 0;
        };
        match client.call(&["SENTINEL", "REPLICAS", "main"]) {
            Ok(Value::Array(replicas)) => replicas
                .iter()
                .filter(|replica| {
                    let text = format!("{replica:?}");
                    // The link of a replica that is ready.
                    let up = Value::Bulk(b"ok".to_vec());
                    let fields = match replica {
                        Value::Array(fields) => fields.as_slice(),
                        _ => &[],
                    };
                    fields.contains(&up) && !text.contains("s_down")
                })
                .count(),
            _ => 0,
        }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn the_service_follows_the_master_that_sentinels_name() {
    let test = "the_service_follows_the_master_that_sentinels_name";
    let Some(program) = peers::find_or_skip(test, "redis-server") else {
        return;
    };
    let start = |flags: &[&str]| {
        let server = Server::redis(flags).expect("redis-server starts");
        server.expect("it is installed")
    };
    let master = start(&[]);
    let port = master.addr().port().to_string();
    let replica = start(&["--replicaof", "127.0.0.1", &port]);
    let sentinel = Sentinel::start(program, master.addr());
    wait_for("the Sentinel knows the replica", || {
        sentinel.replicas() == 1
    });

    let service = Service::remote(&format!("redis+sentinel://{}/main", sentinel.addr));
    let mut client = service.client().await;
    let ask = || request(vec![descriptor(&["hundred=failover"])]);
    for left in [99, 98] {
        let response = client.ask(ask()).await.expect("an answer");
        assert_eq!(response.statuses[0].limit_remaining, left);
    }
    let mut control = master.connect().expect("the master answers");
    let mut read = replica.connect().expect("the replica answers");
    let key = "rl:w:4:test:7:hundred:8:failover";
    let value = control.call(&["GET", key]).expect("the master answers");
    wait_for("the replica has the counter", || {
        read.call(&["GET", key]).expect("the replica answers") == value
    });
    drop((control, master));

    let deadline = Instant::now() + Duration::from_secs(120);
    let response = loop {
        match client.ask(ask()).await {
            Ok(response) => break response,
            Err(status) => assert!(Instant::now() < deadline, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(response.statuses[0].limit_remaining, 97, "counted on");
    // Its clients were sent away when it became the master.
    let mut read = replica.connect().expect("the new master answers");
    let counted = read.call(&["GET", key]).expect("the new master answers");
    assert_ne!(counted, value);
}
