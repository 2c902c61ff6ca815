//! Passwords, HELLO, and what a client may do before it has authenticated.

use crate::harness::{Local, eventually, info, raw, text};
use crate::replication::{attach, wait_for_link};
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client, PATIENCE, Server, peers};

const PASSWORD: &[(&str, &str)] = &[("requirepass", "secret")];

#[test]
fn without_the_password_only_greeting_is_allowed() {
    let server = Local::start(PASSWORD);
    let mut client = server.connect();
    assert_eq!(
        raw(&mut client, "PING"),
        "-NOAUTH Authentication required.\r\n"
    );
    assert_eq!(
        raw(&mut client, "nosuch"),
        "-ERR unknown command 'nosuch', with args beginning with: \r\n"
    );
    assert_eq!(
        raw(&mut client, "AUTH wrong"),
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
    );
    assert_eq!(raw(&mut client, "AUTH secret"), "+OK\r\n");
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    assert_eq!(raw(&mut client, "RESET"), "+RESET\r\n");
    assert_eq!(
        raw(&mut client, "PING"),
        "-NOAUTH Authentication required.\r\n"
    );
}

#[test]
fn before_the_password_commands_must_be_small() {
    let server = Local::start(PASSWORD);
    for (bytes, answer) in [
        (
            "*11\r\n",
            "-ERR Protocol error: unauthenticated multibulk length\r\n",
        ),
        (
            "*2\r\n$4\r\nAUTH\r\n$16385\r\n",
            "-ERR Protocol error: unauthenticated bulk length\r\n",
        ),
    ] {
        let mut client = server.connect();
        client.send(bytes.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&client.until_closed().unwrap()),
            answer
        );
    }
}

/// Whoever has no password is not to fill the memory.
#[test]
fn before_the_password_replies_must_be_read() {
    let server = Local::start(PASSWORD);
    let mut socket = TcpStream::connect(server.addr).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    let commands = b"SET x 5\r\n".repeat(10_000);
    let error = loop {
        if let Err(error) = socket.write_all(&commands) {
            break error;
        }
    };
    assert!(
        matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ),
        "{error}"
    );
    // With the password they wait for the client.
    let mut client = server.connect();
    client.line("AUTH secret").unwrap();
    client.send(&b"ECHO 0123456789\r\n".repeat(10_000)).unwrap();
    assert_eq!(
        client.line("PING").unwrap().as_bytes(),
        Some(&b"0123456789"[..])
    );
}

#[test]
fn a_password_set_later_binds_new_connections() {
    let server = Local::start(&[]);
    let mut early = server.connect();
    assert_eq!(raw(&mut early, "CONFIG SET requirepass later"), "+OK\r\n");
    assert_eq!(raw(&mut early, "PING"), "+PONG\r\n");
    assert_eq!(
        raw(&mut server.connect(), "PING"),
        "-NOAUTH Authentication required.\r\n"
    );
}

#[test]
fn hello_switches_the_protocol() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    assert_eq!(raw(&mut client, "GET none"), "$-1\r\n");
    assert!(raw(&mut client, "HELLO 3").starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"));
    assert_eq!(raw(&mut client, "GET none"), "_\r\n");
    assert_eq!(
        raw(&mut client, "HELLO 9"),
        "-NOPROTO unsupported protocol version\r\n"
    );
    assert_eq!(
        raw(&mut client, "GET none"),
        "_\r\n",
        "the connection keeps its version"
    );
    assert!(raw(&mut client, "HELLO 2").starts_with("*14\r\n"));
    assert_eq!(raw(&mut client, "GET none"), "$-1\r\n");
}

/// Commands whose replies must be Redis' byte for byte; `{n}` ends one connection and begins the next.
const OPEN: &[&str] = &[
    "AUTH x",
    "AUTH a b",
    "AUTH a b c",
    "AUTH",
    "AUTH default x",
    "HELLO x",
    "HELLO 3 AUTH a",
    "HELLO 3 foo",
    "HELLO 3 SETNAME",
    "HELLO 2 SETNAME a\nb",
    "HELLO 1",
    "HELLO 99999999999999999999",
    "HELLO 2 AUTH nobody x",
    "SELECT 16",
    "SELECT x",
    "SELECT -1",
    "SELECT 15",
    "RESET",
    "RESET x",
    "CLIENT GETNAME",
    "CLIENT SETNAME a\tb",
    "CLIENT SETNAME me",
    "CLIENT GETNAME",
    "HELLO 2 SETNAME",
    "CLIENT SETNAME",
    "CLIENT ID x",
    "CLIENT nosuch",
    "CLIENT",
    "CLIENT NO-EVICT maybe",
    "CLIENT NO-EVICT on",
    "CLIENT NO-EVICT off",
    "CLIENT KILL 1.2.3.4:5",
    "CLIENT KILL ID 0",
    "CLIENT KILL ID abc",
    "CLIENT KILL ID 999999",
    "CLIENT KILL foo bar",
    "CLIENT KILL ID 1 foo",
    "CLIENT KILL TYPE foo",
    "CLIENT KILL SKIPME maybe",
    "CLIENT KILL USER nosuch",
    "CLIENT KILL ADDR",
    "CLIENT KILL ADDR 1.2.3.4:5",
    "CLIENT KILL LADDR 1.2.3.4:5",
    "CLIENT KILL TYPE pubsub",
    "CLIENT KILL ID 999999 ID 888888",
    "CLIENT LIST TYPE foo",
    "CLIENT LIST TYPE replica",
    "CLIENT LIST ID",
    "CLIENT LIST ID x",
    "CLIENT LIST ID 999999",
    "CLIENT LIST foo",
    "CONFIG SET foo 1",
    "CONFIG SET maxclients",
    "CONFIG SET maxclients abc",
    "CONFIG SET maxclients 0",
    "CONFIG SET maxclients 10 maxclients 20",
    "CONFIG SET databases 4",
    "CONFIG SET hz 10 foo bar",
    "CONFIG GET",
    "CONFIG SET dir /tmp",
    "CONFIG SET dbfilename a",
    "CONFIG SET timeout -1",
    "CONFIG SET maxclients 10 foo",
    "CONFIG SET tcp-keepalive 1.5",
    "CONFIG GET nosuch",
    "CONFIG GET appendonly",
    "CONFIG GET timeout timeout",
    "CONFIG GET maxmemory-policy",
    "CONFIG GET databases",
    "CONFIG RESETSTAT",
    "CONFIG RESETSTAT x",
    "CONFIG nosuch",
    "CONFIG",
    "SHUTDOWN foo",
    "SHUTDOWN ABORT",
    "SHUTDOWN SAVE NOSAVE",
    "SHUTDOWN ABORT NOW",
    "INFO nosuch",
    "TIME x",
    "QUIT",
];

const LOCKED: &[&str] = &[
    "PING",
    "HELLO",
    "HELLO 3",
    "AUTH",
    "AUTH wrong",
    "AUTH default wrong",
    "CLIENT ID",
    "nosuch",
    "GET",
    "HELLO 2 AUTH default wrong",
    "CONFIG GET maxclients",
    "AUTH nobody secret",
    "AUTH default secret",
    "CLIENT GETNAME",
    "RESET",
    "PING",
    "AUTH secret",
    "PING",
    "QUIT",
];

fn compare(ours: &mut Client, theirs: &mut Client, commands: &[&str]) {
    for command in commands {
        assert_eq!(raw(ours, command), raw(theirs, command), "{command}");
    }
}

#[test]
fn connection_commands_answer_as_redis_does() {
    let Some(redis) = Server::redis(&[]).unwrap() else {
        return peers::skip("connection_commands_answer_as_redis_does", "redis-server");
    };
    let server = Local::start(&[]);
    compare(&mut server.connect(), &mut redis.connect().unwrap(), OPEN);
}

#[test]
fn a_locked_server_answers_as_redis_does() {
    let Some(redis) = Server::redis(&["--requirepass", "secret"]).unwrap() else {
        return peers::skip("a_locked_server_answers_as_redis_does", "redis-server");
    };
    let server = Local::start(PASSWORD);
    compare(&mut server.connect(), &mut redis.connect().unwrap(), LOCKED);
}

#[test]
fn what_a_user_that_is_deleted_waits_for_goes_to_nobody() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    raw(&mut client, "ACL SETUSER bob on >secret +@all ~* &*");
    let mut bob = server.connect();
    assert_eq!(raw(&mut bob, "AUTH bob secret"), "+OK\r\n");
    bob.send(b"BLPOP queue 0\r\n").unwrap();
    eventually("bob waits", || info(&mut client, "blocked_clients") == "1");
    client
        .send(b"ACL DELUSER bob\r\nLPUSH queue e\r\nLLEN queue\r\n")
        .unwrap();
    for answer in [":1\r\n", ":1\r\n", ":1\r\n"] {
        assert_eq!(client.frame().unwrap(), answer.as_bytes());
    }
    assert_eq!(bob.until_closed().unwrap(), b"");
}

#[test]
fn the_link_to_the_master_outlives_a_change_of_all_users() {
    let master = Local::start(&[]);
    let folder = temp_dir().unwrap();
    let path = folder.join("users.acl");
    std::fs::write(&path, "user default on nopass ~* &* +@all\n").unwrap();
    let replica = Local::start(&[("aclfile", path.to_str().unwrap())]);
    let mut client = replica.connect();
    attach(&mut client, master.addr);
    wait_for_link(&mut client);
    let link = |client: &mut Client| text(client, "CLIENT LIST TYPE master");
    assert!(link(&mut client).contains(" flags=M "));
    assert_eq!(raw(&mut client, "ACL LOAD"), "+OK\r\n");
    assert!(link(&mut client).contains(" flags=M "));
    drop(replica);
    std::fs::remove_dir_all(folder).unwrap();
}
