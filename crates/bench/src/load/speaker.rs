//! The protocol of a target, as far as the open loop needs it: write a request, recognise its answer.

use std::borrow::Cow;
use std::ops::Range;

use super::connection::{Connection, Framing};
use super::tally::Verdict;
use super::workload::Workload;

/// What a frame meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The oldest request of `lane` is answered.
    Answer {
        /// Where the request was.
        lane: usize,
        /// What the answer said.
        verdict: Verdict,
        /// Why it is no good, where the frame itself does not say so in text.
        complaint: Option<Cow<'static, str>>,
    },
    /// A decision on a request that was given up, due at this time.
    Late(u64),
    /// Nothing that concerns a request.
    Nothing,
    /// The server takes no more requests on this connection.
    Leaves {
        /// Lanes whose requests it has not taken.
        untaken: Vec<usize>,
        /// In words.
        why: String,
    },
}

/// A protocol. Requests of one lane are answered in order; a connection has one lane or several.
pub(crate) trait Speaker {
    /// How replies are cut.
    fn framing(&self) -> Framing;
    /// What must be written to a new connection first; nothing of an earlier one by this number counts any more.
    fn open(&mut self, connection: usize) -> Vec<u8>;
    /// Lanes of a connection.
    fn lanes(&self, connection: usize) -> Range<usize>;
    /// Connection of a lane.
    fn connection_of(&self, lane: usize) -> usize;
    /// Appends the request for `key` to the connection of `lane`.
    fn ask(&mut self, lane: usize, key: u32, connection: &mut Connection);
    /// Takes back the request of `lane`, due at `due`; nothing where the protocol has no words for it.
    fn give_up(&mut self, _lane: usize, _due: u64, _connection: &mut Connection) {}
    /// Reads a frame of `connection`. An error means that the connection cannot be used any more.
    fn hear(&mut self, connection: usize, frame: &[u8]) -> Result<Heard, String>;
    /// What the protocol itself has to say after the frames heard; empty most of the time.
    fn owed(&mut self, connection: usize) -> Vec<u8>;
    /// The wait in milliseconds that the denial last heard promised; `frame` is what it was heard from. `None` where the
    /// protocol promises nothing.
    fn promise_ms(&mut self, _frame: &[u8]) -> Option<u64> {
        None
    }
}

/// RESP, HTTP/1.1, memcached: one lane per connection, answers in order.
#[derive(Debug)]
pub(crate) struct InOrder<'a> {
    workload: &'a Workload,
}

impl<'a> InOrder<'a> {
    /// Asks what `workload` says.
    #[must_use]
    pub(crate) fn new(workload: &'a Workload) -> InOrder<'a> {
        InOrder { workload }
    }
}

impl Speaker for InOrder<'_> {
    fn framing(&self) -> Framing {
        self.workload.framing()
    }

    fn open(&mut self, _connection: usize) -> Vec<u8> {
        Vec::new()
    }

    fn lanes(&self, connection: usize) -> Range<usize> {
        connection..connection + 1
    }

    #[inline]
    fn connection_of(&self, lane: usize) -> usize {
        lane
    }

    #[inline]
    fn ask(&mut self, _lane: usize, key: u32, connection: &mut Connection) {
        connection.push(self.workload.request(key));
    }

    #[inline]
    fn hear(&mut self, connection: usize, frame: &[u8]) -> Result<Heard, String> {
        let verdict = self.workload.verdict(frame);
        Ok(Heard::Answer {
            lane: connection,
            verdict,
            complaint: None,
        })
    }

    fn owed(&mut self, _connection: usize) -> Vec<u8> {
        Vec::new()
    }

    fn promise_ms(&mut self, frame: &[u8]) -> Option<u64> {
        self.workload.promise_ms(frame)
    }
}
