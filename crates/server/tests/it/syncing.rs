//! Replicas that are sent all data wait for others, if that is wanted.

use crate::harness::{Local, info, raw, text};
use crate::replication::wait_for;
use tollgate_testkit::Client;

fn attach(replica: &Local, master: &Local) -> Client {
    let mut client = replica.connect();
    let port = master.addr.port();
    let reply = raw(&mut client, &format!("REPLICAOF 127.0.0.1 {port}"));
    assert_eq!(reply, "+OK\r\n");
    client
}

fn has(client: &mut Client, state: &str, replicas: usize) -> bool {
    let told = text(client, "INFO replication");
    told.matches(&format!(",state={state},")).count() == replicas
}

#[test]
fn a_replica_waits_for_others() {
    let master = Local::start(&[
        ("repl-diskless-sync-delay", "100000"),
        ("repl-diskless-sync-max-replicas", "2"),
    ]);
    let mut client = master.connect();
    client.line("SET key value").unwrap();
    let replicas = [&[], &[], &[]].map(|settings| Local::start(settings));
    let mut first = attach(&replicas[0], &master);
    wait_for("it waits", || has(&mut client, "wait_bgsave", 1));
    // It has no part in what is written meanwhile.
    client.line("SET other value").unwrap();
    assert_eq!(info(&mut client, "repl_backlog_active"), "0");
    assert_eq!(info(&mut client, "sync_full"), "1");
    assert_eq!(info(&mut first, "master_link_status"), "down");
    let mut second = attach(&replicas[1], &master);
    wait_for("two are enough", || has(&mut client, "online", 2));
    let mut third = attach(&replicas[2], &master);
    wait_for("one is not", || has(&mut client, "wait_bgsave", 1));
    assert_eq!(
        raw(&mut client, "CONFIG SET repl-diskless-sync no"),
        "+OK\r\n"
    );
    wait_for("nobody is waited for", || has(&mut client, "online", 3));
    client.line("SET last value").unwrap();
    for replica in [&mut first, &mut second, &mut third] {
        wait_for("all is there", || {
            let all = "*3\r\n$5\r\nvalue\r\n$5\r\nvalue\r\n$5\r\nvalue\r\n";
            raw(replica, "MGET key other last") == all
        });
    }
    assert_eq!(info(&mut client, "sync_full"), "3");
}

/// A replica that goes while it waits leaves nothing behind.
#[test]
fn a_replica_that_waits_may_go() {
    let master = Local::start(&[("repl-diskless-sync-delay", "100000")]);
    let mut client = master.connect();
    let replica = Local::start(&[]);
    let mut waiting = attach(&replica, &master);
    wait_for("it waits", || has(&mut client, "wait_bgsave", 1));
    assert_eq!(raw(&mut waiting, "REPLICAOF NO ONE"), "+OK\r\n");
    wait_for("it has gone", || {
        info(&mut client, "connected_slaves") == "0"
    });
    assert_eq!(
        raw(&mut client, "CONFIG SET repl-diskless-sync-delay 0"),
        "+OK\r\n"
    );
    attach(&replica, &master);
    wait_for("it is there", || has(&mut client, "online", 1));
}
