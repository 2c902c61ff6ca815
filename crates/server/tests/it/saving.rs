//! Snapshots while clients go on: their moment, what is told of them, and what becomes of them when they end too soon.

use std::fs;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tollgate_testkit::peers::skip;
use tollgate_testkit::{Client, PATIENCE, Server};
use tollgate_wire::resp::Value;

use crate::aof::Folder;
use crate::harness::{Local, eventually, info, raw};
use crate::replication::{attach, compare, wait_for, wait_for_link};

/// Ten seconds for each key: nothing is written before it is taken back.
const SLOW: &str = "CONFIG SET rdb-key-save-delay 10000000";
const FAST: &str = "CONFIG SET rdb-key-save-delay 0";
const BUSY: &str = "-ERR Background save already in progress\r\n";
const STARTED: &str = "+Background saving started\r\n";
const SCHEDULED: &str = "+Background saving scheduled\r\n";

fn here(folder: &Folder, more: &[(&str, &str)]) -> Local {
    let own = [
        ("dir", folder.path()),
        ("enable-debug-command", "yes"),
        ("enable-protected-configs", "yes"),
    ];
    Local::start(&[&own[..], more].concat())
}

fn fill(client: &mut Client, keys: usize) {
    for key in 0..keys {
        client.line(&format!("SET key:{key} old:{key}")).unwrap();
    }
}

fn is_saving(client: &mut Client) -> bool {
    info(client, "rdb_bgsave_in_progress") == "1"
}

fn wait_for_end(client: &mut Client) {
    wait_for("the end of the snapshot", || !is_saving(client));
}

/// What a server of either kind finds in the snapshot of a folder: the answers to these questions.
fn loaded(folder: &Folder, questions: &[&str]) -> Vec<Vec<String>> {
    let ask = |client: &mut Client| {
        let answers = questions.iter().map(|question| raw(client, question));
        answers.collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    let flags = ["--dir", folder.path(), "--dbfilename", "dump.rdb"];
    match Server::redis(&flags).unwrap() {
        Some(redis) => all.push(ask(&mut redis.connect().unwrap())),
        None => skip("saving", "redis-server"),
    }
    all.push(ask(&mut here(folder, &[]).connect()));
    all
}

#[test]
fn a_snapshot_is_of_the_moment_of_its_command() {
    let folder = Folder::new();
    let server = here(&folder, &[]);
    let mut client = server.connect();
    fill(&mut client, 50);
    client.line("RPUSH list a b c").unwrap();
    assert_eq!(raw(&mut client, SLOW), "+OK\r\n");
    client
        .send(b"BGSAVE\r\nSET key:0 new\r\nDEL key:1\r\nRPUSH list d\r\nSET more 1\r\nSELECT 2\r\nSET other 1\r\nSELECT 0\r\n")
        .unwrap();
    assert_eq!(client.frame().unwrap(), STARTED.as_bytes());
    for _ in 0..7 {
        client.frame().unwrap();
    }
    // Everything goes on meanwhile.
    for key in 2..50 {
        assert_eq!(raw(&mut client, &format!("SET key:{key} new")), "+OK\r\n");
    }
    assert_eq!(raw(&mut client, "GET key:49"), "$3\r\nnew\r\n");
    assert!(is_saving(&mut client));
    assert_eq!(info(&mut client, "current_save_keys_total"), "51");
    assert_ne!(info(&mut client, "rdb_current_bgsave_time_sec"), "-1");
    assert_ne!(info(&mut client, "current_cow_size"), "0");
    assert!(!folder.0.join("dump.rdb").exists());
    for busy in ["SAVE", "BGSAVE", "BGSAVE SCHEDULE"] {
        assert_eq!(raw(&mut client, busy), BUSY, "{busy}");
    }
    assert_eq!(raw(&mut client, FAST), "+OK\r\n");
    wait_for_end(&mut client);
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(info(&mut client, "rdb_current_bgsave_time_sec"), "-1");
    assert_ne!(info(&mut client, "rdb_last_bgsave_time_sec"), "-1");
    assert_eq!(info(&mut client, "rdb_saves"), "1");
    // What was changed after its moment is not saved.
    assert_eq!(info(&mut client, "rdb_changes_since_last_save"), "53");
    drop(server);
    let questions = [
        "DBSIZE",
        "GET key:0",
        "GET key:1",
        "GET key:49",
        "LRANGE list 0 -1",
    ];
    for answers in loaded(&folder, &questions) {
        let expected = [
            ":51\r\n",
            "$5\r\nold:0\r\n",
            "$5\r\nold:1\r\n",
            "$6\r\nold:49\r\n",
            "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
        ];
        assert_eq!(answers, expected);
    }
}

/// Moves units between accounts until `stop`.
fn transfer(
    mut client: Client,
    seed: usize,
    accounts: usize,
    stop: &AtomicBool,
    moved: &AtomicU64,
) {
    let code = "redis.call('DECRBY', KEYS[1], 3) return redis.call('INCRBY', KEYS[2], 3)";
    let mut at = seed;
    while !stop.load(Ordering::Relaxed) {
        at = at.wrapping_mul(7_919).wrapping_add(104_729);
        let [from, to] = [at >> 8, at >> 20].map(|at| format!("account:{}", at % accounts));
        if at & 1 == 0 {
            client.call(&["EVAL", code, "2", &from, &to]).unwrap();
        } else {
            client.line("MULTI").unwrap();
            client.call(&["DECRBY", &from, "5"]).unwrap();
            client.call(&["INCRBY", &to, "5"]).unwrap();
            client.line("EXEC").unwrap();
        }
        moved.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn transactions_and_scripts_are_whole_in_a_snapshot() {
    const ACCOUNTS: usize = 300;
    let folder = Folder::new();
    let server = here(&folder, &[("shards", "64")]);
    let mut client = server.connect();
    for account in 0..ACCOUNTS {
        client.line(&format!("SET account:{account} 1000")).unwrap();
    }
    let (stop, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..3 {
            let (client, stop, moved) = (server.connect(), &stop, &moved);
            scope.spawn(move || transfer(client, seed, ACCOUNTS, stop, moved));
        }
        // Some of it is written before the others have moved much, some of it afterwards.
        client.line("CONFIG SET rdb-key-save-delay 500").unwrap();
        let before = moved.load(Ordering::Relaxed);
        assert_eq!(raw(&mut client, "BGSAVE"), STARTED);
        wait_for("transfers", || moved.load(Ordering::Relaxed) > before + 200);
        client.line(FAST).unwrap();
        wait_for_end(&mut client);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    drop(server);
    let code = "local sum = 0 for i = 0, 299 do sum = sum + redis.call('GET', 'account:' .. i) end return sum";
    let ask = |client: &mut Client| client.call(&["EVAL", code, "0"]).unwrap();
    let flags = ["--dir", folder.path(), "--dbfilename", "dump.rdb"];
    if let Some(redis) = Server::redis(&flags).unwrap() {
        assert_eq!(ask(&mut redis.connect().unwrap()), Value::Int(300_000));
    }
    assert_eq!(ask(&mut here(&folder, &[]).connect()), Value::Int(300_000));
}

#[test]
fn clients_go_on_while_a_replica_is_sent_the_data() {
    let Some(replica) = Server::redis(&[]).unwrap() else {
        return skip("saving", "redis-server");
    };
    let server = Local::start(&[]);
    let (mut client, mut there) = (server.connect(), replica.connect().unwrap());
    fill(&mut client, 300);
    client.line(SLOW).unwrap();
    attach(&mut there, server.addr);
    wait_for("the snapshot for the replica", || is_saving(&mut client));
    // Its moment has passed, and none of it is sent yet.
    for key in 0..300 {
        assert_eq!(
            raw(&mut client, &format!("APPEND key:{key} x")).as_bytes()[0],
            b':'
        );
        assert_eq!(raw(&mut client, &format!("SET new:{key} 1")), "+OK\r\n");
    }
    client.line("MULTI").unwrap();
    client.line("RENAME key:0 renamed").unwrap();
    client.line("SWAPDB 0 3").unwrap();
    client.line("SWAPDB 3 0").unwrap();
    client.line("EXEC").unwrap();
    assert!(info(&mut client, "slave0").contains("state=wait_bgsave"));
    assert_eq!(raw(&mut client, "BGSAVE"), BUSY);
    client.line(FAST).unwrap();
    wait_for_link(&mut there);
    compare(server.addr, replica.addr());
    assert_eq!(raw(&mut there, "DBSIZE"), ":600\r\n");
    assert_eq!(info(&mut client, "sync_full"), "1");
}

#[test]
fn a_kill_while_a_snapshot_is_written_leaves_the_one_before() {
    let folder = Folder::new();
    let flags = ["--dir", folder.path(), "--dbfilename", "dump.rdb"];
    let mut server = Server::tollgate(&flags).unwrap();
    let mut client = server.connect().unwrap();
    // Enough for a save of a minute and more.
    fill(&mut client, 1_000);
    assert_eq!(raw(&mut client, "SAVE"), "+OK\r\n");
    let before = fs::read(folder.0.join("dump.rdb")).unwrap();
    client.line("SET key:0 new").unwrap();
    client.line("CONFIG SET rdb-key-save-delay 100000").unwrap();
    assert_eq!(raw(&mut client, "BGSAVE"), STARTED);
    wait_for("a part of it", || {
        info(&mut client, "current_save_keys_processed")
            .parse::<u64>()
            .unwrap()
            > 1
    });
    let killed = std::process::Command::new("kill")
        .args(["-KILL", &server.pid().to_string()])
        .status();
    assert!(killed.unwrap().success());
    wait_for("the end", || server.exited().unwrap().is_some());
    assert_eq!(fs::read(folder.0.join("dump.rdb")).unwrap(), before);
    let server = Server::tollgate(&flags).unwrap();
    assert_eq!(
        raw(&mut server.connect().unwrap(), "GET key:0"),
        "$5\r\nold:0\r\n"
    );
}

#[test]
fn a_server_that_ends_does_not_wait_for_a_slow_snapshot() {
    for goodbye in ["SHUTDOWN NOSAVE", "SHUTDOWN"] {
        let folder = Folder::new();
        let flags = ["--dir", folder.path(), "--dbfilename", "dump.rdb"];
        let mut server = Server::tollgate(&flags).unwrap();
        let mut client = server.connect().unwrap();
        fill(&mut client, 40);
        client.line(SLOW).unwrap();
        assert_eq!(raw(&mut client, "BGSAVE"), STARTED);
        client.send(format!("{goodbye}\r\n").as_bytes()).unwrap();
        wait_for("the end", || server.exited().unwrap().is_some());
        // Neither it nor what was written of it.
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "{goodbye}");
    }
}

#[test]
fn writes_are_refused_while_snapshots_fail() {
    const REFUSED: &str = "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
         disk. Commands that may modify the data set are disabled, because this instance is configured to report \
         errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis \
         logs for details about the RDB error.\r\n";
    let folder = Folder::new();
    let server = here(&folder, &[("save", "3600 1000000")]);
    let mut client = server.connect();
    client.line("SET a 1").unwrap();
    let sub = folder.0.join("sub");
    fs::create_dir(&sub).unwrap();
    client
        .call(&["CONFIG", "SET", "dir", sub.to_str().unwrap()])
        .unwrap();
    fs::remove_dir(&sub).unwrap();
    assert_eq!(raw(&mut client, "SAVE"), "-ERR\r\n");
    // Only one in the background counts.
    assert_eq!(raw(&mut client, "SET a 2"), "+OK\r\n");
    assert_eq!(raw(&mut client, "BGSAVE"), STARTED);
    wait_for_end(&mut client);
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    let script = ["EVAL", "return redis.pcall('SET', KEYS[1], '3')", "1", "a"];
    let told = |client: &mut Client| match client.call(&script).unwrap() {
        Value::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    };
    for refused in ["SET a 3", "DEL a", "PING", "RL.TAKE b FIXED 1 1000"] {
        assert_eq!(raw(&mut client, refused), REFUSED, "{refused}");
    }
    assert!(told(&mut client).starts_with("MISCONF Redis is configured to save RDB snapshots"));
    let writer = ["EVAL", "#!lua\nreturn 1", "0"];
    let Value::Error(text) = client.call(&writer).unwrap() else {
        panic!("it may write")
    };
    assert_eq!(format!("-{}\r\n", String::from_utf8_lossy(&text)), REFUSED);
    assert_eq!(raw(&mut client, "GET a"), "$1\r\n2\r\n");
    client.line("MULTI").unwrap();
    assert_eq!(raw(&mut client, "SET a 3"), REFUSED);
    assert!(raw(&mut client, "EXEC").starts_with("-EXECABORT"));
    // Not without the setting, nor without save points.
    for (off, on) in [
        (
            "stop-writes-on-bgsave-error no",
            "stop-writes-on-bgsave-error yes",
        ),
        ("save ", "save 3600,1000000"),
    ] {
        let words = |setting: &str| -> Vec<String> {
            let setting = setting.replace(',', "\0");
            let words = ["CONFIG", "SET"].into_iter().chain(setting.split(' '));
            words.map(|word| word.replace('\0', " ")).collect()
        };
        client.call(&words(off)).unwrap();
        assert_eq!(raw(&mut client, "SET a 4"), "+OK\r\n", "{off}");
        client.call(&words(on)).unwrap();
        assert_eq!(raw(&mut client, "SET a 5"), REFUSED, "{on}");
    }
    fs::create_dir(&sub).unwrap();
    assert_eq!(raw(&mut client, "BGSAVE"), STARTED);
    wait_for_end(&mut client);
    assert_eq!(raw(&mut client, "SET a 6"), "+OK\r\n");
}

#[test]
fn one_that_cannot_begin_is_scheduled() {
    let folder = Folder::new();
    let server = here(&folder, &[("appendonly", "yes")]);
    let mut client = server.connect();
    fill(&mut client, 20);
    client.line("MULTI").unwrap();
    client.line("BGSAVE").unwrap();
    assert_eq!(raw(&mut client, "EXEC"), format!("*1\r\n{SCHEDULED}"));
    eventually("the snapshot", || info(&mut client, "rdb_saves") == "1");
    wait_for_end(&mut client);
    client.line(SLOW).unwrap();
    client.line("BGREWRITEAOF").unwrap();
    eventually("its beginning", || {
        info(&mut client, "current_save_keys_total") == "20"
    });
    assert!(raw(&mut client, "BGSAVE").starts_with(
        "-ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule \
         a BGSAVE whenever possible."
    ));
    assert_eq!(raw(&mut client, "BGSAVE SCHEDULE"), SCHEDULED);
    assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), "0");
    // Meanwhile whole databases come and go.
    for line in [
        "SET late 1",
        "SWAPDB 0 1",
        "FLUSHDB",
        "SWAPDB 0 1",
        "DEL key:3",
    ] {
        client.line(line).unwrap();
    }
    client.line(FAST).unwrap();
    eventually("both", || {
        info(&mut client, "rdb_saves") == "2" && info(&mut client, "aof_rewrites") == "1"
    });
    wait_for_end(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
    client.line("DEBUG LOADAOF").unwrap();
    assert_eq!(raw(&mut client, "DBSIZE"), ":20\r\n");
    assert_eq!(raw(&mut client, "EXISTS late key:3 key:4"), ":2\r\n");
}

#[test]
fn flushall_ends_a_snapshot_and_has_an_empty_one_written() {
    let folder = Folder::new();
    let server = here(&folder, &[("save", "3600 1000000")]);
    let mut client = server.connect();
    fill(&mut client, 40);
    assert_eq!(raw(&mut client, "SAVE"), "+OK\r\n");
    client.line(SLOW).unwrap();
    assert_eq!(raw(&mut client, "BGSAVE"), STARTED);
    assert_eq!(raw(&mut client, "FLUSHALL"), "+OK\r\n");
    eventually("an empty snapshot", || {
        info(&mut client, "rdb_changes_since_last_save") == "0" && !is_saving(&mut client)
    });
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    drop(server);
    for answers in loaded(&folder, &["DBSIZE"]) {
        assert_eq!(answers, [":0\r\n"]);
    }
}

#[test]
fn compression_and_checksum_are_as_set() {
    let folder = Folder::new();
    let server = here(&folder, &[("rdbcompression", "no"), ("rdbchecksum", "no")]);
    let mut client = server.connect();
    let text = "abcd".repeat(1_000);
    client.call(&["SET", "text", &text]).unwrap();
    assert_eq!(raw(&mut client, "SAVE"), "+OK\r\n");
    let file = fs::read(folder.0.join("dump.rdb")).unwrap();
    let has_text = file.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has_text, "{:.200?}", file);
    assert!(file.ends_with(&[0; 8]), "{:?}", file.last_chunk::<9>());
    let dumped = client.line("DUMP text").unwrap();
    if let Some(redis) = Server::redis(&["--rdbcompression", "no"]).unwrap() {
        let mut there = redis.connect().unwrap();
        there.call(&["SET", "text", &text]).unwrap();
        assert!(there.line("DUMP text").unwrap() == dumped);
    }
    client.line("CONFIG SET rdbcompression yes").unwrap();
    assert!(client.line("DUMP text").unwrap() != dumped);
    assert_eq!(raw(&mut client, "SAVE"), "+OK\r\n");
    let compressed = fs::read(folder.0.join("dump.rdb")).unwrap();
    assert!(compressed.len() < file.len() / 4);
    drop(server);
    for answers in loaded(&folder, &["GET text"]) {
        assert!(answers[0].contains(&text));
    }
}

#[test]
fn replicas_hear_that_they_are_waited_for() {
    let folder = Folder::new();
    let server = here(&folder, &[]);
    let mut client = server.connect();
    // Enough for minutes.
    fill(&mut client, 50);
    client.line(SLOW).unwrap();
    assert_eq!(raw(&mut client, "BGSAVE"), STARTED);
    let ask = || {
        let mut stream = std::net::TcpStream::connect(server.addr).unwrap();
        stream.write_all(b"PSYNC ? -1\r\n").unwrap();
        let patience = PATIENCE;
        stream.set_read_timeout(Some(patience)).unwrap();
        stream
    };
    // The snapshot at work goes on for as long as nobody hastens it.
    for mut stream in [ask(), ask()] {
        let mut sign = [0; 1];
        stream.read_exact(&mut sign).unwrap();
        assert_eq!(sign, *b"\n");
    }
    assert!(is_saving(&mut client));
    client.line(FAST).unwrap();
    wait_for_end(&mut client);
}
