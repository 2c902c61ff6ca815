//! CONFIG SET of what the server listens on, while clients are connected.

use crate::harness::{info, raw};
use crate::tls::Files;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use tollgate_testkit::process::free_port;
use tollgate_testkit::{Client, PATIENCE, Server};

/// A server that listens on ports of 127.0.0.1 and the client that tells it to. It is a process of its own: those that tests
/// start from this one have copies of its sockets for a moment, also of those that are being closed.
struct Moved {
    server: Server,
    client: Client,
}

impl Moved {
    fn start() -> Moved {
        let server = Server::tollgate(&["--threads", "2"]).unwrap();
        let client = server.connect().unwrap();
        Moved { server, client }
    }

    fn set(&mut self, words: &str) -> String {
        raw(&mut self.client, &format!("CONFIG SET {words}"))
    }

    /// Sets a port to one that is free.
    fn move_to_free(&mut self, change: impl Fn(u16) -> String) -> u16 {
        let port = free_port().unwrap();
        assert_eq!(self.set(&change(port)), "+OK\r\n");
        port
    }
}

/// Whether a client is served there.
fn serves(address: impl Into<SocketAddr>) -> bool {
    let Ok(mut client) = Client::connect(address.into()) else {
        return false;
    };
    raw(&mut client, "PING") == "+PONG\r\n"
}

fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[test]
fn another_port_is_listened_on_and_clients_stay() {
    let mut moved = Moved::start();
    let old = moved.server.addr().port();
    let new = moved.move_to_free(|port| format!("port {port}"));
    assert_ne!(new, old);
    assert!(serves(at(new)));
    assert!(!serves(at(old)));
    assert_eq!(info(&mut moved.client, "tcp_port"), new.to_string());
    let listener = format!("name=tcp,bind=127.0.0.1,port={new}");
    assert_eq!(info(&mut moved.client, "listener0"), listener);
    // The same once more is no change.
    assert_eq!(moved.set(&format!("port {new}")), "+OK\r\n");
    assert!(serves(at(new)));
    // None at all: who is there stays, and can have it back.
    assert_eq!(moved.set("port 0"), "+OK\r\n");
    assert!(!serves(at(new)));
    let again = moved.move_to_free(|port| format!("port {port}"));
    assert!(serves(at(again)));
}

#[test]
fn a_port_that_is_taken_changes_nothing() {
    let mut moved = Moved::start();
    let old = moved.server.addr().port();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().port();
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs.\r\n";
    assert_eq!(moved.set(&format!("timeout 5 port {taken}")), refused);
    assert!(serves(at(old)));
    let port = raw(&mut moved.client, "CONFIG GET port timeout");
    let digits = old.to_string();
    let expected = format!(
        "*4\r\n$4\r\nport\r\n${}\r\n{digits}\r\n$7\r\ntimeout\r\n$1\r\n0\r\n",
        digits.len()
    );
    assert_eq!(port, expected);
}

#[test]
fn addresses_follow_bind() {
    let mut moved = Moved::start();
    let port = moved.server.addr().port();
    // The old socket is in the way of the new one.
    assert_eq!(moved.set("bind *"), "+OK\r\n");
    assert!(serves(at(port)));
    let listener = format!("name=tcp,bind=0.0.0.0,port={port}");
    assert_eq!(info(&mut moved.client, "listener0"), listener);
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses.\r\n";
    for wrong in ["192.0.2.1", "999.999.999.999", "127.0.0.1,192.0.2.1"] {
        assert_eq!(moved.set(&format!("bind {wrong}")), refused, "{wrong}");
        assert!(serves(at(port)), "{wrong}");
        assert_eq!(info(&mut moved.client, "listener0"), listener);
    }
    // What this machine need not have.
    assert_eq!(moved.set("bind 127.0.0.1,-192.0.2.1"), "+OK\r\n");
    assert!(serves(at(port)));
    assert_eq!(moved.set("bind 127.0.0.1,-::1"), "+OK\r\n");
    assert!(serves(at(port)));
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        assert!(serves(v6));
    }
    assert_eq!(moved.set("bind 127.0.0.1"), "+OK\r\n");
    assert!(!serves(v6));
}

#[test]
fn nothing_to_listen_on_leaves_those_who_are_there() {
    let mut moved = Moved::start();
    let port = moved.server.addr().port();
    let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"bind", b""];
    let mut bytes = Vec::new();
    tollgate_wire::resp::write_command(&mut bytes, &words);
    moved.client.send(&bytes).unwrap();
    assert_eq!(moved.client.frame().unwrap(), b"+OK\r\n");
    assert!(!serves(at(port)));
    assert_eq!(moved.set("bind 127.0.0.1"), "+OK\r\n");
    assert!(serves(at(port)));
}

#[test]
fn tls_and_memcached_get_ports_while_the_server_runs() {
    let files = Files::new("moved");
    let mut moved = Moved::start();
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'tls-port') - Unable to update TLS configuration. Check server logs.\r\n";
    assert_eq!(moved.set("tls-port 1"), refused);
    let (certificate, key) = (files.text("server", "cert"), files.text("server", "key"));
    let with = |port| {
        format!(
            "tls-port {port} tls-auth-clients no tls-cert-file {certificate} tls-key-file {key}"
        )
    };
    let secret = moved.move_to_free(with);
    assert!(files.is_served(at(secret)));
    assert!(serves(moved.server.addr()));
    // Both change places, and everyone speaks as the new port is spoken at.
    let plain = moved.server.addr().port();
    assert_eq!(
        moved.set(&format!("port {secret} tls-port {plain}")),
        "+OK\r\n"
    );
    assert!(serves(at(secret)));
    assert!(files.is_served(at(plain)));
    assert_eq!(moved.set("tls-port 0"), "+OK\r\n");
    assert!(TcpStream::connect(at(plain)).is_err());

    let memcached = moved.move_to_free(|port| format!("memcached-port {port}"));
    let mut socket = TcpStream::connect(at(memcached)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    std::io::Write::write_all(&mut socket, b"version\r\n").unwrap();
    let mut answer = [0; 8];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"VERSION ");
}
