//! Servers that go on where they were in a history after a restart, with masters and replicas of either kind.

use std::net::SocketAddr;

use tollgate_testkit::{Client, Server, peers};
use tollgate_wire::resp::Value;

use crate::aof::Folder;
use crate::harness::{info, raw};
use crate::replication::{attach, compare, wait_for, wait_for_link};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ours,
    Redis,
}

use Kind::{Ours, Redis};

/// A server whose snapshot lies in the folder; `None`, and a word about it, where there is none of that kind.
fn start(kind: Kind, folder: &Folder, more: &[&str]) -> Option<Server> {
    let own = [
        "--dir",
        folder.path(),
        "--dbfilename",
        "dump.rdb",
        // A sign of life behind the snapshot would be more than the snapshot has.
        "--repl-ping-replica-period",
        "3600",
        "--enable-debug-command",
        "yes",
    ];
    let flags = [&own[..], more].concat();
    let server = match kind {
        Ours => Some(Server::tollgate(&flags).unwrap()),
        Redis => Server::redis(&flags).unwrap(),
    };
    if server.is_none() {
        peers::skip("restart", "redis-server");
    }
    server
}

fn end(mut server: Server) {
    let mut client = server.connect().unwrap();
    // Replicas are asked nothing more, which would be behind what has been compared.
    client.send(b"SHUTDOWN SAVE NOW\r\n").unwrap();
    wait_for("the end", || server.exited().unwrap().is_some());
}

fn syncs(server: &Server) -> (String, String) {
    let mut client = server.connect().unwrap();
    (
        info(&mut client, "sync_full"),
        info(&mut client, "sync_partial_ok"),
    )
}

fn are_equally_far(one: &mut Client, other: &mut Client) {
    wait_for("the replica has everything", || {
        info(one, "master_repl_offset") == info(other, "master_repl_offset")
    });
}

/// Changes that a server of either kind knows, in several databases, some of them together.
fn write_all(server: SocketAddr, round: u64) {
    let mut client = Client::connect(server).unwrap();
    let mut run = |line: &str| {
        client.line(line).unwrap();
    };
    for step in 0..300 {
        run(&format!("SELECT {}", step / 7 % 3));
        let key = step % 60;
        run(&format!("SET key:{key} {round}:{step}"));
        run("MULTI");
        run(&format!("RPUSH list:{} {round}:{step}", key % 5));
        run("INCR counter");
        run("SELECT 0");
        run(&format!("ZINCRBY scores 1.5 member:{key}"));
        run("EXEC");
        run(&format!("SPOP set:{}", key % 3));
        run(&format!("SADD set:{} {round}:{step}", key % 3));
        run(&format!("SET brief:{key} 1 PX {}", 1 + step));
        run(&format!("EXPIRE key:{key} 5000"));
    }
}

/// A replica ends while its master goes on, and is told of what it has missed when it is there again.
fn replica_comes_back(master: Kind, replica: Kind, seed: u64) {
    let (its, own) = (Folder::new(), Folder::new());
    let Some(master) = start(master, &its, &[]) else {
        return;
    };
    let Some(first) = start(replica, &own, &[]) else {
        return;
    };
    let mut here = first.connect().unwrap();
    attach(&mut here, master.addr());
    wait_for_link(&mut here);
    write_all(master.addr(), seed);
    // The stream goes on with this database selected.
    let mut writer = master.connect().unwrap();
    writer.line("SELECT 3").unwrap();
    writer.line("SET selected 1").unwrap();
    writer.line("SET brief 1 PX 1").unwrap();
    compare(master.addr(), first.addr());
    drop(here);
    end(first);
    let (full, partial) = syncs(&master);
    assert_eq!((&*full, &*partial), ("1", "0"));
    writer.line("SET selected 2").unwrap();
    write_all(master.addr(), seed + 1);
    let port = master.addr().port().to_string();
    let second = start(replica, &own, &["--replicaof", "127.0.0.1", &port]).unwrap();
    wait_for_link(&mut second.connect().unwrap());
    compare(master.addr(), second.addr());
    assert_eq!(syncs(&master), ("1".to_owned(), "1".to_owned()));
    // And again, before anything has come.
    end(second);
    let third = start(replica, &own, &["--replicaof", "127.0.0.1", &port]).unwrap();
    wait_for_link(&mut third.connect().unwrap());
    compare(master.addr(), third.addr());
    assert_eq!(syncs(&master), ("1".to_owned(), "2".to_owned()));
}

#[test]
fn a_replica_goes_on_behind_a_master_of_its_kind() {
    replica_comes_back(Ours, Ours, 300);
}

#[test]
fn a_replica_goes_on_behind_redis() {
    replica_comes_back(Redis, Ours, 310);
}

#[test]
fn a_replica_of_redis_goes_on_behind_us() {
    replica_comes_back(Ours, Redis, 320);
}

/// A master ends, and its replica, which goes on, knows it again when it is there: also what has lapsed meanwhile.
fn master_comes_back(master: Kind, replica: Kind, seed: u64) {
    let (its, own) = (Folder::new(), Folder::new());
    let Some(first) = start(master, &its, &[]) else {
        return;
    };
    let Some(replica) = start(replica, &own, &[]) else {
        return;
    };
    let mut here = replica.connect().unwrap();
    attach(&mut here, first.addr());
    wait_for_link(&mut here);
    write_all(first.addr(), seed);
    let mut writer = first.connect().unwrap();
    writer.line("DEBUG SET-ACTIVE-EXPIRE 0").unwrap();
    writer.line("SELECT 3").unwrap();
    for key in 0..20 {
        writer.line(&format!("SET brief:{key} 1 PX 5")).unwrap();
    }
    compare(first.addr(), replica.addr());
    are_equally_far(&mut writer, &mut here);
    let (id, offset) = (
        info(&mut writer, "master_replid"),
        info(&mut writer, "master_repl_offset"),
    );
    drop(writer);
    end(first);
    let second = start(master, &its, &[]).unwrap();
    let mut there = second.connect().unwrap();
    assert_eq!(info(&mut there, "master_replid2"), id);
    let next: u64 = offset.parse::<u64>().unwrap() + 1;
    assert_eq!(info(&mut there, "second_repl_offset"), next.to_string());
    attach(&mut here, second.addr());
    wait_for_link(&mut here);
    assert_eq!(syncs(&second), ("0".to_owned(), "1".to_owned()));
    write_all(second.addr(), seed + 1);
    compare(second.addr(), replica.addr());
    are_equally_far(&mut there, &mut here);
    here.line("SELECT 3").unwrap();
    assert_eq!(raw(&mut here, "KEYS brief:*"), "*0\r\n");
    assert_eq!(here.line("EXISTS brief:1").ok(), Some(Value::Int(0)));
}

#[test]
fn a_master_is_known_again_by_a_replica_of_its_kind() {
    master_comes_back(Ours, Ours, 330);
}

#[test]
fn a_master_is_known_again_by_redis() {
    master_comes_back(Ours, Redis, 340);
}

#[test]
fn a_master_of_redis_is_known_again() {
    master_comes_back(Redis, Ours, 350);
}

/// A replica of redis that is killed starts with the data that its master has sent it.
#[test]
fn a_killed_replica_of_redis_goes_on_from_the_data_that_it_was_sent() {
    let (its, own) = (Folder::new(), Folder::new());
    let master = start(Ours, &its, &[]).unwrap();
    write_all(master.addr(), 360);
    let Some(first) = start(Redis, &own, &[]) else {
        return;
    };
    let mut here = first.connect().unwrap();
    attach(&mut here, master.addr());
    wait_for_link(&mut here);
    write_all(master.addr(), 361);
    drop(first);
    let port = master.addr().port().to_string();
    let second = start(Redis, &own, &["--replicaof", "127.0.0.1", &port]).unwrap();
    wait_for_link(&mut second.connect().unwrap());
    compare(master.addr(), second.addr());
    assert_eq!(syncs(&master), ("1".to_owned(), "1".to_owned()));
}

/// What a master has changed behind its snapshot is another history: replicas that have it come back for all data.
#[test]
fn a_master_that_was_killed_does_not_know_what_it_has_lost() {
    let (its, own) = (Folder::new(), Folder::new());
    let first = start(Ours, &its, &[]).unwrap();
    let replica = start(Ours, &own, &[]).unwrap();
    let mut here = replica.connect().unwrap();
    attach(&mut here, first.addr());
    wait_for_link(&mut here);
    write_all(first.addr(), 370);
    let mut writer = first.connect().unwrap();
    writer.line("SET a saved").unwrap();
    assert_eq!(raw(&mut writer, "SAVE"), "+OK\r\n");
    writer.line("SET a lost").unwrap();
    compare(first.addr(), replica.addr());
    drop(first);
    let second = start(Ours, &its, &[]).unwrap();
    attach(&mut here, second.addr());
    wait_for("all data", || syncs(&second).0 == "1");
    wait_for_link(&mut here);
    compare(second.addr(), replica.addr());
    assert_eq!(raw(&mut here, "GET a"), "$5\r\nsaved\r\n");
}
