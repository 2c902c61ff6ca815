//! Which requests one event loop refuses: pure, times are given.
//!
//! A loop asks the system what has come, serves the connections that it names, and asks again: a turn. What a turn finds
//! came while the turn before was served, or just now if the loop slept. So it is known between which times the bytes of a
//! connection came, and they are taken to have come evenly. On io_uring all are read before the first is served, and the
//! answers leave together when the last is.
//!
//! Of what a connection brings at once the newest are answered and those refused that have waited for too long: for a fifth of
//! the patience when they were read, so that a turn takes only as much longer than that as more is asked than can be decided.
//!
//! A connection that brings one request after another, or few at once, costs nearly as much to refuse as to decide, because
//! most of either is spent on sockets. Where even the newest of its requests has waited for too long it is put aside
//! unanswered, and taken up again, the newest first, as far as there is time. While the queue stands it is not even read,
//! if it brings as many as it did when that was counted last.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::queue::{Queue, Refused};
use super::{ASIDE_MAX, IDLE, SERVED_PER_ASIDE};

/// Twentieths of the patience that a request may be old when it is read, to be answered: while the queue stands, and while
/// it does not. Where all are read before the first is served, the turn that follows makes each of them older.
const FRESH: u32 = 4;
const BURST: u32 = 8;
const BURST_READ_EARLY: u32 = 5;
/// Twentieths that it may be old when its turn comes. The rest is for what is served after it and for the ways there and
/// back.
const LATE: u32 = 10;
/// From so many requests at once a connection brings many: a write for all of them costs little beside each.
pub(crate) const MANY: usize = 4;
/// The patience by this is how old a request may be to be decided before others, on a connection that brings fewer.
const STALE: (u32, u32) = (3, 8);
/// The same for one whose connection was put aside.
const STALE_ASIDE: (u32, u32) = (1, 2);
/// The patience by this is below what it matters how many requests a connection brings.
const YOUNG_DIVISOR: u32 = 8;
/// Connections that are taken up when a turn has found nothing.
const IDLE_TAKES: usize = 8;

/// A turn of this length is worth asking the system how much of the time behind it the loop slept.
const LONG_TURN: Duration = Duration::from_micros(500);
/// The time behind a shorter turn in which its answers leave; the loop sleeps for what is beyond.
const BUSY_GAP: Duration = Duration::from_millis(2);
/// Most connections that are aside; further ones are served.
const MAX_ASIDE: usize = 65_536;

/// How a loop goes from connection to connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// A turn reads all before it serves the first.
    pub(crate) reads_early: bool,
    /// Connections that a turn finds at most. Those beyond are found later, and may have waited for longer than since the
    /// turn before.
    pub(crate) hears: u32,
}

/// What one loop refuses. `C` names a connection.
#[derive(Debug)]
pub(crate) struct LoopShed<C> {
    queue: Queue,
    patience: Duration,
    goes: Turn,
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
    taken: VecDeque<C>,
    /// Connections served since one was taken up.
    served: u32,
    /// The turn found nothing, for which some were taken up.
    idle: bool,
    /// Those that were taken up are all there was.
    took_all: bool,
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
    /// Requests that it brought when they were counted last, up to [`MANY`]; 0 while they were not.
    count: u8,
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
    patience: Duration,
    /// Twentieths of the patience that one of many requests may be old.
    fresh: u32,
    /// The span in which it came, and how long it has been read.
    span: Duration,
    gone: Duration,
    /// Requests that it brings, up to [`MANY`]; 1 where it does not matter.
    count: usize,
    was_aside: bool,
    /// Few were aside, and nobody else has come: the loop stood still for a moment, and has time.
    is_late_alone: bool,
    /// Of the bytes that the turn takes from this connection: those before these, and all.
    before: usize,
    all: usize,
}

impl Brought {
    /// How long its requests have waited on average, as far as one can tell.
    fn waited(&self) -> Duration {
        self.gone + self.span / 2
    }

    /// The same of the newest of few.
    fn newest_waited(&self) -> Duration {
        self.gone + self.span / (2 * self.count.min(MANY) as u32)
    }

    /// Whether the request at byte `at` is refused; `caller` is how long who asked waits for the answer.
    pub(crate) fn refuse(&self, caller: Option<Duration>, at: usize) -> Option<Refused> {
        let patience = caller.map_or(self.patience, |caller| caller.min(self.patience));
        let refused = |waited, is_late| {
            if waited >= patience {
                Some(Refused::Deadline)
            } else {
                Some(Refused::Overload).filter(|_| is_late)
            }
        };
        let stale = |(part, of): (u32, u32)| patience * part / of;
        if self.is_late_alone {
            return refused(self.waited(), false);
        }
        // A connection that was aside may have brought all that it can right after it was put there.
        if self.was_aside {
            return refused(self.waited(), self.waited() >= stale(STALE_ASIDE));
        }
        if self.count == 1 {
            return refused(self.waited(), false);
        }
        let newer = self.all.saturating_sub(self.before + at) as f64 / self.all.max(1) as f64;
        let old = self.span.mul_f64(newer);
        if self.count < MANY {
            // Each came in the middle of its part of the span, as far as one can tell.
            let waited = self.gone + old.saturating_sub(self.span / (2 * self.count as u32));
            return refused(waited, waited >= stale(STALE));
        }
        let waited = self.gone + old;
        let is_late = old >= patience * self.fresh / 20 || waited >= patience * LATE / 20;
        refused(waited, is_late)
    }
}

impl<C: Copy> LoopShed<C> {
    /// Refuses requests after `patience`; none when it is zero.
    pub(crate) fn new(patience: Duration, goes: Turn) -> Option<Self> {
        (!patience.is_zero()).then(|| Self {
            queue: Queue::new(patience),
            patience,
            goes,
            number: 0,
            turn: Duration::ZERO,
            since: Duration::ZERO,
            found: 0,
            ended: Some((Duration::ZERO, None)),
            aside: BTreeMap::new(),
            asides: 0,
            taken: VecDeque::new(),
            served: 0,
            idle: false,
            took_all: false,
        })
    }

    /// A connection brings `bytes` bytes, of which there may be more if they are `full` as a read can bring at once.
    /// `count` counts the requests up to [`MANY`], `cpu` tells the processor time of the loop.
    pub(crate) fn arrive(
        &mut self,
        seen: &mut Seen,
        (bytes, full): (usize, bool),
        now: Duration,
        count: impl FnOnce() -> usize,
        cpu: impl FnOnce() -> Duration,
    ) -> Brought {
        self.find(seen, now, cpu);
        let read = match self.goes.reads_early {
            true => self.turn,
            false => now,
        };
        // How long it was aside says nothing about the queue.
        if !seen.was_aside {
            self.queue.note(now, now.saturating_sub(seen.since));
        }
        let came = seen.bytes + bytes;
        let mut brought = Brought {
            patience: self.patience,
            fresh: match (self.queue.stands(), self.goes.reads_early) {
                (true, _) => FRESH,
                (false, true) => BURST_READ_EARLY,
                (false, false) => BURST,
            },
            span: read.saturating_sub(seen.since),
            gone: now.saturating_sub(read),
            count: 1,
            was_aside: seen.was_aside,
            is_late_alone: seen.was_aside && self.took_all,
            before: seen.bytes,
            // As many follow as in the turn before.
            all: match full {
                true => came.max(seen.bytes_before),
                false => came,
            },
        };
        let is_young = brought.waited() < self.patience / YOUNG_DIVISOR;
        brought.count = match (seen.bytes > 0, is_young) {
            (true, _) => MANY,
            (false, true) => 1,
            (false, false) => {
                let count = count().clamp(1, MANY);
                seen.count = count as u8;
                count
            }
        };
        if self.goes.reads_early && brought.count > 1 {
            // All answers leave at the end of the turn: few that are young when they are read are not when they leave.
            brought.count = MANY;
        }
        brought
    }

    /// The turn, which may begin with it, has found a connection.
    fn find(&mut self, seen: &mut Seen, now: Duration, cpu: impl FnOnce() -> Duration) {
        if let Some(end) = self.ended.take() {
            self.begin(end, now, cpu);
        }
        self.found = self.found.saturating_add(1);
        if seen.number != self.number {
            seen.since = self.since_of(seen);
            (seen.number, seen.turn) = (self.number, self.turn);
            seen.bytes_before = std::mem::take(&mut seen.bytes);
        }
    }

    /// The time before which nothing came that a connection brings which this turn has found.
    fn since_of(&self, seen: &Seen) -> Duration {
        match seen.number == self.number || seen.is_behind {
            true => seen.since,
            false => self.since.max(seen.turn),
        }
    }

    /// Whether connections may be left unread.
    pub(crate) fn is_pressed(&self) -> bool {
        self.queue.stands()
    }

    /// Whether a connection is put aside before it is read: if it brings as many requests as when they were counted last, even
    /// the newest has waited for too long.
    pub(crate) fn leaves_unread(
        &mut self,
        connection: C,
        seen: &mut Seen,
        now: Duration,
        cpu: impl FnOnce() -> Duration,
    ) -> bool {
        let is_few = seen.count > 0 && usize::from(seen.count) < MANY;
        if !is_few || seen.was_aside || self.aside.len() >= MAX_ASIDE {
            return false;
        }
        if let Some(end) = self.ended.take() {
            self.begin(end, now, cpu);
        }
        let span = now.saturating_sub(self.since_of(seen));
        if !self.is_stale(span / (2 * u32::from(seen.count))) {
            return false;
        }
        self.find(seen, now, || Duration::ZERO);
        self.queue.note(now, span);
        self.put_aside(connection, seen, now);
        true
    }

    fn is_stale(&self, waited: Duration) -> bool {
        let (part, of) = STALE;
        waited >= self.patience * part / of
    }

    fn put_aside(&mut self, connection: C, seen: &mut Seen, now: Duration) {
        self.asides += 1;
        self.aside.insert(self.asides, (connection, now));
        seen.aside = Some(self.asides);
        seen.is_behind = true;
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
        self.since = match (slept, self.found >= self.goes.hears) {
            (true, _) => now,
            (false, true) => Duration::ZERO,
            (false, false) => self.turn,
        };
        self.number += 1;
        (self.turn, self.found) = (now, 0);
    }

    /// Whether what a connection brings is left for later.
    pub(crate) fn puts_aside(
        &mut self,
        connection: C,
        seen: &mut Seen,
        brought: &Brought,
        now: Duration,
    ) -> bool {
        let is_stale = self.is_stale(brought.newest_waited());
        let stays = brought.was_aside || brought.count >= MANY || self.aside.len() >= MAX_ASIDE;
        if stays || !is_stale {
            self.served += 1;
            let is_idle = brought.waited() < IDLE && !brought.was_aside;
            if self.served >= SERVED_PER_ASIDE || is_idle {
                self.take_up(now);
            }
            return false;
        }
        self.put_aside(connection, seen, now);
        true
    }

    /// A connection was served: so many of its bytes are done with. `is_behind` says that whole requests are left.
    pub(crate) fn served(&self, seen: &mut Seen, bytes: usize, is_behind: bool) {
        seen.bytes += bytes;
        seen.is_behind = is_behind;
        seen.was_aside = false;
    }

    /// A turn ends; `cpu` tells the processor time of the loop.
    pub(crate) fn turn_done(&mut self, now: Duration, cpu: impl FnOnce() -> Duration) {
        if self.ended.is_some() {
            // It found nothing, so whatever comes next comes after it.
            self.turn = now;
        }
        (self.idle, self.took_all) = (false, false);
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

    /// Whether connections are aside. The loop must not sleep then.
    pub(crate) fn has_aside(&self) -> bool {
        !self.taken.is_empty() || !self.aside.is_empty()
    }

    /// A connection that was put aside and is to be served now. Asked after all others of the turn were served.
    pub(crate) fn take(&mut self, now: Duration) -> Option<C> {
        if self.ended.is_some() && !self.idle {
            // Nobody else was there.
            self.idle = true;
            self.took_all = self.aside.len() <= IDLE_TAKES;
            for _ in 0..IDLE_TAKES {
                self.take_up(now);
            }
        }
        self.taken.pop_front()
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
