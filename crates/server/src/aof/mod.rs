//! The append-only file: everything that changes data is written to it before long, or before it is answered.
//!
//! The journal of the engine gathers what is to be written. One thread ([`writer`]) writes it and has it put on the disk
//! (fsync); no event loop does either. With `appendfsync always`, replies are held back until that has happened
//! ([`holds`]), so that all writes of a turn of all loops share one fsync. [`rewrite`] makes the file anew while
//! commands run on, [`load`] reads it at the start. On the disk all is as Redis 7 has it ([`files`]).

mod files;
mod holds;
mod load;
mod rewrite;
mod writer;

pub(crate) use holds::Held;
pub(crate) use rewrite::{Asked, ask};

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_engine::LogBytes;
use tollgate_net::{Clock, files as whole, threads};
use tollgate_persist::aof::Manifest;

use crate::config::{Key, Values};
use crate::shared::Shared;
use crate::snapshot::LoadAs;
use files::{LogFile, Place};
use holds::Holds;

/// When what is written is put on the disk (`appendfsync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Policy {
    No,
    Everysec,
    Always,
}

impl Policy {
    fn parse(word: &str) -> Policy {
        match word {
            "always" => Policy::Always,
            "no" => Policy::No,
            _ => Policy::Everysec,
        }
    }
}

/// What INFO tells.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AofFacts {
    /// The first base of a file that was just switched on is being written, or is about to be.
    pub(crate) starting: bool,
    pub(crate) write_failed: bool,
    pub(crate) sync_failed: bool,
    pub(crate) rewrite_failed: bool,
    pub(crate) scheduled: bool,
    pub(crate) rewrites: u64,
    /// Rewrites that have failed since the last that did not.
    pub(crate) failures_in_row: u32,
    /// Seconds that the last one took; `None`: there was none.
    pub(crate) last_rewrite_secs: Option<i64>,
    /// Monotone nanoseconds of the beginning of the one at work.
    pub(crate) rewrite_began: Option<i64>,
    /// Not before then, monotone nanoseconds, is one tried that nobody has asked for.
    pub(crate) retry_at: i64,
    /// Bytes of all files.
    pub(crate) size: u64,
    /// Bytes of all files after the last rewrite, or at the start.
    pub(crate) base_size: u64,
}

/// The files. Whoever writes has them locked.
#[derive(Debug, Default)]
struct Io {
    manifest: Manifest,
    /// What the commands of clients go to.
    main: Option<LogFile>,
    /// What goes behind the base that is being written.
    next: Option<LogFile>,
    /// Taken from the journal, and not written yet.
    pending: LogBytes,
    /// Bytes of the base and of the files of commands before `main`.
    before: u64,
    /// Where the journal is with what has been written.
    written: u64,
    /// And with what is on the disk.
    synced: u64,
    /// Monotone nanoseconds.
    synced_at: i64,
    /// The manifest names what may not be there by that name after a loss of power.
    folder_unsynced: bool,
}

/// See the module.
pub(crate) struct Aof {
    /// The file is kept, or is about to be.
    on: AtomicBool,
    policy: AtomicU8,
    io: Mutex<Io>,
    facts: Mutex<AofFacts>,
    holds: Holds,
    rewriting: AtomicBool,
    stop_rewriting: AtomicBool,
    ending: AtomicBool,
    /// Microseconds to wait before each write; DEBUG sets it.
    rest_micros: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Aof {
    pub(crate) fn new() -> Aof {
        Aof {
            on: AtomicBool::new(false),
            policy: AtomicU8::new(Policy::Everysec as u8),
            io: Mutex::default(),
            facts: Mutex::default(),
            holds: Holds::default(),
            rewriting: AtomicBool::new(false),
            stop_rewriting: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            rest_micros: AtomicU64::new(0),
            thread: Mutex::default(),
        }
    }

    fn lock_io(&self) -> MutexGuard<'_, Io> {
        // A holder that panicked has left the files as they are on the disk.
        self.io.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_facts(&self) -> MutexGuard<'_, AofFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn facts(&self) -> AofFacts {
        *self.lock_facts()
    }

    /// The file is kept, or is about to be.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// A rewrite is at work.
    pub(crate) fn is_rewriting(&self) -> bool {
        self.rewriting.load(Ordering::Acquire)
    }

    fn policy(&self) -> Policy {
        match self.policy.load(Ordering::Relaxed) {
            0 => Policy::No,
            1 => Policy::Everysec,
            _ => Policy::Always,
        }
    }

    /// Takes over the settings of writing.
    pub(crate) fn configure(&self, shared: &Shared, values: &Values<'_>) {
        let policy = Policy::parse(values.get(Key::Appendfsync));
        self.policy.store(policy as u8, Ordering::Relaxed);
        shared.engine.promise_log(policy == Policy::Always);
        shared
            .engine
            .stamp_log(values.get(Key::AofTimestampEnabled) == "yes");
        shared.engine.poke_log();
    }

    /// DEBUG AOF-FLUSH-SLEEP: how long each write is put off, in microseconds.
    pub(crate) fn put_off_writing(&self, micros: u64) {
        self.rest_micros.store(micros, Ordering::Relaxed);
    }

    fn rest_before_writing(&self) {
        let micros = self.rest_micros.load(Ordering::Relaxed);
        if micros > 0 {
            threads::stand_still(Duration::from_micros(micros));
        }
    }

    /// Whether fsync is left out while a rewrite is at work (`no-appendfsync-on-rewrite`).
    fn leaves_sync_out(&self, shared: &Shared) -> bool {
        (self.is_rewriting() || shared.is_taking_snapshot())
            && shared.settings.is_set(Key::NoAppendfsyncOnRewrite)
    }

    /// Brings INFO's sizes up to date.
    fn tell_sizes(&self, io: &Io) {
        let main = io.main.as_ref().map_or(0, LogFile::len);
        self.lock_facts().size = io.before + main;
    }
}

/// Bytes of the files that [`start`] will read; 0 when there are none, or it will say what is wrong with them.
pub(crate) fn bytes_at_start(shared: &Shared) -> u64 {
    let place = Place::of(shared);
    match place.read_manifest() {
        Ok(manifest) if !manifest.is_empty() => place.sizes(&manifest),
        _ => std::fs::metadata(place.old_file()).map_or(0, |file| file.len()),
    }
}

/// Loads what there is at the start, and begins to write.
///
/// # Errors
///
/// A line that says why the server cannot start.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<(), String> {
    let aof = &shared.aof;
    let place = Place::of(shared);
    let manifest = load::load(shared, &place, load::Purpose::Start)?;
    let mut io = aof.lock_io();
    io.manifest = manifest;
    if !shared.settings.is_set(Key::AppendOnly) {
        return Ok(());
    }
    if io.manifest.is_empty() && shared.settings.load_snapshot {
        // What was kept as a snapshot so far goes on as the base.
        shared.snapshot.load(shared, shared.now(), LoadAs::Start)?;
    }
    place
        .make_folder()
        .map_err(|error| format!("cannot make the folder {}: {error}", place.folder()))?;
    if io.manifest.is_empty() {
        let suffix = rewrite::suffix(shared);
        let name = io.manifest.renew(place.stem(), suffix).name.clone();
        shared.log.notice(format_args!(
            "Creating AOF base file {name} on server start"
        ));
        rewrite::write_base_file(shared, &place.file(&name), false)
            .map_err(|error| format!("cannot write the AOF base {name}: {error}"))?;
    }
    let mut main = open_last(&mut io, &place).map_err(|error| {
        format!(
            "cannot open the append-only file in {}: {error}",
            place.folder()
        )
    })?;
    main.sync()
        .map_err(|error| format!("cannot sync the append-only file: {error}"))?;
    let sizes = place.sizes(&io.manifest);
    io.before = sizes.saturating_sub(main.len());
    io.main = Some(main);
    let mut facts = aof.lock_facts();
    (facts.size, facts.base_size) = (sizes, sizes);
    drop(facts);
    drop(io);
    shared.engine.open_log();
    aof.on.store(true, Ordering::Relaxed);
    writer::start(shared).map_err(|error| format!("cannot start a thread: {error}"))
}

/// Opens the last file of commands, or a first one, and names it in the manifest.
fn open_last(io: &mut Io, place: &Place) -> io::Result<LogFile> {
    let file = match io.manifest.incr.last() {
        Some(last) => LogFile::append_to(&place.file(&last.name))?,
        None => {
            let name = io.manifest.add_incr(place.stem()).name.clone();
            // A crash may have left one of that name which no manifest has ever named.
            LogFile::create(&place.file(&name))?
        }
    };
    place.write_manifest(&io.manifest)?;
    Ok(file)
}

/// CONFIG SET appendonly: begins with a new base, or ends. `later`: within a transaction, after which it begins.
///
/// # Errors
///
/// It cannot begin.
pub(crate) fn switch(shared: &Arc<Shared>, on: bool, later: bool) -> Result<(), String> {
    let aof = &shared.aof;
    if on == aof.is_on() {
        return Ok(());
    }
    if !on {
        end(shared);
        return Ok(());
    }
    aof.on.store(true, Ordering::Relaxed);
    aof.lock_facts().starting = true;
    let begun =
        writer::start(shared)
            .map_err(|_| ())
            .and_then(|()| match rewrite::ask(shared, later) {
                Asked::Refused => Err(()),
                Asked::Scheduled => {
                    let why = match later {
                        true => "AOF is enabled during a transaction.",
                        false => {
                            "AOF is enabled but there is already another background operation."
                        }
                    };
                    shared.log.notice(format_args!(
                        "{why} An AOF background was scheduled to start when possible."
                    ));
                    Ok(())
                }
                Asked::Begun | Asked::Busy => Ok(()),
            });
    begun.map_err(|()| {
        aof.on.store(false, Ordering::Relaxed);
        aof.lock_facts().starting = false;
        "Unable to turn on AOF. Check server logs.".to_owned()
    })
}

/// All data are about to be replaced, which is not recorded: ends until [`resume`].
pub(crate) fn pause(shared: &Arc<Shared>) {
    if shared.aof.is_on() {
        end(shared);
    }
}

/// Begins anew with the data as they are, if that is wanted and it was ended.
pub(crate) fn resume(shared: &Arc<Shared>) {
    if shared.settings.is_set(Key::AppendOnly)
        && !shared.aof.is_on()
        && let Err(reason) = switch(shared, true, false)
    {
        shared.log.warning(format_args!("{reason}"));
    }
}

/// Ends it: all that was appended is put on the disk.
fn end(shared: &Arc<Shared>) {
    let aof = &shared.aof;
    aof.on.store(false, Ordering::Relaxed);
    aof.stop_rewriting.store(true, Ordering::Release);
    aof.lock_facts().starting = false;
    {
        let mut io = aof.lock_io();
        writer::flush(shared, &mut io);
        shared.engine.close_log();
        io.main = None;
        io.pending = LogBytes::default();
        io.before = 0;
        aof.tell_sizes(&io);
    }
    let mut facts = aof.lock_facts();
    (facts.write_failed, facts.sync_failed) = (false, false);
    drop(facts);
    shared.engine.log_fails(None);
    // Nothing is waited for any more.
    aof.holds
        .release(shared, shared.engine.log_facts().appended);
}

/// The server is about to end: no rewrite is worth waiting for.
pub(crate) fn stop_rewriting(shared: &Shared) {
    shared.aof.stop_rewriting.store(true, Ordering::Release);
}

/// The server ends: all that was appended is put on the disk. Nobody writes any more.
pub(crate) fn shut_down(shared: &Arc<Shared>) {
    let aof = &shared.aof;
    aof.ending.store(true, Ordering::Release);
    shared.engine.poke_log();
    let thread = aof
        .thread
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(thread) = thread {
        // One that panicked has nothing left to do.
        drop(thread.join());
    }
    if aof.is_on() {
        writer::flush(shared, &mut aof.lock_io());
    }
}

/// DEBUG LOADAOF: forgets all data and reads the file.
///
/// # Errors
///
/// It cannot be read.
pub(crate) fn reload(shared: &Arc<Shared>, forget: impl FnOnce()) -> Result<(), String> {
    let mut io = shared.aof.lock_io();
    if shared.aof.is_on() {
        writer::flush(shared, &mut io);
    }
    shared.engine.refuse_while_loading(true);
    let loaded = shared.engine.unrecorded(|| {
        forget();
        load::load(shared, &Place::of(shared), load::Purpose::Again).map(drop)
    });
    shared.engine.refuse_while_loading(false);
    loaded
}

/// What is due about once a second: a rewrite, when the file has grown, or somebody has asked for one.
pub(crate) fn tend(shared: &Arc<Shared>) {
    let aof = &shared.aof;
    let facts = aof.facts();
    if aof.is_rewriting() || shared.is_taking_snapshot() {
        return;
    }
    if facts.scheduled {
        rewrite::ask(shared, false);
        return;
    }
    if !aof.is_on() || facts.retry_at > Clock::monotone() {
        return;
    }
    let [percentage, min_size] = [Key::AutoAofRewritePercentage, Key::AutoAofRewriteMinSize]
        .map(|key| shared.settings.get(key).parse::<u64>().unwrap_or(0));
    let base = facts.base_size.max(1);
    let growth = (u128::from(facts.size) * 100 / u128::from(base)).saturating_sub(100);
    let has_grown = percentage > 0 && facts.size > min_size && growth >= u128::from(percentage);
    if has_grown {
        shared.log.notice(format_args!(
            "Starting automatic rewriting of AOF on {growth}% growth"
        ));
    }
    if facts.starting || has_grown {
        rewrite::ask(shared, false);
    }
}

/// Makes a rename in the folder durable.
fn sync_folder(place: &Place) -> io::Result<()> {
    whole::sync_directory(&place.file("manifest"))
}
