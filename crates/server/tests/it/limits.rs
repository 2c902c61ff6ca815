//! Many clients, slow clients, too many clients.

use crate::harness::{Local, eventually, info, raw, text};
use std::net::TcpStream;
use tollgate_net::process;
use tollgate_testkit::{Server, peers};

/// Bytes of the value that the slow client asks for.
const BIG: usize = 1 << 20;

#[test]
fn a_client_that_never_reads_costs_no_more_than_the_limit() {
    let server = Local::start(&[("client-output-limit", "8mb")]);
    let mut other = server.connect();
    other
        .call(&[b"SET", &b"big"[..], &vec![b'x'; BIG]])
        .unwrap();
    let mut slow = server.connect();
    slow.send("*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n".repeat(5_000).as_bytes())
        .unwrap();
    let held = |client: &mut _| {
        let list = text(client, "CLIENT LIST");
        let each = list
            .split(" omem=")
            .skip(1)
            .map(|rest| rest.split(' ').next().unwrap().parse::<usize>().unwrap());
        each.sum::<usize>()
    };
    eventually("the output is held", || held(&mut other) > 8 << 20);
    assert!(held(&mut other) <= (8 << 20) + 2 * BIG);
    assert_eq!(
        raw(&mut other, "PING"),
        "+PONG\r\n",
        "others are served meanwhile"
    );
    let gets: usize = info(&mut other, "keyspace_hits").parse().unwrap();
    assert!(
        gets < 100,
        "{gets} commands ran though nobody reads their replies"
    );
    // The first replies arrive whole once it reads; then it goes away in the middle.
    for _ in 0..50 {
        assert_eq!(slow.frame().unwrap().len(), BIG + 12);
    }
    drop(slow);
    eventually("its memory is given back", || held(&mut other) == 0);
}

#[test]
fn a_pipeline_with_larger_replies_than_any_socket_buffer_needs_no_reader_meanwhile() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    client.call(&[b"SET", &b"k"[..], &[b'x'; 1_000]]).unwrap();
    // Clients such as redis-py send a whole pipeline before they read the first reply.
    client
        .send("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(30_000).as_bytes())
        .unwrap();
    for _ in 0..30_000 {
        assert_eq!(client.frame().unwrap().len(), 1_000 + 9);
    }
}

#[test]
fn a_limit_close_above_what_is_used_is_kept_by_evicting() {
    const ROOM: usize = 100 << 10;
    for db in ["0", "9"] {
        let server = Local::start(&[("maxmemory-policy", "allkeys-lru")]);
        let mut client = server.connect();
        let used = |client: &mut _| -> usize {
            let told = text(client, "INFO memory");
            let mut lines = told.lines();
            let used = lines.find_map(|line| line.strip_prefix("used_memory:"));
            used.unwrap().parse().unwrap()
        };
        assert_eq!(raw(&mut client, &format!("SELECT {db}")), "+OK\r\n");
        let limit = used(&mut client) + ROOM;
        let set = format!("CONFIG SET maxmemory {limit}");
        assert_eq!(raw(&mut client, &set), "+OK\r\n");
        let mut keys = 0;
        while used(&mut client) + 4_096 <= limit {
            assert_eq!(raw(&mut client, &format!("SET a{keys} x")), "+OK\r\n");
            keys += 1;
        }
        assert!(keys > 10, "{keys}");
        for key in 0..keys {
            assert_eq!(raw(&mut client, &format!("SET b{key} x")), "+OK\r\n");
        }
        let used = used(&mut client);
        assert!(used < limit + 8_192, "{used} of {limit}");
    }
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = Local::start(&[("maxclients", "3")]);
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(raw(client, "PING"), "+PONG\r\n");
    }
    let refused = server.connect().until_closed().unwrap();
    assert_eq!(refused, b"-ERR max number of clients reached\r\n");
    assert_eq!(info(&mut clients[0], "rejected_connections"), "1");
    let refused = raw(&mut clients[0], "CONFIG SET maxclients 4294967295");
    let why = "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to \
               handle the specified number of clients, try with ";
    assert!(refused.starts_with(why), "{refused}");
    assert_eq!(raw(&mut clients[0], "CONFIG SET maxclients 4"), "+OK\r\n");
    assert_eq!(raw(&mut server.connect(), "PING"), "+PONG\r\n");
    clients.pop();
    eventually("the slot is free", || server.connect().line("PING").is_ok());
}

#[test]
fn ten_thousand_idle_clients_cost_little() {
    const CLIENTS: usize = 10_000;
    let wanted = CLIENTS as u64 + 500;
    if process::raise_open_files(wanted).unwrap() < wanted {
        return peers::skip(
            "ten_thousand_idle_clients_cost_little",
            "10,500 open files (ulimit -n)",
        );
    }
    let server = Server::tollgate(&["--maxclients", "11000"]).unwrap();
    let mut client = server.connect().unwrap();
    let number = |client: &mut _, name| info(client, name).parse::<usize>().unwrap();
    assert_eq!(number(&mut client, "maxclients"), 11_000);
    let before = (
        number(&mut client, "mem_clients_normal"),
        number(&mut client, "used_memory_rss"),
    );
    let mut idle = Vec::with_capacity(CLIENTS);
    while idle.len() < CLIENTS {
        // No more at once than the queue of the listener holds: what overflows it waits for a retransmission of the system.
        idle.extend((0..250).map(|_| TcpStream::connect(server.addr()).unwrap()));
        eventually("they are connected", || {
            number(&mut client, "connected_clients") == idle.len() + 1
        });
    }
    let each = (number(&mut client, "mem_clients_normal") - before.0) / CLIENTS;
    assert!(each < 1_024, "{each} bytes counted for an idle client");
    let resident = number(&mut client, "used_memory_rss").saturating_sub(before.1) / CLIENTS;
    // 1.4 to 2.2 KiB, as tables happen to grow; a buffer of its own for each would be 16 KiB more.
    assert!(
        resident < 4_096,
        "{resident} bytes of resident memory for an idle client"
    );
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    drop(idle);
    eventually("all are gone", || {
        number(&mut client, "connected_clients") == 1
    });
}

#[test]
fn the_time_of_a_soft_limit_passes_though_nothing_more_is_sent() {
    let server = Local::start(&[("client-output-buffer-limit", "pubsub 0 1mb 1")]);
    let mut other = server.connect();
    let mut slow = server.connect();
    assert!(raw(&mut slow, "SUBSCRIBE c").starts_with("*3\r\n"));
    let message = vec![b'x'; 1 << 16];
    // Far more than the socket takes: what waits for a thread that is late may all be taken yet. Sent at once, it is far more
    // before the time is over.
    let mut publish = Vec::new();
    tollgate_wire::resp::write_command(&mut publish, &[b"PUBLISH", b"c", &message]);
    let times = 512;
    other.send(&publish.repeat(times)).unwrap();
    for _ in 0..times {
        other.frame().unwrap();
    }
    eventually("it is disconnected", || {
        info(&mut other, "connected_clients") == "1"
    });
    assert_eq!(
        info(&mut other, "client_output_buffer_limit_disconnections"),
        "1"
    );
}

#[test]
fn those_who_only_listen_may_be_silent() {
    let server = Local::start(&[]);
    let mut subscriber = server.connect();
    assert!(raw(&mut subscriber, "SUBSCRIBE news").starts_with("*3\r\n"));
    let mut monitor = server.connect();
    assert_eq!(raw(&mut monitor, "MONITOR"), "+OK\r\n");
    // One that came later and says nothing either is disconnected.
    let mut silent = server.connect();
    assert_eq!(raw(&mut silent, "CONFIG SET timeout 1"), "+OK\r\n");
    assert_eq!(silent.until_closed().unwrap(), b"");
    assert_eq!(
        raw(&mut subscriber, "PING"),
        "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    );
    monitor.send(b"ECHO x\r\n").unwrap();
    eventually("it is answered", || {
        monitor.frame().unwrap() == b"$1\r\nx\r\n"
    });
}

/// A process of its own: the memory of states is counted for all servers of one.
#[test]
fn script_flush_gives_up_idle_lua_states() {
    /// Not proved short, so a worker runs it.
    const LONG: &[&str] = &[
        "EVAL",
        "while redis.call('INCR', KEYS[1]) < 10 do end",
        "1",
        "k",
    ];
    let server = Server::tollgate(&["--threads", "1"]).unwrap();
    let mut client = server.connect().unwrap();
    let states = |client: &mut _| info(client, "used_memory_lua").parse::<usize>().unwrap();
    client.call(LONG).unwrap();
    client.call(&["EVAL", "return 1", "0"]).unwrap();
    assert!(states(&mut client) > 0);
    client.call(&["SCRIPT", "FLUSH"]).unwrap();
    eventually("none is left", || states(&mut client) == 0);
    client.call(&["EVAL", "return 1", "0"]).unwrap();
    assert!(states(&mut client) > 0);
}

/// As in Redis, what is kept for functions is no memory of scripts, which SCRIPT FLUSH is expected to give back.
#[test]
fn lua_states_with_functions_count_as_those_of_functions() {
    const LIBRARY: &str = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    let server = Server::tollgate(&["--threads", "1"]).unwrap();
    let mut client = server.connect().unwrap();
    let bytes = |client: &mut _, name: &str| info(client, name).parse::<usize>().unwrap();
    client.call(&["EVAL", "return 1", "0"]).unwrap();
    assert!(bytes(&mut client, "used_memory_vm_eval") > 0);
    assert_eq!(bytes(&mut client, "used_memory_vm_functions"), 0);
    client.call(&["FUNCTION", "LOAD", LIBRARY]).unwrap();
    client.call(&["FCALL", "f", "0"]).unwrap();
    client.call(&["SCRIPT", "FLUSH"]).unwrap();
    client.call(&["EVAL", "return 1", "0"]).unwrap();
    assert_eq!(bytes(&mut client, "used_memory_lua"), 0);
    let functions = bytes(&mut client, "used_memory_vm_functions");
    assert!(functions > 0);
    assert_eq!(bytes(&mut client, "used_memory_vm_total"), functions);
}
