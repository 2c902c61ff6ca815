//! Walks that show a shard as it was when they began, whatever is done to it meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tollgate_containers::hash::{Hash, HashLimits, Keep};
use tollgate_keyspace::{DbIndex, EntryRef, Heir, Loan, Object, Seed, Shard, Value, ValueRef};

use crate::NOW;

const LIMITS: HashLimits = HashLimits {
    max_entries: 8,
    max_value: 64,
    seed: 3,
};

/// Every entry by database and key.
type Content = BTreeMap<(DbIndex, Vec<u8>), (Value, Option<i64>)>;

#[derive(Clone, Debug)]
enum Op {
    Set(u8, u16, u8, Option<i64>),
    SetMany(u8, u16, u16),
    SetHash(u8, u16, i64),
    Remove(u8, u16),
    Discard(u8, u16),
    Lend(u8, u16),
    ReadLoans,
    RemoveMany(u8, u16, u16),
    Append(u8, u16),
    SetField(u8, u16, Option<i64>),
    Expire(u8, u16, Option<i64>),
    Overwrite(u8, u16),
    Get(u8, u16),
    Cycle(u8),
    Scan(u8, u32),
    Random(u8, u64),
    Clear(u8),
    Swap(u8, u8),
    Wait(i64),
    Step(u8),
    Begin,
}

fn op() -> impl Strategy<Value = Op> {
    let db = || 0..3_u8;
    let id = || prop_oneof![2 => 0..64_u16, 3 => 0..900_u16];
    let at = || prop_oneof![2 => Just(None), 2 => (0..200_i64).prop_map(Some), 1 => Just(Some(i64::MAX / 2))];
    prop_oneof![
        8 => (db(), id(), any::<u8>(), at()).prop_map(|(d, k, v, e)| Op::Set(d, k, v, e)),
        4 => (db(), id(), 1..300_u16).prop_map(|(d, k, n)| Op::SetMany(d, k, n)),
        4 => (db(), id(), 0..100_i64).prop_map(|(d, k, e)| Op::SetHash(d, k, e)),
        4 => (db(), id()).prop_map(|(d, k)| Op::Remove(d, k)),
        4 => (db(), id()).prop_map(|(d, k)| Op::Discard(d, k)),
        4 => (db(), id()).prop_map(|(d, k)| Op::Lend(d, k)),
        3 => Just(Op::ReadLoans),
        3 => (db(), id(), 1..300_u16).prop_map(|(d, k, n)| Op::RemoveMany(d, k, n)),
        4 => (db(), id()).prop_map(|(d, k)| Op::Append(d, k)),
        4 => (db(), id(), at()).prop_map(|(d, k, e)| Op::SetField(d, k, e)),
        4 => (db(), id(), at()).prop_map(|(d, k, e)| Op::Expire(d, k, e)),
        4 => (db(), id()).prop_map(|(d, k)| Op::Overwrite(d, k)),
        3 => (db(), id()).prop_map(|(d, k)| Op::Get(d, k)),
        3 => any::<u8>().prop_map(Op::Cycle),
        2 => (db(), any::<u32>()).prop_map(|(d, c)| Op::Scan(d, c)),
        2 => (db(), any::<u64>()).prop_map(|(d, r)| Op::Random(d, r)),
        1 => db().prop_map(Op::Clear),
        1 => (db(), db()).prop_map(|(a, b)| Op::Swap(a, b)),
        3 => (0..60_i64).prop_map(Op::Wait),
        12 => (1..12_u8).prop_map(Op::Step),
        2 => Just(Op::Begin),
    ]
}

/// Short keys and long ones.
fn key(id: u16) -> Vec<u8> {
    match id % 3 {
        0 => format!("a key that does not fit its record {id}").into_bytes(),
        _ => id.to_string().into_bytes(),
    }
}

/// Keeps what it is given, and fails when that is something twice.
#[derive(Default)]
struct Keeper {
    content: Arc<Mutex<Content>>,
    /// Entries after which a step of the walk ends.
    most: usize,
    got: usize,
    /// What is lent: read later, when it may have changed or gone.
    loans: Arc<Mutex<Vec<Loan>>>,
}

impl Heir for Keeper {
    fn take(&mut self, db: DbIndex, entry: EntryRef<'_>) {
        self.got += 1;
        let of = (entry.value().to_value(), entry.expires_at_ms());
        let name = (db, entry.key().to_vec());
        let before = self.content.lock().expect("one thread").insert(name, of);
        assert!(before.is_none(), "taken over twice: {:?}", entry.key());
    }

    fn has_enough(&self) -> bool {
        self.got >= self.most
    }

    fn borrows_from(&self) -> usize {
        // Some of all values that can be lent.
        let taken = self.content.lock().expect("one thread").len();
        if self.most.wrapping_add(taken).is_multiple_of(2) {
            1
        } else {
            usize::MAX
        }
    }

    fn borrow(&mut self, loan: Loan) {
        self.got += 1;
        self.loans.lock().expect("one thread").push(loan);
    }
}

impl Keeper {
    /// Another one that keeps to the same place.
    fn beside(&self) -> Keeper {
        Keeper {
            content: Arc::clone(&self.content),
            loans: Arc::clone(&self.loans),
            ..Keeper::default()
        }
    }
}

struct World {
    seed: Seed,
    shard: Shard,
    now: i64,
    /// What the walk is to show, and what it has shown.
    walk: Option<(Content, Keeper)>,
    walks: usize,
}

impl World {
    fn content(&mut self) -> Content {
        let mut content = Content::new();
        for db in DbIndex::all() {
            let mut cursor = 0;
            loop {
                cursor = self.shard.scan(db, cursor, i64::MIN, &mut |key, entry| {
                    let of = (entry.value().to_value(), entry.expires_at_ms());
                    content.insert((db, key.to_vec()), of);
                });
                if cursor == 0 {
                    break;
                }
            }
        }
        content
    }

    fn begin(&mut self) {
        let (content, keeper) = (self.content(), Keeper::default());
        let begun = self.shard.begin_walk(Box::new(keeper.beside()));
        assert_eq!(begun, !content.is_empty());
        self.walk = begun.then_some((content, keeper));
    }

    fn read_loans(&mut self) {
        let Some((_, keeper)) = &self.walk else {
            return;
        };
        for loan in keeper.loans.lock().expect("one thread").drain(..) {
            // SAFETY: the shard has lent it, and the loan ends below.
            let of = (unsafe { loan.value() }.to_value(), loan.expires_at_ms);
            let name = (loan.db, loan.key.to_vec());
            let before = keeper.content.lock().expect("one thread").insert(name, of);
            assert!(before.is_none(), "taken over twice: {:?}", loan.key);
            drop(self.shard.end_loan(&loan));
        }
    }

    fn step(&mut self, most: usize) {
        let Some((_, keeper)) = &self.walk else {
            return;
        };
        let mut heir = Keeper {
            most,
            ..keeper.beside()
        };
        if self.shard.walk_on(&mut heir) {
            assert!(heir.got <= most.max(64));
            return;
        }
        assert!(self.shard.is_walked());
        self.read_loans();
        let Some((expected, keeper)) = &self.walk else {
            return;
        };
        assert!(!self.shard.has_loans());
        drop(self.shard.end_walk());
        assert!(*keeper.content.lock().expect("one thread") == *expected);
        self.walk = None;
        self.walks += 1;
    }

    fn apply(&mut self, op: &Op) {
        let Self {
            seed, shard, now, ..
        } = self;
        let now = *now;
        let db = |db: u8| DbIndex::new(db.into()).expect("a database");
        let at = |offset: Option<i64>| offset.map(|offset| now.saturating_add(offset));
        match *op {
            Op::Set(d, id, value, expiry) => {
                let text = vec![b'a'; value.into()];
                shard.set_bytes(db(d), seed.key(&key(id)), &text, at(expiry), now);
            }
            Op::SetMany(d, first, count) => {
                for id in first..first + count {
                    shard.set(db(d), seed.key(&key(id)), Value::Int(id.into()), None, now);
                }
            }
            Op::SetHash(d, id, offset) => {
                let mut hash = Hash::default();
                for field in 0..offset % 12 + 1 {
                    let name = field.to_string().into_bytes();
                    hash.set(&name, b"value", Keep::Nothing, &LIMITS);
                    hash.set_expiry(&name, Some(now + offset + field));
                }
                let value = Value::Object(Box::new(Object::Hash(hash)));
                shard.set(db(d), seed.key(&key(id)), value, None, now);
            }
            Op::Remove(d, id) => drop(shard.remove(db(d), seed.key(&key(id)), now)),
            Op::Discard(d, id) => drop(shard.discard(db(d), seed.key(&key(id)), now)),
            Op::Lend(d, id) => {
                let name = key(id);
                if shard.lend(db(d), seed.key(&name), now) {
                    assert!(shard.has_loans() && shard.lend(db(d), seed.key(&name), now));
                }
            }
            Op::ReadLoans => self.read_loans(),
            Op::RemoveMany(d, first, count) => {
                for id in first..first + count {
                    shard.remove(db(d), seed.key(&key(id)), now);
                }
            }
            Op::Append(d, id) => {
                if let Some(mut entry) = shard.get_mut(db(d), seed.key(&key(id)), now)
                    && let Some(mut text) = entry.str_mut()
                {
                    text.append(b"more");
                }
            }
            Op::SetField(d, id, expiry) => {
                if let Some(mut entry) = shard.get_mut(db(d), seed.key(&key(id)), now)
                    && let Some(mut object) = entry.object_mut()
                    && let Object::Hash(hash) = &mut *object
                {
                    hash.set(b"0", b"changed", Keep::Nothing, &LIMITS);
                    hash.set_expiry(b"0", at(expiry));
                }
            }
            Op::Expire(d, id, expiry) => {
                if let Some(mut entry) = shard.get_mut(db(d), seed.key(&key(id)), now) {
                    entry.set_expiry(at(expiry));
                }
            }
            Op::Overwrite(d, id) => {
                let name = key(id);
                let same = match shard.peek(db(d), seed.key(&name), now).map(|e| e.value()) {
                    Some(ValueRef::Bytes(bytes)) => vec![b'z'; bytes.len()],
                    _ => return,
                };
                shard.set_bytes(db(d), seed.key(&name), &same, None, now);
            }
            Op::Get(d, id) => drop(shard.get(db(d), seed.key(&key(id)), now)),
            Op::Cycle(budget) => drop(shard.expire_cycle(now, budget.into())),
            Op::Scan(d, cursor) => {
                shard.scan(db(d), cursor.into(), now, &mut |_, _| {});
            }
            Op::Random(d, bits) => drop(shard.random(db(d), bits, now)),
            Op::Clear(d) => drop(shard.clear(db(d))),
            Op::Swap(a, b) => shard.swap(db(a), db(b)),
            Op::Wait(millis) => self.now += millis,
            Op::Step(most) => self.step(most.into()),
            Op::Begin if self.walk.is_none() => self.begin(),
            Op::Begin => {}
        }
    }

    /// Ends as a walk without further changes does.
    fn finish(&mut self) {
        while self.walk.is_some() {
            self.step(usize::MAX);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 96 }))]

    #[test]
    fn a_walk_shows_what_was_there_when_it_began(
        before in proptest::collection::vec(op(), 1..60),
        ops in proptest::collection::vec(op(), 1..160),
    ) {
        let seed = Seed::new(7);
        let mut world = World { shard: Shard::new(&seed), seed, now: NOW, walk: None, walks: 0 };
        before.iter().for_each(|op| world.apply(op));
        world.finish();
        world.begin();
        ops.iter().for_each(|op| world.apply(op));
        world.finish();
        prop_assert!(!world.shard.is_walked());
        prop_assert_eq!(world.shard.set_aside_bytes(), 0);
    }
}

/// Takes whatever can be lent, and counts what else it is given.
#[derive(Default)]
struct Borrower {
    loans: Arc<Mutex<Vec<Loan>>>,
    kept: Arc<Mutex<usize>>,
}

impl Heir for Borrower {
    fn take(&mut self, _: DbIndex, entry: EntryRef<'_>) {
        panic!("it can be lent: {:?}", entry.key());
    }

    fn borrows_from(&self) -> usize {
        1
    }

    fn borrow(&mut self, loan: Loan) {
        self.loans.lock().expect("one thread").push(loan);
    }

    fn keeps(&mut self, bytes: usize) {
        *self.kept.lock().expect("one thread") += bytes;
    }
}

#[test]
fn a_large_value_that_goes_is_kept_as_it_is() {
    let (seed, mut shard) = crate::shard();
    let text = vec![b'x'; 1 << 20];
    for name in [&b"gone"[..], b"replaced", b"set", b"expired", b"changed"] {
        let expiry = (name == b"expired").then_some(NOW + 1);
        shard.set_bytes(crate::DB, seed.key(name), &text, expiry, NOW);
    }
    let address = |shard: &mut Shard, name: &[u8]| match shard
        .peek(crate::DB, seed.key(name), NOW)
        .map(|entry| entry.value())
    {
        Some(ValueRef::Bytes(bytes)) => bytes.as_ptr(),
        _ => panic!("it is a string"),
    };
    let changed = address(&mut shard, b"changed");
    let heir = Borrower::default();
    let (loans, kept) = (Arc::clone(&heir.loans), Arc::clone(&heir.kept));
    assert!(shard.begin_walk(Box::new(heir)));
    let left = shard.discard(crate::DB, seed.key(b"gone"), NOW);
    assert_eq!(left, Some(Value::Int(0)));
    shard.set_bytes(crate::DB, seed.key(b"replaced"), &text[1..], None, NOW);
    shard.set(crate::DB, seed.key(b"set"), Value::Int(1), None, NOW);
    assert!(
        shard
            .peek(crate::DB, seed.key(b"expired"), NOW + 2)
            .is_none()
    );
    assert!(shard.memory() < 3 << 20, "{}", shard.memory());
    assert!(*kept.lock().expect("one thread") > 4 << 20);
    // What can wait is not copied.
    assert!(shard.lend(crate::DB, seed.key(b"changed"), NOW));
    assert_eq!(address(&mut shard, b"changed"), changed);
    let loans: Vec<Loan> = std::mem::take(&mut *loans.lock().expect("one thread"));
    assert_eq!(loans.len(), 5);
    for loan in loans {
        // SAFETY: the loan ends below.
        let value = unsafe { loan.value() };
        assert!(value == ValueRef::Bytes(&text), "{:?}", loan.key);
        assert_eq!(shard.end_loan(&loan).is_some(), *loan.key != *b"changed");
    }
    assert!(!shard.has_loans() && !shard.lend(crate::DB, seed.key(b"changed"), NOW));
    drop(shard.end_walk());
}

#[test]
fn what_is_lent_of_a_database_outlives_it() {
    let (seed, mut shard) = crate::shard();
    let text = vec![b'x'; 1 << 20];
    shard.set_bytes(crate::DB, seed.key(b"k"), &text, None, NOW);
    let heir = Borrower::default();
    let loans = Arc::clone(&heir.loans);
    assert!(shard.begin_walk(Box::new(heir)));
    assert!(shard.lend(crate::DB, seed.key(b"k"), NOW));
    // The walk has no more to do in the table when it goes.
    while shard.walk_on(&mut Keeper::default()) {}
    shard.clear(crate::DB);
    assert!(shard.set_aside_bytes() > text.len());
    let loan = loans.lock().expect("one thread").pop().expect("it is lent");
    // SAFETY: the loan ends below.
    assert!(unsafe { loan.value() } == ValueRef::Bytes(&text));
    assert!(shard.end_loan(&loan).is_none() && !shard.has_loans());
    drop(shard.end_walk());
    assert_eq!(shard.set_aside_bytes(), 0);
}

#[test]
fn a_walk_that_is_given_up_leaves_nothing() {
    let (seed, mut shard) = crate::shard();
    for id in 0..500 {
        shard.set(crate::DB, seed.key(&key(id)), Value::Int(1), None, NOW);
    }
    let bytes = shard.memory();
    let keeper = Keeper::default();
    assert!(shard.begin_walk(Box::new(keeper.beside())));
    shard.clear(crate::DB);
    assert!(shard.set_aside_bytes() > 0 && shard.memory() < bytes);
    drop(shard.end_walk());
    assert_eq!(shard.set_aside_bytes(), 0);
    shard.set(crate::DB, seed.key(b"new"), Value::Int(1), None, NOW);
    shard.remove(crate::DB, seed.key(b"new"), NOW);
    assert!(keeper.content.lock().expect("one thread").is_empty());
    assert!(!shard.begin_walk(Box::new(keeper)), "there is nothing");
}
