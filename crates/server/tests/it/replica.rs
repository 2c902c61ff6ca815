//! This server as a replica: of a real redis-server, of another of its kind, in a chain, and what becomes of it then.

use crate::harness::{Local, info, raw, text};
use crate::replication::{attach, compare, wait_for, wait_for_link, write_all};
use std::net::SocketAddr;
use std::time::Duration;
use tollgate_testkit::client::Received;
use tollgate_testkit::{Client, PATIENCE, Server, peers};
use tollgate_wire::resp::Value;

const HERE: &str = "replica";

/// A real redis-server, or a word that there is none.
fn redis(flags: &[&str]) -> Option<Server> {
    let server = Server::redis(flags).unwrap();
    if server.is_none() {
        peers::skip(HERE, "redis-server");
    }
    server
}

fn number(client: &mut Client, name: &str) -> i64 {
    info(client, name).parse().unwrap()
}

/// Waits until a replica that has lost its link has it again, by going on where it was.
fn comes_back(master: &mut Client, replica: &mut Client, times: i64) {
    wait_for("the replica has gone on", || {
        number(master, "sync_partial_ok") == times
    });
    wait_for_link(replica);
}

/// A replica comes while clients write, loses its link while they write again, and is told of everything.
fn follows_writers(master: SocketAddr, settings: &[(&str, &str)], seed: u64) {
    let replica = Local::start(settings);
    let (mut there, mut here) = (Client::connect(master).unwrap(), replica.connect());
    here.line("SET before 1").unwrap();
    write_all(master, seed, || attach(&mut here, master));
    wait_for_link(&mut here);
    compare(master, replica.addr);
    assert_eq!(here.line("EXISTS before").ok(), Some(Value::Int(0)));
    let full = number(&mut there, "sync_full");
    write_all(master, seed + 1, || {
        let killed = here.line("CLIENT KILL TYPE master").unwrap();
        assert_eq!(killed, Value::Int(1));
    });
    comes_back(&mut there, &mut here, 1);
    write_all(master, seed + 2, || {
        let killed = there.line("CLIENT KILL TYPE replica").unwrap();
        assert_eq!(killed, Value::Int(1));
    });
    comes_back(&mut there, &mut here, 2);
    compare(master, replica.addr);
    assert_eq!(there.line("WAIT 1 60000").ok(), Some(Value::Int(1)));
    assert_eq!(number(&mut there, "sync_full"), full);
}

#[test]
fn one_shard_follows_redis() {
    if let Some(master) = redis(&["--repl-diskless-sync", "no"]) {
        follows_writers(master.addr(), &[("threads", "1"), ("shards", "1")], 110);
    }
}

#[test]
fn many_shards_follow_redis_that_sends_its_data_without_a_length() {
    let flags = [
        "--repl-diskless-sync",
        "yes",
        "--repl-diskless-sync-delay",
        "0",
    ];
    if let Some(master) = redis(&flags) {
        follows_writers(master.addr(), &[("threads", "2"), ("shards", "64")], 120);
    }
}

#[test]
fn a_server_follows_one_of_its_kind() {
    let master = Local::start(&[("threads", "2")]);
    follows_writers(master.addr, &[("threads", "2")], 130);
}

#[test]
fn a_master_that_comes_back_without_its_history_is_followed_anew() {
    let Some(first) = redis(&[]) else { return };
    let Some(second) = redis(&[]) else { return };
    let replica = Local::start(&[]);
    let mut here = replica.connect();
    first.connect().unwrap().line("SET a first").unwrap();
    second.connect().unwrap().line("SET b second").unwrap();
    for master in [&first, &second] {
        attach(&mut here, master.addr());
        wait_for_link(&mut here);
    }
    assert_eq!(raw(&mut here, "MGET a b"), "*2\r\n$-1\r\n$6\r\nsecond\r\n");
    drop(second);
    wait_for("the link is down", || {
        info(&mut here, "master_link_status") == "down"
    });
    assert_eq!(raw(&mut here, "GET b"), "$6\r\nsecond\r\n");
    assert_ne!(info(&mut here, "master_link_down_since_seconds"), "-1");
    assert!(raw(&mut here, "SET b 1").starts_with("-READONLY"));
}

/// A chain of a master, this server, and a replica of it; then this server is made master.
fn passes_on(last: SocketAddr, last_is_ours: bool) {
    // A sign of life on its way when this server is made master would be more than that has.
    let Some(first) = redis(&["--repl-ping-replica-period", "3600"]) else {
        return;
    };
    let middle = Local::start(&[]);
    let mut here = middle.connect();
    let mut there = Client::connect(last).unwrap();
    attach(&mut here, first.addr());
    wait_for_link(&mut here);
    // One database is selected in the middle of the stream.
    let mut writer = first.connect().unwrap();
    writer.line("SELECT 2").unwrap();
    writer.line("SET selected 1").unwrap();
    attach(&mut there, middle.addr);
    wait_for_link(&mut there);
    writer.line("SET selected 2").unwrap();
    write_all(first.addr(), 140, || {});
    compare(first.addr(), last);
    compare(first.addr(), middle.addr);
    // Nothing is left that the old master would go on to tell of, such as keys that expire.
    writer.line("FLUSHALL").unwrap();
    for name in ["master_replid", "master_repl_offset"] {
        wait_for("the offsets are the same", || {
            let mine = info(&mut here, name);
            mine == info(&mut there, name) && mine == info(&mut writer, name)
        });
    }
    // The replica of the replica loses its link, and goes on.
    here.line("CLIENT KILL TYPE replica").unwrap();
    comes_back(&mut here, &mut there, 1);
    assert_eq!(
        here.line("REPLICAOF NO ONE").ok(),
        Some(Value::Simple(b"OK".to_vec()))
    );
    assert_eq!(
        info(&mut here, "master_replid2"),
        info(&mut writer, "master_replid")
    );
    comes_back(&mut here, &mut there, 2);
    assert_eq!(number(&mut here, "sync_full"), 1);
    write_all(middle.addr, 141, || {});
    compare(middle.addr, last);
    // The old master follows, too: it has nothing that the new one has not.
    attach(&mut writer, middle.addr);
    wait_for_link(&mut writer);
    compare(middle.addr, first.addr());
    assert_eq!(number(&mut here, "sync_partial_ok"), 3);
    assert!(text(&mut here, "INFO replication").contains("connected_slaves:2"));
    if last_is_ours {
        assert_eq!(
            info(&mut there, "master_replid"),
            info(&mut here, "master_replid")
        );
    }
}

#[test]
fn redis_follows_a_replica() {
    if let Some(last) = redis(&[]) {
        passes_on(last.addr(), false);
    }
}

#[test]
fn a_replica_follows_a_replica() {
    let last = Local::start(&[]);
    passes_on(last.addr, true);
}

/// What clients ask of a replica, and of one without its master.
const ASKED: &[&str] = &[
    "SET k v",
    "GET k",
    "get",
    "SET k",
    "EVAL return(redis.call('set',KEYS[1],1)) 1 k",
    "EVAL return(redis.call('get',KEYS[1])) 1 k",
    "EVAL_RO return(redis.call('get',KEYS[1])) 1 k",
    "EVAL #!lua\nreturn(redis.call('get',KEYS[1])) 1 k",
    "EVAL #!lua\x20flags=no-writes\nreturn(redis.call('get',KEYS[1])) 1 k",
    "EVAL #!lua\x20flags=no-writes,allow-stale\nreturn(redis.call('get',KEYS[1])) 1 k",
    "EVAL #!lua\x20flags=no-writes,allow-stale\nreturn(redis.call('set',KEYS[1],1)) 1 k",
    "EVAL #!lua\x20flags=no-writes,allow-stale\nreturn(redis.call('ping')) 1 k",
    "MULTI",
    "SET k v",
    "EXEC",
    "MULTI",
    "GET k",
    "EXEC",
    "WAIT 0 0",
    "PUBLISH channel message",
    "SUBSCRIBE channel",
    "UNSUBSCRIBE channel",
    "PING",
    "DBSIZE",
    "FLUSHALL",
    "PFCOUNT k",
    "EXPIRE k 10",
    "BLPOP list 1",
    "XADD x * a 1",
    "REPLICAOF NO",
    "REPLICAOF 127.0.0.1 x",
    "REPLICAOF 127.0.0.1 65536",
    "PSYNC ? -1 FAILOVER wrong",
    "CONFIG SET replicaof 127.0.0.1",
    "DEBUG SLEEP 0",
];

#[test]
fn clients_of_replicas_are_answered_as_by_redis() {
    let Some(master) = redis(&[]) else { return };
    let Some(peer) = redis(&[]) else { return };
    let replica = Local::start(&[("enable-debug-command", "yes")]);
    master.connect().unwrap().line("SET k 1").unwrap();
    let (mut here, mut there) = (replica.connect(), peer.connect().unwrap());
    for client in [&mut here, &mut there] {
        attach(client, master.addr());
        wait_for_link(client);
    }
    let ask_both = |state: &str| {
        let (mut here, mut there) = (replica.connect(), peer.connect().unwrap());
        for command in ASKED {
            if command.starts_with("PSYNC") {
                continue;
            }
            // A space inside a word of a script is written as it is.
            let [ours, theirs] = [&mut here, &mut there].map(|client| ask(client, command));
            assert_eq!(ours, theirs, "{state}: {command}");
        }
    };
    ask_both("with a link");
    let port = master.addr().port();
    let again = format!("REPLICAOF 127.0.0.1 {port}");
    assert_eq!(raw(&mut here, &again), raw(&mut there, &again));
    for client in [&mut here, &mut there] {
        client
            .line("CONFIG SET replica-serve-stale-data no")
            .unwrap();
        assert_eq!(raw(client, "GET k"), "$1\r\n1\r\n");
    }
    drop(master);
    for client in [&mut here, &mut there] {
        wait_for("the link is down", || {
            raw(client, "GET k").starts_with("-MASTERDOWN")
        });
    }
    ask_both("without a link");
    for client in [&mut here, &mut there] {
        client
            .line("CONFIG SET replica-serve-stale-data yes")
            .unwrap();
        client.line("CONFIG SET replica-read-only no").unwrap();
        assert_eq!(raw(client, "GET k"), "$1\r\n1\r\n");
        assert_eq!(raw(client, "SET own 1"), "+OK\r\n");
        assert_eq!(raw(client, "REPLICAOF NO ONE"), "+OK\r\n");
        assert_eq!(raw(client, "REPLICAOF NO ONE"), "+OK\r\n");
        assert_eq!(raw(client, "SET k 2"), "+OK\r\n");
    }
}

/// The reply as bytes; scripts keep their spaces.
fn ask(client: &mut Client, command: &str) -> String {
    let words: Vec<&str> = match command.strip_prefix("EVAL ") {
        Some(rest) if rest.starts_with("#!lua flags") => {
            let (script, keys) = rest.rsplit_once(" 1 ").unwrap();
            vec!["EVAL", script, "1", keys]
        }
        _ => command.split(' ').collect(),
    };
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    tollgate_wire::resp::write_command(&mut bytes, &words);
    client.send(&bytes).unwrap();
    String::from_utf8_lossy(&client.frame().unwrap()).into_owned()
}

/// Fact 61: it reads as absent before, and is deleted by the master's DEL.
#[test]
fn keys_of_a_replica_expire_when_the_master_says_so() {
    let Some(master) = redis(&[]) else { return };
    let replica = Local::start(&[]);
    let (mut here, mut there) = (replica.connect(), master.connect().unwrap());
    there.line("DEBUG SET-ACTIVE-EXPIRE 0").unwrap();
    attach(&mut here, master.addr());
    wait_for_link(&mut here);
    for command in [
        "SET k 1 PX 1",
        "SET kept 1",
        "RPUSH list a",
        "PEXPIRE list 1",
    ] {
        there.line(command).unwrap();
    }
    wait_for("the keys are there", || {
        here.line("DBSIZE").ok() == Some(Value::Int(3))
    });
    wait_for("they are not found", || {
        raw(&mut here, "EXISTS k list") == ":0\r\n"
    });
    assert_eq!(raw(&mut here, "GET k"), "$-1\r\n");
    assert_eq!(raw(&mut here, "KEYS *"), "*1\r\n$4\r\nkept\r\n");
    assert_eq!(raw(&mut here, "RANDOMKEY"), "$4\r\nkept\r\n");
    assert_eq!(
        here.line("DBSIZE").ok(),
        Some(Value::Int(3)),
        "and still there"
    );
    assert_eq!(info(&mut here, "expired_keys"), "0");
    // The master meets one of them.
    there.line("GET k").unwrap();
    wait_for("one has gone", || {
        here.line("DBSIZE").ok() == Some(Value::Int(2))
    });
    // Whoever is master decides for itself.
    here.line("REPLICAOF NO ONE").unwrap();
    wait_for("the other has gone", || {
        here.line("DBSIZE").ok() == Some(Value::Int(1))
    });
}

/// As redis-server does: what has come is acknowledged as far as it is applied.
#[test]
fn a_pause_of_the_clients_puts_off_what_the_master_sends() {
    // It sends nothing of its own accord.
    let master = Local::start(&[("repl-ping-replica-period", "3600")]);
    let replica = Local::start(&[]);
    let (mut here, mut there) = (replica.connect(), master.connect());
    attach(&mut here, master.addr);
    wait_for_link(&mut here);
    for (pause, command, after) in [
        ("CLIENT PAUSE 600000 WRITE", "SET k 1", "$1\r\n1\r\n"),
        ("CLIENT PAUSE 600000 WRITE", "INCR k", "$1\r\n2\r\n"),
    ] {
        wait_for("both are at the same place", || {
            number(&mut here, "slave_repl_offset") == number(&mut there, "master_repl_offset")
        });
        let before = raw(&mut here, "GET k");
        let place = number(&mut here, "slave_repl_offset");
        assert_eq!(raw(&mut here, pause), "+OK\r\n");
        there.line(command).unwrap();
        let offset = number(&mut there, "master_repl_offset");
        wait_for("it has come", || {
            number(&mut here, "slave_read_repl_offset") == offset
        });
        assert_eq!(number(&mut here, "slave_repl_offset"), place);
        assert_eq!(raw(&mut here, "GET k"), before);
        assert_eq!(raw(&mut here, "CLIENT UNPAUSE"), "+OK\r\n");
        wait_for("it is applied", || raw(&mut here, "GET k") == after);
    }
}

#[test]
fn a_transaction_that_changes_the_role_is_not_passed_on() {
    let server = Local::start(&[("repl-ping-replica-period", "3600")]);
    let mut client = server.connect();
    client.line("SET old 1").unwrap();
    let mut replica = server.connect();
    replica.send(b"*1\r\n$4\r\nSYNC\r\n").unwrap();
    wait_for("the replica is online", || {
        text(&mut client, "INFO replication").contains("state=online")
    });
    assert_eq!(raw(&mut client, "SET foo bar"), "+OK\r\n");
    // What is not sent yet when the replica is dropped never is.
    let mut before = Vec::new();
    while !before.ends_with(b"SET\r\n$3\r\nfoo\r\n$3\r\nbar\r\n") {
        match replica.receive(PATIENCE).unwrap() {
            Received::Bytes(bytes) => before.extend(bytes),
            other => panic!("{other:?} after {}", before.escape_ascii()),
        }
    }
    for command in [
        "MULTI",
        "SET foo2 bar",
        "REPLICAOF localhost 9999",
        "SET foo3 bar",
    ] {
        client.line(command).unwrap();
    }
    assert_eq!(raw(&mut client, "EXEC"), "*3\r\n+OK\r\n+OK\r\n+OK\r\n");
    assert!(raw(&mut client, "SET foo4 bar").starts_with("-READONLY"));
    assert_eq!(
        raw(&mut client, "CONFIG GET replicaof"),
        "*2\r\n$9\r\nreplicaof\r\n$14\r\nlocalhost 9999\r\n"
    );
    assert_eq!(raw(&mut client, "REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(raw(&mut client, "SET foo5 bar"), "+OK\r\n");
    let sent = replica.until_closed().unwrap();
    assert!(sent.is_empty(), "{}", sent.escape_ascii());
}

#[test]
fn what_waits_for_a_replica_that_does_not_read_is_counted() {
    let server = Local::start(&[("repl-backlog-size", "16384")]);
    let mut client = server.connect();
    let mut replica = server.connect();
    replica.send(b"*1\r\n$4\r\nSYNC\r\n").unwrap();
    wait_for("the replica is online", || {
        text(&mut client, "INFO replication").contains("state=online")
    });
    wait_for("the data are on their way", || {
        number(&mut client, "mem_clients_slaves") == 0
    });
    assert_eq!(number(&mut client, "connected_clients"), 1);
    let value = "v".repeat(1 << 20);
    for _ in 0..32 {
        assert_eq!(raw(&mut client, &format!("SET k {value}")), "+OK\r\n");
    }
    // Some of them lie in the buffers of the sockets.
    wait_for("the rest is counted", || {
        number(&mut client, "mem_clients_slaves") > 8 << 20
    });
    let told = text(&mut client, "INFO memory");
    let one = |name: &str| -> i64 {
        let line = told.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().parse().unwrap()
    };
    let waiting = one("mem_clients_slaves:");
    assert_eq!(one("mem_not_counted_for_evict:"), waiting);
    assert_eq!(
        one("mem_total_replication_buffers:"),
        one("mem_replication_backlog:") + waiting
    );
    assert!(one("used_memory:") > waiting);
    drop(replica);
    wait_for("it has gone", || {
        number(&mut client, "mem_clients_slaves") == 0
    });
}

/// REPLICAOF takes port 0, so a file that CONFIG REWRITE has written may have it.
#[test]
fn a_master_at_port_0_is_never_there() {
    let replica = Local::start(&[("replicaof", "127.0.0.1 0")]);
    let mut here = replica.connect();
    let role = raw(&mut here, "ROLE");
    assert!(
        role.starts_with("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:0\r\n"),
        "{role}"
    );
    assert_eq!(number(&mut here, "master_port"), 0);
}

#[test]
fn what_the_link_tells_of_itself() {
    let Some(master) = redis(&["--requirepass", "secret"]) else {
        return;
    };
    let port = master.addr().port().to_string();
    let replica = Local::start(&[("replicaof", &format!("127.0.0.1 {port}"))]);
    let mut here = replica.connect();
    wait_for("the password is missed", || {
        text(&mut here, "INFO replication").contains("master_link_error:")
    });
    assert!(raw(&mut here, "ROLE").starts_with("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n"));
    here.line("CONFIG SET masterauth secret").unwrap();
    wait_for_link(&mut here);
    let role = raw(&mut here, "ROLE");
    assert!(role.contains("$9\r\nconnected\r\n:"), "{role}");
    assert!(raw(&mut here, "HELLO 2").contains("replica"));
    let list = text(&mut here, "CLIENT LIST TYPE master");
    assert!(
        list.contains(" flags=M ") && list.contains("user=(superuser)"),
        "{list}"
    );
    assert_eq!(list.lines().count(), 1);
    let mut there = master.connect().unwrap();
    there.line("AUTH secret").unwrap();
    let own = format!(
        "slave0:ip=127.0.0.1,port={},state=online",
        replica.addr.port()
    );
    wait_for("the master shows the replica", || {
        text(&mut there, "INFO replication").contains(&own)
    });
    // What is subscribed to here hears of what is said there.
    here.line("SUBSCRIBE channel").unwrap();
    there.line("PUBLISH channel message").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&here.frame().unwrap()),
        "*3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$7\r\nmessage\r\n"
    );
}

#[test]
fn limiters_go_on_where_the_master_was() {
    let master = Local::start(&[]);
    let replica = Local::start(&[]);
    let (mut here, mut there) = (replica.connect(), master.connect());
    // One that does not know limiters follows too, and is told nothing that it cannot use.
    let redis = redis(&[]);
    there.line("RL.TAKE before FIXED 5 3600000").unwrap();
    let mut other = redis.as_ref().map(|redis| redis.connect().unwrap());
    for client in other.iter_mut().chain([&mut here]) {
        attach(client, master.addr);
        wait_for_link(client);
    }
    for _ in 0..3 {
        there.line("RL.TAKE limit FIXED 5 3600000").unwrap();
    }
    // What is missed while the link is down comes when it is up again.
    here.line("CLIENT KILL TYPE master").unwrap();
    there.line("RL.TAKE limit FIXED 5 3600000").unwrap();
    there.line("RL.TAKE sliding SLIDING 5 3600000").unwrap();
    for command in ["MULTI", "RL.TAKE before FIXED 5 3600000", "SET k v", "EXEC"] {
        there.line(command).unwrap();
    }
    for command in [
        "RL.TAKE gone FIXED 5 3600000",
        "DEL gone",
        "RENAME sliding other",
        "SET k w",
    ] {
        there.line(command).unwrap();
    }
    let followers = 1 + i64::from(other.is_some());
    wait_for("all follow again", || {
        there.line("WAIT 2 100").ok() == Some(Value::Int(followers))
    });
    for key in ["before", "limit", "other", "gone", "sliding"] {
        for question in ["DUMP", "PEXPIRETIME"] {
            let asked = format!("{question} {key}");
            assert_eq!(here.line(&asked).ok(), there.line(&asked).ok(), "{asked}");
        }
    }
    if let Some(other) = &mut other {
        assert_eq!(raw(other, "KEYS *"), "*1\r\n$1\r\nk\r\n");
        assert_eq!(info(other, "total_error_replies"), "0");
    }
    assert!(raw(&mut here, "RL.TAKE limit FIXED 5 3600000").starts_with("-READONLY"));
    assert_eq!(number(&mut there, "sync_full"), followers);
    drop(master);
    here.line("REPLICAOF NO ONE").unwrap();
    // One of five is left.
    let allowed = |client: &mut Client| raw(client, "RL.TAKE limit FIXED 5 3600000");
    let (first, second) = (allowed(&mut here), allowed(&mut here));
    assert_ne!(first, second);
}

#[test]
fn a_failover_hands_the_part_of_the_master_to_a_replica() {
    let first = Local::start(&[]);
    let second = Local::start(&[]);
    let (mut one, mut two) = (first.connect(), second.connect());
    let refused = |client: &mut Client, command: &str, reply: &str| {
        assert_eq!(
            raw(client, command),
            format!("-ERR {reply}\r\n"),
            "{command}"
        );
    };
    refused(
        &mut one,
        "FAILOVER",
        "FAILOVER requires connected replicas.",
    );
    refused(&mut one, "FAILOVER ABORT", "No failover in progress.");
    refused(
        &mut one,
        "FAILOVER TIMEOUT 0",
        "FAILOVER timeout must be greater than 0",
    );
    refused(&mut one, "FAILOVER TO", "syntax error");
    attach(&mut two, first.addr);
    wait_for_link(&mut two);
    refused(
        &mut two,
        "FAILOVER",
        "FAILOVER is not valid when server is a replica.",
    );
    let port = second.addr.port();
    refused(
        &mut one,
        "FAILOVER TO 127.0.0.1 1",
        "FAILOVER target HOST and PORT is not a replica.",
    );
    let forced = format!("FAILOVER TO 127.0.0.1 {port} FORCE");
    let both = "FAILOVER with force option requires both a timeout and target HOST and IP.";
    refused(&mut one, &forced, both);
    refused(
        &mut one,
        "PSYNC ? -1 FAILOVER",
        "PSYNC FAILOVER can't be sent to a master.",
    );
    one.line("SET k 1").unwrap();
    wait_for("the replica is online", || {
        text(&mut one, "INFO replication").contains("state=online")
    });
    assert_eq!(
        raw(
            &mut one,
            &format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 60000")
        ),
        "+OK\r\n"
    );
    wait_for("the replica is the master", || {
        info(&mut two, "role") == "master"
    });
    wait_for_link(&mut one);
    assert_eq!(info(&mut one, "master_failover_state"), "no-failover");
    assert_eq!(info(&mut two, "sync_partial_ok"), "1");
    assert_eq!(info(&mut two, "sync_full"), "0");
    assert_eq!(raw(&mut two, "SET k 2"), "+OK\r\n");
    assert_eq!(two.line("WAIT 1 60000").ok(), Some(Value::Int(1)));
    assert_eq!(raw(&mut one, "GET k"), "$1\r\n2\r\n");
    // And back, to whichever replica there is; a real one takes the part too.
    assert_eq!(raw(&mut two, "FAILOVER"), "+OK\r\n");
    wait_for("the first is the master again", || {
        info(&mut one, "role") == "master"
    });
    wait_for_link(&mut two);
    assert_eq!(raw(&mut one, "SET k 3"), "+OK\r\n");
    let Some(third) = redis(&[]) else { return };
    let mut three = third.connect().unwrap();
    attach(&mut three, first.addr);
    wait_for_link(&mut three);
    let port = third.addr().port();
    wait_for("the real one is online", || {
        text(&mut one, "INFO replication").contains(&format!("port={port},state=online"))
    });
    assert_eq!(
        raw(&mut one, &format!("FAILOVER TO 127.0.0.1 {port}")),
        "+OK\r\n"
    );
    wait_for("it is the master", || info(&mut three, "role") == "master");
    wait_for_link(&mut one);
    assert_eq!(raw(&mut three, "GET k"), "$1\r\n3\r\n");
    // It hands the part to this server, as well.
    let back = format!("FAILOVER TO 127.0.0.1 {}", first.addr.port());
    wait_for("this server is online there", || {
        raw(&mut three, &back) == "+OK\r\n"
    });
    wait_for("this server is the master", || {
        info(&mut one, "role") == "master"
    });
    wait_for_link(&mut three);
}

#[test]
fn what_servers_send_each_other_is_counted() {
    let (master, replica) = (Local::start(&[]), Local::start(&[]));
    let (mut there, mut here) = (master.connect(), replica.connect());
    attach(&mut here, master.addr);
    wait_for_link(&mut here);
    let value = "x".repeat(100_000);
    raw(&mut there, &format!("SET k {value}"));
    wait_for("the key is there", || {
        raw(&mut here, "EXISTS k") == ":1\r\n"
    });
    wait_for("it is counted", || {
        number(&mut there, "total_net_repl_output_bytes") > 100_000
            && number(&mut here, "total_net_repl_input_bytes") > 100_000
    });
    raw(&mut here, "CONFIG RESETSTAT");
    assert!(number(&mut here, "total_net_repl_input_bytes") < 100_000);
    assert!(number(&mut here, "total_writes_processed") > 0);
}

/// The thread that applies what a master sends serves no connection, and those that do may have nothing to do for long.
#[test]
fn clients_that_track_by_prefix_hear_of_what_a_master_changes_without_waiting_for_others() {
    let master = Local::start(&[]);
    let replica = Local::start(&[("enable-debug-command", "yes")]);
    let (mut first, mut listener) = (replica.connect(), replica.connect());
    attach(&mut first, master.addr);
    wait_for_link(&mut first);
    listener.line("HELLO 3").unwrap();
    listener.line("CLIENT TRACKING ON BCAST").unwrap();
    // Keeps the thread that looks after everything from its turns.
    first.send(b"DEBUG SLEEP 5\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    master.connect().line("SET k v").unwrap();
    let told = listener.frame().unwrap();
    assert_eq!(told, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    assert_eq!(
        first.receive(Duration::from_millis(1)).unwrap(),
        Received::Quiet
    );
    first.frame().unwrap();
}
