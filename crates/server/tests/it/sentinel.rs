//! Real Sentinels over servers of this kind: the master is killed, a replica takes over, the others follow it, and so does the
//! old master when it comes back.

use crate::replication::{attach, wait_for, wait_for_link};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tollgate_testkit::process::{free_port, temp_dir, tollgate_binary};
use tollgate_testkit::{Client, peers};
use tollgate_wire::resp::Value;

/// Sentinels, of which most must agree.
const SENTINELS: usize = 3;

/// A process with a folder of its own, killed and removed with its guard.
struct Process {
    child: Child,
    dir: PathBuf,
    addr: SocketAddr,
}

impl Process {
    fn connect(&self) -> Client {
        Client::connect(self.addr).unwrap()
    }

    /// As `kill -9`.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.dir).ok();
    }
}

fn spawn(program: &Path, args: &[&str], dir: &Path) -> Child {
    Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn answers(addr: SocketAddr) -> bool {
    Client::connect(addr).is_ok_and(|mut client| client.line("PING").is_ok())
}

/// A server with a configuration file, which Sentinels have it rewrite.
fn serve() -> Process {
    let (dir, port) = (temp_dir().unwrap(), free_port().unwrap());
    let text = format!("port {port}\nbind 127.0.0.1\nthreads 2\n");
    fs::write(dir.join("tollgate.conf"), text).unwrap();
    let process = Process {
        child: run(&dir),
        dir,
        addr: ([127, 0, 0, 1], port).into(),
    };
    wait_for("the server answers", || answers(process.addr));
    process
}

fn run(dir: &Path) -> Child {
    spawn(
        tollgate_binary().unwrap(),
        &["serve", "--config", "tollgate.conf"],
        dir,
    )
}

fn watch(program: &Path, master: SocketAddr) -> Process {
    let (dir, port) = (temp_dir().unwrap(), free_port().unwrap());
    let text = format!(
        "port {port}\nbind 127.0.0.1\nprotected-mode no\nsentinel monitor main 127.0.0.1 {} 2\n\
         sentinel down-after-milliseconds main 5000\nsentinel failover-timeout main 10000\n\
         sentinel parallel-syncs main 2\n",
        master.port()
    );
    fs::write(dir.join("sentinel.conf"), text).unwrap();
    let process = Process {
        child: spawn(program, &["sentinel.conf", "--sentinel"], &dir),
        dir,
        addr: ([127, 0, 0, 1], port).into(),
    };
    wait_for("the Sentinel answers", || answers(process.addr));
    process
}

/// The number that a Sentinel has for something of its master.
fn known(sentinel: &Process, name: &str) -> usize {
    let Ok(Value::Array(facts)) = sentinel.connect().line("SENTINEL MASTER main") else {
        return 0;
    };
    let words: Vec<String> = facts
        .iter()
        .map(|it| String::from_utf8_lossy(it.as_bytes().unwrap_or_default()).into_owned())
        .collect();
    let found = words.chunks_exact(2).find(|pair| pair[0] == name);
    found.and_then(|pair| pair[1].parse().ok()).unwrap_or(0)
}

fn master_of(sentinel: &Process) -> Option<u16> {
    let answer = sentinel
        .connect()
        .line("SENTINEL GET-MASTER-ADDR-BY-NAME main");
    let Ok(Value::Array(address)) = answer else {
        return None;
    };
    let port = address.get(1)?.as_bytes()?;
    std::str::from_utf8(port).ok()?.parse().ok()
}

/// The answer of a server, asked until there is one: Sentinels end the connections of clients when a role changes.
fn asked(server: &Process, command: &str) -> Option<Value> {
    let mut answer = None;
    wait_for("the server answers", || {
        let asked = Client::connect(server.addr).and_then(|mut client| client.line(command));
        answer = asked.ok();
        answer.is_some()
    });
    answer
}

/// The value of a line of INFO; empty when there is none.
fn told(server: &Process, name: &str) -> String {
    let Some(all) = asked(server, "INFO all") else {
        return String::new();
    };
    let all = String::from_utf8_lossy(all.as_bytes().unwrap_or_default()).into_owned();
    let value = all
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().to_owned()
}

/// Whether a server is a replica of `master`, with a link that is up.
fn follows(server: &Process, master: &Process) -> bool {
    told(server, "role") == "slave"
        && told(server, "master_port") == master.addr.port().to_string()
        && told(server, "master_link_status") == "up"
}

#[test]
fn a_killed_master_is_replaced_and_comes_back_as_a_replica() {
    let Some(program) = peers::find("redis-server") else {
        return peers::skip("sentinel", "redis-server");
    };
    let mut servers = [serve(), serve(), serve()];
    let first = servers[0].addr;
    for server in &servers[1..] {
        let mut client = server.connect();
        attach(&mut client, first);
        wait_for_link(&mut client);
    }
    servers[0].connect().line("SET k 1").unwrap();
    servers[0]
        .connect()
        .line("RL.TAKE limit FIXED 5 3600000")
        .unwrap();
    let sentinels: Vec<Process> = (0..SENTINELS).map(|_| watch(&program, first)).collect();
    for sentinel in &sentinels {
        wait_for("the Sentinels know all", || {
            known(sentinel, "num-slaves") == 2 && known(sentinel, "num-other-sentinels") == 2
        });
    }
    assert_eq!(
        servers[0].connect().line("WAIT 2 60000").ok(),
        Some(Value::Int(2))
    );
    let history = told(&servers[0], "master_replid");
    servers[0].kill();
    for sentinel in &sentinels {
        wait_for("another master is named", || {
            master_of(sentinel).is_some_and(|port| port != first.port())
        });
    }
    let mut at = 1;
    // On a machine that is busy the Sentinels may choose twice.
    wait_for("one is a master and the other one follows it", || {
        let named = master_of(&sentinels[0]);
        let Some(named) = servers.iter().position(|it| Some(it.addr.port()) == named) else {
            return false;
        };
        at = named;
        at > 0
            && told(&servers[at], "role") == "master"
            && follows(&servers[3 - at], &servers[at])
            && asked(&servers[at], "SET later 2") == Some(Value::Simple(b"OK".to_vec()))
            && servers[at].connect().line("WAIT 1 1000").ok() == Some(Value::Int(1))
    });
    let (other, port) = (&servers[3 - at], servers[at].addr.port());
    // It went on where it was; of two who were chosen in turn the first may have written what the second has not.
    if told(&servers[at], "master_replid2") == history {
        assert_eq!(told(&servers[at], "sync_full"), "0");
    }
    assert_eq!(
        asked(&servers[at], "GET k"),
        Some(Value::Bulk(b"1".to_vec()))
    );
    assert_eq!(asked(&servers[at], "EXISTS limit"), Some(Value::Int(1)));
    // The order has reached the configuration files, so it outlives a restart.
    let file = |server: &Process| fs::read_to_string(server.dir.join("tollgate.conf")).unwrap();
    wait_for("the files say so", || {
        file(other).contains(&format!("replicaof 127.0.0.1 {port}\n"))
    });
    assert!(!file(&servers[at]).contains("replicaof"));
    servers[0].child = run(&servers[0].dir);
    wait_for("the old master answers", || answers(first));
    // Sentinels on a busy machine may have changed their mind meanwhile.
    wait_for("it follows the one that they name", || {
        let named = master_of(&sentinels[0]).map(|port| port.to_string());
        named.is_some_and(|port| told(&servers[0], "master_port") == port)
            && told(&servers[0], "master_link_status") == "up"
    });
    assert_eq!(
        asked(&servers[0], "GET later"),
        Some(Value::Bulk(b"2".to_vec()))
    );
}
