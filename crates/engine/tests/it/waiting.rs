//! Commands that wait: connections that come and go, and queues that neither lose nor double an item.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tollgate_engine::{Engine, Mail, Outcome, Paused, PausedBy, Session, Unblock};
use tollgate_limiter::Timestamp;
use tollgate_testkit::PATIENCE;
use tollgate_wire::resp::{ReplyBuf, Value, read_value};

use super::{NOW, NoNode, engine};

static NEXT_ID: AtomicU64 = AtomicU64::new(1000);

/// Hands answers over.
#[derive(Debug)]
struct Post(Sender<Vec<u8>>);

impl Mail for Post {
    fn answer(&self, reply: Vec<u8>) {
        self.0.send(reply).ok();
    }

    fn dismiss(&self, reply: Vec<u8>) {
        self.answer(reply);
    }

    fn try_again(&self) {}

    fn is_gone(&self) -> bool {
        false
    }
}

/// A connection whose commands may wait.
pub(crate) struct Conn {
    engine: Arc<Engine>,
    pub(crate) session: Session,
    out: ReplyBuf,
    inbox: Receiver<Vec<u8>>,
}

impl Conn {
    pub(crate) fn new(engine: &Arc<Engine>) -> Conn {
        let (sender, inbox) = channel();
        let mut session = Session::new(NEXT_ID.fetch_add(1, Ordering::Relaxed), true);
        session.mail = Some(Arc::new(Post(sender)));
        Conn {
            engine: Arc::clone(engine),
            session,
            out: ReplyBuf::default(),
            inbox,
        }
    }

    /// The reply; `None` when the command waits.
    pub(crate) fn call(&mut self, words: &[&str]) -> Option<Value> {
        self.call_at(words, NOW)
    }

    pub(crate) fn call_at(&mut self, words: &[&str], now: Timestamp) -> Option<Value> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.out.clear();
        let engine = Arc::clone(&self.engine);
        match engine.execute(&mut self.session, &words, now, &mut self.out, &mut NoNode) {
            Outcome::Wait => None,
            _ => Some(value(self.out.bytes())),
        }
    }

    /// Runs a command; whether a long one keeps it from that.
    fn is_put_off(&mut self, words: &[&str]) -> bool {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.out.clear();
        let engine = Arc::clone(&self.engine);
        let outcome = engine.execute(&mut self.session, &words, NOW, &mut self.out, &mut NoNode);
        outcome == Outcome::TryAgain
    }

    /// The answer of the command that waits, if it has come.
    pub(crate) fn answer(&mut self) -> Option<Value> {
        let reply = self.inbox.try_recv().ok()?;
        self.engine.answered(&mut self.session, 0, NOW);
        Some(value(&reply))
    }

    fn wait(&mut self) -> Value {
        let reply = self.inbox.recv_timeout(PATIENCE).expect("an answer comes");
        self.engine.answered(&mut self.session, 0, NOW);
        value(&reply)
    }

    /// Closes the connection; what was on its way is returned.
    pub(crate) fn leave(mut self) -> Option<Value> {
        self.engine.leave(&mut self.session);
        self.inbox.try_recv().ok().map(|reply| value(&reply))
    }
}

fn value(bytes: &[u8]) -> Value {
    let (value, len) = read_value(bytes)
        .expect("a well-formed reply")
        .expect("a whole reply");
    assert_eq!(len, bytes.len(), "one reply and no more");
    value
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn pair(a: &str, b: &str) -> Value {
    Value::Array(vec![bulk(a), bulk(b)])
}

#[test]
fn the_first_to_wait_is_the_first_served() {
    let engine = engine(8);
    let mut conns: Vec<Conn> = (0..3).map(|_| Conn::new(&engine)).collect();
    for conn in &mut conns {
        assert_eq!(conn.call(&["BLPOP", "a", "b", "0"]), None);
    }
    assert_eq!(engine.blocked_clients(), 3);
    let mut pusher = Conn::new(&engine);
    assert_eq!(pusher.call(&["RPUSH", "b", "1", "2"]), Some(Value::Int(2)));
    assert_eq!(conns[0].answer(), Some(pair("b", "1")));
    assert_eq!(conns[1].answer(), Some(pair("b", "2")));
    assert_eq!(conns[2].answer(), None);
    assert_eq!(pusher.call(&["LPUSH", "a", "3"]), Some(Value::Int(1)));
    assert_eq!(conns[2].answer(), Some(pair("a", "3")));
    assert_eq!(engine.blocked_clients(), 0);
}

#[test]
fn the_older_connection_is_first_when_nobody_can_tell_who_came_first() {
    let engine = engine(8);
    let mut older = Conn::new(&engine);
    let mut newer = Conn::new(&engine);
    // Both begin to wait at the same instant, each on a thread of its own.
    let on_another_thread = |conn: &mut Conn| {
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| conn.call(&["BLPOP", "a", "0"]));
            assert_eq!(waits.join().expect("no panic"), None);
        });
    };
    let mut pusher = Conn::new(&engine);
    on_another_thread(&mut newer);
    on_another_thread(&mut older);
    assert_eq!(pusher.call(&["RPUSH", "a", "1", "2"]), Some(Value::Int(2)));
    assert_eq!(older.answer(), Some(pair("a", "1")));
    assert_eq!(newer.answer(), Some(pair("a", "2")));
    // Who asks how many wait knows who has come.
    on_another_thread(&mut newer);
    assert_eq!(engine.blocked_clients(), 1);
    on_another_thread(&mut older);
    assert_eq!(pusher.call(&["RPUSH", "a", "1", "2"]), Some(Value::Int(2)));
    assert_eq!(newer.answer(), Some(pair("a", "1")));
    assert_eq!(older.answer(), Some(pair("a", "2")));
    // The order of one thread stays.
    assert_eq!(newer.call(&["BLPOP", "a", "0"]), None);
    assert_eq!(older.call(&["BLPOP", "a", "0"]), None);
    assert_eq!(pusher.call(&["RPUSH", "a", "1", "2"]), Some(Value::Int(2)));
    assert_eq!(newer.answer(), Some(pair("a", "1")));
    assert_eq!(older.answer(), Some(pair("a", "2")));
}

#[test]
fn who_has_left_gets_nothing() {
    let engine = engine(8);
    let (mut gone, mut stays) = (Conn::new(&engine), Conn::new(&engine));
    assert_eq!(gone.call(&["BLPOP", "a", "0"]), None);
    assert_eq!(stays.call(&["BLPOP", "a", "0"]), None);
    assert_eq!(gone.leave(), None);
    let mut killed = Conn::new(&engine);
    assert_eq!(killed.call(&["BLPOP", "b", "0"]), None);
    engine.abandon(killed.session.id);
    let mut pusher = Conn::new(&engine);
    pusher.call(&["RPUSH", "a", "1"]);
    pusher.call(&["RPUSH", "b", "2"]);
    assert_eq!(stays.answer(), Some(pair("a", "1")));
    assert_eq!(killed.answer(), None);
    assert_eq!(pusher.call(&["LLEN", "b"]), Some(Value::Int(1)));
    assert_eq!(killed.leave(), None);
}

#[test]
fn a_wait_ends_once() {
    let engine = engine(8);
    let mut conn = Conn::new(&engine);
    assert_eq!(conn.call(&["BLPOP", "a", "1"]), None);
    let mut out = ReplyBuf::default();
    assert!(!engine.time_out(&mut conn.session, NOW, &mut out));
    let later = Timestamp::from_millis(NOW.millis() + 1000);
    assert!(engine.unblock(conn.session.id, Unblock::Error, NOW));
    assert!(!engine.unblock(conn.session.id, Unblock::Timeout, NOW));
    assert!(!engine.time_out(&mut conn.session, later, &mut out));
    assert!(matches!(conn.answer(), Some(Value::Error(_))));
    assert_eq!(conn.call(&["BLPOP", "a", "1"]), None);
    assert!(engine.time_out(&mut conn.session, later, &mut out));
    assert_eq!(value(out.bytes()), Value::NullArray);
    assert!(!engine.unblock(conn.session.id, Unblock::Timeout, NOW));
    let mut pusher = Conn::new(&engine);
    assert_eq!(pusher.call(&["RPUSH", "a", "1"]), Some(Value::Int(1)));
    assert_eq!(pusher.call(&["LLEN", "a"]), Some(Value::Int(1)));
}

/// Runs a script on a worker until it is killed; whoever asks for a shard that it holds is put off.
const ENDLESS: &str = "redis.call('EXISTS', KEYS[1]) while true do end";

#[test]
fn a_look_that_a_long_script_put_off_is_had_when_it_ends() {
    let engine = engine(8);
    // However slow the machine, the script is there to be killed.
    engine.set_script_time_limit(0);
    let mut other = Conn::new(&engine);
    other.call(&["XADD", "s", "1-1", "f", "v"]);
    other.call(&["XGROUP", "CREATE", "s", "g", "0"]);
    other.call(&["XREADGROUP", "GROUP", "g", "one", "STREAMS", "s", ">"]);
    let mut conn = Conn::new(&engine);
    let claim = "XREADGROUP GROUP g two BLOCK 0 CLAIM 1 STREAMS s >";
    assert_eq!(conn.call(&claim.split(' ').collect::<Vec<_>>()), None);
    thread::scope(|scope| {
        let mut worker = Conn::new(&engine);
        worker.session = worker.session.for_worker();
        scope.spawn(move || worker.call(&["EVAL", ENDLESS, "1", "s"]));
        while !other.is_put_off(&["XLEN", "s"]) {
            thread::yield_now();
        }
        let due = Timestamp::from_nanos(NOW.nanos() + 2_000_000);
        let mut out = ReplyBuf::default();
        assert!(!engine.time_out(&mut conn.session, due, &mut out));
        assert_eq!(conn.answer(), None, "what it waits for is held");
        // By then the entry has been pending for long enough.
        thread::sleep(Duration::from_millis(2));
        while !matches!(other.call(&["SCRIPT", "KILL"]), Some(Value::Simple(_))) {
            thread::yield_now();
        }
    });
    assert!(matches!(conn.answer(), Some(Value::Array(_))));
}

#[test]
fn a_look_that_is_due_while_clients_are_paused_is_had_afterwards() {
    let engine = engine(8);
    let mut other = Conn::new(&engine);
    other.call(&["XADD", "s", "1-1", "f", "v"]);
    other.call(&["XGROUP", "CREATE", "s", "g", "0"]);
    other.call(&["XREADGROUP", "GROUP", "g", "one", "STREAMS", "s", ">"]);
    let mut conn = Conn::new(&engine);
    let claim = "XREADGROUP GROUP g two BLOCK 0 CLAIM 1 STREAMS s >";
    assert_eq!(conn.call(&claim.split(' ').collect::<Vec<_>>()), None);
    let changes = engine.changes();
    engine
        .pause()
        .begin(PausedBy::Client, Paused::Writes, i64::MAX);
    let due = Timestamp::from_nanos(NOW.nanos() + 5_000_000);
    let mut out = ReplyBuf::default();
    assert!(!engine.time_out(&mut conn.session, due, &mut out));
    assert_eq!(conn.answer(), None);
    assert_eq!(engine.changes(), changes, "the entry is whose it was");
    engine.pause().end(PausedBy::Client);
    engine.do_what_was_left(due);
    assert!(matches!(conn.answer(), Some(Value::Array(_))));
}

#[test]
fn a_chain_of_moves_is_served_in_one_step() {
    // Destinations in other shards are locked by trying.
    for shards in [1, 64] {
        let engine = engine(shards);
        let keys: Vec<String> = (0..10).map(|n| format!("list{n}")).collect();
        let mut movers: Vec<Conn> = keys
            .windows(2)
            .map(|pair| {
                let mut conn = Conn::new(&engine);
                let words = ["BLMOVE", &pair[0], &pair[1], "LEFT", "RIGHT", "0"];
                assert_eq!(conn.call(&words), None);
                conn
            })
            .collect();
        let mut pusher = Conn::new(&engine);
        pusher.call(&["RPUSH", &keys[0], "x"]);
        for mover in &mut movers {
            assert_eq!(mover.answer(), Some(bulk("x")));
        }
        let last = ["LRANGE", &keys[9], "0", "-1"];
        assert_eq!(pusher.call(&last), Some(Value::Array(vec![bulk("x")])));
    }
}

/// A small sequence of its own for each thread.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

const QUEUES: [&str; 5] = ["q0", "q1", "q2", "q3", "q4"];

/// What a consumer has got from an answer: the item is its last string.
fn item(answer: &Value) -> Option<u64> {
    let text = match answer {
        Value::Array(items) => items.last().and_then(|item| match item {
            Value::Array(items) => items.last().cloned(),
            other => Some(other.clone()),
        }),
        other => Some(other.clone()),
    };
    match text {
        Some(Value::Bulk(digits)) => String::from_utf8_lossy(&digits).parse().ok(),
        _ => None,
    }
}

/// Takes one item, or gives up at random by leaving or by being unblocked.
fn consume(engine: &Arc<Engine>, state: &mut u64, taken: &mut Vec<u64>) {
    let mut conn = Conn::new(engine);
    let from = QUEUES[draw(state, 5) as usize];
    let other = QUEUES[draw(state, 5) as usize];
    let answer = match draw(state, 4) {
        0 => conn.call(&["BLPOP", from, other, "0"]),
        1 => conn.call(&["BRPOP", other, from, "0"]),
        2 => conn.call(&["BLMPOP", "0", "2", from, other, "LEFT"]),
        _ => conn.call(&["BLPOP", from, "0"]),
    };
    let answer = match answer {
        Some(answer) => Some(answer),
        None => {
            for _ in 0..draw(state, 50) {
                thread::yield_now();
            }
            match draw(state, 3) {
                0 => conn.leave(),
                1 => {
                    engine.unblock(conn.session.id, Unblock::Timeout, NOW);
                    Some(conn.wait())
                }
                _ => {
                    engine.abandon(conn.session.id);
                    conn.leave()
                }
            }
        }
    };
    taken.extend(answer.as_ref().and_then(item));
}

#[test]
fn queues_lose_and_double_nothing() {
    const ITEMS: u64 = 3000;
    const PRODUCERS: u64 = 2;
    let engine = engine(8);
    let producing = Arc::new(AtomicUsize::new(PRODUCERS as usize));
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (engine, producing) = (Arc::clone(&engine), Arc::clone(&producing));
            thread::spawn(move || {
                let mut conn = Conn::new(&engine);
                let mut state = producer + 1;
                for number in 0..ITEMS {
                    let item = (producer * ITEMS + number).to_string();
                    let queue = QUEUES[draw(&mut state, 5) as usize];
                    match draw(&mut state, 4) {
                        0 => {
                            conn.call(&["MULTI"]);
                            conn.call(&["RPUSH", queue, &item]);
                            conn.call(&["EXEC"]);
                        }
                        1 => {
                            let script = "return redis.call('lpush', KEYS[1], ARGV[1])";
                            conn.call(&["EVAL", script, "1", queue, &item]);
                        }
                        2 => {
                            conn.call(&["RPUSH", "stage", &item]);
                            let to = QUEUES[draw(&mut state, 5) as usize];
                            conn.call(&["LMOVE", "stage", to, "LEFT", "RIGHT"]);
                        }
                        _ => {
                            conn.call(&["RPUSH", queue, &item]);
                        }
                    }
                }
                producing.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    let mover = {
        let (engine, producing) = (Arc::clone(&engine), Arc::clone(&producing));
        thread::spawn(move || {
            let mut state = 99;
            while producing.load(Ordering::SeqCst) > 0 {
                let mut conn = Conn::new(&engine);
                let from = QUEUES[draw(&mut state, 5) as usize];
                let to = QUEUES[draw(&mut state, 5) as usize];
                if conn
                    .call(&["BLMOVE", from, to, "LEFT", "RIGHT", "0"])
                    .is_none()
                {
                    thread::yield_now();
                }
                // What it has moved is in a queue, whether it hears of it or not.
                conn.leave();
            }
        })
    };
    let consumers: Vec<_> = (0..3)
        .map(|consumer| {
            let (engine, producing) = (Arc::clone(&engine), Arc::clone(&producing));
            thread::spawn(move || {
                let mut state = 1000 + consumer;
                let mut taken = Vec::new();
                while producing.load(Ordering::SeqCst) > 0 {
                    consume(&engine, &mut state, &mut taken);
                }
                taken
            })
        })
        .collect();
    for thread in producers {
        thread.join().expect("a producer ends");
    }
    mover.join().expect("the mover ends");
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for thread in consumers {
        for item in thread.join().expect("a consumer ends") {
            *seen.entry(item).or_default() += 1;
        }
    }
    let mut conn = Conn::new(&engine);
    for queue in QUEUES.iter().chain(&["stage"]) {
        let Some(Value::Array(rest)) = conn.call(&["LRANGE", queue, "0", "-1"]) else {
            panic!("not a list")
        };
        for left in &rest {
            *seen.entry(item(left).expect("an item")).or_default() += 1;
        }
    }
    assert_eq!(engine.blocked_clients(), 0);
    for number in 0..PRODUCERS * ITEMS {
        assert_eq!(seen.get(&number), Some(&1), "item {number}");
    }
}

/// A connection that can be closed by others than its own thread.
#[derive(Debug, Default)]
struct Closing(AtomicBool);

impl Mail for Closing {
    fn answer(&self, reply: Vec<u8>) {
        panic!("nobody reads {reply:?}");
    }

    fn dismiss(&self, reply: Vec<u8>) {
        self.answer(reply);
    }

    fn try_again(&self) {}

    fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn an_element_is_not_given_to_a_connection_that_is_being_closed() {
    let engine = engine(4);
    let closing = Arc::new(Closing::default());
    let mut session = Session::new(NEXT_ID.fetch_add(1, Ordering::Relaxed), true);
    session.mail = Some(closing.clone());
    let words = [&b"BLPOP"[..], b"list", b"0"];
    let mut out = ReplyBuf::default();
    let outcome = engine.execute(&mut session, &words, NOW, &mut out, &mut NoNode);
    assert_eq!(outcome, Outcome::Wait);
    let mut behind = Conn::new(&engine);
    assert!(behind.call(&["BLPOP", "list", "0"]).is_none(), "it waits");
    closing.0.store(true, Ordering::Relaxed);
    let mut pusher = Conn::new(&engine);
    assert_eq!(
        pusher.call(&["RPUSH", "list", "a", "b"]),
        Some(Value::Int(2))
    );
    // The next one in the queue has the first.
    assert!(behind.session.is_answered());
    assert_eq!(engine.blocked_clients(), 0);
    assert_eq!(
        pusher
            .call(&["LRANGE", "list", "0", "-1"])
            .map(|list| match list {
                Value::Array(all) => all,
                other => panic!("{other:?}"),
            }),
        Some(vec![Value::Bulk(b"b".to_vec())])
    );
    engine.leave(&mut session);
}
