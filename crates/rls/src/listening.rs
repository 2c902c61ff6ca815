//! The sockets that the service listens on, and those of them that are accepted from here: event loops accept by themselves.

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tollgate_net::{Listener, PeerAddress, SocketOptions};

use crate::config::{RlsConfig, StartError};
use crate::http::Port;

/// Most connections at the same time; more are closed as they come.
pub(crate) const MAX_CONNECTIONS: usize = 65_536;
/// Connections to a unix socket that the system queues until they are accepted.
const BACKLOG: i32 = 511;
/// Pause after the system refused a connection, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a connection speaks.
#[derive(Clone, Debug)]
pub(crate) enum Speaks {
    Grpc,
    Http(Port),
}

/// A connection on its way to its thread. The place is given back when the connection ends.
pub(crate) struct Arrival {
    pub(crate) socket: Socket,
    pub(crate) speaks: Speaks,
    pub(crate) place: Place,
}

/// The socket of a connection, which belongs to no runtime yet.
pub(crate) enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// One of [`MAX_CONNECTIONS`].
pub(crate) struct Place(Arc<AtomicUsize>);

impl Place {
    pub(crate) fn take(count: &Arc<AtomicUsize>) -> Option<Self> {
        if count.fetch_add(1, Ordering::Relaxed) < MAX_CONNECTIONS {
            return Some(Self(count.clone()));
        }
        count.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where each port listens.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) grpc: PeerAddress,
    pub(crate) http: PeerAddress,
    pub(crate) debug: Option<PeerAddress>,
    pub(crate) prometheus: Option<PeerAddress>,
}

/// The address of TCP, if it is one.
pub(crate) fn tcp(address: &PeerAddress) -> Option<SocketAddr> {
    match address {
        PeerAddress::Tcp(address) => Some(*address),
        PeerAddress::Unix(_) => None,
    }
}

/// The ports, and where they are.
pub(crate) struct Listening {
    pub(crate) listeners: Vec<(Listener, Speaks)>,
    pub(crate) addresses: Addresses,
}

impl Listening {
    /// Listens as the configuration says.
    pub(crate) fn on(config: &RlsConfig) -> Result<Self, StartError> {
        let mut listeners = Vec::new();
        let mut open = |what, addr, socket: Option<&Path>, speaks| {
            let listener = match socket {
                Some(path) => unix(what, path)?,
                None => on_tcp(what, addr)?,
            };
            let address = listener.address().clone();
            listeners.push((listener, speaks));
            Ok(address)
        };
        let grpc_socket = config.grpc_socket.as_deref();
        let grpc = open("gRPC", config.grpc_addr, grpc_socket, Speaks::Grpc)?;
        let http_socket = config.http_socket.as_deref();
        let speaks = Speaks::Http(Port::Service);
        let http = open("HTTP", config.http_addr, http_socket, speaks)?;
        let debug = config.debug_addr;
        let debug = debug.map(|addr| open("debugging", addr, None, Speaks::Http(Port::Debug)));
        let prometheus = config.prometheus.as_ref().map(|(addr, path)| {
            let port = Port::Prometheus(path.as_str().into());
            (*addr, Speaks::Http(port))
        });
        Ok(Self {
            addresses: Addresses {
                grpc,
                http,
                debug: debug.transpose()?,
                prometheus: prometheus
                    .map(|(addr, speaks)| open("Prometheus", addr, None, speaks))
                    .transpose()?,
            },
            listeners,
        })
    }
}

fn on_tcp(what: &'static str, addr: SocketAddr) -> Result<Listener, StartError> {
    let bound = TcpListener::bind(addr).and_then(Listener::of_tcp);
    bound.map_err(|error| StartError::Listen { what, addr, error })
}

fn unix(what: &'static str, path: &Path) -> Result<Listener, StartError> {
    let options = SocketOptions { backlog: BACKLOG };
    let opened = Listener::unix(path, None, options);
    opened.map_err(|error| StartError::ListenUnix { what, error })
}

/// Accepts on all listeners and deals the connections out to the threads in turn.
pub(crate) async fn accept_all(
    listeners: Vec<Accepts>,
    lanes: Vec<mpsc::Sender<Arrival>>,
    count: Arc<AtomicUsize>,
    mut stopped: watch::Receiver<bool>,
) {
    let turn = Cell::new(0);
    let accepting = listeners
        .into_iter()
        .map(|listener| accept(listener, &lanes, &count, &turn));
    let accepting = futures_util::future::join_all(accepting);
    tokio::select! {
        _ = accepting => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

/// A listener that a runtime accepts from.
pub(crate) struct Accepts {
    listener: TcpOrUnix<TcpListener, UnixListener>,
    speaks: Speaks,
    /// What the file of a unix socket stays with.
    _socket: Listener,
}

enum TcpOrUnix<T, U> {
    Tcp(T),
    Unix(U),
}

impl Accepts {
    pub(crate) fn all(listeners: Vec<(Listener, Speaks)>) -> io::Result<Vec<Self>> {
        listeners.into_iter().map(Self::new).collect()
    }

    fn new((listener, speaks): (Listener, Speaks)) -> io::Result<Self> {
        let duplicate = listener.as_fd().try_clone_to_owned()?;
        Ok(Self {
            listener: match listener.address() {
                PeerAddress::Tcp(_) => TcpOrUnix::Tcp(duplicate.into()),
                PeerAddress::Unix(_) => TcpOrUnix::Unix(duplicate.into()),
            },
            speaks,
            _socket: listener,
        })
    }
}

/// The next connection.
async fn next(
    listener: &TcpOrUnix<tokio::net::TcpListener, tokio::net::UnixListener>,
) -> io::Result<Socket> {
    match listener {
        TcpOrUnix::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            stream.into_std().map(Socket::Tcp)
        }
        TcpOrUnix::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            stream.into_std().map(Socket::Unix)
        }
    }
}

/// Accepts on one listener, as long as there are threads to serve.
async fn accept(
    accepts: Accepts,
    lanes: &[mpsc::Sender<Arrival>],
    count: &Arc<AtomicUsize>,
    turn: &Cell<usize>,
) {
    let listener = match accepts.listener {
        TcpOrUnix::Tcp(listener) => listener.try_into().map(TcpOrUnix::Tcp),
        TcpOrUnix::Unix(listener) => listener.try_into().map(TcpOrUnix::Unix),
    };
    let Ok(listener) = listener else {
        // The listeners do not block, so only a runtime without its reactor could refuse them.
        unreachable!("the runtime has its reactor");
    };
    loop {
        match (next(&listener).await, Place::take(count)) {
            (Ok(socket), Some(place)) => {
                turn.set(turn.get().wrapping_add(1));
                let arrival = Arrival {
                    socket,
                    speaks: accepts.speaks.clone(),
                    place,
                };
                if lanes[turn.get() % lanes.len()].send(arrival).await.is_err() {
                    return;
                }
            }
            (Ok(_), None) => {}
            (Err(_), _) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
