//! The shards and the rule by which they are locked.
//!
//! **Nobody waits for one shard while holding another**, except the holder of the gate. A transaction locks its
//! first shard, tries the rest, and when one is taken it releases all and starts with that one. So a cycle of
//! waiters cannot form, and no global order is needed. Two kinds of work must wait while holding: scripts that may
//! touch keys they did not declare, and transactions that have lost the race too often. They enter the gate
//! first, while holding nothing; since only one of them is inside, and everyone they wait for holds without waiting,
//! they always get on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tollgate_commands::{LockedShards, ShardSet};
use tollgate_keyspace::{DbIndex, Shard};
use tollgate_net::threads;

use crate::cell::{Cell, Cells, ReadyKey};
use crate::lock::{Guard, Lock};
use crate::waiter::{Mail, Wake, put_behind, put_once};

/// Attempts before a shard counts as taken: shorter than most commands, so that two transactions which
/// meet once rarely start over.
const SPINS_MAX: u32 = 40;

/// Lost races before a transaction enters the gate, which bounds its wait.
const ROUNDS_MAX: u32 = 32;

/// Attempts to have all that is wanted at once before it is waited for one shard after the other.
const PATIENCE: u32 = 128;

/// Long commands that are waited for meanwhile: they may overlap without end.
const LONG_WAITS_MAX: u32 = 16;

/// How often who waits for the gate looks whether to give up.
const GATE_WAIT: Duration = Duration::from_millis(1);

/// Times that the processor is given to others before sleeping, and the sleeps of who looks whether a lock is kept.
const YIELDS: u32 = 4;
const PAUSE: Duration = Duration::from_micros(50);

/// Locks held inline before the set moves to the heap.
const INLINE_LOCKS: usize = 16;

/// One shard on its own pair of cache lines (the prefetcher fetches lines in pairs), so that threads working on
/// neighbouring shards do not slow each other down.
#[repr(C, align(128))]
struct Slot {
    cell: Lock<Cell>,
    /// A long command has it locked.
    kept: AtomicBool,
}

/// Bytes of a slot that every command reads: its lock, and the beginning of its cell.
const HOT: usize = size_of::<usize>() + Cell::HOT;

const _: () = assert!(
    HOT <= 3 * 64 && align_of::<Cell>() <= size_of::<usize>(),
    "what every command reads lies on three cache lines: the lock stands right before the cell"
);

/// Who waits for the end of long commands: connections, and threads of the service in this process.
#[derive(Default)]
struct PutOff {
    mails: Vec<Arc<dyn Mail>>,
    wakes: Vec<Arc<Wake>>,
}

/// All shards of the store.
pub(crate) struct Shards {
    slots: Box<[Slot]>,
    gate: Mutex<()>,
    /// A long command is inside the gate.
    gate_kept: AtomicBool,
    /// Sets of locks that long commands hold.
    keepers: AtomicUsize,
    /// Those who may come to wait for any shard on a thread that serves connections: long commands let them finish.
    visits: AtomicUsize,
    /// Who is to be told when one of them has ended.
    put_off: Mutex<PutOff>,
    /// Expired keys are wanted of every cell. Those that a long command holds are told by it, when it ends.
    hears_expired: AtomicBool,
}

impl Shards {
    /// `count` empty shards; a power of two.
    pub(crate) fn new(count: usize, mut make: impl FnMut() -> Shard) -> Shards {
        assert!(
            count.is_power_of_two(),
            "the number of shards is a power of two"
        );
        Shards {
            slots: (0..count)
                .map(|_| Slot {
                    cell: Lock::new(Cell::new(make())),
                    kept: AtomicBool::new(false),
                })
                .collect(),
            gate: Mutex::new(()),
            gate_kept: AtomicBool::new(false),
            keepers: AtomicUsize::new(0),
            visits: AtomicUsize::new(0),
            put_off: Mutex::default(),
            hears_expired: AtomicBool::new(false),
        }
    }

    /// Tells all cells whether expired keys are wanted of each. Those that long commands hold hear of it when these end.
    pub(crate) fn hear_expired(&self, on: bool, mut held: Option<&mut LockSet<'_>>) {
        self.hears_expired.store(on, Ordering::SeqCst);
        for index in 0..self.count() {
            match &mut held {
                Some(held) if held.position(index).is_ok() => self.follow(held.cell(index)),
                _ => {
                    if let Some(mut cell) = self.lock_unless_kept(index) {
                        self.follow(&mut cell);
                    }
                }
            }
        }
    }

    /// Read for each cell: what is set last holds, also when several threads set it.
    pub(crate) fn follow(&self, cell: &mut Cell) {
        if !cell.is_heard() {
            cell.track_expired(self.hears_expired.load(Ordering::SeqCst));
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Waits for one shard. The caller holds no other, or holds the gate.
    #[inline]
    pub(crate) fn lock(&self, index: usize) -> Guard<'_, Cell> {
        self.slots[index].cell.lock()
    }

    /// As [`Shards::lock`], until the caller `gives_up`.
    pub(crate) fn lock_unless(
        &self,
        index: usize,
        gives_up: impl Fn() -> bool,
    ) -> Option<Guard<'_, Cell>> {
        self.slots[index].cell.lock_unless(gives_up)
    }

    /// Takes a shard unless somebody keeps it for longer than a few operations.
    pub(crate) fn try_lock(&self, index: usize) -> Option<Guard<'_, Cell>> {
        for _ in 0..SPINS_MAX {
            if let Some(guard) = self.slots[index].cell.try_lock() {
                return Some(guard);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Takes a shard if it is free at this moment.
    #[inline]
    pub(crate) fn try_lock_once(&self, index: usize) -> Option<Guard<'_, Cell>> {
        self.slots[index].cell.try_lock()
    }

    /// Takes a shard unless a long command has it, or comes to have it while this waits.
    #[inline]
    pub(crate) fn lock_unless_kept(&self, index: usize) -> Option<Guard<'_, Cell>> {
        let slot = &self.slots[index];
        slot.cell.lock_unless(|| slot.kept.load(Ordering::SeqCst))
    }

    /// Enters the gate unless a long command is inside, or comes to be while this waits; no shard is held.
    pub(crate) fn lock_gate_unless_kept(&self) -> Option<LockSet<'_>> {
        Some(self.empty_set(Some(self.enter_unless_kept()?)))
    }

    /// As [`Shards::lock_gate_unless_kept`], and nothing else is held by a long command either, nor will be before this
    /// one leaves: who is inside may wait for any shard.
    pub(crate) fn lock_gate_alone(&self) -> Option<LockSet<'_>> {
        let visit = self.visit()?;
        let mut inside = self.lock_gate_unless_kept()?;
        inside.visit = Some(visit);
        Some(inside)
    }

    /// Keeps long commands from beginning until it is dropped; `None`: one runs.
    pub(crate) fn visit(&self) -> Option<Visit<'_>> {
        self.visits.fetch_add(1, Ordering::SeqCst);
        let visit = Visit(&self.visits);
        // Long commands announce themselves before they look for visits: this sees them, or they wait for this.
        (self.keepers.load(Ordering::SeqCst) == 0).then_some(visit)
    }

    fn enter_unless_kept(&self) -> Option<MutexGuard<'_, ()>> {
        unless(|| self.is_gate_kept(), || self.gate.try_lock())
    }

    /// Asks for the cache lines that every command on a shard reads.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        let slot = &raw const self.slots[index];
        tollgate_keyspace::prefetch_lines(slot.cast(), HOT);
    }

    /// A set that holds nothing.
    pub(crate) fn lock_none(&self) -> LockSet<'_> {
        self.empty_set(None)
    }

    fn empty_set<'e>(&'e self, gate: Option<MutexGuard<'e, ()>>) -> LockSet<'e> {
        LockSet {
            shards: self,
            held: SmallVec::new(),
            ready: Vec::new(),
            gate,
            visit: None,
            kept: false,
        }
    }

    /// Locks the shards in `wanted` (ascending, each once) by the lock rule.
    pub(crate) fn lock_set(&self, wanted: &[usize]) -> LockSet<'_> {
        let mut set = self.lock_none();
        set.lock(wanted);
        set
    }

    /// The same for a long command: all that is held is marked.
    pub(crate) fn keep_set(&self, wanted: &[usize]) -> LockSet<'_> {
        let mut set = self.lock_none();
        set.keep_after_visits();
        set.lock(wanted);
        set
    }

    /// Enters the gate for a long command, with no shard held, unless it `gives_up` before.
    fn keep_gate(&self, gives_up: impl Fn() -> bool) -> Option<LockSet<'_>> {
        let gate = loop {
            match self.gate.try_lock_for(GATE_WAIT) {
                Some(gate) => break gate,
                None if gives_up() => return None,
                None => {}
            }
        };
        let mut set = self.empty_set(Some(gate));
        set.keep_after_visits();
        Some(set)
    }

    /// As [`Shards::lock_set`] unless a long command has one of them, or comes to have it while this waits.
    pub(crate) fn lock_set_unless_kept(&self, wanted: &[usize]) -> Option<LockSet<'_>> {
        let mut set = self.lock_none();
        let mut first = 0;
        for round in 1.. {
            let waited = match wanted.get(first) {
                Some(&start) => self.lock_unless_kept(start)?,
                None => return Some(set),
            };
            match set.try_rest(wanted, first, waited) {
                Ok(()) => return Some(set),
                Err(taken) => first = taken,
            }
            if round >= ROUNDS_MAX
                && let Some(mut inside) = self.lock_gate_unless_kept()
            {
                let all = wanted.iter().all(|&one| inside.acquire_unless_kept(one));
                return all.then_some(inside);
            }
        }
        unreachable!("rounds have no end")
    }

    /// Enters the gate with no shard held.
    pub(crate) fn lock_gate(&self) -> LockSet<'_> {
        self.empty_set(Some(self.gate.lock()))
    }

    /// Locks every shard, and holds none while it waits for another, unless that takes too many attempts: so long commands
    /// hold up nobody but the caller, and those who need the gate.
    pub(crate) fn lock_all_patiently(&self) -> LockSet<'_> {
        let wanted: Vec<usize> = (0..self.count()).collect();
        self.keep_gate_and(&wanted, || false)
            .expect("it does not give up")
    }

    /// Enters the gate for a long command and locks `wanted` (ascending, each once) as patiently, unless it `gives_up` before.
    /// What it holds is not marked yet.
    fn keep_gate_and(&self, wanted: &[usize], gives_up: impl Fn() -> bool) -> Option<LockSet<'_>> {
        let mut set = self.keep_gate(&gives_up)?;
        let (mut first, mut long_waits) = (0, 0);
        for _ in 0..PATIENCE {
            match set.try_all_unless(wanted, first, &gives_up)? {
                Ok(()) => return Some(set),
                Err(taken) => first = taken,
            }
            long_waits += u32::from(self.is_kept(wanted[first]));
            if long_waits > LONG_WAITS_MAX {
                break;
            }
        }
        for &index in wanted {
            if let Err(position) = set.position(index) {
                set.add(position, index, self.lock_unless(index, &gives_up)?);
            }
        }
        Some(set)
    }

    /// Locks every shard.
    pub(crate) fn lock_all(&self) -> LockSet<'_> {
        let mut set = self.lock_gate();
        set.add_all();
        set
    }

    /// The same for a long command, which waits patiently until it `gives_up`.
    pub(crate) fn keep_all_unless(&self, gives_up: impl Fn() -> bool) -> Option<LockSet<'_>> {
        let wanted: Vec<usize> = (0..self.count()).collect();
        let set = self.keep_gate_and(&wanted, gives_up)?;
        set.mark(true);
        Some(set)
    }

    /// Enters the gate for a long command and locks `wanted` (ascending, each once); while it waits for another long one it
    /// holds up nobody who does not want the same.
    pub(crate) fn keep_gate_with(&self, wanted: &[usize]) -> LockSet<'_> {
        let set = self
            .keep_gate_and(wanted, || false)
            .expect("it does not give up");
        set.mark(true);
        set
    }

    /// The same unless long commands run.
    pub(crate) fn lock_all_unless_kept(&self) -> Option<LockSet<'_>> {
        let mut set = self.lock_gate_alone()?;
        set.add_all();
        Some(set)
    }
}

/// Tries until it has what is wanted; `None` once a long command has it.
pub(crate) fn unless<T>(
    is_kept: impl Fn() -> bool,
    mut take: impl FnMut() -> Option<T>,
) -> Option<T> {
    let mut pauses = 0;
    loop {
        if let Some(taken) = take() {
            return Some(taken);
        }
        if is_kept() {
            return None;
        }
        match pauses {
            0..YIELDS => std::thread::yield_now(),
            _ => threads::stand_still(PAUSE),
        }
        pauses += 1;
    }
}

/// Locks that long commands hold. Waiting for one would stop all connections of a thread, so commands of clients look
/// at the marks first and are put off. A mark that is set or cleared a moment too late costs time and nothing else.
impl Shards {
    /// Whether a long command holds locks.
    #[inline]
    pub(crate) fn are_kept(&self) -> bool {
        self.keepers.load(Ordering::Relaxed) > 0
    }

    /// Whether a long command holds the shard.
    pub(crate) fn is_kept(&self, index: usize) -> bool {
        self.slots[index].kept.load(Ordering::SeqCst)
    }

    /// Whether a long command is inside the gate.
    pub(crate) fn is_gate_kept(&self) -> bool {
        self.gate_kept.load(Ordering::SeqCst)
    }

    /// Has `mail` told when a long command has ended; false when none is running any more.
    pub(crate) fn put_off(&self, mail: &Arc<dyn Mail>) -> bool {
        let mut put_off = self.put_off.lock();
        // Under the lock, so that whoever ends now finds the entry.
        if self.keepers.load(Ordering::SeqCst) == 0 {
            return false;
        }
        put_behind(&mut put_off.mails, mail);
        true
    }

    /// Has `wake` called when a long command has ended; false when none is running any more, and nothing is called.
    pub(crate) fn when_freed(&self, wake: &Arc<Wake>) -> bool {
        let mut put_off = self.put_off.lock();
        if self.keepers.load(Ordering::SeqCst) == 0 {
            return false;
        }
        put_once(&mut put_off.wakes, wake);
        true
    }

    /// Tells all who were put off to try again.
    pub(crate) fn call_back(&self) {
        let put_off = std::mem::take(&mut *self.put_off.lock());
        for mail in put_off.mails {
            mail.try_again();
        }
        for wake in put_off.wakes {
            wake();
        }
    }
}

/// While it lives no long command begins; dropped soon.
pub struct Visit<'e>(&'e AtomicUsize);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Shards held together, in ascending order; released when dropped.
pub(crate) struct LockSet<'e> {
    shards: &'e Shards,
    held: SmallVec<[(usize, Guard<'e, Cell>); INLINE_LOCKS]>,
    /// Keys that became ready under these locks.
    ready: Vec<ReadyKey>,
    // Declared after `held`: the gate opens when the shards are free.
    gate: Option<MutexGuard<'e, ()>>,
    visit: Option<Visit<'e>>,
    /// A long command holds them: all are marked.
    kept: bool,
}

impl<'e> LockSet<'e> {
    /// Locks `wanted` (ascending, each once) by the lock rule; the set holds nothing before.
    fn lock(&mut self, wanted: &[usize]) {
        debug_assert!(wanted.windows(2).all(|pair| pair[0] < pair[1]));
        let mut first = 0;
        for round in 1.. {
            match self.try_all(wanted, first) {
                Ok(()) => break,
                Err(taken) => first = taken,
            }
            // What is long stays inside the gate for as long as it takes.
            if round >= ROUNDS_MAX
                && let Some(gate) = self.shards.enter_unless_kept()
            {
                self.gate = Some(gate);
                self.extend(wanted);
                break;
            }
        }
        if self.kept {
            self.mark(true);
        }
    }

    /// Adds every shard to a set that holds the gate and nothing else.
    fn add_all(&mut self) {
        self.held.reserve(self.shards.count());
        for index in 0..self.shards.count() {
            self.held.push((index, self.shards.lock(index)));
        }
    }

    /// One round: waits for `wanted[first]` and tries the rest. On failure holds nothing and names the position of the
    /// shard that was taken.
    fn try_all(&mut self, wanted: &[usize], first: usize) -> Result<(), usize> {
        self.try_all_unless(wanted, first, || false)
            .expect("it does not give up")
    }

    /// The same until it `gives_up`.
    fn try_all_unless(
        &mut self,
        wanted: &[usize],
        first: usize,
        gives_up: impl Fn() -> bool,
    ) -> Option<Result<(), usize>> {
        self.held.clear();
        let Some(&start) = wanted.get(first) else {
            return Some(Ok(()));
        };
        let waited = self.shards.lock_unless(start, gives_up)?;
        Some(self.try_rest(wanted, first, waited))
    }

    /// Tries the shards beside `wanted[first]`, which was waited for. The set holds nothing before.
    fn try_rest(
        &mut self,
        wanted: &[usize],
        first: usize,
        waited: Guard<'e, Cell>,
    ) -> Result<(), usize> {
        let mut waited = Some(waited);
        for (position, &index) in wanted.iter().enumerate() {
            let guard = if position == first {
                waited.take()
            } else {
                self.shards.try_lock(index)
            };
            match guard {
                Some(guard) => self.held.push((index, guard)),
                None => {
                    self.held.clear();
                    return Err(position);
                }
            }
        }
        Ok(())
    }

    /// Adds shards to a set that holds the gate, waiting for each.
    pub(crate) fn extend(&mut self, wanted: &[usize]) {
        debug_assert!(self.gate.is_some());
        for &index in wanted {
            if let Err(position) = self.position(index) {
                self.add(position, index, self.shards.lock(index));
            }
        }
    }

    fn position(&self, index: usize) -> Result<usize, usize> {
        if self.held.len() <= INLINE_LOCKS {
            // Counting them all is faster than branches that nobody can predict.
            let position = self.held.iter().filter(|(held, _)| *held < index).count();
            return match self.held.get(position) {
                Some((held, _)) if *held == index => Ok(position),
                _ => Err(position),
            };
        }
        self.held.binary_search_by_key(&index, |(held, _)| *held)
    }

    /// Marks all that is held, now and later, as held by a long command.
    pub(crate) fn keep(&mut self) {
        if std::mem::replace(&mut self.kept, true) {
            return;
        }
        self.shards.keepers.fetch_add(1, Ordering::SeqCst);
        self.mark(true);
    }

    /// Announces a long command, which holds no shard yet, and waits until those are done who visit.
    fn keep_after_visits(&mut self) {
        self.keep();
        let visits = &self.shards.visits;
        unless(
            || false,
            || (visits.load(Ordering::SeqCst) == 0).then_some(()),
        );
    }

    fn mark(&self, kept: bool) {
        for (index, _) in &self.held {
            self.shards.slots[*index]
                .kept
                .store(kept, Ordering::Relaxed);
        }
        if self.gate.is_some() {
            self.shards.gate_kept.store(kept, Ordering::SeqCst);
        }
    }

    /// Adds a lock.
    fn add(&mut self, position: usize, index: usize, guard: Guard<'e, Cell>) {
        if self.kept {
            self.shards.slots[index].kept.store(true, Ordering::Relaxed);
        }
        self.held.insert(position, (index, guard));
    }

    /// True when the set may wait for further shards.
    pub(crate) fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// A held cell.
    pub(crate) fn held_cell(&self, index: usize) -> &Cell {
        let position = self
            .position(index)
            .expect("the shards of all keys of the command are held");
        &self.held[position].1
    }
}

impl Drop for LockSet<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.kept {
            self.end_keeping();
        }
    }
}

impl LockSet<'_> {
    #[cold]
    fn end_keeping(&mut self) {
        self.mark(false);
        // Who has seen a mark until now has left it to this to tell the cell.
        fence(Ordering::SeqCst);
        for (_, cell) in &mut self.held {
            self.shards.follow(cell);
        }
        self.held.clear();
        self.gate = None;
        self.shards.keepers.fetch_sub(1, Ordering::SeqCst);
        self.shards.call_back();
    }
}

impl Cells for LockSet<'_> {
    fn cell(&mut self, index: usize) -> &mut Cell {
        let position = self
            .position(index)
            .expect("the shards of all keys of the command are held");
        &mut self.held[position].1
    }

    /// Adds shard `index` if the rule allows: by waiting with the gate, by trying without. False when the shard is
    /// taken and the set may not wait for it.
    fn acquire(&mut self, index: usize) -> bool {
        let Err(position) = self.position(index) else {
            return true;
        };
        let guard = if self.gate.is_some() {
            Some(self.shards.lock(index))
        } else {
            self.shards.try_lock(index)
        };
        match guard {
            Some(guard) => {
                self.add(position, index, guard);
                true
            }
            None => false,
        }
    }

    fn acquire_unless_kept(&mut self, index: usize) -> bool {
        if self.gate.is_none() {
            return self.acquire(index);
        }
        let Err(position) = self.position(index) else {
            return true;
        };
        let guard = self.shards.lock_unless_kept(index);
        guard.is_some_and(|guard| {
            self.add(position, index, guard);
            true
        })
    }

    fn each(&mut self, f: &mut dyn FnMut(usize, &mut Cell)) {
        for (index, guard) in &mut self.held {
            f(*index, guard);
        }
    }

    fn is_heard(&self) -> bool {
        self.held.iter().any(|(_, guard)| guard.is_heard())
    }

    fn shard_set(&mut self, count: usize) -> ShardSet<'_> {
        ShardSet::many(self, count)
    }

    fn ready(&mut self) -> &mut Vec<ReadyKey> {
        &mut self.ready
    }
}

impl LockedShards for LockSet<'_> {
    /// The holder of the gate gets shards that it does not hold yet: keys that only the handler knows of.
    fn shard(&mut self, index: usize) -> &mut Shard {
        let position = self.position(index).unwrap_or_else(|position| {
            assert!(
                self.gate.is_some(),
                "the shards of all keys of the command are held"
            );
            self.add(position, index, self.shards.lock(index));
            position
        });
        &mut self.held[position].1
    }

    fn look(&self, index: usize) -> &Shard {
        let position = self
            .position(index)
            .expect("the shards of all keys of the command are held");
        &self.held[position].1
    }

    fn leased(&self, index: usize, db: DbIndex, key: &[u8]) -> u64 {
        self.held_cell(index).leased(db, key)
    }
}
