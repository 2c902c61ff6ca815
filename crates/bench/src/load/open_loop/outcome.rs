//! What becomes of requests that were handed out: answered, lost with their connection, or open at the end.

use super::super::tally::{Answer, Tally, Verdict};
use super::{InFlight, Lane, OpenLoop, Waiting};

impl OpenLoop {
    /// The oldest request of `connection` was answered at `now`. False if it had none: an answer to nothing.
    #[inline]
    pub fn answer(&mut self, connection: usize, now: u64, verdict: Verdict) -> bool {
        self.answer_promising(connection, now, verdict, None)
    }

    /// Whether the oldest request of `connection` belongs to a key whose decisions are kept.
    #[inline]
    #[must_use]
    pub(crate) fn follows(&self, connection: usize) -> bool {
        let oldest = self.lanes[connection].ring.front();
        oldest.is_some_and(|request| self.tally.decisions.follows(request.key))
    }

    /// [`answer`](Self::answer) with the wait that a denial promised.
    #[inline]
    pub fn answer_promising(
        &mut self,
        connection: usize,
        now: u64,
        verdict: Verdict,
        promise_ms: Option<u64>,
    ) -> bool {
        let lane = &mut self.lanes[connection];
        let Some(request) = lane.ring.pop_front() else {
            return false;
        };
        let mut given_up = lane.expired > 0;
        lane.expired = lane.expired.saturating_sub(1);
        self.in_flight -= 1;
        let InFlight {
            intended,
            first,
            sent,
            key,
            attempt,
        } = request;
        let good = matches!(verdict, Verdict::Allowed | Verdict::Denied);
        let in_time = now.saturating_sub(intended) <= self.bounds.deadline_ns;
        if !(given_up || good && in_time) {
            given_up = self.again(now, first, key, attempt);
        }
        // An error in time says nothing of how long a decision takes; what comes after its time was counted if it was given up.
        let told = if in_time { good } else { !given_up };
        if told {
            self.seconds.record(now.saturating_sub(first));
        }
        self.tally.record_answer(
            &Answer {
                key,
                first,
                intended,
                sent,
                now,
                verdict,
                promise_ms,
                given_up,
            },
            self.bounds.deadline_ns,
        );
        true
    }

    /// `connection` broke: its unanswered requests count as refused, or as protocol failures if its bytes made no sense.
    pub(crate) fn lose(&mut self, connection: usize, garbage: bool) {
        let lane = &mut self.lanes[connection];
        if !lane.alive {
            return;
        }
        lane.alive = false;
        self.alive -= 1;
        self.in_flight -= lane.ring.len();
        keep_lost(lane, &mut self.tally);
        // Those that were given up before are counted or repeated already.
        let mut lost = std::mem::take(&mut lane.ring);
        lost.drain(..lane.expired);
        (lane.fresh, lane.expired) = (0, 0);
        // Nothing is known of the time at which a connection broke but that its last request was sent before.
        let now = lost.iter().map(|request| request.intended).max();
        for request in lost {
            let now = now.unwrap_or_default();
            if self.again(now, request.first, request.key, request.attempt) {
                continue;
            }
            match garbage {
                true => self.tally.protocol += 1,
                false => self.tally.refused += 1,
            }
        }
    }

    /// `connection` ends in order with requests that are to be sent again on another. `untaken` says that the server did
    /// nothing about them; else it may have, and what is known of them is kept.
    pub(crate) fn take_back(&mut self, connection: usize, untaken: bool) {
        let lane = &mut self.lanes[connection];
        if !untaken {
            keep_lost(lane, &mut self.tally);
        }
        self.in_flight -= lane.ring.len();
        let written = (lane.ring.len() - lane.fresh).saturating_sub(lane.expired);
        let mut back = std::mem::take(&mut lane.ring);
        // Those that were given up before are counted or repeated already.
        back.drain(..lane.expired);
        (lane.fresh, lane.expired) = (0, 0);
        for request in back.iter().take(written) {
            self.tally.take_back(request.key, untaken);
        }
        // They are the oldest, so no newer one is to go before them.
        for request in back.into_iter().rev() {
            self.backlog.push_front(Waiting {
                intended: request.intended,
                first: request.first,
                key: request.key,
                attempt: request.attempt,
            });
        }
    }

    /// Ends the run. What has no answer counts as timed out; what has no connection left counts as refused.
    #[must_use]
    pub fn finish(mut self) -> Tally {
        let waiting = (self.backlog.len() + self.clients.waiting()) as u64;
        if self.all_lost() {
            self.tally.refused += waiting;
            while self.schedule.take().is_some() {
                self.tally.planned += 1;
                self.tally.refused += 1;
            }
        } else {
            let (backlog, last_call) = (std::mem::take(&mut self.backlog), self.last_call());
            let again: Vec<u64> = self.clients.firsts().collect();
            for first in backlog.iter().map(|waiting| waiting.first).chain(again) {
                self.leave_unsent(last_call, first);
            }
            // What a generator that fell behind has not even looked at was due all the same.
            while let Some(offset) = self.schedule.take() {
                self.tally.planned += 1;
                self.leave_unsent(last_call, self.start + offset);
            }
        }
        self.tally.repeated = self.clients.repeated();
        for lane in std::mem::take(&mut self.lanes) {
            keep_lost(&lane, &mut self.tally);
            let written = lane.ring.len() - lane.fresh;
            for (at, request) in lane.ring.iter().enumerate().skip(lane.expired) {
                self.tally.timeout += 1;
                let sent_ago =
                    (at < written).then(|| self.last_call().saturating_sub(request.sent));
                self.overdue(self.last_call(), request.first, sent_ago);
            }
        }
        self.tally.seconds = self.seconds.finish(self.tally.totals());
        self.tally
    }

    /// Ends the run early: requests without an answer so far are taken out of the count.
    #[must_use]
    pub(crate) fn interrupt(mut self) -> Tally {
        let open = self.backlog.len() + self.clients.waiting() + self.in_flight - self.expired();
        self.tally.planned -= open as u64;
        self.tally.repeated = self.clients.repeated();
        let fresh: usize = self.lanes.iter().map(|lane| lane.fresh).sum();
        self.tally.sent -= (self.in_flight - fresh) as u64;
        for lane in &self.lanes {
            keep_lost(lane, &mut self.tally);
        }
        self.tally.seconds = self.seconds.finish(self.tally.totals());
        self.tally
    }

    /// Requests on the wire that their clients have given up.
    fn expired(&self) -> usize {
        self.lanes.iter().map(|lane| lane.expired).sum()
    }
}

/// Keeps the requests of `lane` that were written and not answered.
fn keep_lost(lane: &Lane, tally: &mut Tally) {
    let written = lane.ring.len() - lane.fresh;
    for request in lane.ring.iter().take(written) {
        let due = (request.first, request.intended);
        tally.record_lost(request.key, due, request.sent);
    }
}
