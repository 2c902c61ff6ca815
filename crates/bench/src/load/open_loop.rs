//! The open loop without its sockets: which request goes to which connection when, and what counts as what.
//!
//! Time comes in as numbers, so the same code runs against real sockets and, in tests, against a simulated
//! server whose percentiles are known on paper.
//!
//! ```text
//! schedule ──due──► backlog ──free connection──► ring of its connection ──answer──► tally
//!                      └─ older than the deadline, or too many: unsent
//! ```

mod outcome;

use std::collections::VecDeque;

use super::clients::{Again, Clients, RetryPolicy};
use super::keys::KeySampler;
use super::schedule::Schedule;
use super::seconds::{Bucket, Seconds};
use super::tally::Tally;

/// Writes per wake-up beyond which due requests share a connection's write instead of taking another one.
const WRITES_PER_WAKE: usize = 8;

/// Requests that may wait for a connection. 32 bytes each.
pub(crate) const BACKLOG_LIMIT: usize = 1 << 20;

/// Bounds of a run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections.
    pub connections: usize,
    /// Requests that one connection may have unanswered.
    pub depth: usize,
    /// An answer later than this after the intended time is a timeout.
    pub deadline_ns: u64,
    /// Requests that may wait for a connection.
    pub backlog_limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    intended: u64,
    /// When the request was due at its first attempt.
    first: u64,
    key: u32,
    /// Attempts before this one.
    attempt: u32,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    intended: u64,
    first: u64,
    sent: u64,
    key: u32,
    attempt: u32,
}

/// One connection's requests in the order of their writing; answers come in the same order.
#[derive(Debug)]
struct Lane {
    ring: VecDeque<InFlight>,
    /// Requests at the back of the ring that were handed out but not yet written.
    fresh: usize,
    /// Requests at its front that their clients have given up already. Only clients that retry notice so early.
    expired: usize,
    alive: bool,
    blocked: bool,
}

impl Lane {
    /// The oldest request that is written and not given up.
    fn oldest_awaited(&self) -> Option<InFlight> {
        let written = self.ring.len() - self.fresh;
        let awaited = self.expired < written;
        self.ring.get(self.expired).copied().filter(|_| awaited)
    }
}

/// State of an open loop run.
#[derive(Debug)]
pub struct OpenLoop {
    bounds: Bounds,
    start: u64,
    schedule: Schedule,
    sampler: KeySampler,
    backlog: VecDeque<Waiting>,
    lanes: Vec<Lane>,
    alive: usize,
    in_flight: usize,
    cursor: usize,
    /// Lanes of one connection that lie together.
    together: usize,
    touched: Vec<usize>,
    tally: Tally,
    seconds: Seconds,
    /// A request is due when there is room for it, and not by the schedule.
    closed: bool,
    /// The schedule's length is over.
    ended: bool,
    clients: Clients,
    gives_up: bool,
    /// Requests on the wire as they were handed out, by intended time and lane, where clients give up. Those of a deadline
    /// at most.
    watched: VecDeque<(u64, usize)>,
}

impl OpenLoop {
    /// A run of `schedule` that starts at time `start`, over `keys` keys.
    #[must_use]
    pub(crate) fn new(
        bounds: Bounds,
        schedule: Schedule,
        sampler: KeySampler,
        keys: u32,
        start: u64,
    ) -> OpenLoop {
        let lane = || Lane {
            ring: VecDeque::with_capacity(bounds.depth),
            fresh: 0,
            expired: 0,
            alive: true,
            blocked: false,
        };
        OpenLoop {
            bounds,
            start,
            schedule,
            sampler,
            backlog: VecDeque::new(),
            lanes: (0..bounds.connections).map(|_| lane()).collect(),
            alive: bounds.connections,
            in_flight: 0,
            cursor: 0,
            together: 1,
            touched: Vec::with_capacity(bounds.connections),
            tally: Tally::new(keys),
            seconds: Seconds::new(start),
            closed: false,
            ended: false,
            clients: Clients::default(),
            gives_up: false,
            watched: VecDeque::new(),
        }
    }

    /// The same with clients that take a request back at its deadline, which frees its place. For lanes of one request each.
    #[must_use]
    pub fn giving_up(mut self) -> OpenLoop {
        self.gives_up = true;
        self
    }

    /// The same with `together` lanes of one connection after another, of which each connection fills one in its turn: who
    /// opens a connection for many callers spreads them over all it has.
    #[must_use]
    pub fn taking_turns(mut self, together: usize) -> OpenLoop {
        self.together = together.max(1);
        self
    }

    /// The lane whose turn it is at `cursor`.
    fn lane_at(&self, cursor: usize) -> usize {
        let connections = (self.lanes.len() / self.together).max(1);
        cursor % connections * self.together + cursor / connections
    }

    /// Gives up the requests that are older than the deadline: `cancel(lane, intended)` for each.
    pub fn give_up(&mut self, now: u64, mut cancel: impl FnMut(usize, u64)) {
        while let Some(&(intended, index)) = self.watched.front() {
            let lane = &mut self.lanes[index];
            let oldest = lane.ring.front().copied();
            let on_wire = oldest.filter(|request| request.intended == intended);
            let overdue = now.saturating_sub(intended) > self.bounds.deadline_ns;
            if on_wire.is_some() && !overdue {
                return;
            }
            self.watched.pop_front();
            let Some(request) = on_wire else { continue };
            lane.ring.pop_front();
            self.in_flight -= 1;
            // Who retries may have noticed before: then it is counted, or sent again, already.
            let noticed = lane.expired > 0;
            lane.expired = lane.expired.saturating_sub(1);
            if !noticed && !self.again(now, request.first, request.key, request.attempt) {
                self.time_out(now, &request);
            }
            let due = (request.first, request.intended);
            self.tally.record_lost(request.key, due, request.sent);
            cancel(index, intended);
        }
    }

    /// A closed loop instead: as long as the schedule lasts, requests are due whenever connections have room.
    #[must_use]
    pub(crate) fn closed(mut self, closed: bool) -> OpenLoop {
        self.closed = closed;
        self
    }

    /// Requests that connections have room for, in a closed loop that has not ended.
    fn room(&self) -> usize {
        let taken = self.in_flight + self.backlog.len();
        if self.closed && !self.ended {
            (self.alive * self.bounds.depth).saturating_sub(taken)
        } else {
            0
        }
    }

    /// The same with clients that send a failed request again, or wait for answers only as long as `policy` says.
    #[must_use]
    pub(crate) fn with_clients(mut self, policy: RetryPolicy) -> OpenLoop {
        self.clients = Clients::new(policy, self.bounds.backlog_limit);
        self
    }

    /// The time at which the next request is due. `None` after the last one.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        if self.room() > 0 {
            return Some(self.start);
        }
        let first = self.schedule.peek().map(|offset| self.start + offset);
        let oldest = self.watched.front();
        let given_up = oldest.map(|(intended, _)| intended + self.bounds.deadline_ns + 1);
        let dues = [first, self.clients.next_due(), given_up];
        dues.into_iter().flatten().min()
    }

    /// The time after which no answer can be in time any more.
    #[must_use]
    pub fn last_call(&self) -> u64 {
        let drain = self.clients.drain_ns().unwrap_or(self.bounds.deadline_ns);
        (self.start + self.schedule.length_ns()).saturating_add(drain)
    }

    /// The last second of the schedule that has passed, once each.
    #[inline]
    pub(crate) fn take_second(&mut self) -> Option<&Bucket> {
        self.seconds.take_fresh()
    }

    /// Whether everything planned has been answered or given up.
    #[must_use]
    pub fn finished(&self, now: u64) -> bool {
        let planned = self.schedule.peek().is_some()
            || self.clients.waiting() > 0
            || (self.closed && !self.ended);
        let quiet = !planned && self.backlog.is_empty() && self.in_flight == 0;
        quiet || now > self.last_call()
    }

    /// Whether requests wait for a connection.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// Requests written and not yet answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether `connection` still works.
    #[must_use]
    pub(crate) fn is_alive(&self, connection: usize) -> bool {
        self.lanes[connection].alive
    }

    /// Whether nothing is with the target on `connection`.
    #[must_use]
    pub(crate) fn is_idle(&self, connection: usize) -> bool {
        self.lanes[connection].ring.is_empty()
    }

    /// `connection` was opened anew.
    pub(crate) fn revive(&mut self, connection: usize) {
        let lane = &mut self.lanes[connection];
        lane.blocked = false;
        if !lane.alive {
            lane.alive = true;
            self.alive += 1;
        }
    }

    /// Whether no connection is left.
    #[must_use]
    pub(crate) fn all_lost(&self) -> bool {
        self.alive == 0
    }

    /// Counts so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// For complaints that only the socket side can word.
    pub(crate) fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Takes over requests that have come due, gives up those that waited too long, and hands the rest to free
    /// connections: `give(connection, key)` for each. Returns the connections that have something to write.
    pub fn dispatch(&mut self, now: u64, mut give: impl FnMut(usize, u32)) -> &[usize] {
        let unanswered = (self.in_flight + self.backlog.len()) as u64;
        self.seconds.pass(now, unanswered, || self.tally.totals());
        self.expire(now);
        let arrived = self.take_due(now);
        self.touched.clear();
        if !self.backlog.is_empty() {
            let share = self
                .backlog
                .len()
                .div_ceil(WRITES_PER_WAKE)
                .clamp(1, self.bounds.depth);
            // Idle connections first; a second round fills the pipelines, where there are any.
            self.hand_out(share, true, &mut give);
            if self.bounds.depth > 1 {
                self.hand_out(self.bounds.depth, false, &mut give);
            }
        }
        // The oldest were given out first, so what is left of the newly arrived was held up.
        self.tally.held_up += self.backlog.len().min(arrived) as u64;
        &self.touched
    }

    fn take_due(&mut self, now: u64) -> usize {
        let mut arrived = 0;
        self.ended |= now >= self.start + self.schedule.length_ns();
        if now >= self.start {
            for _ in 0..self.room() {
                self.tally.planned += 1;
                arrived += 1;
                let key = self.sampler.draw();
                self.backlog.push_back(Waiting {
                    intended: now,
                    first: now,
                    key,
                    attempt: 0,
                });
            }
        }
        while let Some(offset) = self.schedule.peek() {
            let intended = self.start + offset;
            if intended > now {
                break;
            }
            self.schedule.take();
            self.tally.planned += 1;
            self.tally.own_lag.saturating_record(now - intended);
            self.seconds.record_own_lag(now - intended);
            arrived += 1;
            let key = self.sampler.draw();
            self.wait(
                now,
                Waiting {
                    intended,
                    first: intended,
                    key,
                    attempt: 0,
                },
            );
        }
        while let Some((intended, again)) = self.clients.take_due(now) {
            arrived += 1;
            self.wait(
                now,
                Waiting {
                    intended,
                    first: again.first,
                    key: again.key,
                    attempt: again.attempt,
                },
            );
        }
        while let Some(late) = self
            .backlog
            .pop_front_if(|first| now.saturating_sub(first.intended) > self.bounds.deadline_ns)
        {
            if !self.again(now, late.first, late.key, late.attempt) {
                self.leave_unsent(now, late.first);
            }
        }
        arrived
    }

    fn wait(&mut self, now: u64, waiting: Waiting) {
        if self.backlog.len() < self.bounds.backlog_limit {
            self.backlog.push_back(waiting);
        } else if !self.again(now, waiting.first, waiting.key, waiting.attempt) {
            self.leave_unsent(now, waiting.first);
        }
    }

    /// Counts `request`, which is on the wire, as without an answer in time.
    fn time_out(&mut self, now: u64, request: &InFlight) {
        self.tally.timeout += 1;
        self.overdue(now, request.first, Some(now.saturating_sub(request.sent)));
    }

    /// Counts a request first due at `first` as never sent.
    fn leave_unsent(&mut self, now: u64, first: u64) {
        self.tally.unsent += 1;
        if let Some(samples) = &mut self.tally.samples {
            samples.unsent(first);
        }
        self.overdue(now, first, None);
    }

    /// One for which there was no room was not waited for, and would have got no answer in time.
    fn overdue(&mut self, now: u64, first: u64, sent_ns_ago: Option<u64>) {
        let waited = now.saturating_sub(first).max(self.bounds.deadline_ns);
        self.seconds.record(waited);
        self.tally.record_overdue(waited, sent_ns_ago);
    }

    /// Whether the client sends a request again whose `attempt` failed.
    fn again(&mut self, now: u64, first: u64, key: u32, attempt: u32) -> bool {
        self.clients.fail(
            now,
            Again {
                first,
                key,
                attempt,
            },
        )
    }

    /// Clients that retry give up what is older than the deadline without waiting for its answer.
    fn expire(&mut self, now: u64) {
        if !self.clients.retry() {
            return;
        }
        for index in 0..self.lanes.len() {
            while let Some(request) = self.lanes[index]
                .oldest_awaited()
                .filter(|r| now.saturating_sub(r.intended) > self.bounds.deadline_ns)
            {
                self.lanes[index].expired += 1;
                if !self.again(now, request.first, request.key, request.attempt) {
                    self.time_out(now, &request);
                }
            }
        }
    }

    fn hand_out(&mut self, fill_to: usize, idle_only: bool, give: &mut impl FnMut(usize, u32)) {
        let count = self.lanes.len();
        for _ in 0..count {
            if self.backlog.is_empty() {
                return;
            }
            let index = self.lane_at(self.cursor);
            self.cursor = if self.cursor + 1 == count {
                0
            } else {
                self.cursor + 1
            };
            let lane = &mut self.lanes[index];
            if !lane.alive || lane.blocked || (idle_only && !lane.ring.is_empty()) {
                continue;
            }
            let room = fill_to
                .saturating_sub(lane.ring.len())
                .min(self.backlog.len());
            if room == 0 {
                continue;
            }
            if lane.fresh == 0 {
                self.touched.push(index);
            }
            for waiting in self.backlog.drain(..room) {
                lane.ring.push_back(InFlight {
                    intended: waiting.intended,
                    first: waiting.first,
                    sent: 0,
                    key: waiting.key,
                    attempt: waiting.attempt,
                });
                if self.gives_up {
                    // What is sent again was due before what was sent in the meantime.
                    let later = self.watched.iter().rev();
                    let later = later.take_while(|(due, _)| *due > waiting.intended).count();
                    let at = self.watched.len() - later;
                    self.watched.insert(at, (waiting.intended, index));
                }
                give(index, waiting.key);
            }
            lane.fresh += room;
            self.in_flight += room;
        }
    }

    /// The requests last given to `connection` are written at `now`.
    pub fn stamp(&mut self, connection: usize, now: u64) {
        let lane = &mut self.lanes[connection];
        let fresh = std::mem::take(&mut lane.fresh);
        let from = lane.ring.len() - fresh;
        for request in lane.ring.iter_mut().skip(from) {
            request.sent = now;
            self.tally.record_sent(request.key, request.intended, now);
        }
    }

    /// Whether `connection` takes no more bytes for the moment.
    pub(crate) fn set_blocked(&mut self, connection: usize, blocked: bool) {
        self.lanes[connection].blocked = blocked;
    }
}
