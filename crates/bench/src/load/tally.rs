//! What came back: counts and histograms of one step.

use hdrhistogram::Histogram;

use super::decisions::{Decision, DecisionLog, NEVER, Said};
use super::samples::Samples;
use super::seconds::{Bucket, Totals};

/// Smallest latency told apart, in nanoseconds.
const LATENCY_LOW_NS: u64 = 100;
/// Largest latency recorded; longer ones are recorded as this.
const LATENCY_HIGH_NS: u64 = 120_000_000_000;
/// Significant decimal digits of a recorded latency.
const LATENCY_DIGITS: u8 = 3;

/// An empty histogram of nanoseconds with the bounds all latencies here have.
#[must_use]
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_LOW_NS, LATENCY_HIGH_NS, LATENCY_DIGITS)
        .expect("the constant bounds are in the range that the histogram accepts")
}

/// What an answer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed; also any good answer of an operation that decides nothing.
    Allowed,
    /// Denied: a good answer too.
    Denied,
    /// The target answered with an error.
    Error,
    /// The answer has not the shape that the operation promises.
    Unexpected,
}

/// What happened to the requests of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyTally {
    /// Requests written.
    pub sent: u32,
    /// Answers "allowed", in time or late.
    pub admitted: u32,
    /// Answers "denied", in time or late.
    pub denied: u32,
    /// Answers that were errors: nothing is known about a charge.
    pub errors: u32,
    /// Time of the first send.
    pub first_sent_ns: u64,
    /// Time of the last answer.
    pub last_received_ns: u64,
}

impl KeyTally {
    /// Requests whose verdict is not known: lost, failed or still on their way at the end.
    #[must_use]
    pub fn unknown(&self) -> u32 {
        self.sent
            .saturating_sub(self.admitted)
            .saturating_sub(self.denied)
    }
}

/// Counts and histograms of one step. Times are nanoseconds.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests that the schedule held.
    pub planned: u64,
    /// Requests written.
    pub sent: u64,
    /// Requests answered, in time or late, with whatever answer.
    pub completed: u64,
    /// Answers "allowed" in time.
    pub allowed: u64,
    /// Answers "denied" in time.
    pub denied: u64,
    /// Requests without an answer in time, whether a late one came or none.
    pub timeout: u64,
    /// Requests lost with their connection, or for which no connection was left.
    pub refused: u64,
    /// Answers that were not valid in the protocol.
    pub protocol: u64,
    /// Errors that the target answered.
    pub store_error: u64,
    /// Requests never written.
    pub unsent: u64,
    /// Repetitions of failed requests that came due; filled in at the end.
    pub repeated: u64,
    /// Requests that found every connection full when they were due.
    pub held_up: u64,
    /// Time of the last good answer in time.
    pub last_good_ns: u64,
    /// Time of the last answer, whatever it said and however late.
    pub last_answer_ns: u64,
    /// From the intended time, allowed.
    pub response_allow: Histogram<u64>,
    /// From the intended time, denied.
    pub response_deny: Histogram<u64>,
    /// From the send, allowed.
    pub service_allow: Histogram<u64>,
    /// From the send, denied.
    pub service_deny: Histogram<u64>,
    /// Requests without an answer in time, from the intended time: what a late answer took, else how long one was waited
    /// for, which is the deadline at least. Without them a percentile would never pass the deadline, whatever the target does.
    pub overdue: Histogram<u64>,
    /// Those of them that were sent, from the send.
    pub service_overdue: Histogram<u64>,
    /// Answers after the deadline, from the intended time.
    pub late: Histogram<u64>,
    /// Decisions among them; the others are errors.
    pub late_decided: Histogram<u64>,
    /// Intended time to send.
    pub lag: Histogram<u64>,
    /// Intended time to the moment at which the generator took the request up: its own part of the lag, whatever the
    /// target does.
    pub own_lag: Histogram<u64>,
    /// One entry per key.
    pub keys: Vec<KeyTally>,
    /// Decisions of some keys, one by one.
    pub decisions: DecisionLog,
    /// First error text of the target, or first complaint about an answer.
    pub first_error: Option<String>,
    /// The step bucket by bucket; filled in at its end.
    pub seconds: Vec<Bucket>,
    /// Single requests, where they are kept.
    pub samples: Option<Samples>,
}

/// Share of held-up requests above which the target counts as pushing back.
const HELD_UP_SHARE: f64 = 0.01;
/// Longest error text kept.
const ERROR_TEXT_MAX: usize = 200;

impl Tally {
    /// Nothing yet, over `keys` keys.
    #[must_use]
    pub(crate) fn new(keys: u32) -> Tally {
        Tally {
            planned: 0,
            sent: 0,
            completed: 0,
            allowed: 0,
            denied: 0,
            timeout: 0,
            refused: 0,
            protocol: 0,
            store_error: 0,
            unsent: 0,
            repeated: 0,
            held_up: 0,
            last_good_ns: 0,
            last_answer_ns: 0,
            response_allow: latency_histogram(),
            response_deny: latency_histogram(),
            service_allow: latency_histogram(),
            service_deny: latency_histogram(),
            overdue: latency_histogram(),
            service_overdue: latency_histogram(),
            late: latency_histogram(),
            late_decided: latency_histogram(),
            lag: latency_histogram(),
            own_lag: latency_histogram(),
            keys: vec![KeyTally::default(); keys as usize],
            decisions: DecisionLog::new(keys),
            first_error: None,
            seconds: Vec::new(),
            samples: None,
        }
    }

    /// The totals that buckets are differences of.
    #[must_use]
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            planned: self.planned,
            sent: self.sent,
            good: self.allowed + self.denied,
            failed: self.timeout + self.refused + self.protocol + self.store_error + self.unsent,
        }
    }

    /// Whether the target, not the generator, held requests back.
    #[must_use]
    pub fn target_pushed_back(&self) -> bool {
        self.timeout > 0 || self.held_up as f64 > HELD_UP_SHARE * self.planned as f64
    }

    /// Counts a request of `key` as written at `now`, due at `intended`.
    #[inline]
    pub(crate) fn record_sent(&mut self, key: u32, intended: u64, now: u64) {
        self.sent += 1;
        self.lag.saturating_record(now.saturating_sub(intended));
        let tally = &mut self.keys[key as usize];
        if tally.sent == 0 {
            tally.first_sent_ns = now;
        }
        tally.sent += 1;
    }

    /// A request of `key` that was written is to be written again. `untaken` says that the target did nothing about it.
    pub(crate) fn take_back(&mut self, key: u32, untaken: bool) {
        self.sent -= 1;
        if untaken {
            self.keys[key as usize].sent -= 1;
        }
    }

    /// Counts a request that got no answer in time: `waited_ns` from its intended time, and from its send if it was sent.
    pub(crate) fn record_overdue(&mut self, waited_ns: u64, sent_ns_ago: Option<u64>) {
        self.overdue.saturating_record(waited_ns);
        if let Some(ago) = sent_ns_ago {
            self.service_overdue.saturating_record(ago);
        }
    }

    /// Counts an answer received at `now` to a request of `key`.
    #[inline]
    pub(crate) fn record_answer(&mut self, answer: &Answer, deadline_ns: u64) {
        let &Answer {
            key,
            first,
            intended,
            sent,
            now,
            verdict,
            promise_ms,
            given_up,
        } = answer;
        if let Some(samples) = &mut self.samples {
            samples.answered(answer);
        }
        self.completed += 1;
        self.last_answer_ns = now;
        self.decisions
            .push(Decision::new(key, sent, now, verdict.into()).promising(promise_ms));
        let response = now.saturating_sub(intended);
        let in_time = response <= deadline_ns;
        let key = &mut self.keys[key as usize];
        key.last_received_ns = now;
        match verdict {
            Verdict::Allowed => key.admitted += 1,
            Verdict::Denied => key.denied += 1,
            Verdict::Error | Verdict::Unexpected => key.errors += 1,
        }
        if !in_time {
            if !given_up {
                self.timeout += 1;
                self.record_overdue(now.saturating_sub(first), Some(now.saturating_sub(sent)));
            }
            self.late.saturating_record(response);
            if matches!(verdict, Verdict::Allowed | Verdict::Denied) {
                self.late_decided.saturating_record(response);
            }
            return;
        }
        let service = now.saturating_sub(sent);
        let response = now.saturating_sub(first);
        if matches!(verdict, Verdict::Allowed | Verdict::Denied) {
            self.last_good_ns = now;
        }
        match verdict {
            Verdict::Allowed => {
                self.allowed += 1;
                self.response_allow.saturating_record(response);
                self.service_allow.saturating_record(service);
            }
            Verdict::Denied => {
                self.denied += 1;
                self.response_deny.saturating_record(response);
                self.service_deny.saturating_record(service);
            }
            Verdict::Error | Verdict::Unexpected if given_up => {}
            Verdict::Error => self.store_error += 1,
            Verdict::Unexpected => self.protocol += 1,
        }
    }

    /// Keeps that a request of `key`, due at first and this time as given and written at `sent`, got no answer.
    pub(crate) fn record_lost(&mut self, key: u32, due: (u64, u64), sent: u64) {
        if let Some(samples) = &mut self.samples {
            samples.unanswered(key, due, sent);
        }
        self.decisions
            .push(Decision::new(key, sent, NEVER, Said::Unknown));
    }

    /// Keeps the first complaint, shortened and made printable.
    pub(crate) fn complain(&mut self, text: &[u8]) {
        if self.first_error.is_none() {
            let shown: String = String::from_utf8_lossy(text)
                .chars()
                .take(ERROR_TEXT_MAX)
                .collect();
            self.first_error = Some(shown.escape_debug().to_string());
        }
    }

    /// All answers in time, from the intended time.
    #[must_use]
    pub fn response(&self) -> Histogram<u64> {
        let mut all = self.response_allow.clone();
        all.add(&self.response_deny)
            .expect("both histograms have the same bounds");
        all
    }

    /// All answers in time, from the send.
    #[must_use]
    pub fn service(&self) -> Histogram<u64> {
        let mut all = self.service_allow.clone();
        all.add(&self.service_deny)
            .expect("both histograms have the same bounds");
        all
    }
}

/// One answer as the generator saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Key number.
    pub key: u32,
    /// When the schedule wanted the request sent, at its first attempt.
    pub first: u64,
    /// When this attempt was due.
    pub intended: u64,
    /// When it was sent.
    pub sent: u64,
    /// When the answer was read.
    pub now: u64,
    /// What it said.
    pub verdict: Verdict,
    /// The wait that a denial promised, where the protocol tells one.
    pub promise_ms: Option<u64>,
    /// True if the client has given this attempt up: the failure is counted already, or the request is sent again.
    pub given_up: bool,
}
