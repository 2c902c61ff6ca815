//! FAILOVER and SHUTDOWN with replicas that lag, step by step as redis-server does them.

use crate::harness::{info, raw};
use crate::replication::{attach, wait_for, wait_for_link};
use std::process::Command;
use std::time::Duration;
use tollgate_testkit::{Client, Server, peers};

const HERE: &str = "failover";

/// A master with a replica, both processes, since a replica lags when its process stands still.
struct Pair {
    master: Server,
    replica: Server,
}

impl Pair {
    /// Of two servers made alike; `None` where there are none.
    fn new(start: impl Fn() -> Option<Server>) -> Option<Pair> {
        let pair = Pair {
            master: start()?,
            replica: start()?,
        };
        let (mut one, mut two) = (pair.one(), pair.two());
        attach(&mut two, pair.master.addr());
        wait_for_link(&mut two);
        wait_for("the replica is online", || {
            crate::harness::text(&mut one, "INFO replication").contains("state=online")
        });
        Some(pair)
    }

    fn one(&self) -> Client {
        self.master.connect().unwrap()
    }

    fn two(&self) -> Client {
        self.replica.connect().unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.replica.pid().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// The address of the replica as arguments.
    fn target(&self) -> String {
        format!("127.0.0.1 {}", self.replica.addr().port())
    }
}

fn ours() -> Option<Server> {
    Some(Server::tollgate(&["--threads", "1"]).unwrap())
}

fn theirs() -> Option<Server> {
    let server = Server::redis(&[]).unwrap();
    if server.is_none() {
        peers::skip(HERE, "redis-server");
    }
    server
}

/// Waits until the master is at a stage of its failover.
fn stage(client: &mut Client, stage: &str) {
    wait_for(stage, || info(client, "master_failover_state") == stage);
}

/// Sends a write that is put off, and returns its connection.
fn put_off_write(pair: &Pair, value: &str) -> Client {
    let mut writer = pair.one();
    writer
        .send(format!("SET waits {value}\r\n").as_bytes())
        .unwrap();
    writer
}

/// Everything that is told on the way, for comparison.
fn fail_over(pair: &Pair) -> Vec<String> {
    let mut told = Vec::new();
    let mut one = pair.one();
    let mut say = |client: &mut Client, command: &str| told.push(raw(client, command));
    let target = pair.target();
    // The replica lags: it is waited for until the time is over.
    pair.signal("-STOP");
    say(&mut one, "SET lag 1");
    say(&mut one, &format!("FAILOVER TO {target} TIMEOUT 400"));
    let mut writer = put_off_write(pair, "1");
    stage(&mut one, "no-failover");
    say(&mut one, "GET lag");
    told.push(String::from_utf8(writer.frame().unwrap()).unwrap());
    // It is called off. A pause of clients is another matter, and stays.
    let mut say = |client: &mut Client, command: &str| told.push(raw(client, command));
    say(&mut one, "FAILOVER");
    stage(&mut one, "waiting-for-sync");
    for command in [
        "FAILOVER",
        "REPLICAOF 127.0.0.1 1",
        "CLIENT UNPAUSE",
        "FAILOVER TIMEOUT 5",
    ] {
        say(&mut one, command);
    }
    let mut writer = put_off_write(pair, "2");
    say(&mut one, "GET waits");
    say(&mut one, "CLIENT PAUSE 60000 WRITE");
    say(&mut one, "FAILOVER ABORT");
    stage(&mut one, "no-failover");
    say(&mut one, "GET waits");
    say(&mut one, "CLIENT UNPAUSE");
    told.push(String::from_utf8(writer.frame().unwrap()).unwrap());
    // The time is over and it is forced, though nobody answers; then it is called off.
    let mut say = |client: &mut Client, command: &str| told.push(raw(client, command));
    say(
        &mut one,
        &format!("FAILOVER TO {target} TIMEOUT 2000 FORCE"),
    );
    let mut writer = put_off_write(pair, "3");
    stage(&mut one, "failover-in-progress");
    say(&mut one, "FAILOVER ABORT");
    wait_for("it is a master", || info(&mut one, "role") == "master");
    // It is a master again before what was put off goes on.
    told.push(String::from_utf8(writer.frame().unwrap()).unwrap());
    let mut say = |client: &mut Client, command: &str| told.push(raw(client, command));
    say(&mut one, "SET lag 2");
    // Again, and the replica comes to itself: it has the part, and its data hold.
    pair.signal("-CONT");
    let mut two = pair.two();
    wait_for_link(&mut two);
    wait_for("it has everything", || {
        raw(&mut two, "GET lag") == "$1\r\n2\r\n"
    });
    pair.signal("-STOP");
    say(&mut one, "SET lost 1");
    say(&mut one, &format!("FAILOVER TO {target} FORCE TIMEOUT 50"));
    stage(&mut one, "failover-in-progress");
    pair.signal("-CONT");
    wait_for("the replica is the master", || {
        info(&mut two, "role") == "master"
    });
    stage(&mut one, "no-failover");
    wait_for_link(&mut one);
    say(&mut two, "SET new 1");
    say(&mut two, "WAIT 1 120000");
    say(&mut one, "GET new");
    say(&mut one, "ROLE");
    told.pop();
    told
}

#[test]
fn a_failover_goes_as_with_redis() {
    let Some(theirs) = Pair::new(theirs) else {
        return;
    };
    let expected = fail_over(&theirs);
    drop(theirs);
    let ours = Pair::new(ours).unwrap();
    assert_eq!(fail_over(&ours), expected);
}

/// Scripts run for as long as they want.
fn patient() -> Option<Server> {
    let settings = [
        "--busy-reply-threshold",
        "0",
        "--script-time-limit",
        "600000",
    ];
    Some(Server::tollgate(&[&["--threads", "1"], &settings[..]].concat()).unwrap())
}

/// Has a script run; what it says comes on the connection that is returned.
fn start_script(pair: &Pair, command: &str) -> Client {
    let mut script = pair.one();
    script.send(command.as_bytes()).unwrap();
    let mut other = pair.one();
    wait_for("the script runs", || {
        raw(&mut other, "FUNCTION STATS").starts_with("-BUSY")
    });
    script
}

/// The old master is about to follow the new one, and has to wait for a script, when that is called off.
#[test]
fn a_failover_that_is_called_off_on_the_way_leaves_a_master() {
    let pair = Pair::new(patient).unwrap();
    let mut one = pair.one();
    let command = "EVAL_RO \"redis.call('GET', KEYS[1]) while true do end\" 1 held\r\n";
    let mut script = start_script(&pair, command);
    assert_eq!(raw(&mut one, "FAILOVER"), "+OK\r\n");
    stage(&mut one, "failover-in-progress");
    assert_eq!(raw(&mut one, "FAILOVER ABORT"), "+OK\r\n");
    assert_eq!(raw(&mut one, "SCRIPT KILL"), "+OK\r\n");
    script.frame().unwrap();
    stage(&mut one, "no-failover");
    for _ in 0..50 {
        assert_eq!(info(&mut one, "role"), "master");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(raw(&mut one, "SET k v"), "+OK\r\n");
    assert_eq!(raw(&mut one, "WAIT 1 60000"), ":1\r\n");
}

/// A script that has begun before the writes were paused, and writes at its end.
#[test]
fn what_a_long_command_writes_is_handed_over_too() {
    let pair = Pair::new(patient).unwrap();
    let mut one = pair.one();
    let command =
        "EVAL \"for i = 1, 2e8 do end return redis.call('SET', KEYS[1], 'v')\" 1 late\r\n";
    let mut script = start_script(&pair, command);
    assert_eq!(raw(&mut one, "FAILOVER"), "+OK\r\n");
    assert_eq!(script.frame().unwrap(), b"+OK\r\n");
    stage(&mut one, "no-failover");
    let mut two = pair.two();
    assert_eq!(info(&mut two, "role"), "master");
    assert_eq!(raw(&mut two, "GET late"), "$1\r\nv\r\n");
    wait_for_link(&mut one);
    assert_eq!(info(&mut two, "sync_full"), "0");
}

/// Writes that want replicas, before one is there and right after it has gone.
fn write_with_replicas(pair: &Pair) -> Vec<String> {
    let mut one = pair.one();
    let mut told = vec![raw(&mut one, "CONFIG SET min-replicas-to-write 1")];
    told.push(raw(&mut one, "SET k 1"));
    // It cannot come back.
    pair.signal("-STOP");
    told.push(raw(&mut one, "CLIENT KILL TYPE replica"));
    told.push(raw(&mut one, "SET k 2"));
    pair.signal("-CONT");
    let mut two = pair.two();
    wait_for_link(&mut two);
    wait_for("it follows again", || {
        crate::harness::text(&mut one, "INFO replication").contains("state=online")
    });
    told.push(raw(&mut one, "SET k 3"));
    told
}

#[test]
fn writes_are_refused_as_soon_as_there_are_too_few_replicas_as_with_redis() {
    let Some(theirs) = Pair::new(theirs) else {
        return;
    };
    let expected = write_with_replicas(&theirs);
    drop(theirs);
    let ours = Pair::new(ours).unwrap();
    assert_eq!(write_with_replicas(&ours), expected);
}

/// Ends a master whose replica lags; what is told on the way.
fn shut_down(pair: &mut Pair) -> Vec<String> {
    let mut told = Vec::new();
    let mut one = pair.one();
    pair.signal("-STOP");
    told.push(raw(&mut one, "CONFIG SET shutdown-timeout 60"));
    told.push(raw(&mut one, "SET lag 1"));
    told.push(raw(&mut one, "SHUTDOWN ABORT"));
    let mut ends = pair.one();
    ends.send(b"SHUTDOWN\r\n").unwrap();
    wait_for("it waits", || {
        crate::harness::text(&mut one, "INFO server").contains("shutdown_in_milliseconds:")
    });
    told.push(info(&mut one, "blocked_clients"));
    let mut writer = put_off_write(pair, "1");
    wait_for("the write waits, too", || {
        info(&mut one, "blocked_clients") == "2"
    });
    told.push(raw(&mut one, "GET waits"));
    told.push(raw(&mut one, "SHUTDOWN ABORT"));
    told.push(String::from_utf8(ends.frame().unwrap()).unwrap());
    told.push(String::from_utf8(writer.frame().unwrap()).unwrap());
    // The connection goes on.
    ends.send(b"PING\r\n").unwrap();
    told.push(String::from_utf8(ends.frame().unwrap()).unwrap());
    ends.send(b"SHUTDOWN\r\n").unwrap();
    wait_for("it waits again", || {
        crate::harness::text(&mut one, "INFO server").contains("shutdown_in_milliseconds:")
    });
    pair.signal("-CONT");
    told.push(String::from_utf8(ends.until_closed().unwrap()).unwrap());
    let mut status = None;
    wait_for("it ends", || {
        status = pair.master.exited().unwrap();
        status.is_some()
    });
    told.push(format!("{:?}", status.unwrap().code()));
    let mut two = pair.two();
    told.push(raw(&mut two, "GET waits"));
    told
}

#[test]
fn the_end_waits_for_replicas_as_with_redis() {
    let Some(mut theirs) = Pair::new(theirs) else {
        return;
    };
    let expected = shut_down(&mut theirs);
    drop(theirs);
    let mut ours = Pair::new(ours).unwrap();
    assert_eq!(shut_down(&mut ours), expected);
}

/// Fact 92.
#[test]
fn clients_that_wait_are_told_and_disconnected_when_the_server_becomes_a_replica() {
    let told = |server: Option<Server>| {
        let server = server?;
        let mut waits = server.connect().unwrap();
        waits.send(b"BLPOP q 0\r\n").unwrap();
        let mut other = server.connect().unwrap();
        wait_for("it waits", || info(&mut other, "blocked_clients") == "1");
        raw(&mut other, "REPLICAOF 127.0.0.1 1");
        Some(String::from_utf8(waits.until_closed().unwrap()).unwrap())
    };
    let ours = told(ours()).unwrap();
    assert!(ours.starts_with("-UNBLOCKED "), "{ours}");
    if let Some(theirs) = told(theirs()) {
        assert_eq!(ours, theirs);
    }
}
