//! Who has a change and who has not, where that is not everybody: replicas that clients may write on, and scripts that choose.

use crate::aof::Folder;
use crate::harness::{Local, eventually, info, raw};
use crate::replication::{attach, wait_for_link};

/// A master, and a replica that clients may write on.
fn pair(settings: &[(&str, &str)]) -> (Local, Local) {
    let own = [("enable-debug-command", "yes")];
    let master = Local::start(&[&own[..], settings].concat());
    let replica = Local::start(&[("replica-read-only", "no")]);
    let mut here = replica.connect();
    attach(&mut here, master.addr);
    wait_for_link(&mut here);
    (master, replica)
}

#[test]
fn a_replica_lets_go_what_its_own_clients_have_written() {
    let (master, replica) = pair(&[]);
    let (mut there, mut here) = (master.connect(), replica.connect());
    assert_eq!(raw(&mut there, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
    for line in [
        "SET theirs 1 PX 1",
        "SET touched 1 PX 1",
        "SET kept 1 PX 5000000",
    ] {
        assert_eq!(raw(&mut there, line), "+OK\r\n");
    }
    assert_eq!(raw(&mut there, "WAIT 1 60000"), ":1\r\n");
    for line in [
        "SET own 1 EX 5000",
        "SETEX first 5000 1",
        "RENAME first own:2",
    ] {
        assert_eq!(raw(&mut here, line), "+OK\r\n");
    }
    // It says nothing of when the key goes.
    raw(&mut here, "APPEND kept 1");
    assert_ne!(info(&mut here, "slave_expires_tracked_keys"), "0");
    raw(&mut here, "HSET own:3 field value");
    for key in ["own", "own:2"] {
        assert_eq!(raw(&mut here, &format!("PEXPIRE {key} 30")), ":1\r\n");
    }
    raw(
        &mut here,
        "EVAL return(redis.call('pexpire',KEYS[1],30)) 1 own:3",
    );
    eventually("they are gone", || raw(&mut here, "DBSIZE") == ":3\r\n");
    // What the master has written goes when it says so.
    assert_eq!(raw(&mut here, "EXISTS theirs touched kept"), ":1\r\n");
    assert_eq!(raw(&mut there, "DEBUG SET-ACTIVE-EXPIRE 1"), "+OK\r\n");
    eventually("the master says so", || {
        raw(&mut here, "DBSIZE") == ":1\r\n"
    });
    eventually("nothing is noted", || {
        info(&mut here, "slave_expires_tracked_keys") == "0"
    });
}

#[test]
fn all_data_of_a_master_end_what_is_noted() {
    let (master, replica) = pair(&[]);
    let (mut there, mut here) = (master.connect(), replica.connect());
    raw(&mut here, "SET own 1 PX 5000000");
    assert_eq!(info(&mut here, "slave_expires_tracked_keys"), "1");
    raw(&mut there, "FLUSHALL");
    eventually("nothing is noted", || {
        info(&mut here, "slave_expires_tracked_keys") == "0"
    });
}

#[test]
fn scripts_choose_who_has_what_they_do() {
    let folder = Folder::new();
    let (master, replica) = pair(&[("appendonly", "yes"), ("dir", folder.path())]);
    let (mut there, mut here) = (master.connect(), replica.connect());
    assert_eq!(raw(&mut there, "SET lapsed 1 PX 1"), "+OK\r\n");
    assert_eq!(raw(&mut there, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
    std::thread::sleep(std::time::Duration::from_millis(5));
    let script = "EVAL redis.call('set',KEYS[1],'1');redis.set_repl(redis.REPL_NONE);redis.call('set',KEYS[2],'2');\
                  redis.call('get',KEYS[5]);\
                  redis.set_repl(redis.REPL_AOF);redis.call('set',KEYS[3],'3');redis.set_repl(redis.REPL_REPLICA);\
                  redis.call('set',KEYS[6],'6');redis.set_repl(redis.REPL_ALL);redis.call('set',KEYS[4],'4') \
                  6 a b c d lapsed e";
    assert_eq!(raw(&mut there, script), "$-1\r\n");
    // The next script begins anew.
    let next = "EVAL return(redis.call('set',KEYS[1],'5')) 1 f";
    assert_eq!(raw(&mut there, next), "+OK\r\n");
    assert_eq!(raw(&mut there, "WAIT 1 60000"), ":1\r\n");
    let all = "MGET a b c d e f";
    assert_eq!(
        raw(&mut here, all),
        "*6\r\n$1\r\n1\r\n$-1\r\n$-1\r\n$1\r\n4\r\n$1\r\n6\r\n$1\r\n5\r\n"
    );
    // What has gone by itself is gone everywhere.
    assert_eq!(raw(&mut here, "DBSIZE"), ":4\r\n");
    assert_eq!(raw(&mut there, "DEBUG LOADAOF"), "+OK\r\n");
    assert_eq!(
        raw(&mut there, all),
        "*6\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n$1\r\n4\r\n$-1\r\n$1\r\n5\r\n"
    );
}
