//! CLIENT: lists, names, and closing the connections of others.

use crate::harness::{Local, eventually, info, raw, text};
use tollgate_testkit::Client;

fn id(client: &mut Client) -> i64 {
    client.line("CLIENT ID").unwrap().as_int().unwrap()
}

#[test]
fn the_list_tells_who_is_connected() {
    let server = Local::start(&[]);
    let mut one = server.connect();
    let mut two = server.connect();
    raw(&mut one, "CLIENT SETNAME first");
    raw(&mut one, "CLIENT SETINFO LIB-NAME driver");
    raw(&mut one, "CLIENT SETINFO LIB-VER 1.2");
    raw(&mut one, "SELECT 3");
    raw(&mut one, "GET x");
    let (one_id, two_id) = (id(&mut one), id(&mut two));
    assert_ne!(one_id, two_id);
    raw(&mut one, "GET x");
    let list = text(&mut two, "CLIENT LIST");
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    let first = lines
        .iter()
        .find(|line| line.starts_with(&format!("id={one_id} ")))
        .unwrap();
    let address = one.stream().local_addr().unwrap();
    for part in [
        format!(" addr={address} "),
        format!(" laddr={} ", server.addr),
        " name=first ".to_owned(),
        " db=3 ".to_owned(),
        " cmd=get ".to_owned(),
        " resp=2 ".to_owned(),
        " flags=N ".to_owned(),
        " lib-name=driver lib-ver=1.2".to_owned(),
    ] {
        assert!(first.contains(&part), "{part} in {first}");
    }
    let own = text(&mut two, "CLIENT INFO");
    assert!(
        own.starts_with(&format!("id={two_id} ")) && own.contains(" cmd=client|info "),
        "{own}"
    );
    let picked = text(&mut two, &format!("CLIENT LIST ID {two_id} 99999"));
    assert!(
        picked.starts_with(&format!("id={two_id} ")) && picked.lines().count() == 1,
        "{picked}"
    );
}

#[test]
fn an_incomplete_command_shows_as_query_buffer() {
    let server = Local::start(&[]);
    let mut slow = server.connect();
    slow.send(b"*2\r\n$3\r\nGET\r\n").unwrap();
    let mut other = server.connect();
    eventually("the bytes arrive", || {
        text(&mut other, "CLIENT LIST").contains(" qbuf=13 ")
    });
    slow.send(b"$1\r\nk\r\n").unwrap();
    assert_eq!(slow.frame().unwrap(), b"$-1\r\n");
    eventually("the buffer is given back", || {
        !text(&mut other, "CLIENT LIST").contains(" qbuf=13 ")
    });
}

#[test]
fn a_killed_client_is_gone_from_the_list_at_once_and_reads_the_end() {
    let server = Local::start(&[]);
    let mut admin = server.connect();
    for by_address in [true, false] {
        // Several, so that some live on the other thread.
        for _ in 0..4 {
            let mut victim = server.connect();
            let number = id(&mut victim);
            let (command, reply) = if by_address {
                (
                    format!("CLIENT KILL {}", victim.stream().local_addr().unwrap()),
                    "+OK\r\n",
                )
            } else {
                (format!("CLIENT KILL ID {number}"), ":1\r\n")
            };
            assert_eq!(raw(&mut admin, &command), reply);
            assert_eq!(text(&mut admin, "CLIENT LIST").lines().count(), 1);
            assert_eq!(victim.until_closed().unwrap(), b"");
        }
    }
}

#[test]
fn killing_oneself_answers_first() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    let number = id(&mut client);
    assert_eq!(
        raw(&mut client, &format!("CLIENT KILL ID {number}")),
        ":0\r\n",
        "SKIPME is the default"
    );
    client
        .send(format!("CLIENT KILL ID {number} SKIPME no\r\n").as_bytes())
        .unwrap();
    assert_eq!(client.until_closed().unwrap(), b":1\r\n");
}

#[test]
fn all_others_can_be_killed_by_type() {
    let server = Local::start(&[]);
    let mut admin = server.connect();
    let mut others: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for other in &mut others {
        raw(other, "PING");
    }
    // Who is killed is not counted any more when the reply is there.
    admin
        .send(b"CLIENT KILL TYPE normal\r\nINFO clients\r\n")
        .unwrap();
    assert_eq!(admin.frame().unwrap(), b":10\r\n");
    let told = String::from_utf8(admin.frame().unwrap()).unwrap();
    assert!(told.contains("connected_clients:1\r\n"), "{told}");
    for other in &mut others {
        assert_eq!(other.until_closed().unwrap(), b"");
    }
    assert_eq!(raw(&mut admin, "PING"), "+PONG\r\n");
}

#[test]
fn a_client_that_waits_shows_as_blocked_until_it_is_unblocked() {
    let server = Local::start(&[]);
    let (mut admin, mut waiting, mut paused) =
        (server.connect(), server.connect(), server.connect());
    let number = id(&mut waiting);
    waiting.send(b"BLPOP none 0\r\n").unwrap();
    let list = format!("CLIENT LIST ID {number}");
    eventually("it waits", || text(&mut admin, &list).contains(" flags=b "));
    eventually("it is counted", || {
        info(&mut admin, "blocked_clients") == "1"
    });
    let unblock = format!("CLIENT UNBLOCK {number} ERROR");
    assert_eq!(raw(&mut admin, &unblock), ":1\r\n");
    assert_eq!(
        waiting.frame().unwrap(),
        b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
    );
    assert_eq!(raw(&mut admin, &unblock), ":0\r\n");
    assert_eq!(raw(&mut admin, "CLIENT PAUSE 60000 WRITE"), "+OK\r\n");
    paused.send(b"SET k 1\r\n").unwrap();
    eventually("it is put off", || {
        info(&mut admin, "blocked_clients") == "1"
    });
    assert_eq!(raw(&mut admin, "GET k"), "$-1\r\n");
    assert_eq!(raw(&mut admin, "CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(paused.frame().unwrap(), b"+OK\r\n");
    eventually("nobody waits", || {
        info(&mut admin, "blocked_clients") == "0"
    });
}

/// Sends the beginning of a command that holds so many bytes.
fn hold(client: &mut Client, bytes: usize) {
    client.send(&unfinished(bytes)).unwrap();
}

/// The beginning of a command, with `bytes` of its last argument.
fn unfinished(bytes: usize) -> Vec<u8> {
    let mut part = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000000\r\n".to_vec();
    part.resize(part.len() + bytes, b'x');
    part
}

#[test]
fn clients_that_hold_most_go_when_all_together_hold_too_much() {
    let server = Local::start(&[("maxmemory-clients", "4mb")]);
    let mut small = server.connect();
    let mut kept = server.connect();
    raw(&mut kept, "CLIENT NO-EVICT on");
    raw(&mut kept, "CLIENT SETNAME kept");
    hold(&mut kept, 3 << 20);
    eventually("all of it is held", || {
        let list = text(&mut small, "CLIENT LIST");
        let mut held = list.split(" qbuf=").skip(1);
        held.any(|rest| rest.split(' ').next().unwrap().parse::<usize>().unwrap() >= 3 << 20)
    });
    assert_eq!(info(&mut small, "evicted_clients"), "0");
    let mut medium = server.connect();
    raw(&mut medium, "CLIENT SETNAME medium");
    hold(&mut medium, 200_000);
    let mut large = server.connect();
    // It may be closed before it has sent all of it.
    drop(large.send(&unfinished(2 << 20)));
    eventually("the largest goes", || {
        info(&mut small, "evicted_clients") == "1"
    });
    assert_eq!(large.until_closed().unwrap(), b"");
    let list = text(&mut small, "CLIENT LIST");
    assert!(
        list.contains("name=kept") && list.contains("name=medium"),
        "{list}"
    );
    // At once, and whoever may stay stays.
    raw(
        &mut small,
        "CONFIG SET maxmemory 10mb maxmemory-clients 31%",
    );
    eventually("the next one goes", || {
        info(&mut small, "evicted_clients") == "2"
    });
    assert_eq!(medium.until_closed().unwrap(), b"");
    assert!(text(&mut small, "CLIENT LIST").contains("name=kept"));
    assert_eq!(raw(&mut small, "CONFIG SET maxmemory-clients 0"), "+OK\r\n");
    hold(&mut server.connect(), 4 << 20);
    assert_eq!(raw(&mut small, "CONFIG RESETSTAT"), "+OK\r\n");
    assert_eq!(info(&mut small, "evicted_clients"), "0");
}

#[test]
fn the_end_of_a_wait_is_a_reply_that_may_be_unwanted() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    client
        .send(b"CLIENT REPLY SKIP\r\nBLPOP none 0.01\r\nPING one\r\n")
        .unwrap();
    assert_eq!(client.frame().unwrap(), b"$3\r\none\r\n");
    client
        .send(b"CLIENT REPLY OFF\r\nBLPOP none 0.01\r\nCLIENT REPLY ON\r\nPING two\r\n")
        .unwrap();
    assert_eq!(client.frame().unwrap(), b"+OK\r\n");
    assert_eq!(client.frame().unwrap(), b"$3\r\ntwo\r\n");
    client
        .send(b"HELLO 3\r\nCLIENT TRACKING ON OPTIN\r\nCLIENT CACHING YES\r\nBLPOP none 0.01\r\nGET key\r\nSET key x\r\nPING three\r\n")
        .unwrap();
    assert!(client.frame().unwrap().starts_with(b"%7\r\n"));
    for expected in [
        "+OK\r\n",
        "+OK\r\n",
        "_\r\n",
        "_\r\n",
        "+OK\r\n",
        "$5\r\nthree\r\n",
    ] {
        assert_eq!(client.frame().unwrap(), expected.as_bytes());
    }
}

#[test]
fn whatever_is_held_for_a_client_counts() {
    const LIMIT: usize = 400_000;
    let limit = LIMIT.to_string();
    let server = Local::start(&[("maxmemory-clients", &limit)]);
    let mut other = server.connect();
    assert_eq!(raw(&mut other, "CLIENT NO-EVICT on"), "+OK\r\n");
    // Each goes before it holds more than so many.
    let kinds: [(&str, &dyn Fn(usize) -> String); 5] = [
        ("WATCH", &|n| format!("WATCH k{n}")),
        ("SUBSCRIBE", &|n| format!("SUBSCRIBE c{n}")),
        ("PSUBSCRIBE", &|n| format!("PSUBSCRIBE p{n}")),
        ("SSUBSCRIBE", &|n| format!("SSUBSCRIBE s{n}")),
        ("MULTI", &|n| match n {
            0 => "MULTI".to_owned(),
            n => format!("SET k{n} v"),
        }),
    ];
    for (at, (kind, command)) in kinds.into_iter().enumerate() {
        let mut client = server.connect();
        // All replies are read, so that none of them counts.
        let evicted = (0..20_000).any(|n| {
            let sent = client.send((command(n) + "\r\n").as_bytes());
            sent.is_err() || client.frame().is_err()
        });
        assert!(evicted, "{kind} does not count");
        eventually("it is told", || {
            info(&mut other, "evicted_clients") == (at + 1).to_string()
        });
    }
    // A command that has come as a whole counts before it is run.
    let mut client = server.connect();
    let refused = client.call(&[b"SET", &b"k"[..], &vec![b'v'; LIMIT]]);
    assert!(refused.is_err(), "{refused:?}");
    eventually("it is told", || info(&mut other, "evicted_clients") == "6");
    assert_eq!(raw(&mut other, "EXISTS k"), ":0\r\n");
}

#[test]
fn what_clients_hold_makes_entries_go() {
    let server = Local::start(&[("maxmemory", "12mb"), ("maxmemory-policy", "allkeys-lru")]);
    let mut client = server.connect();
    for key in 0..50 {
        raw(&mut client, &format!("SETRANGE k{key} 100000 x"));
    }
    assert_eq!(info(&mut client, "evicted_keys"), "0");
    let mut others: Vec<_> = (0..20).map(|_| server.connect()).collect();
    others.iter_mut().for_each(|other| hold(other, 500_000));
    eventually("entries go", || info(&mut client, "evicted_keys") != "0");
}
