//! Who begins to listen while others leave: what expires is told of all the same.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tollgate_engine::{Engine, LogBytes, Mail, Notify, Outcome, Place, Session, Subscriber, Topic};
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf, Value, read_value};

use super::waiting::Conn;
use super::{NOW, NoNode, engine};

const LATER: Timestamp = Timestamp::from_nanos(NOW.nanos() + 1_000_000_000);

/// Hears the events of all keys, in their order.
#[derive(Debug, Default)]
struct Ear(Mutex<Vec<String>>);

impl Ear {
    /// One that listens from now on.
    fn of(engine: &Engine) -> Arc<Ear> {
        let ear = Arc::<Ear>::default();
        engine.set_notify(Notify::parse(b"KEA").expect("these are classes"));
        engine
            .pubsub()
            .subscribe(Topic::Pattern, b"__keyevent@0__:*", ear.clone());
        ear
    }

    /// What it has heard since the last call, each as `event key`.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

impl Subscriber for Ear {
    fn id(&self) -> u64 {
        77
    }

    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }

    fn subscribed(&self) -> bool {
        true
    }

    fn is_open(&self) -> bool {
        true
    }

    fn deliver(&self, message: &Arc<[u8]>, _: Place) {
        let Ok(Some((Value::Array(words), _))) = read_value(message) else {
            panic!("a message is a reply");
        };
        let word = |at: usize| match &words[at] {
            Value::Bulk(word) => String::from_utf8_lossy(word).into_owned(),
            other => panic!("{other:?} is no word"),
        };
        let event = word(2).replace("__keyevent@0__:", "");
        let heard = format!("{event} {}", word(3));
        self.0.lock().expect("no panic").push(heard);
    }
}

/// The commands that were recorded for the append-only file since the last call.
fn recorded(engine: &Engine) -> String {
    let mut bytes = LogBytes::default();
    engine.take_records(&mut bytes);
    String::from_utf8_lossy(&bytes.main).into_owned()
}

/// Has a client leave while the one shard is held, and the append-only file begin meanwhile.
fn begin_while_leaving(engine: &Arc<Engine>, leaves: impl FnOnce() + Send + 'static) {
    let (mut leaves, mut threads) = (Some(leaves), Vec::new());
    engine.for_each_shard(|_| {
        let leaves = leaves.take().expect("there is one shard");
        threads.push(thread::spawn(leaves));
        // Time to come to the lock. Without it the test would find less, and fail no more often.
        thread::sleep(Duration::from_millis(20));
        let also = Arc::clone(engine);
        threads.push(thread::spawn(move || also.open_log()));
        while !engine.keeps_log() {
            thread::yield_now();
        }
    });
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}

fn check(engine: &Arc<Engine>) {
    let mut conn = Conn::new(engine);
    conn.call(&["SET", "k", "1", "PX", "10"]);
    conn.call_at(&["INCR", "k"], LATER);
    let log = recorded(engine);
    let gone = log.find("DEL").expect("what has expired is recorded");
    assert!(gone < log.find("INCR").expect("so is what came then"));
}

#[test]
fn what_expires_is_recorded_when_a_watcher_leaves_as_the_log_begins() {
    for _ in 0..10 {
        let engine = engine(1);
        let mut conn = Conn::new(&engine);
        conn.call(&["WATCH", "w"]);
        begin_while_leaving(&engine, move || drop(conn.call(&["UNWATCH"])));
        check(&engine);
    }
}

#[test]
fn what_expires_is_recorded_when_a_waiter_leaves_as_the_log_begins() {
    for _ in 0..10 {
        let engine = engine(1);
        let mut conn = Conn::new(&engine);
        assert!(conn.call(&["BLPOP", "w", "0"]).is_none(), "it waits");
        begin_while_leaving(&engine, move || drop(conn.leave()));
        check(&engine);
    }
}

/// Looks at what is recorded when an answer comes.
#[derive(Debug)]
struct Spy(Engine0, Mutex<Option<String>>);

impl Mail for Spy {
    fn answer(&self, _: Vec<u8>) {
        *self.1.lock().expect("no panic") = Some(recorded(&self.0.0));
    }

    fn dismiss(&self, reply: Vec<u8>) {
        self.answer(reply);
    }

    fn try_again(&self) {}

    fn is_gone(&self) -> bool {
        false
    }
}

/// An engine has nothing to show.
struct Engine0(Arc<Engine>);

impl std::fmt::Debug for Engine0 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

#[test]
fn what_a_waiter_is_given_is_recorded_before_it_is_answered() {
    let engine = engine(8);
    engine.open_log();
    let spy = Arc::new(Spy(Engine0(Arc::clone(&engine)), Mutex::default()));
    let mut session = Session::new(900, true);
    session.mail = Some(spy.clone());
    let (words, mut out) = (
        [&b"BLMOVE"[..], b"a", b"b", b"LEFT", b"LEFT", b"0"],
        ReplyBuf::default(),
    );
    let outcome = engine.execute(&mut session, &words, NOW, &mut out, &mut NoNode);
    assert_eq!(outcome, Outcome::Wait);
    let mut pusher = Conn::new(&engine);
    pusher.call(&["SET", "b", "gone soon", "PX", "10"]);
    pusher.call_at(&["RPUSH", "a", "1"], LATER);
    let log = spy
        .1
        .lock()
        .expect("no panic")
        .take()
        .expect("it was answered");
    let places = ["RPUSH", "DEL", "LMOVE"].map(|word| log.find(word).expect(word));
    assert!(places.is_sorted(), "{log}");
    engine.leave(&mut session);
}

#[test]
fn what_has_expired_in_an_exchanged_database_is_recorded_as_what_it_was() {
    let engine = engine(1);
    let mut conn = Conn::new(&engine);
    conn.call(&["SET", "k", "stays"]);
    let mut other = Conn::new(&engine);
    other.session.db = DbIndex::new(1).expect("there are 16");
    other.call(&["SET", "k", "goes", "PX", "10"]);
    let mut watcher = Conn::new(&engine);
    watcher.call(&["WATCH", "k"]);
    engine.open_log();
    conn.call_at(&["SWAPDB", "0", "1"], LATER);
    let log = recorded(&engine);
    let gone = "SELECT\r\n$1\r\n1\r\n*2\r\n$3\r\nDEL\r\n";
    assert!(
        log.contains(gone) && log.find("DEL") < log.find("SWAPDB"),
        "{log}"
    );
}

#[test]
fn functions_are_recorded_in_the_order_in_which_they_changed() {
    let engine = engine(1);
    engine.open_log();
    let code = |name: &str| {
        format!("#!lua name=lib\nredis.register_function('{name}', function() return 1 end)")
    };
    for round in 0..20 {
        let also = Arc::clone(&engine);
        let first = code(&format!("of_transaction_{round}"));
        let transaction = thread::spawn(move || {
            let mut conn = Conn::new(&also);
            conn.call(&["MULTI"]);
            conn.call(&["FUNCTION", "LOAD", "REPLACE", &first]);
            // The others have time to come between the change and its record.
            for _ in 0..2_000 {
                conn.call(&["INCR", "n"]);
            }
            conn.call(&["EXEC"]);
        });
        let mut conn = Conn::new(&engine);
        for number in 0..20 {
            let other = code(&format!("alone_{round}_{number}"));
            conn.call(&["FUNCTION", "LOAD", "REPLACE", &other]);
            thread::sleep(Duration::from_micros(500));
        }
        transaction.join().expect("no thread panics");
        let log = recorded(&engine);
        let last = log.rfind("#!lua").map(|at| &log[at..]).expect("recorded");
        let now = engine.function_codes();
        let now = String::from_utf8_lossy(&now[0]);
        assert!(
            last.starts_with(&*now),
            "{now} but at last {}",
            &last[..now.len()]
        );
    }
}

#[test]
fn nothing_goes_by_itself_while_it_could_not_be_recorded() {
    let engine = engine(1);
    engine.open_log();
    let mut conn = Conn::new(&engine);
    conn.call(&["SET", "k", "v", "PX", "10"]);
    engine.log_fails(Some("No space left on device"));
    assert_eq!(engine.expire_step(LATER, 100).removed, 0);
    engine.log_fails(None);
    assert_eq!(engine.expire_step(LATER, 100).removed, 1);
    assert!(recorded(&engine).contains("DEL"));
}

#[test]
fn keys_that_a_command_finds_expired_are_told_of_in_the_order_of_its_words() {
    let engine = engine(64);
    let ear = Ear::of(&engine);
    let mut conn = Conn::new(&engine);
    let keys = ["e", "b", "d", "a", "c"];
    for command in ["MGET", "DEL", "EXISTS", "SUNION", "PFCOUNT"] {
        for key in keys {
            conn.call(&["SET", key, "1", "PX", "10"]);
        }
        ear.heard();
        conn.call_at(&[&[command], &keys[..]].concat(), LATER);
        assert_eq!(
            ear.heard(),
            keys.map(|key| format!("expired {key}")),
            "{command}"
        );
    }
}

#[test]
fn a_target_that_has_expired_is_deleted_by_what_stores_nothing_there() {
    let engine = engine(1);
    let ear = Ear::of(&engine);
    let mut conn = Conn::new(&engine);
    for command in [
        "SORT none STORE d",
        "GEOSEARCHSTORE d none FROMLONLAT 0 0 BYRADIUS 1 m",
        "GEORADIUS none 0 0 1 m STORE d",
        "ZRANGESTORE d none 0 -1",
        "SUNIONSTORE d none",
        "SINTERSTORE d none",
        "ZUNIONSTORE d 1 none",
        "BITOP AND d none",
    ] {
        conn.call(&["SET", "d", "1", "PX", "10"]);
        ear.heard();
        let words: Vec<&str> = command.split(' ').collect();
        conn.call_at(&words, LATER);
        assert_eq!(ear.heard(), ["del d"], "{command}");
        conn.call_at(&words, LATER);
        assert!(ear.heard().is_empty(), "nothing is left of it");
    }
}
