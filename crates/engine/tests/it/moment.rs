//! Snapshots show one moment, whatever is done while they are written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tollgate_engine::{Check, Engine, Form, Handle, LocalHandle, Purpose, SnapshotError};
use tollgate_keyspace::{DbIndex, Value};
use tollgate_limiter::{AlgorithmKind, Cost, Quota};
use tollgate_persist::rdb::Reader;

use super::{Client, NOW, engine};

const LONG: Duration = Duration::from_secs(120);

pub(super) type Content = BTreeMap<(DbIndex, Vec<u8>), (Value, Option<i64>)>;

/// What a file holds: entries, each once, and libraries.
pub(super) fn content(mut file: &[u8]) -> (Content, Vec<Vec<u8>>) {
    let mut reader = Reader::new(&mut file).expect("a header");
    let mut content = Content::new();
    while let Some(entry) = reader.next().expect("a good file") {
        let of = (entry.value, entry.expires_at_ms);
        let before = content.insert((entry.db, entry.key.clone()), of);
        assert!(before.is_none(), "twice: {:?}", entry.key);
    }
    (content, reader.take_libraries())
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Commands of all families; `K` stands for a key, `O` for another one, `N` for a number, `D` for a database.
const COMMANDS: &[&str] = &[
    "SET K valueN",
    "SET K N PX N",
    "SET K aLongerValueThatMayBeCompressedBecauseItRepeatsItRepeatsItRepeatsN",
    "SETRANGE K 3 xyz",
    "SETRANGE K 300000 N",
    "APPEND K moreN",
    "INCR K",
    "INCRBYFLOAT K 0.5",
    "SETBIT K N 1",
    "GETDEL K",
    "GETEX K PX N",
    "MSET K N O N",
    "DEL K",
    "DEL K",
    "UNLINK K O",
    "EXPIRE K N",
    "PEXPIRE K N",
    "PEXPIREAT K 1",
    "PERSIST K",
    "RENAME K O",
    "COPY K O REPLACE",
    "COPY K O DB D REPLACE",
    "MOVE K D",
    "RPUSH K a bN c",
    "LPUSH K N",
    "LPOP K",
    "LSET K 0 changedN",
    "LMOVE K O LEFT RIGHT",
    "LTRIM K 1 -1",
    "SADD K N mN",
    "SREM K N",
    "SPOP K",
    "SMOVE K O mN",
    "SUNIONSTORE K K O",
    "HSET K f N gN N",
    "HINCRBY K f 1",
    "HDEL K f",
    "HPEXPIRE K N FIELDS 1 f",
    "ZADD K N mN N m",
    "ZINCRBY K 1.5 m",
    "ZPOPMIN K",
    "ZREM K m",
    "ZUNIONSTORE K 2 K O",
    "XADD K * f N",
    "XTRIM K MAXLEN 2",
    "XGROUP CREATE K g 0 MKSTREAM",
    "XREADGROUP GROUP g c COUNT 1 STREAMS K >",
    "XACK K g 1-1",
    "PFADD K eN",
    "GEOADD K 13.361389 38.115556 pN",
    "SORT O STORE K ALPHA",
    "RL.TAKE K FIXED 100 60000 COST 3",
    "CL.THROTTLE K 15 30 60 1",
    "RL.TAKE K SLIDING 100 60000",
    "GET K",
    "EVAL redis.call('SET',KEYS[1],ARGV[1]);redis.call('DEL',KEYS[2]) 2 K O N",
    "SCAN N",
    "RANDOMKEY",
];

/// A client that does something at random.
struct Chaos {
    client: Client,
    random: Random,
    service: LocalHandle,
    keys: u64,
}

impl Chaos {
    fn new(engine: &Arc<Engine>, seed: u64) -> Chaos {
        Chaos {
            client: Client::new(engine),
            random: Random(seed),
            service: LocalHandle::new(Handle::new(Arc::clone(engine))),
            keys: 150,
        }
    }

    fn select(&mut self) {
        let db = [0, 0, 0, 1, 9][self.random.below(5) as usize];
        self.client.session.db = DbIndex::new(db).expect("a database");
    }

    fn word(&mut self, word: &str) -> String {
        let Chaos { random, keys, .. } = self;
        match word {
            "K" | "O" if random.below(4) == 0 => {
                format!(
                    "a key that is too long for its record {}",
                    random.below(*keys)
                )
            }
            "K" | "O" => format!("k{}", random.below(*keys)),
            "D" => [0, 1, 9][random.below(3) as usize].to_string(),
            _ if word.contains("redis.call") => word.replace(';', "; "),
            _ => word.replace('N', &(1 + random.below(60)).to_string()),
        }
    }

    fn act(&mut self) {
        self.select();
        match self.random.below(400) {
            0 => drop(self.client.call(&["FLUSHDB"])),
            1 => drop(self.client.call(&["SWAPDB", "0", "9"])),
            2..10 => {
                let step = 1 + self.random.below(40);
                self.client.now = self.client.now.plus(step * 1_000_000);
            }
            10..14 => drop(self.client.engine.expire_step(self.client.now, 40)),
            14..30 => {
                let key = format!("k{}", self.random.below(10));
                let check = Check {
                    key: key.as_bytes(),
                    algorithm: AlgorithmKind::FixedWindow,
                    quota: Quota {
                        limit: 1_000_000,
                        period: 60_000_000_000,
                        burst: 1_000_000,
                    },
                    cost: Cost(1),
                    peek: false,
                    exact: false,
                };
                for _ in 0..self.random.below(200) {
                    // The key may hold something else.
                    drop(self.service.decide(&check, self.client.now));
                }
            }
            30..34 => drop(self.service.give_back(self.client.now)),
            34 => {
                for id in 0..400 {
                    self.client
                        .call(&["SET".to_owned(), format!("new{id}"), id.to_string()]);
                }
            }
            35 => {
                for id in 0..400 {
                    self.client.call(&["DEL".to_owned(), format!("new{id}")]);
                }
            }
            _ => {
                let line = COMMANDS[self.random.below(COMMANDS.len() as u64) as usize];
                let words: Vec<String> = line.split(' ').map(|word| self.word(word)).collect();
                self.client.bytes(&words);
            }
        }
    }
}

#[test]
fn commands_of_all_families_do_not_reach_a_snapshot_that_has_begun() {
    let mut entries = 0;
    for seed in 0..12 {
        let engine = engine(8);
        let mut chaos = Chaos::new(&engine, seed);
        (0..4_000).for_each(|_| chaos.act());
        let now = chaos.client.now;
        let mut expected = Vec::new();
        engine
            .save(&mut expected, now, &mut |_| true)
            .expect("memory");
        // One entry at a time, so that much happens between two.
        engine.set_limit("rdb-key-save-delay", 1);
        let snapshot = engine.begin_save(now).expect("there is no other");
        let mut file = Vec::new();
        snapshot
            .write(&mut file, &mut |_| {
                (0..1 + seed).for_each(|_| chaos.act());
                true
            })
            .expect("memory");
        let (found, expected) = (content(&file).0, content(&expected).0);
        entries += found.len();
        assert!(
            found == expected,
            "seed {seed}: {} of {}",
            found.len(),
            expected.len()
        );
        assert_eq!(engine.snapshot_progress().purpose, None);
    }
    assert!(entries > 800, "{entries}");
}

#[test]
fn a_base_of_commands_is_of_one_moment_too() {
    let source = engine(4);
    let mut chaos = Chaos::new(&source, 99);
    (0..3_000).for_each(|_| chaos.act());
    let now = chaos.client.now;
    let mut expected = Vec::new();
    source
        .save(&mut expected, now, &mut |_| true)
        .expect("memory");
    let mut file = Vec::new();
    source
        .write_base(&mut file, Form::Commands, false, now, &mut |_| {
            (0..40).for_each(|_| chaos.act());
            true
        })
        .expect("memory");
    // What the commands make.
    let copy = engine(2);
    let mut client = Client::new(&copy);
    client.now = now;
    let mut left = &file[..];
    while let Some((value, len)) = tollgate_wire::resp::read_value(left).expect("commands") {
        left = &left[len..];
        let tollgate_wire::resp::Value::Array(words) = value else {
            panic!("no command: {value:?}")
        };
        let words: Vec<Vec<u8>> = words
            .into_iter()
            .map(|word| word.as_bytes().expect("text").to_vec())
            .collect();
        if words[0] == b"SELECT" {
            let number = String::from_utf8_lossy(&words[1])
                .parse()
                .expect("a number");
            client.session.db = DbIndex::new(number).expect("a database");
            continue;
        }
        assert_eq!(client.bytes(&words), b"+OK\r\n", "{words:?}");
    }
    let mut made = Vec::new();
    copy.save(&mut made, now, &mut |_| true).expect("memory");
    let (made, expected) = (content(&made).0, content(&expected).0);
    assert!(made.keys().eq(expected.keys()));
    assert!(made == expected);
}

/// Threads move units between accounts, by transactions and scripts; every snapshot has all of them.
#[test]
fn transactions_are_whole_in_a_snapshot() {
    const ACCOUNTS: u64 = 400;
    const UNITS: i64 = 1_000;
    let engine = engine(64);
    let mut client = Client::new(&engine);
    for account in 0..ACCOUNTS {
        client.call(&[
            "SET".to_owned(),
            format!("account:{account}"),
            UNITS.to_string(),
        ]);
    }
    let (stop, moved) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let (engine, stop, moved) =
                (Arc::clone(&engine), Arc::clone(&stop), Arc::clone(&moved));
            thread::spawn(move || {
                let mut client = Client::new(&engine);
                let mut random = Random(number);
                while !stop.load(Ordering::Relaxed) {
                    let [from, to] = [0; 2].map(|_| format!("account:{}", random.below(ACCOUNTS)));
                    if random.below(2) == 0 {
                        client.call(&["MULTI"]);
                        client.call(&["DECRBY", &from, "7"]);
                        client.call(&["INCRBY", &to, "7"]);
                        client.call(&["EXEC"]);
                    } else {
                        let code =
                            "redis.call('DECRBY',KEYS[1],5) return redis.call('INCRBY',KEYS[2],5)";
                        client.call(&["EVAL", code, "2", &from, &to]);
                    }
                    moved.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let mut file = Vec::new();
        let before = moved.load(Ordering::Relaxed);
        let mut changed = false;
        engine
            .save(&mut file, NOW, &mut |_| {
                // Others are at work while it is written.
                if !changed {
                    while moved.load(Ordering::Relaxed) < before + 50 {
                        thread::yield_now();
                    }
                    changed = true;
                }
                true
            })
            .expect("memory");
        let sum: i64 = content(&file)
            .0
            .values()
            .map(|(value, _)| match value {
                Value::Int(units) => *units,
                other => panic!("no number: {other:?}"),
            })
            .sum();
        assert_eq!(sum, UNITS * ACCOUNTS as i64);
    }
    stop.store(true, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn one_snapshot_is_taken_at_a_time_and_can_be_stopped() {
    let engine = engine(4);
    let mut client = Client::new(&engine);
    for id in 0..1_000 {
        client.call(&["SET".to_owned(), format!("k{id}"), "x".repeat(100)]);
    }
    let snapshot = engine.begin_save(NOW).expect("there is no other");
    assert_eq!(engine.begin_save(NOW).err(), Some(Purpose::Save));
    let progress = engine.snapshot_progress();
    assert_eq!(
        (progress.purpose, progress.entries, progress.all_entries),
        (Some(Purpose::Save), 0, 1_000)
    );
    client.call(&["SET", "k1", "y"]);
    assert!(engine.snapshot_progress().handed_bytes > 100);
    // Somebody waits for it.
    let (tell, told) = mpsc::channel();
    let other = Arc::clone(&engine);
    let waiting = thread::spawn(move || {
        let mut file = Vec::new();
        let saved = other.save(&mut file, NOW, &mut |_| true);
        tell.send(saved.map(|()| content(&file).0.len()))
            .expect("the test waits");
    });
    engine.stop_snapshot(Purpose::Base);
    let mut steps = 0;
    let ended = snapshot.write(&mut std::io::sink(), &mut |_| {
        steps += 1;
        if steps == 3 {
            engine.stop_snapshot(Purpose::Save);
        }
        true
    });
    assert!(matches!(ended, Err(SnapshotError::Stopped)), "{ended:?}");
    assert_eq!(
        told.recv_timeout(LONG)
            .expect("it goes on")
            .expect("memory"),
        1_000
    );
    waiting.join().expect("no panic");
    // Dropped, it leaves nothing either.
    drop(engine.begin_save(NOW).expect("there is no other"));
    assert_eq!(
        engine.snapshot_progress(),
        tollgate_engine::SnapshotProgress::default()
    );
    // FLUSHALL stops one: what is written would be of no use.
    let snapshot = engine.begin_save(NOW).expect("there is no other");
    client.call(&["FLUSHALL"]);
    let ended = snapshot.write(&mut std::io::sink(), &mut |_| true);
    assert!(matches!(ended, Err(SnapshotError::Stopped)), "{ended:?}");
}

#[test]
fn errors_of_the_output_end_a_snapshot() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let engine = engine(4);
    let mut client = Client::new(&engine);
    for id in 0..5_000 {
        client.call(&["SET".to_owned(), format!("k{id}"), format!("{id:0>100}")]);
    }
    let ended = engine.save(&mut Full(70_000), NOW, &mut |_| true);
    assert!(matches!(ended, Err(SnapshotError::Io(_))), "{ended:?}");
    let mut file = Vec::new();
    engine.save(&mut file, NOW, &mut |_| true).expect("memory");
    assert_eq!(content(&file).0.len(), 5_000);
}

/// Writers far ahead of the output are put off, and go on when it has caught up, or is given up.
#[test]
fn writers_wait_for_a_slow_output_within_a_bound() {
    use tollgate_engine::{Outcome, STUCK_SECS};
    use tollgate_wire::resp::ReplyBuf;

    #[derive(Debug, Default)]
    struct Bell(AtomicU64);
    impl tollgate_engine::Mail for Bell {
        fn answer(&self, _: Vec<u8>) {}
        fn dismiss(&self, _: Vec<u8>) {}
        fn try_again(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn is_gone(&self) -> bool {
            false
        }
    }
    for given_up in [false, true] {
        let engine = engine(1);
        let mut client = Client::new(&engine);
        let value = "v".repeat(1 << 20);
        for id in 0..90 {
            client.call(&["SET".to_owned(), format!("k{id}"), value.clone()]);
        }
        let bell = Arc::new(Bell::default());
        client.session.mail = Some(bell.clone());
        let snapshot = engine.begin_save(NOW).expect("there is no other");
        let mut run = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let mut out = ReplyBuf::default();
            engine.execute(
                &mut client.session,
                &words,
                NOW,
                &mut out,
                &mut super::NoNode,
            )
        };
        let mut done = 0;
        while run(&["SET", &format!("k{done}"), "new"]) == Outcome::Continue {
            done += 1;
            assert!(done < 90, "nobody was put off");
        }
        let progress = engine.snapshot_progress();
        assert!(progress.handed_bytes > 64 << 20 && progress.handed_bytes < 66 << 20);
        assert_eq!(bell.0.load(Ordering::Relaxed), 0);
        // Those who read go on.
        assert_eq!(run(&["GET", "k1"]), Outcome::Continue);
        if given_up {
            engine.tend_snapshot(1_000);
            engine.tend_snapshot(999 + STUCK_SECS);
            assert_eq!(bell.0.load(Ordering::Relaxed), 0);
            engine.tend_snapshot(1_000 + STUCK_SECS);
            assert_eq!(bell.0.load(Ordering::Relaxed), 1);
            assert_eq!(run(&["SET", "k80", "new"]), Outcome::Continue);
            // Nobody will read it, so it is not kept for as long as the output stands still.
            assert_eq!(engine.snapshot_progress(), progress);
            let ended = snapshot.write(&mut std::io::sink(), &mut |_| true);
            assert!(matches!(ended, Err(SnapshotError::Stuck)), "{ended:?}");
            continue;
        }
        let mut file = Vec::new();
        snapshot.write(&mut file, &mut |_| true).expect("memory");
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(run(&["SET", "k80", "new"]), Outcome::Continue);
        let found = content(&file).0;
        assert_eq!(found.len(), 90);
        assert!(
            found
                .values()
                .all(|(found, _)| *found == Value::from_bytes(value.as_bytes()))
        );
    }
}

#[test]
fn libraries_are_those_of_the_moment() {
    let engine = engine(2);
    let mut client = Client::new(&engine);
    let code = |name: &str| {
        format!("#!lua name={name}\nredis.register_function('{name}', function() return 1 end)")
    };
    client.call(&["FUNCTION", "LOAD", &code("before")]);
    client.call(&["SET", "a", "1"]);
    let snapshot = engine.begin_save(NOW).expect("there is no other");
    client.call(&["FUNCTION", "LOAD", &code("after")]);
    client.call(&["FUNCTION", "DELETE", "before"]);
    let mut file = Vec::new();
    snapshot.write(&mut file, &mut |_| true).expect("memory");
    assert_eq!(content(&file).1, [code("before").into_bytes()]);
}
