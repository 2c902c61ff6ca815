//! Which requests one event loop refuses: pure, times are given.
//!
//! A loop asks the system what has come, serves the connections that it names, and asks again: a turn. What a turn finds
//! came while the turn before was served, or just now if the loop slept. So it is known between which times the bytes of a
//! connection came, and they are taken to have come evenly ([`Gulp`]).
//!
//! A connection that brings one request after another costs nearly as much to refuse as to decide, because most of either
//! is spent on sockets. So past saturation such a connection is put aside unanswered, and taken up again, the newest first,
//! as far as there is time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::gulp::Gulp;
use super::queue::{Queue, Refused};
use super::{ASIDE_MAX, IDLE, SERVED_PER_ASIDE, TEND_INTERVAL};

/// A turn of this length is worth asking the system how much of the time behind it the loop slept.
const LONG_TURN: Duration = Duration::from_micros(500);
/// The time behind a shorter turn in which its answers leave; the loop sleeps for what is beyond.
const BUSY_GAP: Duration = Duration::from_millis(2);
/// Connections that a turn finds at most where the system names only so many. Those beyond are found later, and may have
/// waited for longer than since the turn before.
const FULL_TURN: u32 = 1_000;
/// Most connections that are aside; further ones are served.
const MAX_ASIDE: usize = 65_536;

/// What one loop refuses. `C` names a connection.
#[derive(Debug)]
pub(crate) struct LoopShed<C> {
    queue: Queue,
    /// Number of the turn, when it began, and the time before which nothing came that it finds.
    number: u64,
    turn: Duration,
    since: Duration,
    /// Connections that it found.
    found: u32,
    /// The end of a turn that no other has followed yet, and the processor time of the loop then, if the turn was long.
    ended: Option<(Duration, Option<Duration>)>,
    /// Connections that are aside, by when they were put there.
    aside: BTreeMap<u64, (C, Duration)>,
    asides: u64,
    /// Connections to be served although they were put aside.
    taken: Vec<C>,
    /// Connections served since one was taken up.
    served: u32,
    /// When it is looked after those that are aside if nobody is served.
    tend: Duration,
}

/// What is known of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The turn that served it last, and when that began.
    number: u64,
    turn: Duration,
    /// The time before which nothing came that this turn found.
    since: Duration,
    /// Bytes that this turn took, and the turn before.
    bytes: usize,
    bytes_before: usize,
    /// It has brought several requests at once, which a peer that waits for each answer never does.
    is_wide: bool,
    /// What it brought was not done with.
    is_behind: bool,
    /// Its number while it is aside.
    aside: Option<u64>,
    /// It was aside, and is served all the same.
    was_aside: bool,
}

/// What a connection brings now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brought {
    queue: Queue,
    gulp: Gulp,
    /// How long it has waited on average, as far as one can tell.
    waited: Duration,
    is_wide: bool,
    /// Of the bytes that the turn takes from this connection: those before these, and all.
    before: usize,
    all: usize,
}

impl Brought {
    /// Whether the request at byte `at` is refused; `caller` is how long who asked waits for the answer.
    pub(crate) fn refuse(&self, caller: Option<Duration>, at: usize) -> Option<Refused> {
        match self.is_wide {
            true => self.gulp.refuse(caller, self.before + at, self.all),
            false => self.queue.refuse(self.waited, caller),
        }
    }
}

impl<C: Copy> LoopShed<C> {
    /// Refuses requests after `patience`; none when it is zero.
    pub(crate) fn new(patience: Duration) -> Option<Self> {
        (!patience.is_zero()).then(|| Self {
            queue: Queue::new(patience),
            number: 0,
            turn: Duration::ZERO,
            since: Duration::ZERO,
            found: 0,
            ended: Some((Duration::ZERO, None)),
            aside: BTreeMap::new(),
            asides: 0,
            taken: Vec::new(),
            served: 0,
            tend: Duration::ZERO,
        })
    }

    /// A connection brings `bytes` bytes, of which there may be more if they are `full` as a read can bring at once.
    /// `cpu` tells the processor time of the loop.
    pub(crate) fn arrive(
        &mut self,
        seen: &mut Seen,
        (bytes, full): (usize, bool),
        now: Duration,
        cpu: impl FnOnce() -> Duration,
    ) -> Brought {
        if let Some(end) = self.ended.take() {
            self.begin(end, now, cpu);
        }
        self.found = self.found.saturating_add(1);
        if seen.number != self.number {
            if !seen.is_behind {
                seen.since = self.since.max(seen.turn);
            }
            (seen.number, seen.turn) = (self.number, self.turn);
            seen.bytes_before = std::mem::take(&mut seen.bytes);
        }
        let span = now.saturating_sub(seen.since);
        // How long it was aside says nothing about the queue.
        if !seen.was_aside {
            self.queue.note(now, span);
        }
        let came = seen.bytes + bytes;
        Brought {
            queue: self.queue,
            gulp: self.queue.gulp(span),
            waited: now.saturating_sub(self.turn) + self.turn.saturating_sub(seen.since) / 2,
            is_wide: seen.is_wide,
            before: seen.bytes,
            // As many follow as in the turn before.
            all: match full {
                true => came.max(seen.bytes_before),
                false => came,
            },
        }
    }

    /// A turn begins behind one that ended then.
    fn begin(
        &mut self,
        (ended, spent): (Duration, Option<Duration>),
        now: Duration,
        cpu: impl FnOnce() -> Duration,
    ) {
        let gap = now.saturating_sub(ended);
        let slept = match spent {
            Some(before) if gap > BUSY_GAP => cpu().saturating_sub(before) < gap / 2,
            Some(_) => false,
            None => gap > BUSY_GAP,
        };
        self.since = match (slept, self.found >= FULL_TURN) {
            (true, _) => now,
            (false, true) => Duration::ZERO,
            (false, false) => self.turn,
        };
        self.number += 1;
        (self.turn, self.found) = (now, 0);
    }

    /// Whether what a connection brings is left for later. `is_several` looks whether it is more than one request.
    pub(crate) fn puts_aside(
        &mut self,
        connection: C,
        seen: &mut Seen,
        brought: &mut Brought,
        now: Duration,
        is_several: impl FnOnce() -> bool,
    ) -> bool {
        let is_stale = self.queue.is_stale(brought.waited);
        if is_stale && !seen.is_wide && is_several() {
            (seen.is_wide, brought.is_wide) = (true, true);
        }
        let stays = seen.was_aside || seen.is_wide || self.aside.len() >= MAX_ASIDE;
        if stays || !is_stale {
            self.served += 1;
            self.tend = now + TEND_INTERVAL;
            let is_idle = brought.waited < IDLE && !seen.was_aside;
            if self.served >= SERVED_PER_ASIDE || is_idle {
                self.take_up(now);
            }
            return false;
        }
        self.asides += 1;
        self.aside.insert(self.asides, (connection, now));
        seen.aside = Some(self.asides);
        seen.is_behind = true;
        true
    }

    /// A connection was served: of its bytes so many are done with, and so many requests were answered. `is_behind` says
    /// that whole ones are left.
    pub(crate) fn served(&self, seen: &mut Seen, bytes: usize, answered: u64, is_behind: bool) {
        seen.bytes += bytes;
        seen.is_behind = is_behind;
        seen.was_aside = false;
        seen.is_wide |= answered > 1;
    }

    /// A turn ends; `cpu` tells the processor time of the loop.
    pub(crate) fn turn_done(&mut self, now: Duration, cpu: impl FnOnce() -> Duration) {
        if self.ended.is_some() {
            // It found nothing, so whatever comes next comes after it.
            self.turn = now;
        }
        let is_long = now.saturating_sub(self.turn) >= LONG_TURN;
        self.ended = Some((now, is_long.then(cpu)));
    }

    /// Takes up one connection that was put aside: the oldest if it has been there for too long, else the newest.
    fn take_up(&mut self, now: Duration) {
        self.served = 0;
        let oldest = self.aside.first_entry();
        let overdue = oldest.filter(|entry| now.saturating_sub(entry.get().1) > ASIDE_MAX);
        let taken = match overdue {
            Some(entry) => Some(entry.remove()),
            None => self.aside.pop_last().map(|(_, taken)| taken),
        };
        self.taken.extend(taken.map(|(connection, _)| connection));
    }

    /// When a connection that was put aside is to be taken up.
    pub(crate) fn next(&self) -> Option<Duration> {
        match (self.taken.is_empty(), self.aside.is_empty()) {
            (false, _) => Some(Duration::ZERO),
            (true, false) => Some(self.tend),
            (true, true) => None,
        }
    }

    /// A connection that was put aside and is to be served now.
    pub(crate) fn take(&mut self, now: Duration) -> Option<C> {
        if self.taken.is_empty() && !self.aside.is_empty() && now >= self.tend {
            self.tend = now + TEND_INTERVAL;
            self.take_up(now);
        }
        self.taken.pop()
    }

    /// Whether a connection is aside; from now on it is not.
    pub(crate) fn resume(&self, seen: &mut Seen) -> bool {
        seen.was_aside |= seen.aside.is_some();
        seen.aside.take().is_some()
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, seen: &Seen) {
        if let Some(number) = seen.aside {
            self.aside.remove(&number);
        }
    }
}

impl Seen {
    /// Whether the connection was put aside.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside.is_some()
    }
}

#[cfg(test)]
#[path = "looped_tests.rs"]
mod tests;
