//! Large values that change while a snapshot is written: nobody serialises or copies them with a shard held.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_engine::{Engine, Form, Mail, Outcome, Snapshot, SnapshotError};

use super::moment::{Content, content};
use super::{Client, NOW, NoNode, engine};

const LONG: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Called(AtomicUsize);

impl Called {
    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Mail for Called {
    fn answer(&self, _: Vec<u8>) {}
    fn dismiss(&self, _: Vec<u8>) {}
    fn try_again(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn is_gone(&self) -> bool {
        false
    }
}

/// A client that can be put off, and what tells it to try again.
fn connected(engine: &Arc<Engine>) -> (Client, Arc<Called>) {
    let (mut client, called) = (Client::new(engine), Arc::new(Called::default()));
    client.session.mail = Some(called.clone());
    client.session.allow_moves();
    (client, called)
}

fn outcome(client: &mut Client, line: &str) -> Outcome {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.out.clear();
    client.engine.execute(
        &mut client.session,
        &words,
        client.now,
        &mut client.out,
        &mut NoNode,
    )
}

fn run(client: &mut Client, lines: &[&str]) {
    for line in lines {
        assert_eq!(outcome(client, line), Outcome::Continue, "{line}");
        assert_ne!(client.out.bytes()[0], b'-', "{line}");
    }
}

/// One shard with a large value of each of some types, and a small one.
fn filled() -> Arc<Engine> {
    let engine = engine(1);
    let mut client = Client::new(&engine);
    run(&mut client, &["SET small 1", "SETRANGE string 400000 end"]);
    let member = "m".repeat(400);
    for first in (0..1_000).step_by(500) {
        let names: Vec<String> = (first..first + 500)
            .map(|number| format!("{member}{number}"))
            .collect();
        let pairs: Vec<String> = names.iter().map(|name| format!("{name} 1")).collect();
        let scores: Vec<String> = names.iter().map(|name| format!("1 {name}")).collect();
        for key in ["hash", "hash2"] {
            run(&mut client, &[&format!("HSET {key} {}", pairs.join(" "))]);
        }
        run(&mut client, &[&format!("ZADD zset {}", scores.join(" "))]);
        run(&mut client, &[&format!("SADD set {}", names.join(" "))]);
        run(&mut client, &[&format!("RPUSH list {}", names.join(" "))]);
    }
    engine
}

fn saved(engine: &Arc<Engine>) -> Content {
    let mut file = Vec::new();
    engine.save(&mut file, NOW, &mut |_| true).expect("memory");
    content(&file).0
}

fn written(snapshot: Snapshot) -> Content {
    let mut file = Vec::new();
    snapshot.write(&mut file, &mut |_| true).expect("memory");
    content(&file).0
}

#[test]
fn who_changes_a_large_value_waits_until_the_snapshot_has_read_it_and_others_go_on() {
    for line in [
        "HSET hash f v",
        "HDEL hash f",
        "APPEND string x",
        "SETRANGE string 0 x",
        "ZADD zset 5 new",
        "SADD set new",
        "LPUSH list new",
        "LPOP list",
        "EXPIRE hash 1000",
        "RENAME hash other",
        "SMOVE set other none",
        "LMOVE list other LEFT LEFT",
        "BLPOP list 0",
        "BLMOVE list other LEFT LEFT 0",
        "MULTI|SET small 2|HSET hash f v|EXEC",
        "WATCH small|MULTI|LPUSH list new|EXEC",
    ] {
        let engine = filled();
        let expected = saved(&engine);
        engine.reset_stats();
        let (mut client, called) = connected(&engine);
        let mut other = Client::new(&engine);
        let snapshot = engine.begin_save(NOW).expect("there is no other");
        let mut before: Vec<&str> = line.split('|').collect();
        let last = before.pop().expect("there is a command");
        run(&mut client, &before);
        assert_eq!(outcome(&mut client, last), Outcome::TryAgain, "{line}");
        assert!(
            client.out.bytes().is_empty() && called.times() == 0,
            "{line}"
        );
        // Of the same shard.
        run(
            &mut other,
            &[
                "SET small 3",
                "HLEN hash",
                "GETRANGE string 0 1",
                "SET new 1",
            ],
        );
        assert!(written(snapshot) == expected, "{line}");
        assert_eq!(called.times(), 1, "{line}");
        run(&mut client, &[last]);
        let name = last.split(' ').next().expect("it has a name");
        let calls = engine.stats().by_command;
        let calls = calls.iter().find(|stats| stats.row.name == name);
        assert_eq!(calls.map(|stats| stats.calls), Some(1), "{line}");
    }
}

#[test]
fn what_goes_as_a_whole_waits_for_nothing() {
    let engine = filled();
    run(&mut Client::new(&engine), &["PEXPIRE list 50"]);
    let expected = saved(&engine);
    let (mut client, called) = connected(&engine);
    let snapshot = engine.begin_save(NOW).expect("there is no other");
    let before = engine.memory();
    client.now = NOW.plus(100_000_000);
    run(
        &mut client,
        &[
            "DEL hash",
            "UNLINK hash2",
            "SET string new",
            "MULTI",
            "DEL zset",
            "EXEC",
            "EXISTS list",
            "EVAL redis.call('DEL',KEYS[1]) 1 none",
        ],
    );
    // Copies would still be there.
    assert!(engine.memory() < before / 3, "{} {before}", engine.memory());
    assert_eq!(
        engine.snapshot_progress().purpose,
        Some(tollgate_engine::Purpose::Save)
    );
    assert!(written(snapshot) == expected);
    assert_eq!(called.times(), 0);
    assert_eq!(saved(&engine).len(), 3);
}

#[test]
fn scripts_that_would_copy_a_large_value_do_so_elsewhere() {
    let engine = filled();
    let expected = saved(&engine);
    let (mut client, _) = connected(&engine);
    let script = "EVAL redis.call('HSET',KEYS[1],'f','v') 1";
    let snapshot = engine.begin_save(NOW).expect("there is no other");
    run(&mut client, &[&format!("{script} new")]);
    assert_eq!(
        outcome(&mut client, &format!("{script} hash")),
        Outcome::Elsewhere
    );
    let mut worker = client.session.for_worker();
    std::mem::swap(&mut worker, &mut client.session);
    run(&mut client, &[&format!("{script} hash"), "HGET hash f"]);
    assert!(written(snapshot) == expected);
}

#[test]
fn who_waits_goes_on_when_the_snapshot_is_given_up() {
    for flushes in [false, true] {
        let engine = filled();
        let (mut client, called) = connected(&engine);
        let snapshot = engine.begin_save(NOW).expect("there is no other");
        assert_eq!(outcome(&mut client, "APPEND string x"), Outcome::TryAgain);
        if flushes {
            run(&mut Client::new(&engine), &["FLUSHALL"]);
            let result = snapshot.write(&mut Vec::new(), &mut |_| true);
            assert!(matches!(result, Err(SnapshotError::Stopped)), "{result:?}");
        } else {
            drop(snapshot);
        }
        assert_eq!(called.times(), 1);
        run(&mut client, &["APPEND string x", "HSET hash f v"]);
    }
}

/// Takes bytes only when it is let.
struct Gate {
    file: Vec<u8>,
    let_on: mpsc::Receiver<()>,
    is_open: bool,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_open {
            self.let_on.recv_timeout(LONG).map_err(io::Error::other)?;
            self.is_open = true;
        }
        self.file.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nobody_waits_for_an_output_that_stands_still() {
    let engine = filled();
    // Compressed, all of it would fit into the writer's buffer.
    engine.limits().set("rdbcompression", 0);
    let expected = saved(&engine);
    let (mut client, called) = connected(&engine);
    let snapshot = engine.begin_save(NOW).expect("there is no other");
    let (open, let_on) = mpsc::channel();
    let writer = thread::spawn(move || {
        let mut gate = Gate {
            file: Vec::new(),
            let_on,
            is_open: false,
        };
        snapshot.write(&mut gate, &mut |_| true).expect("it ends");
        gate.file
    });
    // The writer may read one value more before it comes to its output.
    let deadline = Instant::now() + LONG;
    let mut second = 0;
    let mut put_off = 0;
    for line in ["HSET hash f v", "APPEND string x", "ZADD zset 1 new"] {
        while outcome(&mut client, line) == Outcome::TryAgain {
            assert!(Instant::now() < deadline, "{line} waits");
            put_off += 1;
            second += 1;
            engine.tend_snapshot(second);
        }
    }
    assert!(put_off > 0 && called.times() > 0);
    open.send(()).expect("it waits");
    let file = writer.join().expect("no panic");
    assert!(content(&file).0 == expected);
}

#[test]
fn large_values_of_a_base_of_commands_are_lent_too() {
    let engine = filled();
    let (mut client, called) = connected(&engine);
    let mut other = Client::new(&engine);
    let mut file = Vec::new();
    let mut waits = false;
    engine
        .write_base(&mut file, Form::Commands, false, NOW, &mut |_| {
            if !std::mem::replace(&mut waits, true) {
                let puts_off = |key: &&str| {
                    outcome(&mut client, &format!("EXPIRE {key} 5")) == Outcome::TryAgain
                };
                let all = ["hash", "hash2", "string", "zset", "set", "list"];
                assert!(all.iter().any(puts_off));
                run(
                    &mut other,
                    &["DEL zset hash", "APPEND string x", "LPOP list"],
                );
            }
            true
        })
        .expect("memory");
    assert!(called.times() > 0);
    let text = String::from_utf8_lossy(&file);
    assert_eq!(text.matches("RESTORE").count(), 7);
}
