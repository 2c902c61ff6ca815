//! The sockets that a server listens on, from its settings: at the start, and when these change.

use crate::config::{BindAddress, Config, Key, Values};
use crate::log::Log;
use crate::server::StartError;
use crate::tls;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use tollgate_net::tls::TlsAcceptor;
use tollgate_net::{ListenError, Listener, Listeners, PeerAddress, SocketOptions};

/// Connections that speak RESP as it is.
pub(crate) const PLAIN: u8 = 0;
/// Connections that speak RESP by TLS.
pub(crate) const TLS: u8 = 1;
/// Connections that speak Memcached's protocols.
pub(crate) const MEMCACHED: u8 = 2;

/// Settings of which a change is a change of what is listened on.
pub(crate) const SETTINGS: &[Key] = &[Key::TlsPort, Key::Port, Key::MemcachedPort, Key::Bind];

/// What was opened.
pub(crate) struct Listening {
    pub(crate) listeners: Vec<Listener>,
    /// The certificates, if there is a port of TLS.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Addresses that this machine does not have and that may be absent.
    pub(crate) absent: Vec<ListenError>,
}

/// Opens every socket that the settings name. An error when one cannot be opened that has to be, or none could.
pub(crate) fn listen(config: &Config) -> Result<Listening, StartError> {
    let tls_port = config.number(Key::TlsPort) as u16;
    let tls = match tls_port {
        0 => None,
        _ => Some(tls::acceptor(|key| config.get(key)).map_err(StartError::Config)?),
    };
    let addresses: Vec<BindAddress> = config.bind().collect();
    let mut opened = Opened::new(config.number(Key::TcpBacklog) as i32);
    if tls_port != 0 {
        opened.tcp(&addresses, false, tls_port, TLS)?;
    }
    let port = config.number(Key::Port) as u16;
    let path = config.get(Key::UnixSocket);
    // Beside another way in port 0 means that plain connections are not wanted.
    if port != 0 || tls_port == 0 && path.is_empty() {
        opened.tcp(&addresses, false, port, PLAIN)?;
    }
    let memcached = config.number(Key::MemcachedPort) as u16;
    if memcached != 0 {
        opened.tcp(&addresses, false, memcached, MEMCACHED)?;
    }
    let mode = u32::from_str_radix(config.get(Key::UnixSocketPerm), 8);
    let mode = mode.ok().filter(|&mode| mode != 0);
    for (path, kind) in [
        (path, PLAIN),
        (config.get(Key::MemcachedUnixSocket), MEMCACHED),
    ] {
        if !path.is_empty() {
            opened.unix(Path::new(path), mode, kind)?;
        }
    }
    if opened.listeners.is_empty() {
        let reason = "Configured to not listen anywhere, exiting.";
        return Err(StartError::Config(reason.to_owned()));
    }
    Ok(Listening {
        listeners: opened.listeners,
        tls,
        absent: opened.absent,
    })
}

struct Opened {
    options: SocketOptions,
    listeners: Vec<Listener>,
    absent: Vec<ListenError>,
}

impl Opened {
    fn new(backlog: i32) -> Opened {
        Opened {
            options: SocketOptions { backlog },
            listeners: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// Listens on a port of each address; port 0 chooses once for all of them. All may be absent if it is listened on `others`.
    fn tcp(
        &mut self,
        addresses: &[BindAddress],
        others: bool,
        mut port: u16,
        kind: u8,
    ) -> Result<(), ListenError> {
        let before = self.listeners.len();
        let mut absent = Vec::new();
        for wanted in addresses {
            let listener = match Listener::tcp(wanted.ip, port, self.options) {
                Ok(listener) => listener.of_kind(kind),
                Err(error) if wanted.may_be_absent && error.is_absence() => {
                    absent.push(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let PeerAddress::Tcp(address) = listener.address() {
                port = address.port();
            }
            self.listeners.push(listener);
        }
        match absent.pop() {
            Some(last) if !others && self.listeners.len() == before => Err(last),
            last => {
                self.absent.extend(absent);
                self.absent.extend(last);
                Ok(())
            }
        }
    }

    fn unix(&mut self, path: &Path, mode: Option<u32>, kind: u8) -> Result<(), ListenError> {
        let listener = Listener::unix(path, mode, self.options)?;
        self.listeners.push(listener.of_kind(kind));
        Ok(())
    }
}

/// Where connections of TCP arrive: an address and what is spoken there.
type Door = (SocketAddr, u8);

/// A change of what is listened on, which can be made: the new sockets are open.
pub(crate) struct Change<'l> {
    listeners: &'l Listeners,
    opened: Opened,
    /// No longer wanted.
    leaving: Vec<Door>,
}

/// Opens what `values` name and what is not open yet. Sockets in the way of those, on the same port, are closed before; when
/// something cannot be opened they are opened again, and the error says which address was refused.
pub(crate) fn prepare<'l>(
    listeners: &'l Listeners,
    values: &Values<'_>,
    log: &Log,
) -> Result<Change<'l>, ListenError> {
    let open = doors(listeners);
    let bind = values.bind();
    let mut missing: Vec<(Vec<BindAddress>, u16, u8)> = Vec::new();
    let mut leaving = open.clone();
    for (kind, key) in [
        (TLS, Key::TlsPort),
        (PLAIN, Key::Port),
        (MEMCACHED, Key::MemcachedPort),
    ] {
        let port = values.number(key) as u16;
        if port == 0 {
            continue;
        }
        let door = |wanted: &BindAddress| (SocketAddr::new(wanted.ip, port), kind);
        let is_missing = |wanted: &&BindAddress| !open.contains(&door(wanted));
        leaving.retain(|left| bind.iter().all(|wanted| door(wanted) != *left));
        missing.push((
            bind.iter().filter(is_missing).copied().collect(),
            port,
            kind,
        ));
    }
    let in_the_way = |(address, _): &Door| {
        let ips = missing
            .iter()
            .filter(|(_, port, _)| *port == address.port())
            .flat_map(|(addresses, ..)| addresses);
        ips.into_iter()
            .any(|wanted| overlap(wanted.ip, address.ip()))
    };
    let (closed, leaving): (Vec<Door>, Vec<Door>) = leaving.into_iter().partition(in_the_way);
    for (address, _) in &closed {
        listeners.close(&PeerAddress::Tcp(*address));
    }
    let mut opened = Opened::new(values.number(Key::TcpBacklog) as i32);
    let mut wanted = missing
        .iter()
        .filter(|(addresses, ..)| !addresses.is_empty());
    let result = wanted.try_for_each(|(addresses, port, kind)| {
        let others = addresses.len() < bind.len();
        opened.tcp(addresses, others, *port, *kind)
    });
    match result {
        Ok(()) => Ok(Change {
            listeners,
            opened,
            leaving,
        }),
        Err(error) => {
            drop(opened);
            reopen(
                listeners,
                &closed,
                values.number(Key::TcpBacklog) as i32,
                log,
            );
            Err(error)
        }
    }
}

impl Change<'_> {
    /// Accepts from the new sockets and closes those that are no longer wanted.
    pub(crate) fn commit(self, log: &Log) {
        for error in &self.opened.absent {
            log.warning(format_args!("Warning: {error}"));
        }
        for listener in self.opened.listeners {
            add(self.listeners, listener, log);
        }
        for (address, _) in self.leaving {
            self.listeners.close(&PeerAddress::Tcp(address));
        }
    }
}

fn add(listeners: &Listeners, listener: Listener, log: &Log) {
    let address = listener.address().clone();
    if let Err(error) = listeners.open(listener) {
        log.warning(format_args!(
            "cannot accept connections on {address}: {error}"
        ));
    }
}

fn reopen(listeners: &Listeners, closed: &[Door], backlog: i32, log: &Log) {
    for (address, kind) in closed {
        match Listener::tcp(address.ip(), address.port(), SocketOptions { backlog }) {
            Ok(listener) => add(listeners, listener.of_kind(*kind), log),
            Err(error) => log.warning(format_args!("{error}")),
        }
    }
}

fn doors(listeners: &Listeners) -> Vec<Door> {
    let open = listeners.addresses().into_iter();
    open.filter_map(|(address, kind)| match address {
        PeerAddress::Tcp(address) => Some((address, kind)),
        PeerAddress::Unix(_) => None,
    })
    .collect()
}

/// Whether both cannot be listened on at the same port.
fn overlap(a: IpAddr, b: IpAddr) -> bool {
    a == b || a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified())
}
