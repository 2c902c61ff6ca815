//! A Redis Cluster of three masters on the loopback address.

use std::io;
use std::time::{Duration, Instant};

use tollgate_wire::resp::Value;

use crate::process::{Server, free_port};

const NODES: u16 = 3;
const SLOTS: u16 = 16_384;
/// Longest time to agree on who has which slots.
const AGREE: Duration = Duration::from_secs(120);

/// The running nodes.
pub struct RedisCluster {
    nodes: Vec<Server>,
}

impl RedisCluster {
    /// Three masters that share the slots evenly; `None` without redis-server.
    ///
    /// # Errors
    /// A node does not start, or they do not agree in time.
    pub fn start() -> io::Result<Option<Self>> {
        let mut nodes = Vec::new();
        let mut buses = Vec::new();
        for _ in 0..NODES {
            // The bus' usual port, 10,000 above, may be none.
            let bus = free_port()?.to_string();
            let flags = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            let Some(node) = Server::redis(&flags)? else {
                return Ok(None);
            };
            nodes.push(node);
            buses.push(bus);
        }
        let cluster = Self { nodes };
        for (at, node) in (0..NODES).zip(&cluster.nodes) {
            let bound = |at: u16| u32::from(at) * u32::from(SLOTS) / u32::from(NODES);
            let (from, to) = (bound(at).to_string(), (bound(at + 1) - 1).to_string());
            let epoch = (at + 1).to_string();
            let mut client = node.connect()?;
            client.call(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
            client.call(&["CLUSTER", "ADDSLOTSRANGE", &from, &to])?;
            let first = cluster.nodes[0].addr();
            let port = first.port().to_string();
            client.call(&["CLUSTER", "MEET", "127.0.0.1", &port, &buses[0]])?;
        }
        let deadline = Instant::now() + AGREE;
        while !cluster.agrees()? {
            if Instant::now() > deadline {
                let reason = format!("the nodes do not agree: {}", cluster.nodes[0].log());
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(cluster))
    }

    /// The nodes, in the order of their slots.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// As the service takes it: `scheme://host:port,host:port`.
    pub fn url(&self, scheme: &str) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| node.addr().to_string())
            .collect();
        format!("{scheme}://{}", hosts.join(","))
    }

    /// Every node knows all masters and serves.
    fn agrees(&self) -> io::Result<bool> {
        for node in &self.nodes {
            let mut client = node.connect()?;
            let Value::Bulk(info) = client.call(&["CLUSTER", "INFO"])? else {
                return Ok(false);
            };
            let Value::Array(ranges) = client.call(&["CLUSTER", "SLOTS"])? else {
                return Ok(false);
            };
            let ok = String::from_utf8_lossy(&info).contains("cluster_state:ok");
            if !ok || ranges.len() != usize::from(NODES) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
