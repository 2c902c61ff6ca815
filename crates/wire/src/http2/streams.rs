//! The streams of one connection that are not over.

use std::collections::VecDeque;

use super::session::Head;

/// Streams that are over may lie between others up to this many more than there are.
const SLACK: usize = 64;

/// A stream from its first header field to its last answer.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// Bytes that may be sent on it beyond the peer's initial window.
    pub(super) send_extra: i64,
    /// Bytes that it may still bring.
    pub(super) receive_left: i64,
    /// The peer has said all.
    pub(super) ended: bool,
    /// It is over; only its place is left.
    pub(super) over: bool,
    pub(super) stage: Stage,
    /// Of the message, what has come and was not taken.
    pub(super) body: Vec<u8>,
    /// Of the answer, what the peer has no room for.
    pub(super) held: Vec<u8>,
    /// What ends the stream once nothing is held.
    pub(super) end: Option<End>,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Its message is on the way, and handed out when it is whole.
    Receiving(Head),
    /// Handed out; what comes is kept until it is taken.
    Pieces,
    /// Handed out; what comes is thrown away.
    Asked,
}

/// The end of an answer.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: u16,
    pub(super) message: String,
}

/// What a stream was that is over now.
pub(super) struct Closed {
    /// The peer had said all.
    pub(super) ended: bool,
    /// Bytes of its message, if that was on the way.
    pub(super) receiving: Option<usize>,
}

impl Stream {
    pub(super) fn new(id: u32, stage: Stage, receive_left: i64) -> Self {
        Self {
            id,
            send_extra: 0,
            receive_left,
            ended: false,
            over: false,
            stage,
            body: Vec::new(),
            held: Vec::new(),
            end: None,
        }
    }
}

/// Streams by their numbers, which only grow.
#[derive(Debug, Default)]
pub(super) struct Streams {
    list: VecDeque<Stream>,
    open: usize,
}

impl Streams {
    /// How many are not over.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// `stream` has a higher number than all before.
    pub(super) fn add(&mut self, stream: Stream) {
        self.open += 1;
        self.list.push_back(stream);
    }

    fn position(&self, id: u32) -> Option<usize> {
        // Peers number their streams by every second number, so that it lies here if none between is gone.
        let first = self.list.front()?.id;
        let near = (id.checked_sub(first)? / 2) as usize;
        let at = match self.list.get(near) {
            Some(stream) if stream.id == id => near,
            _ => self
                .list
                .binary_search_by_key(&id, |stream| stream.id)
                .ok()?,
        };
        (!self.list[at].over).then_some(at)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.position(id).map(|at| &self.list[at])
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.position(id)?;
        Some(&mut self.list[at])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.list.iter().filter(|stream| !stream.over)
    }

    /// Ends a stream; `None` if it was over.
    pub(super) fn close(&mut self, id: u32) -> Option<Closed> {
        let at = self.position(id)?;
        let stream = &mut self.list[at];
        stream.over = true;
        let closed = Closed {
            ended: stream.ended,
            receiving: matches!(stream.stage, Stage::Receiving(_)).then_some(stream.body.len()),
        };
        (stream.body, stream.held, stream.end) = (Vec::new(), Vec::new(), None);
        self.open -= 1;
        while self.list.front().is_some_and(|stream| stream.over) {
            self.list.pop_front();
        }
        while self.list.back().is_some_and(|stream| stream.over) {
            self.list.pop_back();
        }
        if self.list.len() > 2 * self.open + SLACK {
            self.list.retain(|stream| !stream.over);
        }
        Some(closed)
    }
}
