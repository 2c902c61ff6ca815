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
    endpoint: Endpoint,
    /// Every batch gets a new connection.
    renews_all: bool,
    /// Which connections brought an answer since they were opened: an HTTP server may end one behind any answer.
    answered: Vec<bool>,
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
            endpoint: endpoint.clone(),
            renews_all: false,
            answered: vec![false; count],
        })
    }

    /// Connects anew for every batch from now on.
    pub(crate) fn renew_connections(&mut self) {
        self.renews_all = true;
    }

    fn renew(&mut self, index: usize) -> Result<(), String> {
        let endpoint = &self.endpoint;
        let renewed = Connection::open(endpoint, index, self.framing).and_then(|mut connection| {
            connection.register(&self.poller, index)?;
            Ok(connection)
        });
        self.connections[index] =
            renewed.map_err(|error| format!("cannot connect to {}: {error}", endpoint.address))?;
        self.answered[index] = false;
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
                let (got, ended) = self.receive(event.token, event.hangup, feed, &mut slice)?;
                if got > 0 {
                    last_answer = now;
                }
                outstanding -= got;
                if ended {
                    // What was asked behind the last answer was not taken: others are asked instead.
                    outstanding -= std::mem::take(&mut self.expected[event.token]);
                    self.renew(event.token)?;
                }
                if open && self.expected[event.token] == 0 && (got > 0 || ended) {
                    if self.renews_all && !ended {
                        self.renew(event.token)?;
                    }
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
        match self.connections[index].flush() {
            // It is read to its end, where this is seen again.
            Err(Broken::Reset(_)) if self.may_end(index) => Ok(()),
            flushed => flushed.map(|_| ()).map_err(Broken::text),
        }
    }

    fn may_end(&self, index: usize) -> bool {
        self.framing == Framing::Http1 && self.answered[index]
    }

    /// Number of answers that came, and whether the server ended the connection behind one.
    fn receive(
        &mut self,
        index: usize,
        hangup: bool,
        feed: &dyn Feed,
        slice: &mut Slice,
    ) -> Result<(usize, bool), String> {
        let sent_at = self.sent_at[index];
        let (mut got, mut stamp, mut good) = (0, 0, 0);
        let read =
            self.connections[index].read(&mut self.scratch, self.clock, hangup, |frame, now| {
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
            });
        self.answered[index] |= got > 0;
        let ended = match read {
            Ok(()) => false,
            Err(Broken::Ended) => true,
            Err(Broken::Closed | Broken::Reset(_)) if self.may_end(index) => true,
            Err(broken) => return Err(broken.text()),
        };
        if good > 0 {
            slice
                .latency
                .saturating_record_n(stamp.saturating_sub(sent_at), good);
        }
        let Some(left) = self.expected[index].checked_sub(got) else {
            return Err("the server sent a reply to nothing that was asked".into());
        };
        self.expected[index] = left;
        Ok((got, ended))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::super::address::Address;
    use super::super::http::HttpAsk;
    use super::super::keys::Spreading;
    use super::super::workload::{Ask, Rule};
    use super::*;

    /// Answers three requests of each connection, however many were asked.
    fn http_server(last: &'static str) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                let last = format!("HTTP/1.1 200 OK\r\n{last}content-length: 0\r\n\r\n");
                let mut asked = [0; 4096];
                if stream.read(&mut asked).is_ok_and(|count| count > 0) {
                    drop(stream.write_all(format!("{answer}{answer}{last}").as_bytes()));
                }
            }
        });
        Endpoint::plain(Address::Tcp(address))
    }

    #[test]
    fn an_http_server_may_end_a_connection_behind_any_answer() {
        let rule = Rule {
            limit: 1,
            window_s: 1,
        };
        let ask = HttpAsk::new("h", "/", None, &[], None).expect("it can be asked");
        let workload = Workload::render(&Ask::Http(Box::new(ask), rule), "k", 1);
        for last in ["connection: close\r\n", ""] {
            let endpoint = http_server(last);
            let mut pool = Pool::speaking(Framing::Http1, &endpoint, 2).expect("it listens");
            let mut feed = Drawn {
                workload: &workload,
                sampler: KeySampler::new(Spreading::Single, 1, 1),
            };
            let stop = AtomicBool::new(false);
            let slice = pool
                .run(&mut feed, 8, 50_000_000, &stop)
                .expect("it goes on");
            assert!(slice.answers >= 6, "{} of {last:?}", slice.answers);
            assert_eq!((slice.failures, slice.first_error), (0, None));
        }
    }
}
