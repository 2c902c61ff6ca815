//! Scripts that take long: who can see them, end them, and is kept waiting by them.
//!
//! A script is entered here when the hook looks at it for the first time, so short ones never are.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use parking_lot::Mutex;
use tollgate_commands::CmdError;
use tollgate_commands::gate::Busy;
use tollgate_net::clock::Clock;

/// Milliseconds after which a script makes the server busy (`busy-reply-threshold`), unless it is set.
pub(crate) const BUSY_AFTER_MS: i64 = 5_000;

/// Milliseconds after which a script is ended, unless it is set.
pub(crate) const END_AFTER_MS: i64 = 60_000;

/// A script has not written and may be ended.
const CLEAN: u8 = 0;
/// It has written: ending it would leave its work half done.
const WROTE: u8 = 1;
/// It is to end.
const KILLED: u8 = 2;

/// One script that takes long.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) kind: Busy,
    /// Digest, or name of the function.
    pub(crate) name: Box<[u8]>,
    /// The command that runs it.
    pub(crate) command: Vec<Box<[u8]>>,
    /// Monotone nanoseconds.
    started: i64,
    state: AtomicU8,
}

impl Running {
    /// When it began, in monotone nanoseconds.
    pub(crate) fn started(&self) -> i64 {
        self.started
    }

    /// Nanoseconds since it began.
    pub(crate) fn ran(&self, now: i64) -> i64 {
        now - self.started
    }

    /// What the log is told when it makes the server busy.
    pub(super) fn complaint(&self, now: i64) -> Vec<u8> {
        let (ran, command) = match self.kind {
            Busy::Script => (self.ran(now), "SCRIPT KILL"),
            Busy::Function => (self.ran(now), "FUNCTION KILL"),
        };
        let text = format!(
            "Slow script detected: still in execution after {} milliseconds. You can try killing the script using the \
             {command} command. Script name is: {}.",
            ran / 1_000_000,
            String::from_utf8_lossy(&self.name)
        );
        text.into_bytes()
    }

    /// Announces a write; false when the script is to end instead.
    pub(super) fn begin_write(&self) -> bool {
        let begun = self
            .state
            .compare_exchange(CLEAN, WROTE, Ordering::Relaxed, Ordering::Relaxed);
        begun != Err(KILLED)
    }

    /// It is to end.
    pub(super) fn is_killed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == KILLED
    }

    /// Makes it end, unless it has written.
    fn kill(&self) -> bool {
        let killed =
            self.state
                .compare_exchange(CLEAN, KILLED, Ordering::Relaxed, Ordering::Relaxed);
        killed != Err(WROTE)
    }
}

/// The scripts of an engine that take long.
pub(crate) struct LongScripts {
    list: Mutex<Vec<Arc<Running>>>,
    /// Nanoseconds after which a script makes the server busy; 0 or less: never.
    busy_after: AtomicI64,
    /// Nanoseconds after which a script is ended; 0 or less: never.
    end_after: AtomicI64,
    /// What makes the server busy: 0 nothing, 1 a script, 2 a function.
    busy: AtomicU8,
}

impl Default for LongScripts {
    fn default() -> LongScripts {
        LongScripts {
            list: Mutex::default(),
            busy_after: AtomicI64::new(BUSY_AFTER_MS * 1_000_000),
            end_after: AtomicI64::new(END_AFTER_MS * 1_000_000),
            busy: AtomicU8::new(0),
        }
    }
}

impl LongScripts {
    /// Sets after how many milliseconds a script makes the server busy; 0 or less: never.
    pub(crate) fn set_busy_after(&self, millis: i64) {
        self.busy_after
            .store(millis.saturating_mul(1_000_000), Ordering::Relaxed);
    }

    /// Sets after how many milliseconds a script is ended; 0 or less: never.
    pub(crate) fn set_end_after(&self, millis: i64) {
        self.end_after
            .store(millis.saturating_mul(1_000_000), Ordering::Relaxed);
    }

    /// What keeps the server from taking commands other than those that end it.
    #[inline]
    pub(crate) fn busy(&self) -> Option<Busy> {
        match self.busy.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Busy::Script),
            _ => Some(Busy::Function),
        }
    }

    /// The script that has run longest.
    pub(super) fn longest(&self) -> Option<Arc<Running>> {
        self.list
            .lock()
            .iter()
            .min_by_key(|one| one.started)
            .cloned()
    }

    pub(super) fn enter(
        &self,
        kind: Busy,
        name: &[u8],
        command: &[&[u8]],
        wrote: bool,
    ) -> Arc<Running> {
        let running = Arc::new(Running {
            kind,
            name: name.into(),
            command: command.iter().map(|&word| word.into()).collect(),
            started: Clock::monotone(),
            state: AtomicU8::new(if wrote { WROTE } else { CLEAN }),
        });
        self.list.lock().push(Arc::clone(&running));
        running
    }

    /// The hook has looked at a script; true when it has run for too long.
    pub(super) fn look(&self, running: &Running, now: i64) -> bool {
        let after = self.busy_after.load(Ordering::Relaxed);
        if after > 0 && running.ran(now) >= after {
            self.busy.store(code(running.kind), Ordering::Relaxed);
        }
        let end = self.end_after.load(Ordering::Relaxed);
        end > 0 && running.ran(now) >= end
    }

    pub(super) fn leave(&self, running: &Arc<Running>) {
        let mut list = self.list.lock();
        list.retain(|one| !Arc::ptr_eq(one, running));
        let (now, after) = (Clock::monotone(), self.busy_after.load(Ordering::Relaxed));
        let still = list.iter().find(|one| after > 0 && one.ran(now) >= after);
        let busy = still.map_or(0, |one| code(one.kind));
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Ends the scripts of that kind that have not written.
    pub(super) fn kill(&self, kind: Busy) -> Result<(), CmdError> {
        let list = self.list.lock();
        let mut of_kind = list.iter().filter(|one| one.kind == kind).peekable();
        if of_kind.peek().is_none() {
            return Err(match list.first() {
                None => CmdError::NotBusy,
                Some(other) if !matches!(other.state.load(Ordering::Relaxed), WROTE) => {
                    other.kind.error()
                }
                Some(_) => CmdError::Unkillable,
            });
        }
        // Every one is told, whether or not another could be.
        if of_kind
            .map(|one| one.kill())
            .filter(|&killed| killed)
            .count()
            > 0
        {
            Ok(())
        } else {
            Err(CmdError::Unkillable)
        }
    }
}

fn code(kind: Busy) -> u8 {
    match kind {
        Busy::Script => 1,
        Busy::Function => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_written_cannot_be_ended() {
        let long = LongScripts::default();
        assert_eq!(
            long.kill(Busy::Script).unwrap_err().to_string(),
            CmdError::NotBusy.to_string()
        );
        let one = long.enter(Busy::Script, b"one", &[b"EVAL"], false);
        assert_eq!(
            long.kill(Busy::Function).unwrap_err().to_string(),
            CmdError::BusyScript.to_string()
        );
        assert!(one.begin_write());
        assert_eq!(
            long.kill(Busy::Script).unwrap_err().to_string(),
            CmdError::Unkillable.to_string()
        );
        let two = long.enter(Busy::Script, b"two", &[b"EVAL"], false);
        assert!(long.kill(Busy::Script).is_ok());
        assert!(!one.is_killed() && two.is_killed() && !two.begin_write());
        long.leave(&one);
        long.leave(&two);
        assert!(long.longest().is_none());
    }

    #[test]
    fn the_server_is_busy_until_the_script_leaves() {
        let long = LongScripts::default();
        long.set_busy_after(1);
        let one = long.enter(Busy::Function, b"f", &[b"FCALL"], false);
        long.look(&one, one.started + 999_999);
        assert_eq!(long.busy(), None);
        long.look(&one, one.started + 1_000_000);
        assert_eq!(long.busy(), Some(Busy::Function));
        long.set_end_after(2);
        assert!(!long.look(&one, one.started + 1_999_999));
        assert!(long.look(&one, one.started + 2_000_000));
        long.leave(&one);
        assert_eq!(long.busy(), None);
    }
}
