//! Transactions: sums that stay, and interleaved clients against a model.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::Value;

use super::waiting::Conn;
use super::{NOW, engine};

fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::Bulk(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("not a string: {other:?}"),
    }
}

/// A transfer that builds on what it has read; true when it was done.
fn transfer(conn: &mut Conn, from: &str, to: &str, amount: i64) -> bool {
    conn.call(&["WATCH", from, to]);
    let balance: i64 = text(conn.call(&["GET", from])).parse().expect("a number");
    let other: i64 = text(conn.call(&["GET", to])).parse().expect("a number");
    if balance < amount || from == to {
        conn.call(&["UNWATCH"]);
        return true;
    }
    conn.call(&["MULTI"]);
    conn.call(&["SET", from, &(balance - amount).to_string()]);
    conn.call(&["SET", to, &(other + amount).to_string()]);
    match conn.call(&["EXEC"]) {
        Some(Value::Array(replies)) => {
            assert_eq!(replies.len(), 2);
            true
        }
        Some(Value::NullArray) => false,
        other => panic!("not a transaction's reply: {other:?}"),
    }
}

#[test]
fn watched_transfers_keep_the_sum() {
    const ACCOUNTS: usize = 6;
    const EACH: i64 = 100;
    let engine = engine(16);
    let keys: Vec<String> = (0..ACCOUNTS).map(|n| format!("account{n}")).collect();
    let mut conn = Conn::new(&engine);
    for key in &keys {
        conn.call(&["SET", key, &EACH.to_string()]);
    }
    let workers: Vec<_> = (0..4u64)
        .map(|worker| {
            let (engine, keys) = (Arc::clone(&engine), keys.clone());
            thread::spawn(move || {
                let mut conn = Conn::new(&engine);
                let mut state = worker + 7;
                let mut next = |below: usize| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) as usize % below
                };
                for _ in 0..500 {
                    let (from, to, amount) = (next(ACCOUNTS), next(ACCOUNTS), next(20) as i64);
                    while !transfer(&mut conn, &keys[from], &keys[to], amount) {}
                    conn.call(&["MULTI"]);
                    for key in &keys {
                        conn.call(&["GET", key]);
                    }
                    let Some(Value::Array(balances)) = conn.call(&["EXEC"]) else {
                        panic!("nothing is watched")
                    };
                    let sum: i64 = balances
                        .into_iter()
                        .map(|balance| text(Some(balance)).parse::<i64>().expect("a number"))
                        .sum();
                    assert_eq!(sum, EACH * ACCOUNTS as i64);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker ends");
    }
}

#[derive(Debug, Clone)]
enum Op {
    Push(usize, u8),
    Pop(usize),
    BPop(usize, usize),
    Move(usize, usize),
    BMove(usize, usize),
    Add(usize, u8),
    PopLeast(usize),
    BPopLeast(usize, usize),
    Set(usize),
    Del(usize),
    Flush,
    Multi,
    Exec,
    Discard,
    Watch(usize),
    Unwatch,
    /// The connection ends and another takes its place.
    Leave,
    Wrong,
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn op() -> impl Strategy<Value = Op> {
    let key = 0..KEYS.len();
    prop_oneof![
        5 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Op::Push(k, v)),
        2 => key.clone().prop_map(Op::Pop),
        5 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::BPop(a, b)),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::Move(a, b)),
        2 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::BMove(a, b)),
        4 => (key.clone(), 0u8..4).prop_map(|(k, v)| Op::Add(k, v)),
        1 => key.clone().prop_map(Op::PopLeast),
        4 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::BPopLeast(a, b)),
        1 => key.clone().prop_map(Op::Set),
        2 => key.clone().prop_map(Op::Del),
        1 => Just(Op::Flush),
        3 => Just(Op::Multi),
        3 => Just(Op::Exec),
        1 => Just(Op::Discard),
        2 => key.prop_map(Op::Watch),
        1 => Just(Op::Unwatch),
        1 => Just(Op::Leave),
        1 => Just(Op::Wrong),
    ]
}

fn words(op: &Op) -> Vec<String> {
    let line = match op {
        Op::Push(k, v) => format!("RPUSH {} {v}", KEYS[*k]),
        Op::Pop(k) => format!("LPOP {}", KEYS[*k]),
        Op::BPop(a, b) => format!("BLPOP {} {} 0", KEYS[*a], KEYS[*b]),
        Op::Move(a, b) => format!("LMOVE {} {} LEFT RIGHT", KEYS[*a], KEYS[*b]),
        Op::BMove(a, b) => format!("BLMOVE {} {} LEFT RIGHT 0", KEYS[*a], KEYS[*b]),
        Op::Add(k, v) => format!("ZADD {} 0 {v}", KEYS[*k]),
        Op::PopLeast(k) => format!("ZPOPMIN {}", KEYS[*k]),
        Op::BPopLeast(a, b) => format!("BZPOPMIN {} {} 0", KEYS[*a], KEYS[*b]),
        Op::Set(k) => format!("SET {} text", KEYS[*k]),
        Op::Del(k) => format!("DEL {}", KEYS[*k]),
        Op::Flush => "FLUSHDB".to_owned(),
        Op::Multi => "MULTI".to_owned(),
        Op::Exec => "EXEC".to_owned(),
        Op::Discard => "DISCARD".to_owned(),
        Op::Watch(k) => format!("WATCH {}", KEYS[*k]),
        Op::Unwatch => "UNWATCH".to_owned(),
        Op::Wrong => "LPOP".to_owned(),
        Op::Leave => unreachable!("no command"),
    };
    line.split(' ').map(str::to_owned).collect()
}

#[derive(Debug, Clone)]
enum Held {
    List(VecDeque<String>),
    /// A sorted set whose scores are all 0.
    Sorted(BTreeSet<String>),
    Text,
}

impl Held {
    /// Whether a client that waits in `op` can be served from it.
    fn serves(&self, op: &Op) -> bool {
        match self {
            Held::List(_) => matches!(op, Op::BPop(..) | Op::BMove(..)),
            Held::Sorted(_) => matches!(op, Op::BPopLeast(..)),
            Held::Text => false,
        }
    }
}

/// One client in the model.
#[derive(Debug, Default)]
struct Peer {
    queued: Option<Vec<Op>>,
    spoiled: bool,
    watched: BTreeSet<usize>,
    changed: bool,
    waits: Option<Op>,
    answer: Option<Value>,
}

/// One thread and no locks: what the engine must look like from outside.
#[derive(Debug, Default)]
struct Model {
    keys: BTreeMap<usize, Held>,
    peers: Vec<Peer>,
    /// Who waits for each key, in order.
    queues: BTreeMap<usize, VecDeque<usize>>,
    ready: Vec<usize>,
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn wrong_type() -> Value {
    Value::Error(b"WRONGTYPE Operation against a key holding the wrong kind of value".to_vec())
}

fn error(text: &str) -> Value {
    Value::Error(text.as_bytes().to_vec())
}

impl Model {
    fn touch(&mut self, key: usize) {
        for peer in &mut self.peers {
            peer.changed |= peer.watched.contains(&key);
        }
    }

    fn list(&mut self, key: usize) -> Result<Option<&mut VecDeque<String>>, Value> {
        match self.keys.get_mut(&key) {
            None => Ok(None),
            Some(Held::List(list)) => Ok(Some(list)),
            Some(_) => Err(wrong_type()),
        }
    }

    fn take(&mut self, key: usize) -> Result<Option<String>, Value> {
        let Some(list) = self.list(key)? else {
            return Ok(None);
        };
        let item = list.pop_front().expect("no list is empty");
        if list.is_empty() {
            self.keys.remove(&key);
        }
        self.touch(key);
        Ok(Some(item))
    }

    /// Keys are ready in the order in which what somebody waits for came to be there, as in Redis: a sorted set makes none ready
    /// for those who wait for a list. What goes makes none ready.
    fn note_ready(&mut self, key: usize, comes: &Held) {
        let mut waiting = self.queues.get(&key).into_iter().flatten();
        let is_wanted = waiting.any(|&peer| {
            let op = self.peers[peer].waits.as_ref();
            op.is_some_and(|op| comes.serves(op))
        });
        if is_wanted && !self.keys.contains_key(&key) && !self.ready.contains(&key) {
            self.ready.push(key);
        }
    }

    fn add(&mut self, key: usize, member: String) -> Result<bool, Value> {
        self.note_ready(key, &Held::Sorted(BTreeSet::new()));
        let held = self.keys.entry(key);
        let Held::Sorted(set) = held.or_insert_with(|| Held::Sorted(BTreeSet::new())) else {
            return Err(wrong_type());
        };
        let is_new = set.insert(member);
        if is_new {
            self.touch(key);
        }
        Ok(is_new)
    }

    fn take_least(&mut self, key: usize) -> Result<Option<String>, Value> {
        let set = match self.keys.get_mut(&key) {
            None => return Ok(None),
            Some(Held::Sorted(set)) => set,
            Some(_) => return Err(wrong_type()),
        };
        let member = set.pop_first().expect("no sorted set is empty");
        if set.is_empty() {
            self.keys.remove(&key);
        }
        self.touch(key);
        Ok(Some(member))
    }

    fn put(&mut self, key: usize, item: String) -> Result<usize, Value> {
        self.note_ready(key, &Held::List(VecDeque::new()));
        let held = self
            .keys
            .entry(key)
            .or_insert_with(|| Held::List(VecDeque::new()));
        let Held::List(list) = held else {
            return Err(wrong_type());
        };
        list.push_back(item);
        let len = list.len();
        self.touch(key);
        Ok(len)
    }

    fn shift(&mut self, from: usize, to: usize) -> Result<Option<String>, Value> {
        if self.list(from)?.is_none() {
            return Ok(None);
        }
        self.list(to)?;
        let item = self.take(from)?.expect("it is there");
        self.put(to, item.clone())?;
        Ok(Some(item))
    }

    /// Runs a command on data; `None` when it finds nothing and would wait.
    fn data(&mut self, op: &Op) -> Result<Option<Value>, Value> {
        Ok(match op {
            Op::Push(k, v) => Some(Value::Int(self.put(*k, v.to_string())? as i64)),
            Op::Pop(k) => Some(self.take(*k)?.map_or(Value::Null, |item| bulk(&item))),
            Op::BPop(a, b) => {
                for key in [*a, *b] {
                    if let Some(item) = self.take(key)? {
                        return Ok(Some(Value::Array(vec![bulk(KEYS[key]), bulk(&item)])));
                    }
                }
                None
            }
            Op::Add(k, v) => Some(Value::Int(i64::from(self.add(*k, v.to_string())?))),
            Op::PopLeast(k) => {
                let member = self.take_least(*k)?;
                Some(Value::Array(
                    member.map_or(Vec::new(), |it| vec![bulk(&it), bulk("0")]),
                ))
            }
            Op::BPopLeast(a, b) => {
                for key in [*a, *b] {
                    if let Some(member) = self.take_least(key)? {
                        let answer = vec![bulk(KEYS[key]), bulk(&member), bulk("0")];
                        return Ok(Some(Value::Array(answer)));
                    }
                }
                None
            }
            Op::Move(a, b) => Some(self.shift(*a, *b)?.map_or(Value::Null, |item| bulk(&item))),
            Op::BMove(a, b) => self.shift(*a, *b)?.map(|item| bulk(&item)),
            Op::Set(k) => {
                self.keys.insert(*k, Held::Text);
                self.touch(*k);
                Some(Value::Simple(b"OK".to_vec()))
            }
            Op::Del(k) => {
                let removed = self.keys.remove(k).is_some();
                if removed {
                    self.touch(*k);
                }
                Some(Value::Int(i64::from(removed)))
            }
            Op::Flush => {
                for key in std::mem::take(&mut self.keys).into_keys() {
                    self.touch(key);
                }
                Some(Value::Simple(b"OK".to_vec()))
            }
            Op::Unwatch => Some(Value::Simple(b"OK".to_vec())),
            other => unreachable!("{other:?} is not about data"),
        })
    }

    /// Serves those who wait for what has become ready.
    fn serve(&mut self) {
        while !self.ready.is_empty() {
            let key = self.ready.remove(0);
            for peer in self.queues.get(&key).cloned().unwrap_or_default() {
                let Some(op) = self.peers[peer].waits.clone() else {
                    continue;
                };
                if !self.keys.get(&key).is_some_and(|held| held.serves(&op)) {
                    continue;
                }
                let result = match op {
                    Op::BPop(..) => self.data(&Op::BPop(key, key)),
                    Op::BPopLeast(..) => self.data(&Op::BPopLeast(key, key)),
                    other => self.data(&other),
                };
                let answer = match result {
                    Ok(Some(answer)) => answer,
                    Ok(None) => continue,
                    Err(answer) => answer,
                };
                self.unpark(peer);
                self.peers[peer].answer = Some(answer);
            }
        }
    }

    fn unpark(&mut self, peer: usize) {
        self.peers[peer].waits = None;
        for queue in self.queues.values_mut() {
            queue.retain(|other| *other != peer);
        }
    }

    /// One command of a client; `None` when it waits.
    fn run(&mut self, peer: usize, op: &Op) -> Option<Value> {
        let reply = self.run_unserved(peer, op);
        self.serve();
        reply
    }

    fn run_unserved(&mut self, peer: usize, op: &Op) -> Option<Value> {
        let ok = || Some(Value::Simple(b"OK".to_vec()));
        let in_multi = self.peers[peer].queued.is_some();
        match op {
            Op::Wrong => {
                self.peers[peer].spoiled |= in_multi;
                Some(error("ERR wrong number of arguments for 'lpop' command"))
            }
            Op::Multi if in_multi => Some(error("ERR MULTI calls can not be nested")),
            Op::Multi => {
                self.peers[peer].queued = Some(Vec::new());
                ok()
            }
            Op::Discard if !in_multi => Some(error("ERR DISCARD without MULTI")),
            Op::Exec if !in_multi => Some(error("ERR EXEC without MULTI")),
            Op::Discard => {
                self.reset(peer);
                ok()
            }
            Op::Exec => {
                let state = &mut self.peers[peer];
                let queued = state.queued.take().unwrap_or_default();
                let (spoiled, changed) = (state.spoiled, state.changed);
                self.reset(peer);
                if spoiled {
                    let text = "EXECABORT Transaction discarded because of previous errors.";
                    return Some(error(text));
                }
                if changed {
                    return Some(Value::NullArray);
                }
                let run = |op: &Op| match self.data(op) {
                    Ok(Some(reply)) => reply,
                    Ok(None) if matches!(op, Op::BPop(..) | Op::BPopLeast(..)) => Value::NullArray,
                    Ok(None) => Value::Null,
                    Err(error) => error,
                };
                Some(Value::Array(queued.iter().map(run).collect()))
            }
            Op::Watch(_) if in_multi => Some(error("ERR WATCH inside MULTI is not allowed")),
            Op::Watch(key) => {
                self.peers[peer].watched.insert(*key);
                ok()
            }
            op if in_multi => {
                let queued = self.peers[peer].queued.as_mut().expect("in a transaction");
                queued.push(op.clone());
                Some(Value::Simple(b"QUEUED".to_vec()))
            }
            Op::Unwatch => {
                self.reset(peer);
                ok()
            }
            op => match self.data(op) {
                Ok(Some(reply)) => Some(reply),
                Err(error) => Some(error),
                Ok(None) => {
                    self.peers[peer].waits = Some(op.clone());
                    let keys = match op {
                        Op::BPop(a, b) | Op::BPopLeast(a, b) => BTreeSet::from([*a, *b]),
                        Op::BMove(a, _) => BTreeSet::from([*a]),
                        _ => unreachable!("only these wait"),
                    };
                    for key in keys {
                        self.queues.entry(key).or_default().push_back(peer);
                    }
                    None
                }
            },
        }
    }

    fn reset(&mut self, peer: usize) {
        let state = &mut self.peers[peer];
        state.queued = None;
        state.spoiled = false;
        state.watched.clear();
        state.changed = false;
    }
}

fn check(shards: usize, clients: usize, steps: &[(usize, Op)]) -> Result<(), TestCaseError> {
    let engine = engine(shards);
    let mut conns: Vec<Conn> = (0..clients).map(|_| Conn::new(&engine)).collect();
    let mut model = Model::default();
    model.peers.resize_with(clients, Peer::default);
    for (client, op) in steps {
        let client = client % clients;
        if matches!(op, Op::Leave) {
            let gone = std::mem::replace(&mut conns[client], Conn::new(&engine));
            prop_assert_eq!(gone.leave(), None);
            model.unpark(client);
            model.reset(client);
        } else if model.peers[client].waits.is_none() {
            let words = words(op);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let got = conns[client].call(&words);
            let expected = model.run(client, op);
            prop_assert_eq!(got, expected, "{} {:?}", client, op);
        }
        for (conn, peer) in conns.iter_mut().zip(&mut model.peers) {
            prop_assert_eq!(
                conn.answer(),
                peer.answer.take(),
                "after {} {:?}",
                client,
                op
            );
        }
        let waiting = model.peers.iter().filter(|peer| peer.waits.is_some());
        prop_assert_eq!(engine.blocked_clients(), waiting.count());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn interleaved_clients_see_what_the_model_says(
        clients in 2usize..=4,
        steps in prop::collection::vec((0usize..4, op()), 1..80),
    ) {
        check(1, clients, &steps)?;
        check(64, clients, &steps)?;
    }
}

#[test]
fn a_watched_key_that_has_expired_is_a_change_also_when_its_database_is_emptied() {
    for empties in [&["FLUSHALL"][..], &["FLUSHDB"], &["SWAPDB", "0", "1"]] {
        let engine = engine(1);
        let mut conn = Conn::new(&engine);
        conn.call(&["SET", "k", "v", "PX", "10"]);
        conn.call(&["WATCH", "k"]);
        let later = Timestamp::from_millis(NOW.millis() + 20);
        Conn::new(&engine).call_at(empties, later);
        conn.call_at(&["MULTI"], later);
        assert_eq!(
            conn.call_at(&["EXEC"], later),
            Some(Value::NullArray),
            "{empties:?}"
        );
        // One that had expired before it was watched is as good as absent.
        conn.call(&["SET", "k", "v", "PX", "10"]);
        conn.call_at(&["WATCH", "k"], later);
        Conn::new(&engine).call_at(empties, later);
        conn.call_at(&["MULTI"], later);
        assert_eq!(
            conn.call_at(&["EXEC"], later),
            Some(Value::Array(Vec::new())),
            "{empties:?}"
        );
    }
}
