//! Clients that come while the data of the start are being loaded.

use crate::harness::{BACKEND_VARIABLE, eventually, info, raw};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tollgate_net::signal::Signals;
use tollgate_server::config::{Config, find};
use tollgate_server::{Log, Server};
use tollgate_testkit::Client;
use tollgate_testkit::process::{free_port, temp_dir};
use tollgate_wire::resp::write_command;

/// An append-only file of an older server, large enough to be worth telling of, with a script that does not end.
fn endless() -> Vec<u8> {
    let mut file = Vec::new();
    let large = vec![b'v'; 2 << 20];
    let select: [&[u8]; 2] = [b"SELECT", b"0"];
    let set: [&[u8]; 3] = [b"SET", b"before", &large];
    let script: [&[u8]; 3] = [b"EVAL", b"while true do end", b"0"];
    let after: [&[u8]; 3] = [b"SET", b"after", b"1"];
    for words in [&select[..], &set, &script, &after] {
        write_command(&mut file, words);
    }
    file
}

fn start(port: u16, dir: &str) -> Result<Server, String> {
    let mut config = Config::default();
    let backend = std::env::var(BACKEND_VARIABLE).unwrap_or_else(|_| "auto".to_owned());
    for (name, value) in [
        ("bind", "127.0.0.1"),
        ("port", &*port.to_string()),
        ("threads", "2"),
        ("io-backend", &backend),
        ("dir", dir),
        ("appendonly", "yes"),
        ("script-time-limit", "3600000"),
        // The script is never so slow that INFO is refused for it.
        ("busy-reply-threshold", "3600000"),
        ("enable-protected-configs", "yes"),
    ] {
        config.set(find(name).unwrap().key, value).unwrap();
    }
    Server::start(config, Signals::pipe().unwrap(), Arc::new(Log::silent()))
        .map_err(|error| error.to_string())
}

#[test]
fn clients_hear_that_the_data_are_being_loaded() {
    let folder = temp_dir().unwrap();
    std::fs::write(folder.join("appendonly.aof"), endless()).unwrap();
    let port = free_port().unwrap();
    let dir = folder.display().to_string();
    let server = std::thread::spawn(move || start(port, &dir));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut client = None;
    eventually("clients can connect", || {
        assert!(!server.is_finished(), "it is still loading");
        client = Client::connect(address).ok();
        client.is_some()
    });
    let mut client = client.unwrap();
    let loading = "-LOADING Redis is loading the dataset in memory\r\n";
    for refused in [
        "GET before",
        "SET before 1",
        "PING",
        "BGSAVE",
        "REPLICAOF 127.0.0.1 1",
        "CONFIG SET dir /",
        "CONFIG SET appendonly no",
    ] {
        assert_eq!(raw(&mut client, refused), loading, "{refused}");
    }
    assert_eq!(raw(&mut client, "CONFIG SET timeout 0"), "+OK\r\n");
    // The script fails, what stands behind it is loaded.
    assert_eq!(
        raw(&mut client, "CONFIG SET script-time-limit 1"),
        "+OK\r\n"
    );
    let server = server.join().unwrap().unwrap();
    assert_eq!(raw(&mut client, "EXISTS before after"), ":2\r\n");
    assert_eq!(info(&mut client, "loading"), "0");
    server.shutdown().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}
