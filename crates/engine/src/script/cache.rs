//! The scripts that EVALSHA finds, shared by all threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::running::LongScripts;
use super::sha1::Hex;

/// Scripts kept that came by EVAL and not by SCRIPT LOAD; the oldest go first. Programs that write values into the text
/// of their scripts would otherwise fill the memory.
pub(crate) const EVAL_SCRIPTS_MAX: usize = 500;

/// Bytes of all scripts together.
pub(crate) const SCRIPT_BYTES_MAX: usize = 256 << 20;

/// A script that compiles.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) sha: Hex,
    pub(crate) body: Box<[u8]>,
}

#[derive(Default)]
struct Table {
    scripts: BTreeMap<Hex, Entry>,
    /// Scripts that came by EVAL, oldest first; those loaded since are skipped when their turn comes.
    evaluated: VecDeque<Hex>,
    bytes: usize,
}

struct Entry {
    script: Arc<Script>,
    loaded: bool,
}

type LogSink = Box<dyn Fn(u8, &[u8]) + Send + Sync>;

/// The cache and what all scripts of an engine share.
pub(crate) struct Scripts {
    /// Tells engines of one process apart in the per-thread caches.
    engine: u64,
    /// Grows whenever a script leaves the cache.
    generation: AtomicU64,
    table: RwLock<Table>,
    stopping: AtomicBool,
    log: OnceLock<LogSink>,
    /// Those that take long.
    pub(crate) long: LongScripts,
}

impl Scripts {
    pub(crate) fn new() -> Scripts {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Scripts {
            engine: NEXT.fetch_add(1, Ordering::Relaxed),
            generation: AtomicU64::new(0),
            table: RwLock::default(),
            stopping: AtomicBool::new(false),
            log: OnceLock::new(),
            long: LongScripts::default(),
        }
    }

    /// Number of scripts and the bytes of their bodies.
    pub(crate) fn size(&self) -> (usize, usize) {
        let table = self.table.read();
        (table.scripts.len(), table.bytes)
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Sets who hears of `redis.log`; the first to ask stays.
    pub(crate) fn set_log(&self, sink: LogSink) {
        // A second sink is refused by contract, not by error.
        drop(self.log.set(sink));
    }

    pub(crate) fn log(&self, level: u8, text: &[u8]) {
        if let Some(sink) = self.log.get() {
            sink(level, text);
        }
    }

    /// What a thread remembers with a compiled script; as long as it is equal, the script is in the cache.
    pub(super) fn seen(&self) -> (u64, u64) {
        (self.engine, self.generation.load(Ordering::Acquire))
    }

    pub(super) fn get(&self, sha: &Hex) -> Option<Arc<Script>> {
        self.table
            .read()
            .scripts
            .get(sha)
            .map(|entry| Arc::clone(&entry.script))
    }

    pub(super) fn contains(&self, sha: &Hex) -> bool {
        self.table.read().scripts.contains_key(sha)
    }

    /// Adds a script; `loaded` ones stay until the cache is flushed. False when the cache is full.
    pub(super) fn insert(&self, script: &Arc<Script>, loaded: bool) -> bool {
        let mut guard = self.table.write();
        let table = &mut *guard;
        if let Some(entry) = table.scripts.get_mut(&script.sha) {
            entry.loaded |= loaded;
            return true;
        }
        if table.bytes + script.body.len() > SCRIPT_BYTES_MAX {
            return false;
        }
        table.bytes += script.body.len();
        table.scripts.insert(
            script.sha,
            Entry {
                script: Arc::clone(script),
                loaded,
            },
        );
        if !loaded {
            table.evaluated.push_back(script.sha);
            if table.evaluated.len() > EVAL_SCRIPTS_MAX {
                self.evict(table);
            }
        }
        true
    }

    /// Drops the oldest script that came by EVAL.
    fn evict(&self, table: &mut Table) {
        let Some(sha) = table.evaluated.pop_front() else {
            return;
        };
        if table.scripts.get(&sha).is_some_and(|entry| !entry.loaded)
            && let Some(entry) = table.scripts.remove(&sha)
        {
            table.bytes -= entry.script.body.len();
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    pub(super) fn flush(&self) {
        let mut table = self.table.write();
        *table = Table::default();
        self.generation.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sha1::sha1_hex;
    use super::*;

    fn script(body: &str) -> Arc<Script> {
        let body = body.as_bytes();
        Arc::new(Script {
            sha: sha1_hex(body),
            body: body.into(),
        })
    }

    #[test]
    fn the_oldest_evaluated_script_goes_first_and_loaded_ones_stay() {
        let cache = Scripts::new();
        let (first, loaded) = (script("first"), script("loaded"));
        assert!(
            cache.insert(&first, false)
                && cache.insert(&loaded, false)
                && cache.insert(&loaded, true)
        );
        let before = cache.seen();
        for number in 0..EVAL_SCRIPTS_MAX {
            assert!(cache.insert(&script(&format!("return {number}")), false));
        }
        assert!(!cache.contains(&first.sha) && cache.contains(&loaded.sha));
        assert_ne!(cache.seen(), before);
        assert!(cache.size().0 <= EVAL_SCRIPTS_MAX + 1);
    }

    #[test]
    fn a_flush_is_seen_by_every_thread() {
        let cache = Scripts::new();
        let script = script("return 1");
        assert!(cache.insert(&script, true));
        let before = cache.seen();
        cache.flush();
        assert_ne!(cache.seen(), before);
        assert_eq!(
            (cache.get(&script.sha).is_none(), cache.size()),
            (true, (0, 0))
        );
    }

    #[test]
    fn the_cache_is_bounded_by_bytes() {
        let cache = Scripts::new();
        let sha = sha1_hex(b"big");
        let big = Arc::new(Script {
            sha,
            body: vec![b' '; SCRIPT_BYTES_MAX + 1].into(),
        });
        assert!(!cache.insert(&big, true));
        assert_eq!(cache.size(), (0, 0));
    }
}
