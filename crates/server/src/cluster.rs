//! This server as a cluster of one node: its name and epochs, and the file they are kept in.
//!
//! There is no cluster bus, so it never learns of another node.

use crate::client::Client;
use crate::config::Key;
use crate::shared::Shared;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tollgate_engine::Cluster;
use tollgate_keyspace::SLOTS;
use tollgate_net::{PeerAddress, files, process};

/// Digits of a node's name.
const NAME_LEN: usize = 40;
/// Between the port of clients and that of the bus, where nothing else is said.
const BUS_OFFSET: u32 = 10_000;

/// What the node knows of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Myself {
    /// 40 hexadecimal digits.
    pub(crate) name: String,
    pub(crate) config_epoch: u64,
    pub(crate) current_epoch: u64,
}

/// The node; without a name while `cluster-enabled` is `no`.
#[derive(Debug, Default)]
pub(crate) struct ClusterNode {
    /// Held for as long as it takes to read or replace it.
    myself: Mutex<Myself>,
    /// Held for as long as a change takes, with the writing of the file.
    turn: Mutex<()>,
}

impl ClusterNode {
    /// What the node knows of itself now.
    pub(crate) fn myself(&self) -> Myself {
        self.myself
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces that; by whoever has the turn.
    pub(crate) fn set(&self, myself: Myself) {
        *self.myself.lock().unwrap_or_else(PoisonError::into_inner) = myself;
    }

    /// Changes of the node and its slots, and of the file, come one after the other; who only asks does not wait for the disk.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the server a node if the settings say so: the one that the file tells of, or a new one.
///
/// # Errors
///
/// The file cannot be read or written, is broken, or tells of other nodes.
pub(crate) fn start(shared: &Shared) -> Result<(), String> {
    let mode = shared.settings.get(Key::ClusterEnabled);
    if &*mode == "no" {
        return Ok(());
    }
    let cluster = shared.engine.cluster();
    cluster.enable();
    shared.cluster.set(Myself {
        name: process::random_id().map_err(|error| error.to_string())?,
        ..Myself::default()
    });
    if &*mode == "emulated" {
        (0..SLOTS).for_each(|slot| cluster.set_served(slot, true));
        return Ok(());
    }
    let path = file(shared);
    let told = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    match std::fs::read_to_string(&path) {
        Ok(text) if !text.is_empty() => {
            let read = parse(&text, cluster).map_err(|reason| told(&reason))?;
            shared.cluster.set(read);
            Ok(())
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(told(&error)),
        _ => save(shared, &shared.cluster.myself()).map_err(|error| told(&error)),
    }
}

/// Whether all slots are served from the start, and nothing is kept.
pub(crate) fn is_emulated(shared: &Shared) -> bool {
    &*shared.settings.get(Key::ClusterEnabled) == "emulated"
}

fn file(shared: &Shared) -> PathBuf {
    PathBuf::from(&*shared.settings.get(Key::Dir))
        .join(&*shared.settings.get(Key::ClusterConfigFile))
}

/// Writes the file, in the form of redis-server's. A node that is emulated has none.
///
/// # Errors
///
/// Those of the file system; the old file stays.
pub(crate) fn save(shared: &Shared, myself: &Myself) -> io::Result<()> {
    if is_emulated(shared) {
        return Ok(());
    }
    let text = format!(
        "{}vars currentEpoch {} lastVoteEpoch 0\n",
        describe(shared, myself, None),
        myself.current_epoch
    );
    files::replace(&file(shared), &mut |out| out.write_all(text.as_bytes()))
}

/// Where clients find the node.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Empty: the address by which the client has come, as redis-server says before it has met another node.
    pub(crate) ip: Box<str>,
    pub(crate) hostname: Box<str>,
    pub(crate) port: u32,
    /// 0: none.
    pub(crate) tls_port: u32,
    pub(crate) bus_port: u32,
}

/// Where clients find this node, as the settings say. Of an emulated one they are told the address by which they have come:
/// not all of them understand an empty one.
pub(crate) fn endpoint(shared: &Shared, client: Option<&Client>) -> Endpoint {
    let settings = &shared.settings;
    let mut ip = settings.get(Key::ClusterAnnounceIp);
    if ip.is_empty()
        && is_emulated(shared)
        && let Some(PeerAddress::Tcp(local)) = client.map(|client| &client.peer.local)
    {
        ip = local.ip().to_string().into();
    }
    let number = |key: Key| settings.get(key).parse::<u32>().unwrap_or_default();
    let first = |keys: &[Key]| {
        keys.iter()
            .map(|&key| number(key))
            .find(|&port| port != 0)
            .unwrap_or_default()
    };
    let port = first(&[Key::ClusterAnnouncePort, Key::Port]);
    let bus_port = match first(&[Key::ClusterAnnounceBusPort, Key::ClusterPort]) {
        0 => number(Key::Port) + BUS_OFFSET,
        port => port,
    };
    Endpoint {
        ip,
        hostname: settings.get(Key::ClusterAnnounceHostname),
        port,
        tls_port: first(&[Key::ClusterAnnounceTlsPort, Key::TlsPort]),
        bus_port,
    }
}

/// The line of CLUSTER NODES.
pub(crate) fn describe(shared: &Shared, myself: &Myself, client: Option<&Client>) -> String {
    let at = endpoint(shared, client);
    let mut line = format!("{} {}:{}@{}", myself.name, at.ip, at.port, at.bus_port);
    if !at.hostname.is_empty() {
        line.push(',');
        line.push_str(&at.hostname);
    }
    line.push_str(" myself,master - 0 0 ");
    line.push_str(&myself.config_epoch.to_string());
    line.push_str(" connected");
    for (start, end) in ranges(shared.engine.cluster()) {
        line.push_str(&match start == end {
            true => format!(" {start}"),
            false => format!(" {start}-{end}"),
        });
    }
    line.push('\n');
    line
}

/// First and last slot of each run of slots that are served.
pub(crate) fn ranges(cluster: &Cluster) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for slot in (0..SLOTS).filter(|&slot| cluster.serves(slot)) {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == slot => *end = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// Reads a file of redis-server's or our own, and begins to serve its slots.
fn parse(text: &str, cluster: &Cluster) -> Result<Myself, String> {
    let mut found: Option<Myself> = None;
    let mut current_epoch = 0;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "vars" {
            let pairs = words[1..].chunks_exact(2);
            current_epoch = pairs
                .filter(|pair| pair[0] == "currentEpoch")
                .find_map(|pair| pair[1].parse().ok())
                .unwrap_or_default();
            continue;
        }
        let [name, _, flags, _, _, _, epoch, _, slots @ ..] = &words[..] else {
            return Err(format!("not the line of a node: {line}"));
        };
        if !flags.split(',').any(|flag| flag == "myself") || found.is_some() {
            return Err(
                "it tells of other nodes, with which this server cannot speak: there is no cluster bus"
                    .to_owned(),
            );
        }
        let is_name = name.len() == NAME_LEN && name.bytes().all(|b| b.is_ascii_hexdigit());
        let config_epoch = epoch.parse().ok().filter(|_| is_name);
        let config_epoch = config_epoch.ok_or_else(|| format!("not the line of a node: {line}"))?;
        for range in slots {
            let (start, end) = range.split_once('-').unwrap_or((range, range));
            let slot = |text: &str| text.parse().ok().filter(|&slot| slot < SLOTS);
            let (Some(start), Some(end)) = (slot(start), slot(end)) else {
                return Err(format!("not a range of slots: {range}"));
            };
            (start..=end).for_each(|slot| cluster.set_served(slot, true));
        }
        found = Some(Myself {
            name: (*name).to_owned(),
            config_epoch,
            current_epoch: 0,
        });
    }
    let myself = found.ok_or("it tells of no node")?;
    Ok(Myself {
        current_epoch,
        ..myself
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "07c37dfeb235213a872192d90877d0cd55635b91";

    fn read(text: &str) -> Result<(Myself, Vec<(u16, u16)>), String> {
        let cluster = Cluster::default();
        let myself = parse(text, &cluster)?;
        Ok((myself, ranges(&cluster)))
    }

    #[test]
    fn a_file_of_redis_server_is_read() {
        let text = format!(
            "{NAME} :7000@17000 myself,master - 0 0 3 connected 0-100 200 16383\nvars currentEpoch 5 lastVoteEpoch 0\n\n\n"
        );
        let (myself, ranges) = read(&text).unwrap();
        assert_eq!(myself.name, NAME);
        assert_eq!((myself.config_epoch, myself.current_epoch), (3, 5));
        assert_eq!(ranges, [(0, 100), (200, 200), (16_383, 16_383)]);
    }

    #[test]
    fn broken_files_and_other_nodes_are_refused() {
        let line = |flags: &str, slots: &str| {
            format!("{NAME} 127.0.0.1:7000@17000 {flags} - 0 0 3 connected {slots}\n")
        };
        let mine = line("myself,master", "0-5");
        for (text, reason) in [
            (String::new(), "no node"),
            ("abc\n".to_owned(), "not the line of a node"),
            (line("master", "0-5"), "no cluster bus"),
            (mine.clone() + &mine, "no cluster bus"),
            (line("myself,master", "0-16384"), "not a range"),
            (line("myself,master", "[5->-abc]"), "not a range"),
            (mine.replace(NAME, "xyz"), "not the line of a node"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
