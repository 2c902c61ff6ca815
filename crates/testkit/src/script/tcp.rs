//! Runs scripts on a server.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use super::{Executor, Peer, Received};
use crate::Client;

/// A server reached over TCP.
#[derive(Debug)]
pub struct TcpExecutor {
    peer: Peer,
    addr: SocketAddr,
    /// `None` where a connection was closed.
    clients: Vec<Option<Client>>,
}

impl TcpExecutor {
    /// The server at `addr`.
    #[must_use]
    pub fn new(peer: Peer, addr: SocketAddr) -> Self {
        TcpExecutor {
            peer,
            addr,
            clients: Vec::new(),
        }
    }

    fn client(&mut self, conn: usize) -> io::Result<&mut Client> {
        self.clients
            .get_mut(conn)
            .and_then(Option::as_mut)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Executor for TcpExecutor {
    fn peer(&self) -> Peer {
        self.peer
    }

    fn connect(&mut self) -> io::Result<usize> {
        self.clients.push(Some(Client::connect(self.addr)?));
        Ok(self.clients.len() - 1)
    }

    fn close(&mut self, conn: usize) {
        self.clients[conn] = None;
    }

    fn send(&mut self, conn: usize, bytes: &[u8]) -> io::Result<()> {
        match self.client(conn)?.send(bytes) {
            // A server may close while a client still sends; what it answered before is what counts.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(())
            }
            result => result,
        }
    }

    fn receive(&mut self, conn: usize, patience: Duration) -> io::Result<Received> {
        self.client(conn)?.receive(patience)
    }

    fn advance(&mut self, time: Duration) {
        // Expiry on a real server happens in real time; there is no event to wait for.
        thread::sleep(time);
    }
}
