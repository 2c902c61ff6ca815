//! Connections that the server ends, and those that follow them.
//!
//! HTTP servers may end a connection after any answer, and gRPC servers after any call, often because it has grown old;
//! their clients open another. Requests that the server has not taken go over the new one at their old intended time, and
//! so do those of HTTP that were written behind an answered one. A call over gRPC that the server took and did not answer
//! has failed.

use super::Driver;
use crate::load::connection::{Broken, Connection, Framing};
use crate::load::speaker::Speaker;
use crate::os::poller::Poller;

/// Connections opened in a row, with the first, of which none brought an answer: more have no business to be opened.
const UNANSWERED_MAX: u32 = 3;

/// What is known of the connections that the server ends.
#[derive(Debug)]
pub(super) struct Renewed {
    /// How often each was opened since an answer came over it.
    unanswered: Vec<u32>,
    /// Those to be opened anew.
    due: Vec<usize>,
    /// Those that wait for their last answers, and why they end.
    leaving: Vec<(usize, String)>,
    /// How often one was opened anew.
    count: u64,
}

impl Renewed {
    pub(super) fn new(connections: usize) -> Renewed {
        Renewed {
            unanswered: vec![1; connections],
            due: Vec::new(),
            leaving: Vec::new(),
            count: 0,
        }
    }

    /// An answer came over `connection`.
    pub(super) fn answered(&mut self, connection: usize) {
        self.unanswered[connection] = 0;
    }

    /// The server takes nothing more over `connection`.
    pub(super) fn leaves(&mut self, connection: usize, why: String) {
        if !self.is_leaving(connection) {
            self.leaving.push((connection, why));
        }
    }

    pub(super) fn is_due(&self, connection: usize) -> bool {
        self.due.contains(&connection)
    }

    pub(super) fn is_leaving(&self, connection: usize) -> bool {
        self.leaving
            .iter()
            .any(|(leaving, _)| *leaving == connection)
    }
}

impl<S: Speaker> Driver<'_, S> {
    /// `connection` cannot be used any more.
    pub(super) fn ended(&mut self, connection: usize, broken: Broken) {
        if self.renewed.is_due(connection) {
            return;
        }
        self.renewed
            .leaving
            .retain(|(leaving, _)| *leaving != connection);
        let framing = self.speaker.framing();
        let may_renew = matches!(framing, Framing::Http1 | Framing::Http2)
            && !matches!(broken, Broken::Garbage(_))
            && self.renewed.unanswered[connection] < UNANSWERED_MAX;
        if !may_renew {
            self.lose(connection, broken);
            return;
        }
        let behind_an_answer = matches!(broken, Broken::Closed | Broken::Reset(_))
            && framing == Framing::Http1
            && self.renewed.unanswered[connection] == 0;
        let untaken = matches!(broken, Broken::Ended);
        if untaken || behind_an_answer {
            for lane in self.speaker.lanes(connection) {
                self.state.take_back(lane, untaken);
            }
        } else if !self.is_idle(connection) {
            self.lose(connection, broken);
        }
        self.renewed.due.push(connection);
    }

    fn is_idle(&self, connection: usize) -> bool {
        let mut lanes = self.speaker.lanes(connection);
        lanes.all(|lane| self.state.is_idle(lane))
    }

    /// Opens connections anew that the server ended.
    pub(super) fn renew(&mut self, poller: &Poller) {
        let mut leaving = self.renewed.leaving.iter();
        while let Some(at) = leaving.position(|(leaving, _)| self.is_idle(*leaving)) {
            let (connection, why) = self.renewed.leaving.swap_remove(at);
            self.ended(connection, Broken::Lost(why));
            leaving = self.renewed.leaving.iter();
        }
        for connection in std::mem::take(&mut self.renewed.due) {
            match self.open_anew(connection, poller) {
                Ok(opened) => {
                    self.connections[connection] = opened;
                    self.blocked[connection] = false;
                    self.renewed.unanswered[connection] += 1;
                    self.renewed.count += 1;
                    for lane in self.speaker.lanes(connection) {
                        self.state.revive(lane);
                    }
                    self.flush(connection);
                }
                Err(error) => {
                    let why = format!(
                        "the server closed the connection, and no other can be opened: {error}"
                    );
                    self.lose(connection, Broken::Lost(why));
                }
            }
        }
    }

    fn open_anew(&mut self, connection: usize, poller: &Poller) -> std::io::Result<Connection> {
        let framing = self.speaker.framing();
        let mut opened = Connection::open(self.endpoint, connection, framing)?;
        opened.push(&self.speaker.open(connection));
        opened.register(poller, connection)?;
        Ok(opened)
    }

    pub(super) fn note_renewed(&mut self) {
        let count = self.renewed.count;
        if count > 0 {
            self.notes.push(format!(
                "connections that the server ended and that were opened anew: {count}"
            ));
        }
    }
}
