//! A Redis Cluster on the loopback address.

use std::io;
use std::time::{Duration, Instant};

use tollgate_wire::resp::Value;

use crate::PATIENCE;
use crate::process::{Server, free_port};

const MASTERS: u16 = 3;
const SLOTS: u16 = 16_384;
/// After this time nodes are introduced to each other again: one that is too busy to answer in time has forgotten it.
const AGAIN: Duration = Duration::from_secs(10);

/// The running nodes.
pub struct RedisCluster {
    nodes: Vec<Node>,
    /// Given to every node, those that come later too.
    flags: Vec<String>,
    tls: bool,
}

struct Node {
    /// `None` once it was killed.
    server: Option<Server>,
    /// Where other nodes and clients of the cluster's own kind find it.
    port: String,
    bus: String,
}

impl Node {
    fn server(&self) -> io::Result<&Server> {
        let killed = || io::Error::other("the node was killed");
        self.server.as_ref().ok_or_else(killed)
    }
}

impl RedisCluster {
    /// Three masters that share the slots evenly; `None` without redis-server.
    ///
    /// # Errors
    /// A node does not start, or they do not agree in time.
    pub fn start() -> io::Result<Option<Self>> {
        Self::start_with(&[])
    }

    /// The same, all nodes with further flags. With `--tls-cluster` each node speaks TLS on a port of its own besides the one
    /// that tests ask it on; its certificates are among the flags.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(flags: &[&str]) -> io::Result<Option<Self>> {
        let mut cluster = Self {
            nodes: Vec::new(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            tls: flags.contains(&"--tls-cluster"),
        };
        for _ in 0..MASTERS {
            if !cluster.add_node()? {
                return Ok(None);
            }
        }
        for (at, node) in (0..MASTERS).zip(&cluster.nodes) {
            let bound = |at: u16| u32::from(at) * u32::from(SLOTS) / u32::from(MASTERS);
            let (from, to) = (bound(at).to_string(), (bound(at + 1) - 1).to_string());
            let epoch = (at + 1).to_string();
            let mut client = node.server()?.connect()?;
            client.call(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
            client.call(&["CLUSTER", "ADDSLOTSRANGE", &from, &to])?;
            cluster.meet(node)?;
        }
        cluster.wait_for("the nodes do not agree", |node| {
            Ok(is_ok(node)? && slot_rows(node)?.len() == usize::from(MASTERS))
        })?;
        Ok(Some(cluster))
    }

    /// Gives a master a replica, which has its data and whom all nodes know when this returns; its index.
    ///
    /// # Errors
    /// The node does not start, or it is not taken in in time.
    pub fn add_replica(&mut self, of: usize) -> io::Result<usize> {
        let at = self.nodes.len();
        if !self.add_node()? {
            return Err(io::Error::other("redis-server is gone"));
        }
        self.meet(&self.nodes[at])?;
        let id = match self.ask(of, &["CLUSTER", "MYID"])? {
            Value::Bulk(id) => String::from_utf8_lossy(&id).into_owned(),
            other => return Err(io::Error::other(format!("CLUSTER MYID: {other:?}"))),
        };
        let mut wait = Wait::new();
        // Refused until the master is known.
        while matches!(
            self.ask(at, &["CLUSTER", "REPLICATE", &id])?,
            Value::Error(_)
        ) {
            self.pause(&mut wait, "the replica does not meet its master")?;
        }
        while !text(&self.ask(at, &["INFO", "replication"])?).contains("master_link_status:up") {
            self.pause(&mut wait, "the replica does not follow")?;
        }
        let port = self.nodes[at].port.clone();
        let mine = self.nodes[at].server()?.addr().port().to_string();
        self.wait_for("not all nodes know the replica", |node| {
            let rows = format!("{:?}", slot_rows(node)?);
            Ok([&port, &mine]
                .iter()
                .any(|port| rows.contains(&format!("Int({port})"))))
        })?;
        Ok(at)
    }

    /// `kill -9` of a node.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at].server = None;
    }

    /// A node, in the order of their slots and then of their starts.
    ///
    /// # Panics
    /// When it was killed.
    #[must_use]
    pub fn node(&self, at: usize) -> &Server {
        self.nodes[at].server().expect("it was not killed")
    }

    /// The nodes that live, in the order of their slots and then of their starts.
    pub fn nodes(&self) -> Vec<&Server> {
        let servers = self.nodes.iter().map(|node| node.server.as_ref());
        servers.flatten().collect()
    }

    /// As the service takes it: `scheme://host:port,host:port`, killed nodes included.
    pub fn url(&self, scheme: &str) -> String {
        let hosts = self.nodes.iter().map(|node| &node.port);
        let hosts: Vec<String> = hosts.map(|port| format!("127.0.0.1:{port}")).collect();
        format!("{scheme}://{}", hosts.join(","))
    }

    /// Starts one more node; false without redis-server.
    fn add_node(&mut self) -> io::Result<bool> {
        // The bus' usual port, 10,000 above, may be none.
        let bus = free_port()?.to_string();
        let mut flags = vec!["--cluster-enabled", "yes", "--cluster-port", &bus];
        flags.extend(self.flags.iter().map(String::as_str));
        let tls = match self.tls {
            true => Some(free_port()?.to_string()),
            false => None,
        };
        if let Some(port) = &tls {
            flags.extend(["--tls-port", port]);
        }
        let Some(server) = Server::redis(&flags)? else {
            return Ok(false);
        };
        let port = tls.unwrap_or_else(|| server.addr().port().to_string());
        self.nodes.push(Node {
            server: Some(server),
            port,
            bus,
        });
        Ok(true)
    }

    /// Introduces a node to the first one.
    fn meet(&self, node: &Node) -> io::Result<()> {
        let first = &self.nodes[0];
        let mut client = node.server()?.connect()?;
        client.call(&["CLUSTER", "MEET", "127.0.0.1", &first.port, &first.bus])?;
        Ok(())
    }

    fn ask(&self, at: usize, words: &[&str]) -> io::Result<Value> {
        self.nodes[at].server()?.connect()?.call(words)
    }

    /// Waits until something holds of every node.
    fn wait_for(&self, what: &str, is_so: impl Fn(&Server) -> io::Result<bool>) -> io::Result<()> {
        let mut wait = Wait::new();
        for node in self.nodes() {
            while !is_so(node)? {
                self.pause(&mut wait, what)?;
            }
        }
        Ok(())
    }

    /// A pause, or an error when it is too late.
    fn pause(&self, wait: &mut Wait, what: &str) -> io::Result<()> {
        if wait.introduced.elapsed() > AGAIN {
            wait.introduced = Instant::now();
            self.nodes.iter().try_for_each(|node| self.meet(node))?;
        }
        if Instant::now() > wait.deadline {
            let logs: Vec<String> = self.nodes().iter().map(|node| node.log()).collect();
            let reason = format!("{what}: {}", logs.join("\n"));
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    }
}

/// For what nodes come to agree on.
struct Wait {
    deadline: Instant,
    /// When all nodes were introduced last.
    introduced: Instant,
}

impl Wait {
    fn new() -> Self {
        let introduced = Instant::now();
        Self {
            deadline: introduced + PATIENCE,
            introduced,
        }
    }
}

fn is_ok(node: &Server) -> io::Result<bool> {
    let info = node.connect()?.call(&["CLUSTER", "INFO"])?;
    Ok(text(&info).contains("cluster_state:ok"))
}

/// Ranges of slots with their nodes, as a node knows them.
fn slot_rows(node: &Server) -> io::Result<Vec<Value>> {
    match node.connect()?.call(&["CLUSTER", "SLOTS"])? {
        Value::Array(rows) => Ok(rows),
        _ => Ok(Vec::new()),
    }
}

fn text(reply: &Value) -> String {
    match reply {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}
