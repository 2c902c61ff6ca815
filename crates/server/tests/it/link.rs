//! How a replica's connection to its master is made: by TLS, from an address of its own, with masters of old; and whom a
//! server without a password lets in.

use crate::harness::{Local, info, raw, text};
use crate::replication::{attach, compare, wait_for, wait_for_link};
use crate::tls::{Files, Tls};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tollgate_net::outbound::{Outbound, Route};
use tollgate_net::{Listener, PeerAddress, SocketOptions};
use tollgate_testkit::process::free_port;
use tollgate_testkit::{Client, PATIENCE, Server, peers};

const HERE: &str = "link";

/// Settings of a replica that knows the authority of servers and shows a certificate.
fn by_tls(files: &Files) -> Vec<(&'static str, String)> {
    vec![
        ("tls-replication", "yes".to_owned()),
        ("tls-ca-cert-file", files.text("server", "ca")),
        ("tls-client-cert-file", files.text("client", "cert")),
        ("tls-client-key-file", files.text("client", "key")),
    ]
}

fn start(settings: &[(&'static str, String)]) -> Local {
    let settings: Vec<(&str, &str)> = settings
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    Local::start(&settings)
}

fn error_of(client: &mut Client) -> String {
    let told = text(client, "INFO replication");
    let error = told
        .lines()
        .find_map(|line| line.strip_prefix("master_link_error:"));
    error.unwrap_or_default().to_owned()
}

/// A replica by TLS of a master that asks for certificates; then with the wrong ones.
fn follows_by_tls(files: &Files, master: SocketAddr) {
    let replica = start(&by_tls(files));
    let mut here = replica.connect();
    attach(&mut here, master);
    wait_for_link(&mut here);
    let mut wrong = by_tls(files);
    wrong[1].1 = files.text("client", "ca");
    let replica = start(&wrong);
    let mut here = replica.connect();
    attach(&mut here, master);
    wait_for("the master is not believed", || {
        error_of(&mut here).contains("UnknownIssuer")
    });
    let replica = start(&by_tls(files)[..2]);
    let mut here = replica.connect();
    attach(&mut here, master);
    wait_for("the replica is not believed", || {
        let error = error_of(&mut here);
        error.contains("alert") || error.contains("connection") || error.contains("reset")
    });
    // Without an authority there is nothing to believe by.
    assert_eq!(raw(&mut here, "CONFIG SET tls-ca-cert-file "), "+OK\r\n");
    wait_for("that is told", || {
        error_of(&mut here).contains("authorities are needed")
    });
}

#[test]
fn the_link_speaks_tls_with_a_master_of_ours() {
    let files = Files::new("link-ours");
    let master = Tls::start(&files, &[]);
    follows_by_tls(&files, master.addr);
}

#[test]
fn the_link_speaks_tls_with_a_master_whose_certificate_is_its_own_authority() {
    let files = Files::new("link-listed");
    let (cert, key) = (files.text("alone", "cert"), files.text("alone", "key"));
    let shown = [
        ("tls-cert-file", &*cert),
        ("tls-key-file", &*key),
        ("tls-ca-cert-file", &*cert),
    ];
    let master = Tls::start(&files, &shown);
    let replica = start(&[
        ("tls-replication", "yes".to_owned()),
        ("tls-ca-cert-file", cert.clone()),
        ("tls-client-cert-file", cert.clone()),
        ("tls-client-key-file", key.clone()),
    ]);
    let mut here = replica.connect();
    attach(&mut here, master.addr);
    wait_for_link(&mut here);
}

/// A redis-server with a TLS port that asks for certificates.
fn redis_by_tls(files: &Files, more: &[&str]) -> Option<(Server, SocketAddr)> {
    let port = free_port().unwrap();
    let (text, ca) = (port.to_string(), files.text("client", "ca"));
    let (cert, key) = (files.text("server", "cert"), files.text("server", "key"));
    let mut flags = vec![
        "--tls-port",
        &text,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
    ];
    flags.extend(more);
    // One that was built without TLS does not start.
    let server = Server::redis(&flags).ok().flatten();
    if server.is_none() {
        peers::skip(HERE, "redis-server with TLS");
    }
    Some((server?, ([127, 0, 0, 1], port).into()))
}

#[test]
fn the_link_speaks_tls_with_redis() {
    let files = Files::new("link-redis");
    let Some((master, addr)) = redis_by_tls(&files, &[]) else {
        return;
    };
    let mut there = master.connect().unwrap();
    for number in 0..200 {
        let value = "v".repeat(number * 50);
        there.call(&["SET", &format!("k{number}"), &value]).unwrap();
    }
    let replica = start(&by_tls(&files));
    let mut here = replica.connect();
    attach(&mut here, addr);
    wait_for_link(&mut here);
    there.line("INCR later").unwrap();
    compare(master.addr(), replica.addr);
    drop(replica);
    follows_by_tls(&files, addr);
}

#[test]
fn the_link_and_migrate_come_from_the_address_and_by_the_way_that_was_set() {
    let master = Local::start(&[("protected-mode", "no")]);
    let replica = Local::start(&[("bind-source-addr", "127.0.0.3")]);
    let (mut there, mut here) = (master.connect(), replica.connect());
    attach(&mut here, master.addr);
    wait_for_link(&mut here);
    let list = text(&mut there, "CLIENT LIST TYPE replica");
    assert!(list.contains(" addr=127.0.0.3:"), "{list}");
    let lost = Local::start(&[("bind-source-addr", "nowhere")]);
    let mut here = lost.connect();
    attach(&mut here, master.addr);
    wait_for("the mistake is told", || {
        error_of(&mut here) == "bind-source-addr: 'nowhere' is not an IP address"
    });
    let files = Files::new("migrate");
    let target = Tls::start(&files, &[]);
    let source = start(&by_tls(&files));
    let mut client = source.connect();
    client.line("SET k 1").unwrap();
    let port = target.addr.port();
    let command = format!("MIGRATE 127.0.0.1 {port} k 0 120000");
    assert_eq!(raw(&mut client, &command), "+OK\r\n");
    assert_eq!(raw(&mut client, "EXISTS k"), ":0\r\n");
}

/// What a server says to a client from another address than that of this machine.
fn said_to_others(addr: SocketAddr) -> String {
    let route = Route {
        from: Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))),
        tls: None,
    };
    let patience = PATIENCE;
    let mut out = Outbound::connect("127.0.0.1", addr.port(), patience, &route).unwrap();
    // A server that refuses the connection may have closed it already.
    drop(out.send(b"PING\r\n"));
    String::from_utf8(out.line(4_096).unwrap()).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_password_only_this_machine_is_let_in() {
    let ours = Local::start(&[]);
    let mut client = ours.connect();
    let denied = said_to_others(ours.addr);
    assert!(denied.starts_with("-DENIED "), "{denied}");
    assert_eq!(info(&mut client, "rejected_connections"), "1");
    raw(&mut client, "CONFIG SET protected-mode no");
    assert_eq!(said_to_others(ours.addr), "+PONG");
    raw(&mut client, "CONFIG SET protected-mode yes");
    raw(&mut client, "CONFIG SET requirepass secret");
    assert_eq!(
        said_to_others(ours.addr),
        "-NOAUTH Authentication required."
    );
    let Some(redis) = Server::redis(&[]).unwrap() else {
        return peers::skip(HERE, "redis-server");
    };
    let mut there = redis.connect().unwrap();
    // Its test settings may have protected mode off.
    there.line("CONFIG SET protected-mode yes").unwrap();
    assert_eq!(said_to_others(redis.addr()), denied);
}

/// A master from before Redis 2.8: it knows neither REPLCONF nor PSYNC, and sends its data to whoever says SYNC. Says by the
/// channel what it hears afterwards.
fn old_master(heard: std::sync::mpsc::Sender<String>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().ok()?;
        let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
        let data = b"REDIS0006\xfe\x00\x00\x03new\x011\xff\0\0\0\0\0\0\0\0";
        loop {
            let words = lines.next()?.ok()?;
            let count: usize = words.strip_prefix('*')?.parse().ok()?;
            let mut name = String::new();
            for at in 0..count {
                lines.next()?.ok()?;
                let word = lines.next()?.ok()?;
                if at == 0 {
                    name = word;
                }
            }
            let reply = match name.as_str() {
                "PING" => "+PONG\r\n".to_owned(),
                "SYNC" => format!("${}\r\n", data.len()),
                other => format!("-ERR unknown command '{other}'\r\n"),
            };
            stream.write_all(reply.as_bytes()).ok()?;
            if name == "SYNC" {
                break;
            }
        }
        stream.write_all(data).ok()?;
        stream
            .write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n")
            .ok()?;
        // Long enough for an acknowledgement, of which there is one each second.
        stream
            .set_read_timeout(Some(Duration::from_millis(2_500)))
            .ok()?;
        let mut rest = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            rest.push_str(&line);
        }
        heard.send(rest).ok()?;
        // The link stays up until the test has seen it.
        stream.set_read_timeout(None).ok()?;
        stream.read_to_end(&mut Vec::new()).ok()
    });
    port
}

#[test]
fn a_master_without_psync_is_followed_by_sync() {
    let (sender, heard) = std::sync::mpsc::channel();
    let port = old_master(sender);
    let replica = Local::start(&[]);
    let mut here = replica.connect();
    attach(&mut here, ([127, 0, 0, 1], port).into());
    wait_for_link(&mut here);
    wait_for("the stream is applied", || {
        raw(&mut here, "GET a") == "$1\r\n1\r\n"
    });
    assert_eq!(raw(&mut here, "GET new"), "$1\r\n1\r\n");
    let rest = heard.recv_timeout(PATIENCE).unwrap();
    assert!(
        !rest.contains("REPLCONF"),
        "it hears no acknowledgements: {rest}"
    );
    assert_eq!(info(&mut here, "master_link_status"), "up");
}

/// A port that answers no connection: the queue of those that wait to be accepted is full. `None` where the system makes room.
#[cfg(target_os = "linux")]
fn silent_port() -> Option<(Listener, Vec<TcpStream>, SocketAddr)> {
    let options = SocketOptions { backlog: 0 };
    let listener = Listener::tcp(Ipv4Addr::LOCALHOST.into(), 0, options).unwrap();
    let PeerAddress::Tcp(addr) = *listener.address() else {
        panic!("it listens on TCP")
    };
    let mut waiting = Vec::new();
    for _ in 0..64 {
        match TcpStream::connect_timeout(&addr, Duration::from_secs(2)) {
            Ok(stream) => waiting.push(stream),
            Err(_) => return Some((listener, waiting, addr)),
        }
    }
    None
}

#[cfg(target_os = "linux")]
#[test]
fn a_master_that_is_not_there_keeps_nobody_from_the_next_one() {
    let Some((_listener, _waiting, silent)) = silent_port() else {
        return peers::skip(HERE, "a port that does not answer");
    };
    let master = Local::start(&[]);
    // So long the connection is waited for.
    let replica = Local::start(&[("repl-timeout", "3600")]);
    let mut here = replica.connect();
    attach(&mut here, silent);
    wait_for("it is being connected", || {
        raw(&mut here, "ROLE").contains("connecting")
    });
    attach(&mut here, master.addr);
    wait_for_link(&mut here);
}
