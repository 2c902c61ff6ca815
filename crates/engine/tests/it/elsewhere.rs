//! Which commands leave the thread that serves the connections, and what they answer on another one.

use std::thread;
use std::time::Duration;

use tollgate_engine::{Check, Handle, Outcome, Session};
use tollgate_limiter::{AlgorithmKind, Cost, Quota};
use tollgate_testkit::eventually;
use tollgate_wire::resp::{ReplyBuf, Value, read_value};

use super::{NOW, NoNode, engine};

/// Elements of a collection that is large.
const MANY: usize = 20_000;

const LOOP: &str = "local n = 0 for i = 1, 10 do n = n + i end return n";

/// A connection whose long commands run elsewhere.
struct Conn {
    engine: std::sync::Arc<tollgate_engine::Engine>,
    session: Session,
}

impl Conn {
    fn new() -> Conn {
        let mut session = Session::new(1, true);
        session.allow_moves();
        Conn {
            engine: engine(16),
            session,
        }
    }

    /// Runs a command as a server does; whether it was elsewhere, and the reply.
    fn run(&mut self, words: &[&str]) -> (bool, Value) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut out = ReplyBuf::default();
        let engine = &self.engine;
        let outcome = engine.execute(&mut self.session, &words, NOW, &mut out, &mut NoNode);
        if outcome == Outcome::Elsewhere {
            assert!(out.bytes().is_empty(), "nothing was done");
            let mut worker = self.session.for_worker();
            let outcome = engine.execute(&mut worker, &words, NOW, &mut out, &mut NoNode);
            assert_eq!(outcome, Outcome::Continue);
        }
        let (value, len) = read_value(out.bytes()).unwrap().unwrap();
        assert_eq!(len, out.len());
        (outcome == Outcome::Elsewhere, value)
    }

    #[track_caller]
    fn stays(&mut self, command: &str) -> Value {
        let words: Vec<&str> = command.split(' ').collect();
        let (moved, value) = self.run(&words);
        assert!(!moved, "{command}");
        value
    }

    #[track_caller]
    fn moves(&mut self, command: &str) -> Value {
        let words: Vec<&str> = command.split(' ').collect();
        let (moved, value) = self.run(&words);
        assert!(moved, "{command}");
        value
    }

    /// A command of so many words, made of numbers.
    fn fill(&mut self, command: &[&str], each: impl Fn(usize) -> Vec<String>) {
        for start in (0..MANY).step_by(1_000) {
            let values: Vec<String> = (start..start + 1_000).flat_map(&each).collect();
            let words: Vec<&str> = command
                .iter()
                .copied()
                .chain(values.iter().map(String::as_str))
                .collect();
            self.run(&words);
        }
    }
}

#[test]
fn commands_over_large_values_leave_and_others_stay() {
    let mut conn = Conn::new();
    let number = |n: usize| vec![n.to_string()];
    conn.fill(&["RPUSH", "list"], number);
    conn.fill(&["SADD", "set"], number);
    conn.fill(&["ZADD", "zset"], |n| vec![n.to_string(), n.to_string()]);
    conn.stays("RPUSH small 3 1 2");
    conn.stays("SADD few 1 2 3");
    conn.stays("ZADD little 1 a 2 b");
    let text = "x".repeat(2_000);
    conn.stays(&format!("MSET text {text} other {text} short axc"));

    assert!(matches!(conn.moves("SORT list DESC"), Value::Array(all) if all.len() == MANY));
    assert!(matches!(
        conn.moves("SORT_RO list BY w_* GET #"),
        Value::Array(_)
    ));
    assert_eq!(
        conn.moves("SORT list STORE sorted"),
        Value::Int(MANY as i64)
    );
    assert_eq!(
        conn.moves("SUNIONSTORE all set few"),
        Value::Int(MANY as i64)
    );
    assert_eq!(
        conn.moves("SDIFFSTORE rest set few"),
        Value::Int(MANY as i64 - 3)
    );
    assert_eq!(conn.moves("SINTERCARD 2 set set"), Value::Int(MANY as i64));
    assert_eq!(
        conn.moves("ZUNIONSTORE both 2 zset little"),
        Value::Int(MANY as i64 + 2)
    );
    assert_eq!(conn.moves("LCS text other LEN"), Value::Int(2_000));

    assert!(matches!(conn.stays("SORT small"), Value::Array(all) if all.len() == 3));
    assert!(matches!(
        conn.stays("SORT small BY w_* GET v_*"),
        Value::Array(_)
    ));
    assert_eq!(conn.stays("SORT small STORE brief"), Value::Int(3));
    assert_eq!(conn.stays("SINTERSTORE common set few"), Value::Int(3));
    assert_eq!(conn.stays("ZUNIONSTORE copy 1 little"), Value::Int(2));
    assert_eq!(conn.stays("LCS text short LEN"), Value::Int(1));
    assert!(matches!(conn.stays("SORT nosuch"), Value::Array(all) if all.is_empty()));
}

#[test]
fn scripts_with_loops_leave_until_they_have_proved_short() {
    let mut conn = Conn::new();
    conn.stays("EVAL return 0");
    let eval = ["EVAL", LOOP, "0"];
    for run in 0..2 {
        assert_eq!(conn.run(&eval), (true, Value::Int(55)), "run {run}");
    }
    // A machine that does much else makes runs long.
    eventually("it has proved short", || !conn.run(&eval).0);
}

#[test]
fn a_transaction_with_something_long_leaves_as_a_whole() {
    let mut conn = Conn::new();
    let queued = Value::Simple(b"QUEUED".to_vec());
    conn.stays("WATCH watched");
    conn.stays("MULTI");
    assert_eq!(conn.stays("INCR n"), queued);
    assert_eq!(conn.run(&["EVAL", LOOP, "0"]), (false, queued.clone()));
    let both = Value::Array(vec![Value::Int(1), Value::Int(55)]);
    assert_eq!(conn.moves("EXEC"), both);
    // It has ended here too.
    assert!(matches!(conn.stays("EXEC"), Value::Error(_)));
    conn.stays("WATCH watched");
    conn.stays("SET watched x");
    conn.stays("MULTI");
    conn.run(&["EVAL", LOOP, "0"]);
    assert_eq!(conn.moves("EXEC"), Value::NullArray);
    conn.stays("MULTI");
    conn.stays("INCR n");
    conn.run(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "n"]);
    assert_eq!(
        conn.stays("EXEC"),
        Value::Array(vec![Value::Int(2), Value::Bulk(b"2".to_vec())])
    );
    conn.fill(&["RPUSH", "list"], |n| vec![n.to_string()]);
    conn.stays("MULTI");
    conn.stays("SORT list LIMIT 0 1");
    assert_eq!(
        conn.moves("EXEC"),
        Value::Array(vec![Value::Array(vec![Value::Bulk(b"0".to_vec())])])
    );
}

#[test]
fn a_watch_outside_of_a_transaction_stays_with_its_connection() {
    let mut conn = Conn::new();
    conn.stays("WATCH watched");
    assert!(conn.run(&["EVAL", LOOP, "0"]).0);
    conn.stays("SET watched x");
    conn.stays("MULTI");
    conn.stays("PING");
    assert_eq!(conn.stays("EXEC"), Value::NullArray);
}

#[test]
fn no_long_command_begins_between_the_steps_of_who_visits() {
    let engine = engine(16);
    let handle = Handle::new(engine.clone());
    let check = Check {
        key: b"held",
        algorithm: AlgorithmKind::FixedWindow,
        quota: Quota::new(10, 60_000_000_000),
        cost: Cost(1),
        peek: false,
        exact: false,
    };
    let mut killer = Session::new(3, true);
    thread::scope(|scope| {
        let visit = handle.visit().expect("nothing long runs");
        let scripts = ["KEYS[1]", "ARGV[1]"].map(|script| {
            let engine = &engine;
            scope.spawn(move || {
                let script = format!("while true do end return {script}");
                let words: [&[u8]; 5] = [b"EVAL", script.as_bytes(), b"1", b"held", b"held"];
                let mut worker = Session::new(2, true).for_worker();
                let mut out = ReplyBuf::default();
                engine.execute(&mut worker, &words, NOW, &mut out, &mut NoNode);
            })
        });
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(5));
            assert!(handle.decide(&[check], NOW).is_ok());
        }
        drop(visit);
        while handle.decide(&[check], NOW).is_ok() {
            thread::yield_now();
        }
        assert!(handle.visit().is_none());
        // One of them may have yet to begin.
        while !scripts.iter().all(|script| script.is_finished()) {
            let mut out = ReplyBuf::default();
            engine.execute(
                &mut killer,
                &[b"SCRIPT", b"KILL"],
                NOW,
                &mut out,
                &mut NoNode,
            );
        }
    });
    assert!(handle.visit().is_some());
}
