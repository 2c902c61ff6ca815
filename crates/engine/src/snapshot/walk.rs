//! Snapshots of one moment, taken while commands run on.
//!
//! A snapshot begins with all shards held for as long as it takes to mark them: that is its moment. Then a walk copies the
//! entries, about a bucket at a time with its shard held, and writes them with no shard held. A command that changes an
//! entry which the walk has not got to hands over what it was first ([`Heir`]); a large value is lent (`lending`). So what is
//! written is the data of that moment, and nobody waits for the disk.
//!
//! What was handed over and is not written yet is in memory. Above [`HANDED_MAX`] bytes commands that write are put off
//! until the walk has written half of it: with a slow disk and many writers, writing goes on at the speed of the disk.
//! Nothing is handed over twice, so this ends at the latest with the walk. If the disk stands still for [`STUCK_SECS`],
//! the snapshot fails and commands go on.
//!
//! One snapshot is taken at a time.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tollgate_commands::gate::Restrictions;
use tollgate_keyspace::{DATABASES, DbIndex, EntryRef, Heir, Loan};
use tollgate_limiter::Timestamp;
use tollgate_persist::rdb::{Dialect, History, Options, Writer};

use super::about;
use super::batch::{Batch, Form, Sheet};
use super::lending::{Lending, Loans};
use crate::cell::Cells;
use crate::shards::LockSet;
use crate::waiter::{Mail, put_behind};
use crate::{Engine, Session};

/// Bytes that were handed over and not written: above, commands that write are put off. One command, and decisions of the
/// service, may exceed it.
const HANDED_MAX: u64 = 64 << 20;

/// Seconds without progress after which a snapshot that others wait for is given up.
pub const STUCK_SECS: i64 = 30;

/// Bytes that a walk copies while it holds a shard, unless one entry has more.
const STEP_BYTES: usize = 32 << 10;

/// Bytes of an entry from which the walk reads its value without holding its shard.
const LARGE_BYTES: usize = 256 << 10;

/// Most bytes that one value counts which is kept for the walk alone: it was in memory before, and one or two are not to put
/// off others.
const KEPT_MAX: u64 = HANDED_MAX / 4;

/// Bytes that a shard keeps to itself of what was handed over.
const PIECE_BYTES: u64 = 16 << 10;

/// How long one that waits for another snapshot does so before it is asked again.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// For what a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A file.
    Save,
    /// A replica.
    Replica,
    /// The base of the append-only file.
    Base,
}

/// What is known of the snapshot that is being taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotProgress {
    /// For what it is; `None`: there is none.
    pub purpose: Option<Purpose>,
    /// Entries written.
    pub entries: u64,
    /// Entries when it began.
    pub all_entries: u64,
    /// Bytes that were handed over and are not written yet.
    pub handed_bytes: u64,
    /// Most bytes of those since it began.
    pub handed_peak_bytes: u64,
}

/// Why a snapshot was not written.
#[derive(Debug)]
pub enum SnapshotError {
    /// Of the output.
    Io(io::Error),
    /// It was asked to stop.
    Stopped,
    /// The output stood still while commands waited for it.
    Stuck,
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        SnapshotError::Io(error)
    }
}

impl From<SnapshotError> for io::Error {
    fn from(error: SnapshotError) -> io::Error {
        match error {
            SnapshotError::Io(error) => error,
            SnapshotError::Stopped => io::Error::other("it was stopped"),
            SnapshotError::Stuck => io::Error::new(io::ErrorKind::TimedOut, "the disk stood still"),
        }
    }
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SnapshotError::Io(error) => error.fmt(f),
            SnapshotError::Stopped => f.write_str("it was stopped"),
            SnapshotError::Stuck => f.write_str("the disk stood still"),
        }
    }
}

/// Bytes that were handed over and not written yet, and the most since the snapshot began.
#[derive(Default)]
struct Gauge {
    handed: AtomicU64,
    peak: AtomicU64,
    /// The snapshot is given up: commands waited for the disk for too long.
    stuck: AtomicBool,
}

/// What an engine knows of snapshots.
#[derive(Default)]
pub(crate) struct Snapshots {
    current: Mutex<Option<Purpose>>,
    free: Condvar,
    /// The one at work is not wanted any more.
    stop: AtomicBool,
    /// None is wanted.
    ending: AtomicBool,
    /// All databases were emptied by a command.
    flushed: AtomicBool,
    entries: AtomicU64,
    all_entries: AtomicU64,
    gauge: Arc<Gauge>,
    /// Connections whose commands are put off, while there are too many bytes.
    put_off: Mutex<Vec<Arc<dyn Mail>>>,
    pub(super) lending: Lending,
    /// Of the last look at a walk that others wait for: what it had written, and when, in monotone seconds.
    seen: (AtomicU64, AtomicI64),
}

impl Snapshots {
    /// The right to take a snapshot; waits for that of others for as long as `waits` says.
    fn claim(&self, purpose: Purpose, waits: &mut dyn FnMut() -> bool) -> Result<(), Purpose> {
        let mut current = self.current.lock();
        while let Some(other) = *current {
            if !MutexGuard::unlocked(&mut current, &mut *waits) {
                return Err(other);
            }
            if current.is_some() {
                self.free.wait_for(&mut current, LOOK);
            }
        }
        *current = Some(purpose);
        self.stop.store(false, Ordering::Relaxed);
        self.gauge.stuck.store(false, Ordering::Relaxed);
        self.lending.goes_on(false);
        // The first look at it tells when the time begins.
        self.seen.0.store(u64::MAX, Ordering::Relaxed);
        let Gauge { handed, peak, .. } = &*self.gauge;
        for counter in [&self.entries, &self.all_entries, handed, peak] {
            counter.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn release(&self) {
        *self.current.lock() = None;
        self.free.notify_all();
    }

    fn is_over(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.stop) || is_set(&self.gauge.stuck) || is_set(&self.ending)
    }
}

/// What the shards hand over of one snapshot.
struct Handed {
    engine: Weak<Engine>,
    gauge: Arc<Gauge>,
    form: Form,
    /// Entries that have expired before are left out, Unix milliseconds.
    now_ms: i64,
    /// Bytes that a shard keeps to itself.
    piece: u64,
    queue: Mutex<VecDeque<Batch>>,
    loans: Loans,
    /// Nobody reads the queue any more.
    closed: AtomicBool,
}

impl Handed {
    /// Nobody will read what is handed over: the snapshot has ended, or fails as soon as its output lets it.
    fn is_of_no_use(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || self.gauge.stuck.load(Ordering::Relaxed)
    }

    /// Whether the entry is of the snapshot at all.
    fn wants(&self, entry: EntryRef<'_>) -> bool {
        self.is_of_now(entry.expires_at_ms())
    }

    /// Whether an entry that expires then is.
    fn is_of_now(&self, expires_at_ms: Option<i64>) -> bool {
        expires_at_ms.is_none_or(|at| at >= self.now_ms)
    }

    /// Counts bytes that were copied for the walk.
    fn count(&self, bytes: u64) {
        let handed = self.gauge.handed.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.gauge.peak.fetch_max(handed, Ordering::Relaxed);
        if handed > HANDED_MAX
            && let Some(engine) = self.engine.upgrade()
            && !engine.restrictions().contains(Restrictions::CROWDED)
        {
            engine.crowd(true);
        }
    }
}

/// Takes over the entries of one shard that change before the walk gets to them.
struct ShardHeir {
    handed: Arc<Handed>,
    shard: usize,
    batch: Batch,
}

impl ShardHeir {
    fn hand_on(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Batch::new(self.handed.form));
        if batch.entries() > 0 && !self.handed.closed.load(Ordering::Relaxed) {
            self.handed.queue.lock().push_back(batch);
        }
    }
}

impl Heir for ShardHeir {
    fn take(&mut self, db: DbIndex, entry: EntryRef<'_>) {
        if self.handed.is_of_no_use() || !self.handed.wants(entry) {
            return;
        }
        let before = self.batch.len();
        self.batch.add(db, entry);
        self.handed.count((self.batch.len() - before) as u64);
        if self.batch.len() as u64 >= self.handed.piece {
            self.hand_on();
        }
    }

    fn borrows_from(&self) -> usize {
        match self.handed.is_of_no_use() {
            true => usize::MAX,
            false => LARGE_BYTES,
        }
    }

    fn borrow(&mut self, loan: Loan) {
        self.handed.loans.lock().push_back((self.shard, loan));
    }

    fn keeps(&mut self, bytes: usize) {
        self.handed.count(KEPT_MAX.min(bytes as u64));
    }
}

impl Drop for ShardHeir {
    fn drop(&mut self) {
        self.hand_on();
    }
}

/// What the walk takes with a shard held.
struct Step<'a> {
    handed: &'a Handed,
    batch: &'a mut Batch,
    /// Entries seen, and after how many the step ends.
    seen: usize,
    most: usize,
    /// The last entry, if its value is to be read when the shard is not held any more.
    loan: Option<Loan>,
}

impl Heir for Step<'_> {
    fn take(&mut self, db: DbIndex, entry: EntryRef<'_>) {
        self.seen += 1;
        if self.handed.wants(entry) {
            self.batch.add(db, entry);
        }
    }

    fn has_enough(&self) -> bool {
        self.seen >= self.most || self.batch.len() >= STEP_BYTES
    }

    fn borrows_from(&self) -> usize {
        LARGE_BYTES
    }

    fn borrow(&mut self, loan: Loan) {
        self.seen += 1;
        self.loan = Some(loan);
    }
}

/// A snapshot that has begun: the data of that moment. They are kept for it until it is written or dropped.
pub struct Snapshot {
    engine: Arc<Engine>,
    handed: Arc<Handed>,
    libraries: Vec<Arc<[u8]>>,
    sizes: Vec<(DbIndex, usize, usize)>,
    about: Vec<(String, String)>,
    /// Shards before this one are done with.
    next: usize,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("form", &self.handed.form)
            .field("shard", &self.next)
            .finish_non_exhaustive()
    }
}

/// How a snapshot is to be.
pub(crate) struct Wanted<'w> {
    pub(crate) purpose: Purpose,
    pub(crate) form: Form,
    /// What has expired at that time is left out.
    pub(crate) now: Timestamp,
    /// Whether to wait for another one to end; asked before, and about once a second.
    pub(crate) waits: &'w mut dyn FnMut() -> bool,
}

impl Engine {
    /// Begins a snapshot for a file, unless another one is being taken: the data are those of now, and it says where they
    /// are in the history if others may go on from there. Else entries that have expired are left out. No shard is held.
    ///
    /// # Errors
    ///
    /// What the other one is for.
    pub fn begin_save(self: &Arc<Self>, now: Timestamp) -> Result<Snapshot, Purpose> {
        self.begin_file(now, &mut || false)
    }

    /// As [`Engine::begin_save`]; when the other one has ended while it `waits`.
    pub(super) fn begin_file(
        self: &Arc<Self>,
        now: Timestamp,
        waits: &mut dyn FnMut() -> bool,
    ) -> Result<Snapshot, Purpose> {
        let from = self.lapsed_before(now);
        let wanted = Wanted {
            purpose: Purpose::Save,
            form: Form::Rdb(Dialect::Redis),
            now: from,
            waits,
        };
        let begun = self.begin_snapshot(wanted, |_| self.history());
        begun.map(|(mut snapshot, history)| {
            // The journal may have been opened since.
            if let Some(history) = history.filter(|_| from != now) {
                snapshot.say_history(&history);
            }
            snapshot
        })
    }

    /// Begins a snapshot, and runs `at` at its moment, all shards held. No shard is held before and afterwards.
    pub(crate) fn begin_snapshot<R>(
        self: &Arc<Self>,
        wanted: Wanted<'_>,
        at: impl FnOnce(&mut LockSet<'_>) -> R,
    ) -> Result<(Snapshot, R), Purpose> {
        self.snapshots.claim(wanted.purpose, wanted.waits)?;
        let handed = Arc::new(Handed {
            engine: Arc::downgrade(self),
            gauge: Arc::clone(&self.snapshots.gauge),
            form: wanted.form,
            now_ms: wanted.now.millis(),
            piece: PIECE_BYTES.min(HANDED_MAX / 4 / self.shards.count() as u64),
            queue: Mutex::default(),
            loans: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let mut snapshot = Snapshot {
            engine: Arc::clone(self),
            handed,
            libraries: Vec::new(),
            sizes: Vec::new(),
            about: about(wanted.now)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            next: 0,
        };
        // Nobody loads functions meanwhile, whose change and record are two steps.
        let (mut held, _order) = self.lock_all_and_functions();
        let mut sizes = [(0, 0); DATABASES];
        held.each(&mut |shard, cell| {
            for db in DbIndex::all() {
                sizes[db.get()].0 += cell.len(db);
                sizes[db.get()].1 += cell.expiring(db);
            }
            cell.begin_walk(Box::new(ShardHeir {
                handed: Arc::clone(&snapshot.handed),
                shard,
                batch: Batch::new(wanted.form),
            }));
        });
        let result = at(&mut held);
        snapshot.libraries = self.function_codes();
        drop(held);
        snapshot.sizes = DbIndex::all()
            .zip(sizes)
            .map(|(db, (keys, expiring))| (db, keys, expiring))
            .collect();
        let all: usize = sizes.iter().map(|size| size.0).sum();
        self.snapshots
            .all_entries
            .store(all as u64, Ordering::Relaxed);
        Ok((snapshot, result))
    }

    /// Locks every shard and the order of changes of functions. The latter is not held while a long command is waited for:
    /// who changes functions would wait for it too, on a thread that serves connections.
    fn lock_all_and_functions(&self) -> (LockSet<'_>, MutexGuard<'_, ()>) {
        loop {
            let held = self.shards.lock_all_patiently();
            if let Some(order) = self.functions.try_hold_order() {
                return (held, order);
            }
            // Whoever has it may want a shard next.
            drop(held);
            drop(self.functions.hold_order());
        }
    }

    /// What is known of the snapshot that is being taken.
    pub fn snapshot_progress(&self) -> SnapshotProgress {
        let snapshots = &self.snapshots;
        let Some(purpose) = *snapshots.current.lock() else {
            return SnapshotProgress::default();
        };
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SnapshotProgress {
            purpose: Some(purpose),
            entries: number(&snapshots.entries),
            all_entries: number(&snapshots.all_entries),
            handed_bytes: number(&snapshots.gauge.handed),
            handed_peak_bytes: number(&snapshots.gauge.peak),
        }
    }

    /// Stops the snapshot that is being taken, if it is for that.
    pub fn stop_snapshot(&self, purpose: Purpose) {
        let current = self.snapshots.current.lock();
        if *current == Some(purpose) {
            self.snapshots.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Stops the snapshot that is being taken and those that are begun later, until that is taken back: the server ends.
    pub fn refuse_snapshots(&self, refuse: bool) {
        self.snapshots.ending.store(refuse, Ordering::Relaxed);
    }

    /// Whether the snapshot that is being taken is not wanted any more.
    pub fn snapshot_is_over(&self) -> bool {
        self.snapshots.is_over()
    }

    /// All databases were emptied: a file of what there was before is of no use.
    pub(crate) fn flushed_all(&self) {
        self.stop_snapshot(Purpose::Save);
        self.snapshots.flushed.store(true, Ordering::Relaxed);
    }

    /// Whether all databases were emptied by a command since the last call.
    pub fn take_flushed_all(&self) -> bool {
        self.snapshots.flushed.swap(false, Ordering::Relaxed)
    }

    /// To be called about once a second, with a monotone time: gives up a snapshot whose output stands still while
    /// commands wait for it.
    pub fn tend_snapshot(&self, now_secs: i64) {
        let snapshots = &self.snapshots;
        let (written, since) = (&snapshots.seen.0, &snapshots.seen.1);
        let entries = snapshots.entries.load(Ordering::Relaxed);
        snapshots.lending.tend(entries);
        let crowded = self.restrictions().contains(Restrictions::CROWDED);
        if !crowded || written.swap(entries, Ordering::Relaxed) != entries {
            since.store(now_secs, Ordering::Relaxed);
        } else if now_secs - since.load(Ordering::Relaxed) >= STUCK_SECS {
            snapshots.gauge.stuck.store(true, Ordering::Relaxed);
            self.crowd(false);
        }
    }

    /// Puts off commands that write, or lets them go on.
    #[cold]
    fn crowd(&self, on: bool) {
        let mut put_off = self.snapshots.put_off.lock();
        if on && self.snapshots.gauge.stuck.load(Ordering::Relaxed) {
            return;
        }
        self.set_restriction(Restrictions::CROWDED, on);
        let waiting = match on {
            true => Vec::new(),
            false => std::mem::take(&mut *put_off),
        };
        drop(put_off);
        for mail in waiting {
            mail.try_again();
        }
    }

    /// Whether a command that writes is put off, since too much was handed over that is not written yet; its connection
    /// is told when to try again.
    #[cold]
    pub(crate) fn is_crowded_out(
        &self,
        row: &tollgate_commands::Row,
        session: &Session,
        args: &[&[u8]],
    ) -> bool {
        let Some(mail) = session
            .mail
            .as_ref()
            .filter(|_| self.may_write(row, session, args))
        else {
            return false;
        };
        // Under the lock, so that whoever lets them go on finds the entry.
        let mut put_off = self.snapshots.put_off.lock();
        let crowded = self.restrictions().contains(Restrictions::CROWDED);
        if crowded {
            put_behind(&mut put_off, mail);
        }
        crowded
    }
}

impl Snapshot {
    /// Says something more of the file in its head.
    pub(crate) fn say(&mut self, name: &str, value: &str) {
        self.about.push((name.to_owned(), value.to_owned()));
    }

    /// Says in its head where its data are in the history.
    pub(crate) fn say_history(&mut self, history: &History) {
        for (name, value) in history.fields() {
            self.say(name, &value);
        }
    }

    /// Writes it all to `out`. `pace` is told after each step how many entries were written; when it says false, the
    /// snapshot stops.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn write(
        mut self,
        out: &mut dyn Write,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), SnapshotError> {
        let engine = Arc::clone(&self.engine);
        let mut sheet = self.sheet(out)?;
        for code in &self.libraries {
            sheet.add_library(code)?;
        }
        let mut batch = Batch::new(self.handed.form);
        let mut go_on = |entries: u64| {
            let snapshots = &engine.snapshots;
            snapshots.entries.fetch_add(entries, Ordering::Relaxed);
            if snapshots.gauge.stuck.load(Ordering::Relaxed) {
                return Err(SnapshotError::Stuck);
            }
            match snapshots.is_over() || !pace(entries) {
                true => Err(SnapshotError::Stopped),
                false => Ok(()),
            }
        };
        while self.next < engine.shards.count() {
            self.drain(&mut batch, &mut sheet, &mut go_on)?;
            let entries = self.step(&mut batch);
            append(&mut batch, &mut sheet)?;
            go_on(entries)?;
        }
        self.drain(&mut batch, &mut sheet, &mut go_on)?;
        sheet.finish()?;
        Ok(())
    }

    fn sheet<'w>(&mut self, out: &'w mut dyn Write) -> io::Result<Sheet<'w>> {
        let Form::Rdb(dialect) = self.handed.form else {
            return Ok(Sheet::Commands { out, db: None });
        };
        let about: Vec<(&str, &str)> = (self.about.iter())
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let options = Options {
            dialect,
            ..self.engine.rdb_options()
        };
        let mut writer = Writer::new(out, &about, options)?;
        writer.announce(std::mem::take(&mut self.sizes));
        Ok(Sheet::Rdb(writer))
    }

    /// Copies some entries of the shard at hand, or goes on to the next one; returns how many it has seen.
    fn step(&mut self, batch: &mut Batch) -> u64 {
        let engine = &self.engine;
        let delayed = engine.limits.rdb_key_save_delay() != 0;
        let mut step = Step {
            handed: &self.handed,
            batch,
            seen: 0,
            most: if delayed { 1 } else { usize::MAX },
            loan: None,
        };
        let left = {
            let mut cell = engine.shards.lock(self.next);
            let goes_on = cell.walk_on(&mut step) || cell.has_loans();
            (!goes_on).then(|| cell.end_walk())
        };
        let (seen, loan) = (step.seen as u64, step.loan);
        if let Some(loan) = loan {
            self.read(self.next, &loan, batch);
        }
        if left.is_some() {
            self.next += 1;
        }
        seen
    }

    /// Adds an entry that is lent, and ends the loan. No shard is held.
    fn read(&self, shard: usize, loan: &Loan, batch: &mut Batch) {
        let engine = &self.engine;
        let lending = &engine.snapshots.lending;
        lending.goes_on(true);
        if self.handed.is_of_now(loan.expires_at_ms) {
            // SAFETY: only this thread ends the loan and the walk, below and later, and the engine has the shard.
            batch.add_lent(loan, unsafe { loan.value() });
        }
        let original = engine.shards.lock(shard).end_loan(loan);
        lending.goes_on(false);
        lending.call_back();
        if original.is_some() {
            self.is_written(KEPT_MAX.min(loan.bytes as u64));
        }
        // No shard is held here.
        drop(original);
    }

    /// What was kept for the walk is so many bytes less.
    fn is_written(&self, bytes: u64) {
        let left = self.handed.gauge.handed.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        let crowded = self.engine.restrictions().contains(Restrictions::CROWDED);
        if crowded && left <= HANDED_MAX / 2 {
            self.engine.crowd(false);
        }
    }

    /// Writes what was handed over, and before it each time what is lent. `batch` is empty.
    fn drain(
        &self,
        batch: &mut Batch,
        sheet: &mut Sheet<'_>,
        go_on: &mut dyn FnMut(u64) -> Result<(), SnapshotError>,
    ) -> Result<(), SnapshotError> {
        loop {
            // The guard is not kept while it is read.
            let lent = self.handed.loans.lock().pop_front();
            if let Some((shard, loan)) = lent {
                self.read(shard, &loan, batch);
                let entries = batch.entries() as u64;
                append(batch, sheet)?;
                go_on(entries)?;
                continue;
            }
            let Some(handed) = self.handed.queue.lock().pop_front() else {
                return Ok(());
            };
            sheet.append(&handed)?;
            self.is_written(handed.len() as u64);
            go_on(handed.entries() as u64)?;
        }
    }
}

/// Writes a batch, which is empty then.
fn append(batch: &mut Batch, sheet: &mut Sheet<'_>) -> io::Result<()> {
    sheet.append(batch)?;
    batch.clear(2 * STEP_BYTES);
    Ok(())
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.handed.closed.store(true, Ordering::Relaxed);
        for index in self.next..self.engine.shards.count() {
            let left = self.engine.shards.lock(index).end_walk();
            drop(left);
        }
        self.engine.crowd(false);
        self.engine.snapshots.lending.call_back();
        self.engine.snapshots.release();
    }
}

impl Engine {
    /// What files are written with.
    pub(crate) fn rdb_options(&self) -> Options {
        Options {
            compress: self.limits.rdb_compression() != 0,
            checksum: self.limits.rdb_checksum() != 0,
            dialect: Dialect::Redis,
        }
    }
}
