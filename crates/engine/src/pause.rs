//! CLIENT PAUSE: for some time commands, or those that may write, are put off. Meanwhile what has expired is found by nobody
//! and stays, so nothing is sent to replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tollgate_commands::{Flags, Row, Run, TransactionCommand};
use tollgate_limiter::Timestamp;

use crate::waiter::{Mail, Wake, is_there, put_behind, put_once};
use crate::{Engine, Session};

/// What a pause puts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Commands that may write.
    Writes,
    /// All commands.
    All,
}

/// Who has paused the clients. The pauses of several end one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedBy {
    /// CLIENT PAUSE.
    Client,
    /// FAILOVER.
    Failover,
    /// The server is about to end, and its replicas are to have everything.
    Shutdown,
}

/// How many there are of [`PausedBy`].
const PURPOSES: usize = 3;

/// One pause: what it puts off, and its end in Unix milliseconds.
type One = Option<(Paused, i64)>;

#[derive(Default)]
struct State {
    pauses: [One; PURPOSES],
    put_off: Vec<Arc<dyn Mail>>,
    /// Threads of the service in this process.
    wakes: Vec<Arc<Wake>>,
}

impl State {
    /// What all pauses together put off.
    fn what(&self) -> Option<Paused> {
        self.pauses.iter().flatten().map(|(what, _)| *what).max()
    }

    /// Whether a command is put off that `writes`, or does not.
    fn concerns(&self, writes: bool) -> bool {
        match self.what() {
            None => false,
            Some(Paused::All) => true,
            Some(Paused::Writes) => writes,
        }
    }

    /// When the next one ends.
    fn next_end(&self) -> i64 {
        let ends = self.pauses.iter().flatten().map(|(_, until)| *until);
        ends.min().unwrap_or(0)
    }
}

/// The pauses of the server's clients.
#[derive(Default)]
pub struct Pause {
    /// When the next pause ends, in Unix milliseconds; 0 = there is none.
    until_ms: AtomicI64,
    /// There is one.
    on: Arc<AtomicBool>,
    state: Mutex<State>,
}

impl Pause {
    /// Begins a pause. One of the same purpose that goes on is only made longer and stricter.
    pub fn begin(&self, by: PausedBy, what: Paused, until_ms: i64) {
        let mut state = self.state.lock();
        let pause = &mut state.pauses[by as usize];
        *pause = Some(match *pause {
            None => (what, until_ms),
            Some((old, until)) => (old.max(what), until.max(until_ms)),
        });
        self.publish(&state);
    }

    /// Ends the pause of that purpose: what was put off is tried again.
    pub fn end(&self, by: PausedBy) {
        let mut state = self.state.lock();
        state.pauses[by as usize] = None;
        self.conclude(state);
    }

    /// Ends the pauses whose time is over; to be called when [`Pause::until_ms`] says so.
    pub fn end_in_time(&self, now: Timestamp) {
        if !self.is_active() || now.millis() < self.until_ms.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        for pause in &mut state.pauses {
            *pause = pause.filter(|(_, until)| now.millis() < *until);
        }
        self.conclude(state);
    }

    fn publish(&self, state: &State) {
        self.until_ms.store(state.next_end(), Ordering::Relaxed);
        self.on.store(self.is_active(), Ordering::Relaxed);
    }

    /// Pauses have ended. What another one puts off is put off anew when it is tried.
    fn conclude(&self, mut state: MutexGuard<'_, State>) {
        self.publish(&state);
        let put_off = std::mem::take(&mut state.put_off);
        let wakes = std::mem::take(&mut state.wakes);
        drop(state);
        for mail in put_off {
            mail.try_again();
        }
        for wake in wakes {
            wake();
        }
    }

    /// There is a pause.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.until_ms.load(Ordering::Relaxed) != 0
    }

    /// Whether it puts off what a master sends, if that `writes` or not; whoever asks looks again by itself.
    pub fn concerns(&self, writes: bool) -> bool {
        self.is_active() && self.state.lock().concerns(writes)
    }

    /// The flag that is set while there is a pause.
    pub(crate) fn is_on(&self) -> &Arc<AtomicBool> {
        &self.on
    }

    /// When the next one ends, in Unix milliseconds.
    pub fn until_ms(&self) -> Option<i64> {
        let until = self.until_ms.load(Ordering::Relaxed);
        (until != 0).then_some(until)
    }

    /// Connections that wait for its end.
    pub fn waiting(&self) -> usize {
        let state = self.state.lock();
        state.put_off.iter().filter(|mail| is_there(mail)).count()
    }

    /// Has `wake` called at the end; false when there is no pause.
    pub(crate) fn when_over(&self, wake: &Arc<Wake>) -> bool {
        // Under the lock, so that whoever ends the pause finds the entry.
        let mut state = self.state.lock();
        let goes_on = state.what().is_some();
        if goes_on {
            put_once(&mut state.wakes, wake);
        }
        goes_on
    }

    /// Has `mail` told at the end; false when there is no pause that concerns the command.
    fn put_off(&self, mail: &Arc<dyn Mail>, writes: bool) -> bool {
        // Under the lock, so that whoever ends the pause finds the entry.
        let mut state = self.state.lock();
        let concerns = state.concerns(writes);
        if concerns {
            put_behind(&mut state.put_off, mail);
        }
        concerns
    }
}

impl Engine {
    /// Whether the pause puts off a command; its connection is told when to try again.
    #[cold]
    pub(crate) fn is_paused(&self, row: &Row, session: &Session, args: &[&[u8]]) -> bool {
        let Some(mail) = &session.mail else {
            return false;
        };
        !session.monitors && self.pause.put_off(mail, self.may_write(row, session, args))
    }

    /// Whether what a client asks for, be it by EXEC, may change data.
    pub fn may_change(&self, session: &Session, args: &[&[u8]]) -> bool {
        let row = self.plan(args).row;
        row.is_some_and(|row| self.may_write(row, session, args))
    }

    /// Waits until nobody holds a shard who had it before; long commands are not waited for.
    pub fn let_all_pass(&self) {
        for index in 0..self.shards.count() {
            drop(self.shards.lock_unless_kept(index));
        }
    }

    /// Whether a command may change data.
    pub(crate) fn may_write(&self, row: &Row, session: &Session, args: &[&[u8]]) -> bool {
        let writing = Flags::WRITE.or(Flags::MAY_REPLICATE);
        let queued = match row.run {
            Run::Transaction(TransactionCommand::Exec) => session.queued_flags(),
            _ => None,
        };
        self.flags_of(row, args).intersects(writing)
            || queued.is_some_and(|(any, _)| any.intersects(writing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Debug, Default)]
    struct Waiting(AtomicUsize);

    impl Mail for Waiting {
        fn answer(&self, _: Vec<u8>) {}
        fn dismiss(&self, _: Vec<u8>) {}
        fn try_again(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn is_gone(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_pause_only_grows_until_it_ends() {
        let pause = Pause::default();
        let waiting = Arc::new(Waiting::default());
        let mail: Arc<dyn Mail> = waiting.clone();
        assert!(!pause.put_off(&mail, true));
        pause.begin(PausedBy::Client, Paused::Writes, 1_000);
        assert!(!pause.put_off(&mail, false));
        assert!(pause.put_off(&mail, true));
        pause.begin(PausedBy::Client, Paused::All, 500);
        assert_eq!(pause.until_ms(), Some(1_000));
        pause.begin(PausedBy::Client, Paused::Writes, 600);
        assert!(pause.put_off(&mail, false), "it stays as strict as it was");
        assert_eq!(pause.waiting(), 2);
        pause.end_in_time(Timestamp::from_millis(999));
        assert!(pause.is_active());
        pause.end_in_time(Timestamp::from_millis(1_000));
        assert_eq!(waiting.0.load(Ordering::Relaxed), 2);
        assert!(!pause.is_active() && !pause.put_off(&mail, true));
        pause.begin(PausedBy::Client, Paused::Writes, 2_000);
        assert!(!pause.put_off(&mail, false), "a new one is as it says");
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let pause = Pause::default();
        pause.begin(PausedBy::Client, Paused::All, 1_000);
        let waiting = Arc::new(Waiting::default());
        let mail: Arc<dyn Mail> = waiting.clone();
        assert!(pause.put_off(&mail, true));
        for _ in 0..100_000 {
            let gone: Arc<dyn Mail> = Arc::new(Waiting::default());
            assert!(pause.put_off(&gone, true));
        }
        assert_eq!(pause.waiting(), 1);
        assert!(pause.state.lock().put_off.len() <= 2_048);
        pause.end(PausedBy::Client);
        assert_eq!(waiting.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn pauses_of_several_purposes_end_one_by_one() {
        let pause = Pause::default();
        let waiting = Arc::new(Waiting::default());
        let mail: Arc<dyn Mail> = waiting.clone();
        pause.begin(PausedBy::Failover, Paused::Writes, i64::MAX);
        pause.begin(PausedBy::Client, Paused::All, 1_000);
        assert_eq!(pause.until_ms(), Some(1_000));
        assert!(pause.put_off(&mail, false));
        pause.end(PausedBy::Client);
        assert_eq!(waiting.0.load(Ordering::Relaxed), 1);
        assert!(pause.is_active(), "the failover's goes on");
        assert!(!pause.put_off(&mail, false) && pause.put_off(&mail, true));
        pause.begin(PausedBy::Client, Paused::All, 2_000);
        pause.end_in_time(Timestamp::from_millis(2_000));
        assert_eq!(waiting.0.load(Ordering::Relaxed), 2);
        assert!(!pause.put_off(&mail, false) && pause.put_off(&mail, true));
        pause.end(PausedBy::Failover);
        assert!(!pause.is_active() && !pause.put_off(&mail, true));
    }
}
