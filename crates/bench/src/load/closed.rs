//! The closed loop: every connection keeps its pipeline full. Finds capacity and feeds the paired comparison.
//!
//! A connection writes `depth` requests at once and the next batch when all have been answered, so batches stay
//! whole on both sides. Latency counts from the write of the batch. It says nothing about users, who do not
//! wait for each other; the open loop does.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;

use super::address::Endpoint;
use super::connection::{Broken, Connection, Framing, READ_SIZE};
use super::keys::KeySampler;
use super::tally::{Verdict, latency_histogram};
use super::workload::Workload;
use crate::os::clock::{Clock, SECOND};
use crate::os::poller::Poller;

/// Longest silence of a server with requests in flight before the run is given up.
const SILENCE_MAX_NS: u64 = 5 * SECOND;
/// Longest single wait.
const WAIT_MAX_NS: u64 = 50_000_000;

/// Where requests come from and how replies are judged.
pub(crate) trait Feed {
    /// Appends the next request. False if there is none left.
    fn push(&mut self, connection: &mut Connection) -> bool;
    /// Judges a reply.
    fn verdict(&self, frame: &[u8]) -> Verdict;
}

/// Requests of a workload over keys drawn at random.
#[derive(Debug)]
pub(crate) struct Drawn<'a> {
    /// What is asked.
    pub workload: &'a Workload,
    /// Which key.
    pub sampler: KeySampler,
}

impl Feed for Drawn<'_> {
    #[inline]
    fn push(&mut self, connection: &mut Connection) -> bool {
        connection.push(self.workload.request(self.sampler.draw()));
        true
    }

    #[inline]
    fn verdict(&self, frame: &[u8]) -> Verdict {
        self.workload.verdict(frame)
    }
}

/// Every request of a workload once, in order.
#[derive(Debug)]
pub(crate) struct InTurn<'a> {
    workload: &'a Workload,
    next: u32,
}

impl<'a> InTurn<'a> {
    /// From the first request of `workload`.
    #[must_use]
    pub(crate) fn new(workload: &'a Workload) -> InTurn<'a> {
        InTurn { workload, next: 0 }
    }
}

impl Feed for InTurn<'_> {
    fn push(&mut self, connection: &mut Connection) -> bool {
        if self.next == self.workload.keys() {
            return false;
        }
        connection.push(self.workload.request(self.next));
        self.next += 1;
        true
    }

    fn verdict(&self, frame: &[u8]) -> Verdict {
        self.workload.verdict(frame)
    }
}

/// What one slice measured.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    /// Good answers, allowed or denied.
    pub answers: u64,
    /// How many of them were "denied".
    pub denied: u64,
    /// Errors and answers of the wrong shape.
    pub failures: u64,
    /// First write to last answer.
    pub elapsed_ns: u64,
    /// Write of the batch to the answer.
    pub latency: Histogram<u64>,
    /// First error text.
    pub first_error: Option<String>,
}

impl Slice {
    /// Good answers per second.
    #[must_use]
    pub(crate) fn rate(&self) -> f64 {
        if self.elapsed_ns == 0 {
            0.0
        } else {
            self.answers as f64 * 1e9 / self.elapsed_ns as f64
        }
    }
}

/// Connections kept open between slices.
pub(crate) struct Pool {
    poller: Poller,
    connections: Vec<Connection>,
    expected: Vec<usize>,
    sent_at: Vec<u64>,
    scratch: Vec<u8>,
    clock: Clock,
    framing: Framing,
    /// Where every batch gets a new connection; `None` keeps the old ones.
    renewed_from: Option<Endpoint>,
}

impl Pool {
    /// Opens `count` connections to a RESP server.
    pub(crate) fn open(endpoint: &Endpoint, count: usize) -> io::Result<Pool> {
        Pool::speaking(Framing::Resp, endpoint, count)
    }

    /// Opens `count` connections whose answers are cut by `framing`.
    pub(crate) fn speaking(
        framing: Framing,
        endpoint: &Endpoint,
        count: usize,
    ) -> io::Result<Pool> {
        let poller = Poller::new()?;
        let mut connections = Vec::with_capacity(count);
        for token in 0..count {
            let mut connection = Connection::open(endpoint, token, framing)?;
            connection.register(&poller, token)?;
            connections.push(connection);
        }
        Ok(Pool {
            poller,
            connections,
            expected: vec![0; count],
            sent_at: vec![0; count],
            scratch: vec![0; READ_SIZE],
            clock: Clock::start(),
            framing,
            renewed_from: None,
        })
    }

    /// Connects anew for every batch from now on.
    pub(crate) fn renew_connections(&mut self, endpoint: Endpoint) {
        self.renewed_from = Some(endpoint);
    }

    fn renew(&mut self, index: usize) -> Result<(), String> {
        let Some(endpoint) = &self.renewed_from else {
            return Ok(());
        };
        let renewed = Connection::open(endpoint, index, self.framing).and_then(|mut connection| {
            connection.register(&self.poller, index)?;
            Ok(connection)
        });
        self.connections[index] =
            renewed.map_err(|error| format!("cannot connect to {}: {error}", endpoint.address))?;
        Ok(())
    }

    /// Runs for `length_ns`, or until `feed` ends, and waits for the answers of what was sent.
    pub(crate) fn run(
        &mut self,
        feed: &mut dyn Feed,
        depth: usize,
        length_ns: u64,
        stop: &AtomicBool,
    ) -> Result<Slice, String> {
        let mut slice = Slice {
            answers: 0,
            denied: 0,
            failures: 0,
            elapsed_ns: 0,
            latency: latency_histogram(),
            first_error: None,
        };
        let start = self.clock.now();
        let end = start + length_ns;
        let mut outstanding = 0;
        for index in 0..self.connections.len() {
            outstanding += self.refill(index, feed, depth)?;
        }
        let mut last_answer = start;
        while outstanding > 0 {
            let ready: Vec<_> = self
                .poller
                .wait(WAIT_MAX_NS)
                .map_err(|error| format!("waiting for sockets failed: {error}"))?
                .to_vec();
            let now = self.clock.now();
            if ready.is_empty() && now - last_answer > SILENCE_MAX_NS {
                return Err(format!("no answer for {} s", SILENCE_MAX_NS / SECOND));
            }
            let open = now < end && !stop.load(Ordering::Relaxed);
            for event in ready {
                if event.writable && self.connections[event.token].has_pending() {
                    self.flush(event.token)?;
                }
                if !event.readable {
                    continue;
                }
                let got = self.receive(event.token, event.hangup, feed, &mut slice)?;
                if got > 0 {
                    last_answer = now;
                }
                outstanding -= got;
                if open && self.expected[event.token] == 0 && got > 0 {
                    self.renew(event.token)?;
                    outstanding += self.refill(event.token, feed, depth)?;
                }
            }
        }
        slice.elapsed_ns = self.clock.now() - start;
        Ok(slice)
    }

    fn refill(&mut self, index: usize, feed: &mut dyn Feed, depth: usize) -> Result<usize, String> {
        let mut pushed = 0;
        while pushed < depth && feed.push(&mut self.connections[index]) {
            pushed += 1;
        }
        if pushed > 0 {
            self.expected[index] = pushed;
            self.sent_at[index] = self.clock.now();
            self.flush(index)?;
        }
        Ok(pushed)
    }

    fn flush(&mut self, index: usize) -> Result<(), String> {
        self.connections[index]
            .flush()
            .map(|_| ())
            .map_err(Broken::text)
    }

    fn receive(
        &mut self,
        index: usize,
        hangup: bool,
        feed: &dyn Feed,
        slice: &mut Slice,
    ) -> Result<usize, String> {
        let sent_at = self.sent_at[index];
        let (mut got, mut stamp, mut good) = (0, 0, 0);
        self.connections[index]
            .read(&mut self.scratch, self.clock, hangup, |frame, now| {
                if self.framing == Framing::Resp && frame.first() == Some(&b'>') {
                    // Pushed by the server, such as an invalidation: no answer.
                    return;
                }
                if now != stamp && good > 0 {
                    slice
                        .latency
                        .saturating_record_n(stamp.saturating_sub(sent_at), good);
                    good = 0;
                }
                stamp = now;
                got += 1;
                match feed.verdict(frame) {
                    Verdict::Allowed => {
                        good += 1;
                        slice.answers += 1;
                    }
                    Verdict::Denied => {
                        good += 1;
                        slice.answers += 1;
                        slice.denied += 1;
                    }
                    Verdict::Error | Verdict::Unexpected => {
                        slice.failures += 1;
                        if slice.first_error.is_none() {
                            slice.first_error =
                                Some(String::from_utf8_lossy(frame).trim_end().to_owned());
                        }
                    }
                }
            })
            .map_err(Broken::text)?;
        if good > 0 {
            slice
                .latency
                .saturating_record_n(stamp.saturating_sub(sent_at), good);
        }
        let Some(left) = self.expected[index].checked_sub(got) else {
            return Err("the server sent a reply to nothing that was asked".into());
        };
        self.expected[index] = left;
        Ok(got)
    }
}
