//! Memcached's protocol on the keys that RESP clients use.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use tollgate_testkit::PATIENCE;
use tollgate_testkit::{Server, peers, process::free_port, process::temp_dir};

use crate::harness::{Local, eventually, info, raw};
use crate::memcached_peer::{Memcached, start};
use crate::peers::run;

/// A server, a client of each protocol.
fn both(settings: &[(&str, &str)]) -> (Local, Memcached, tollgate_testkit::Client, SocketAddr) {
    let (local, addr) = start("2", settings);
    let resp = local.connect();
    (local, Memcached::connect(addr), resp, addr)
}

/// fact 121: numbers are unique over all items, as several keys of one `gets` show best.
#[test]
fn fact_121_no_two_items_have_the_same_number() {
    let (_local, mut mc, _, _) = both(&[]);
    let keys: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    for key in &keys {
        mc.ask(format!("set {key} 0 0 1\r\na\r\n"));
    }
    let answer = mc.text(&format!("gets {}\r\n", keys.join(" ")));
    let numbers = answer.lines().filter_map(|line| line.split(' ').nth(4));
    let numbers: std::collections::HashSet<&str> = numbers.collect();
    assert_eq!(numbers.len(), keys.len(), "{answer}");
}

/// fact 121: `cas` stores only over the state that was read; every store, append and number makes another one, touch does not.
#[test]
fn fact_121_a_unique_number_names_one_state() {
    let (_local, mut mc, mut resp, _) = both(&[]);
    assert_eq!(mc.text("cas k 0 0 1 1\r\na\r\n"), "NOT_FOUND\r\n");
    mc.ask("set k 5 0 1\r\n1\r\n");
    let mut seen = vec![mc.cas_of("k").unwrap()];
    assert_eq!(mc.cas_of("k"), Some(seen[0]), "reading keeps it");
    for kept in [
        "touch k 100\r\n",
        "gat 0 k\r\n",
        "get k\r\n",
        "add k 0 0 1\r\nx\r\n",
        "mg k v t R30\r\n",
    ] {
        mc.ask(kept);
        assert_eq!(mc.cas_of("k"), Some(seen[0]), "{kept}");
    }
    let changes = [
        "set k 0 0 1\r\n1\r\n",
        "set k 0 0 1\r\n1\r\n",
        "incr k 1\r\n",
        "append k 0 0 1\r\n5\r\n",
        "prepend k 0 0 1\r\n5\r\n",
        "replace k 0 0 1\r\n5\r\n",
        "ma k\r\n",
        "md k I\r\n",
        "delete k\r\nset k 0 0 1\r\n5\r\n",
    ];
    for change in changes {
        mc.ask(change);
        let now = mc.cas_of("k").unwrap();
        assert!(seen.iter().all(|&before| before < now), "{change}");
        seen.push(now);
    }
    let before = *seen.last().unwrap();
    for change in [
        "SET k 1",
        "INCR k",
        "APPEND k 1",
        "SETRANGE k 0 1",
        "GETSET k 5",
    ] {
        let told = mc.cas_of("k").unwrap();
        raw(&mut resp, change);
        let text = format!("cas k 0 0 1 {told}\r\nx\r\n");
        assert_eq!(mc.text(&text), "EXISTS\r\n", "{change}");
        assert!(mc.cas_of("k").unwrap() > before);
    }
    let told = mc.cas_of("k").unwrap();
    raw(&mut resp, "EXPIRE k 100");
    assert_eq!(
        mc.text(&format!("cas k 7 0 1 {told}\r\nx\r\n")),
        "STORED\r\n"
    );
    assert_eq!(
        mc.text(&format!("cas k 7 0 1 {told}\r\nx\r\n")),
        "EXISTS\r\n"
    );
    assert!(told < 1 << 53, "a double holds it");
    // The client may name the state itself.
    assert_eq!(
        mc.text("ms k 1 E77 c\r\na\r\nmg k c\r\nms k 1 C77\r\nb\r\n"),
        "HD c77\r\nHD c77\r\nHD\r\n"
    );
    assert_eq!(
        mc.text("ms new 2 MA N0\r\nhi\r\nmg new v t\r\n"),
        "HD\r\nVA 2 t-1\r\nhi\r\n"
    );
}

/// Many clients that add one by `gets` and `cas` lose none.
#[test]
fn fact_121_a_loop_of_cas_loses_nothing() {
    const CLIENTS: usize = 8;
    const TIMES: usize = 25;
    let (_local, mut mc, _, addr) = both(&[]);
    mc.ask("set n 3 0 1\r\n0\r\n");
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut mc = Memcached::connect(addr);
                for _ in 0..TIMES {
                    loop {
                        let answer = mc.text("gets n\r\n");
                        let mut lines = answer.lines();
                        let cas = lines
                            .next()
                            .and_then(|line| line.split(' ').nth(4))
                            .unwrap();
                        let next = lines.next().unwrap().parse::<u64>().unwrap() + 1;
                        let text = next.to_string();
                        let set = format!("cas n 3 0 {} {cas}\r\n{text}\r\n", text.len());
                        if mc.text(&set) == "STORED\r\n" {
                            break;
                        }
                    }
                }
            });
        }
    });
    let all = (CLIENTS * TIMES).to_string();
    assert_eq!(
        mc.text("get n\r\n"),
        format!("VALUE n 3 {}\r\n{all}\r\nEND\r\n", all.len())
    );
}

/// fact 133: one namespace. RESP sees the bytes; what is no string is no item.
#[test]
fn fact_133_both_protocols_share_the_keys() {
    let (_local, mut mc, mut resp, _) = both(&[]);
    mc.ask("set k 7 0 5\r\nhello\r\nset n 2 0 2\r\n10\r\n");
    assert_eq!(raw(&mut resp, "GET k"), "$5\r\nhello\r\n");
    assert_eq!(raw(&mut resp, "OBJECT ENCODING n"), "$3\r\nint\r\n");
    assert_eq!(raw(&mut resp, "STRLEN k"), ":5\r\n");
    assert_eq!(raw(&mut resp, "INCR n"), ":11\r\n");
    // What replaces the value drops the flags; what changes it in place keeps them.
    assert_eq!(mc.text("get n\r\n"), "VALUE n 0 2\r\n11\r\nEND\r\n");
    assert_eq!(raw(&mut resp, "APPEND k !"), ":6\r\n");
    assert_eq!(mc.text("get k\r\n"), "VALUE k 7 6\r\nhello!\r\nEND\r\n");
    assert_eq!(raw(&mut resp, "MC.FLAGS k"), ":7\r\n");
    assert_eq!(raw(&mut resp, "MC.FLAGS k 9"), "+OK\r\n");
    assert_eq!(mc.text("get k\r\n"), "VALUE k 9 6\r\nhello!\r\nEND\r\n");
    raw(&mut resp, "SET k other");
    assert_eq!(mc.text("get k\r\n"), "VALUE k 0 5\r\nother\r\nEND\r\n");

    raw(&mut resp, "RPUSH list a");
    assert_eq!(
        mc.text("gets list\r\nget list k\r\nmg list v\r\n"),
        "END\r\nVALUE k 0 5\r\nother\r\nEND\r\nEN\r\n"
    );
    assert_eq!(
        mc.text("append list 0 0 1\r\na\r\nadd list 0 0 1\r\na\r\ntouch list 5\r\nincr list 1\r\n"),
        "NOT_STORED\r\nNOT_STORED\r\nNOT_FOUND\r\nNOT_FOUND\r\n"
    );
    assert_eq!(
        mc.text("cas list 0 0 1 1\r\na\r\nmd list I\r\n"),
        "NOT_FOUND\r\nNF\r\n"
    );
    assert_eq!(raw(&mut resp, "TYPE list"), "+list\r\n");
    assert_eq!(mc.text("delete list\r\n"), "DELETED\r\n");
    raw(&mut resp, "RPUSH list a");
    assert_eq!(mc.text("set list 0 0 1\r\na\r\n"), "STORED\r\n");
    assert_eq!(raw(&mut resp, "GET list"), "$1\r\na\r\n");

    raw(&mut resp, "SET ttl x PX 1000000");
    let ttl = mc.text("mg ttl t\r\n");
    let seconds = ttl.trim_end().strip_prefix("HD t").map(str::parse::<u64>);
    let most = 1_000;
    let range = most - PATIENCE.as_secs()..=most;
    assert!(
        matches!(&seconds, Some(Ok(seconds)) if range.contains(seconds)),
        "{ttl}"
    );
    mc.ask("touch ttl 0\r\n");
    assert_eq!(raw(&mut resp, "TTL ttl"), ":-1\r\n");
    raw(&mut resp, "SET gone x PX 1");
    eventually("it expires", || mc.text("get gone\r\n") == "END\r\n");
    // Other databases are not seen.
    raw(&mut resp, "SELECT 1");
    raw(&mut resp, "SET one x");
    assert_eq!(mc.text("get one\r\n"), "END\r\n");
    mc.ask("flush_all\r\n");
    assert_eq!(raw(&mut resp, "DBSIZE"), ":1\r\n");
}

#[test]
fn writes_are_heard_by_those_who_watch_track_and_wait() {
    let (_local, mut mc, mut resp, _) = both(&[("notify-keyspace-events", "KA")]);
    let changes = [
        "set k 0 0 1\r\na\r\n",
        "append k 0 0 1\r\na\r\n",
        "set k 0 0 1\r\n1\r\n",
        "incr k 1\r\n",
        "touch k 1000\r\n",
        "delete k\r\n",
        "ma k N0\r\n",
        "mg m N0\r\nms k 1\r\na\r\n",
    ];
    for change in changes {
        raw(&mut resp, "WATCH k");
        raw(&mut resp, "MULTI");
        raw(&mut resp, "PING");
        mc.ask(change);
        assert_eq!(raw(&mut resp, "EXEC"), "*-1\r\n", "{change}");
    }
    for harmless in [
        "get k\r\ngets k\r\n",
        "add k 0 0 1\r\na\r\n",
        "mg k v c h\r\n",
    ] {
        raw(&mut resp, "WATCH k");
        raw(&mut resp, "MULTI");
        raw(&mut resp, "PING");
        mc.ask(harmless);
        assert_eq!(raw(&mut resp, "EXEC"), "*1\r\n+PONG\r\n", "{harmless}");
    }
    raw(&mut resp, "HELLO 3");
    raw(&mut resp, "CLIENT TRACKING ON");
    raw(&mut resp, "GET k");
    mc.ask("set k 0 0 1\r\nb\r\n");
    let told = String::from_utf8(resp.frame().unwrap()).unwrap();
    assert!(told.contains("invalidate"), "{told}");
}

/// fact 125: with a delay all items go later, also those that were stored meanwhile; a later flush_all replaces it.
#[test]
fn fact_125_items_go_after_a_delay() {
    let (_local, mut mc, _, _) = both(&[]);
    assert_eq!(
        mc.text("set a 0 0 1\r\na\r\nflush_all 1\r\nset b 0 0 1\r\nb\r\n"),
        "STORED\r\nOK\r\nSTORED\r\n"
    );
    eventually("all items go", || mc.text("get a b\r\n") == "END\r\n");
    assert_eq!(
        mc.text("flush_all 1000\r\nset a 0 0 1\r\na\r\nget a\r\n"),
        "OK\r\nSTORED\r\nVALUE a 0 1\r\na\r\nEND\r\n"
    );
}

/// Whoever pauses writes is not deceived by what was asked for to happen later.
#[test]
fn items_do_not_go_while_writes_are_paused() {
    let (_local, mut mc, mut resp, _) = both(&[]);
    mc.ask("set a 0 0 1\r\na\r\n");
    raw(&mut resp, "CLIENT PAUSE 1000000 WRITE");
    assert_eq!(mc.text("flush_all 1\r\n"), "OK\r\n");
    let mut secs = || -> u64 {
        let time = raw(&mut resp, "TIME");
        time.lines().nth(2).unwrap().parse().unwrap()
    };
    let asked = secs();
    // A second later at the latest it is looked at.
    eventually("its time is over", || secs() > asked + 2);
    assert_eq!(mc.text("get a\r\n"), "VALUE a 0 1\r\na\r\nEND\r\n");
    raw(&mut resp, "CLIENT UNPAUSE");
    eventually("all items go", || mc.text("get a\r\n") == "END\r\n");
}

/// fact 127: what clients read of the statistics.
#[test]
fn fact_127_statistics() {
    let (_local, mut mc, mut resp, _) = both(&[("maxmemory", "100mb")]);
    mc.ask(
        "set a 0 0 1\r\na\r\nget a b\r\nincr b 1\r\ndelete b\r\ntouch a 0\r\ngets a\r\nmg a\r\n",
    );
    let value = |stats: &str, name: &str| -> u64 {
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("{name} in {stats}"))
            .parse()
            .unwrap()
    };
    let stats = mc.text("stats\r\n");
    for (name, wanted) in [
        ("pid", u64::from(std::process::id())),
        ("curr_items", 1),
        ("cmd_get", 4),
        ("get_hits", 3),
        ("get_misses", 1),
        ("cmd_set", 1),
        ("incr_misses", 1),
        ("delete_misses", 1),
        ("touch_hits", 1),
        ("curr_connections", 2),
        ("limit_maxbytes", 100 << 20),
        ("threads", 2),
        ("evictions", 0),
    ] {
        assert_eq!(value(&stats, name), wanted, "{name}");
    }
    assert!(value(&stats, "bytes") > 0 && value(&stats, "time") > 0);
    assert!(stats.ends_with("END\r\n") && stats.contains("STAT version 1.6.18\r\n"));
    let read = value(&stats, "bytes_read");
    assert_eq!(mc.text("stats reset\r\n"), "RESET\r\n");
    let stats = mc.text("stats\r\n");
    for name in ["cmd_get", "total_connections", "evictions", "reclaimed"] {
        assert_eq!(value(&stats, name), 0, "{name}");
    }
    assert!(value(&stats, "bytes_read") < read, "{stats}");
    let settings = mc.text("stats settings\r\n");
    assert_eq!(value(&settings, "item_size_max"), 1 << 20);
    assert!(
        mc.text("stats items\r\nstats slabs\r\nstats conns\r\n")
            .contains("STAT items:1:number 1\r\n")
    );
    // The commands count as those of Redis under whose rows they run.
    let calls = info(&mut resp, "cmdstat_get");
    assert!(calls.starts_with("calls=4,"), "{calls}");
}

/// Programs that watch a memcached read these of its class of items, and give it up where one is missing.
#[test]
fn fact_127_statistics_of_the_class_of_all_items() {
    let (_local, mut mc, _, _) = both(&[]);
    assert_eq!(mc.text("stats items\r\n"), "END\r\n");
    let empty = mc.text("stats slabs\r\n");
    assert!(empty.starts_with("STAT active_slabs 0\r\n"), "{empty}");
    mc.ask("set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\ndecr a 1\r\ntouch a 0\r\nset b 0 0 1\r\n1\r\ndelete b\r\n");
    let slabs = mc.text("stats slabs\r\n");
    for wanted in [
        "used_chunks 1",
        "get_hits 1",
        "cmd_set 2",
        "delete_hits 1",
        "incr_hits 1",
        "decr_hits 1",
        "cas_hits 0",
        "cas_badval 0",
        "touch_hits 1",
    ] {
        assert!(slabs.contains(&format!("STAT 1:{wanted}\r\n")), "{slabs}");
    }
    let items = mc.text("stats items\r\n");
    for wanted in ["number 1", "evicted 0", "outofmemory 0", "reclaimed 0"] {
        let line = format!("STAT items:1:{wanted}\r\n");
        assert!(items.contains(&line), "{items}");
    }
}

#[test]
fn a_unix_socket_speaks_it_too() {
    let dir = temp_dir().unwrap();
    let path = dir.join("socket");
    let text = path.display().to_string();
    let local = Local::start(&[
        ("memcached-unixsocket", &text),
        ("unixsocketperm", "700"),
        ("loglevel", "verbose"),
    ]);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let listener = info(&mut local.connect(), "listener1");
    assert_eq!(listener, format!("name=memcached,bind={text}"));
    let mut socket = UnixStream::connect(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
        .write_all(b"set k 5 0 1\r\na\r\nget k\r\nstats settings\r\nstats conns\r\nquit\r\n")
        .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("STORED\r\nVALUE k 5 1\r\na\r\nEND\r\n"),
        "{answer}"
    );
    for wanted in [
        format!("STAT domain_socket {text}\r\n"),
        "STAT umask 700\r\n".to_owned(),
        "STAT verbosity 1\r\n".to_owned(),
        format!(":listen_addr unix:{text}\r\n"),
        ":state conn_parse_cmd\r\n".to_owned(),
    ] {
        assert!(answer.contains(&wanted), "{answer}");
    }
}

#[test]
fn some_items_can_be_looked_at() {
    let (_local, mut mc, mut resp, _) = both(&[]);
    assert_eq!(mc.text("stats cachedump 1 0\r\n"), "END\r\n");
    mc.ask("set a 5 0 3\r\nabc\r\nset n 0 2000000000 2\r\n12\r\n");
    raw(&mut resp, "RPUSH list x");
    let answer = mc.text("stats cachedump 1 0\r\n");
    let mut lines: Vec<&str> = answer.lines().collect();
    lines.sort_unstable();
    let expected = ["END", "ITEM a [3 b; 0 s]", "ITEM n [2 b; 2000000000 s]"];
    assert_eq!(lines, expected, "a list is no item");
    assert_eq!(mc.text("stats cachedump 1 1\r\n").lines().count(), 2);
    assert_eq!(mc.text("stats cachedump 2 0\r\n"), "END\r\n");
}

#[test]
fn the_memory_limit_is_the_one_of_the_store() {
    let (_local, mut mc, mut resp, _) = both(&[]);
    assert_eq!(mc.text("cache_memlimit 64\r\n"), "OK\r\n");
    let limit = raw(&mut resp, "CONFIG GET maxmemory");
    assert!(limit.contains("67108864"), "{limit}");
    assert_eq!(mc.text("cache_memlimit 128 noreply\r\n"), "");
    assert!(
        mc.text("stats\r\n")
            .contains("STAT limit_maxbytes 134217728\r\n")
    );
}

#[test]
fn bounds_hold_for_this_protocol_too() {
    let (_local, mut mc, mut resp, addr) = both(&[
        ("maxmemory-policy", "noeviction"),
        ("memcached-max-item-size", "100kb"),
    ]);
    // More than is sent in one go, from one line.
    let value = "v".repeat(1000);
    for at in 0..300 {
        mc.send(format!("set k{at} 0 0 1000 noreply\r\n{value}\r\n").as_bytes());
    }
    let keys: Vec<String> = (0..300).map(|at| format!("k{at}")).collect();
    let line = format!(
        "get {}\r\n",
        [keys.join(" "), keys.join(" ")].join(" none ")
    );
    let answer = mc.text(&line);
    assert_eq!(answer.matches("VALUE k").count(), 600);
    assert_eq!(answer.matches("END\r\n").count(), 1);
    let positions: Vec<usize> = keys
        .iter()
        .map(|key| answer.find(&format!("VALUE {key} ")).unwrap())
        .collect();
    assert!(positions.is_sorted());
    // Many requests in one write.
    let many = mc.text(&"get k1 none\r\n".repeat(2000));
    assert_eq!(many.matches(&value).count(), 2000);
    // A value that is too long is passed over while it comes.
    let large = "x".repeat(3 << 20);
    let set = format!("set k1 0 0 {}\r\n{large}\r\nget k1\r\n", large.len());
    assert_eq!(
        mc.text(&set),
        "SERVER_ERROR object too large for cache\r\nEND\r\n"
    );
    let part = "x".repeat(60_000);
    let extend = format!("set a 0 0 60000\r\n{part}\r\nappend a 0 0 60000\r\n{part}\r\n");
    assert_eq!(mc.text(&extend), "STORED\r\nNOT_STORED\r\n");
    // A line without an end ends the connection.
    let mut endless = Memcached::connect(addr);
    endless.send(&[b'x'; 5000]);
    assert_eq!(endless.rest(), b"");
    // Memory.
    raw(&mut resp, "CONFIG SET maxmemory 1");
    assert_eq!(
        mc.text("set new 0 0 1\r\na\r\nms new 1 q\r\na\r\n"),
        "SERVER_ERROR out of memory storing object\r\n".repeat(2)
    );
    assert!(mc.text("get k2\r\n").starts_with("VALUE k2 "));
    assert_eq!(mc.text("delete k2\r\n"), "DELETED\r\n");
    raw(&mut resp, "CONFIG SET maxmemory 0");
    // Clients.
    raw(&mut resp, "CONFIG SET maxclients 2");
    let refused = Memcached::connect(addr).rest();
    assert_eq!(refused, b"ERROR Too many open connections\r\n");
    raw(&mut resp, "CLIENT KILL TYPE normal SKIPME yes");
    assert_eq!(mc.rest(), b"");
}

#[test]
fn users_may_do_what_their_rules_allow() {
    let (_local, mut resp, addr) = {
        let (local, addr) = start("2", &[]);
        let resp = local.connect();
        (local, resp, addr)
    };
    raw(&mut resp, "ACL SETUSER reader on >pass %R~open:* +get");
    raw(&mut resp, "SET open:k v");
    raw(&mut resp, "ACL SETUSER default off");
    let mut mc = Memcached::connect(addr);
    mc.send(b"get open:k\r\n");
    assert_eq!(mc.read_until(b"\r\n"), b"CLIENT_ERROR unauthenticated\r\n");
    mc.send(b"set auth 0 0 11\r\nreader pass\r\n");
    assert_eq!(mc.read_until(b"\r\n"), b"STORED\r\n");
    assert_eq!(
        mc.text("get open:k\r\nmg open:k v\r\n"),
        "VALUE open:k 0 1\r\nv\r\nEND\r\nVA 1\r\nv\r\n"
    );
    for refused in [
        "get closed\r\n",
        "set open:k 0 0 1\r\na\r\n",
        "delete open:k\r\n",
        "flush_all\r\n",
        "flush_all 10\r\n",
        "mg open:k T5\r\n",
        "incr open:k 1\r\n",
    ] {
        let answer = mc.text(refused);
        assert!(
            answer.starts_with("SERVER_ERROR NOPERM "),
            "{refused}: {answer}"
        );
    }
    assert_eq!(raw(&mut resp, "GET open:k"), "$1\r\nv\r\n");
}

/// Flags survive a restart, by the snapshot and by the append-only file, and reach replicas.
#[test]
fn flags_are_kept_on_disk_and_by_replicas() {
    let folder = temp_dir().unwrap();
    let dir = folder.to_str().unwrap();
    for more in [("appendonly", "no"), ("appendonly", "yes")] {
        let settings = [("dir", dir), ("dbfilename", "flags.rdb"), more];
        {
            let (_local, mut mc, mut resp, _) = both(&settings);
            mc.ask("set k 7 1000 5\r\nhello\r\nset n 3 0 1\r\n5\r\nappend k 0 0 1\r\n!\r\nincr n 1\r\nset plain 0 0 1\r\na\r\ntouch plain 1000\r\nset gone 1 0 1\r\na\r\ndelete gone\r\nmg made N0\r\nprepend n 0 0 1\r\n1\r\n");
            if more.1 == "no" {
                assert_eq!(raw(&mut resp, "SAVE"), "+OK\r\n");
            }
            let wanted = mc.text("get k n plain gone made\r\n");
            let (replica, replica_addr) = start("2", &[]);
            let port = info(&mut resp, "tcp_port");
            raw(
                &mut replica.connect(),
                &format!("REPLICAOF 127.0.0.1 {port}"),
            );
            let mut follower = Memcached::connect(replica_addr);
            eventually("the replica has all", || {
                follower.text("get k n plain gone made\r\n") == wanted
            });
            mc.ask("set later 9 1000 1\r\na\r\n");
            eventually("the replica has what came later", || {
                follower.text("get later\r\n") == "VALUE later 9 1\r\na\r\nEND\r\n"
            });
            let answer = follower.text("set later 0 0 1\r\nb\r\n");
            assert!(answer.starts_with("SERVER_ERROR READONLY "), "{answer}");
        }
        let (_local, mut mc, mut resp, _) = both(&settings);
        let kept = mc.text("get k n plain gone made\r\n");
        assert_eq!(
            kept,
            "VALUE k 7 6\r\nhello!\r\nVALUE n 3 2\r\n16\r\nVALUE plain 0 1\r\na\r\nVALUE made 0 0\r\n\r\nEND\r\n",
            "{more:?}"
        );
        let ttl: i64 = raw(&mut resp, "TTL plain")[1..].trim_end().parse().unwrap();
        assert!((900..=1000).contains(&ttl), "{ttl}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// A real redis-server follows what Memcached's clients write.
#[test]
fn redis_follows_what_memcached_clients_write() {
    let Some(redis) = Server::redis(&[]).unwrap() else {
        return peers::skip("redis_follows_what_memcached_clients_write", "redis-server");
    };
    let (_local, mut mc, mut resp, _) = both(&[]);
    mc.ask("set before 7 0 1\r\na\r\n");
    let mut follower = redis.connect().unwrap();
    let port = info(&mut resp, "tcp_port");
    raw(&mut follower, &format!("REPLICAOF 127.0.0.1 {port}"));
    eventually("it follows", || {
        raw(&mut follower, "GET before") == "$1\r\na\r\n"
    });
    mc.ask("set k 7 1000 1\r\n5\r\nincr k 5\r\nappend k 0 0 1\r\n!\r\nprepend k 0 0 1\r\n#\r\ntouch k 0\r\nms m 2 F5\r\nhi\r\nmd before\r\nset last 0 0 1\r\nx\r\n");
    eventually("it has got all", || {
        raw(&mut follower, "GET last") == "$1\r\nx\r\n"
    });
    assert_eq!(raw(&mut follower, "GET k"), raw(&mut resp, "GET k"));
    assert_eq!(raw(&mut follower, "TTL k"), ":-1\r\n");
    assert_eq!(raw(&mut follower, "GET m"), "$2\r\nhi\r\n");
    assert_eq!(raw(&mut follower, "EXISTS before"), ":0\r\n");
    assert_eq!(info(&mut follower, "master_link_status"), "up");
}

#[test]
fn pymemcache() {
    let Some(python) = peers::python() else {
        return peers::skip("pymemcache", "the Python clients");
    };
    let port = free_port().unwrap().to_string();
    let server = Server::tollgate(&["--threads", "2", "--memcached-port", &port]).unwrap();
    let mut command = Command::new(python);
    command
        .arg(peers::clients().join("memcached_py.py"))
        .arg(&port)
        .arg(server.addr().port().to_string());
    let output = run(command);
    assert_eq!(output.lines().last(), Some("ok"), "{output}");
}

#[test]
fn an_empty_store_holds_no_bytes_of_items() {
    let (_local, mut mc, _, _) = both(&[]);
    let is_empty = |mc: &mut Memcached| mc.text("stats\r\n").contains("STAT bytes 0\r\n");
    assert!(is_empty(&mut mc));
    mc.ask("set a 0 0 1\r\na\r\n");
    assert!(!is_empty(&mut mc));
    mc.ask("flush_all\r\n");
    assert!(is_empty(&mut mc));
}
