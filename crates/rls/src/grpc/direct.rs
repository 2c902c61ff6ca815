//! Connections on the event loops that the store has: those without TLS, of a service that has its own store.
//!
//! Decisions and checks of health are answered in place. The streams of reflection and of health, and decisions that a long
//! command of the store holds up, are futures here as in a task: what wakes them posts to the loop, which goes on with them.

use std::sync::Arc;
use std::task::Context;

use tollgate_net::{ConnRef, Flow, Mailboxes};

use super::age::Life;
use super::conversation::{Conversation, Judge};
use super::{GOODBYE_TIMEOUT, HANDSHAKE_TIMEOUT, KEPT_ROOM, LAST_TIMEOUT, MESSAGE_TIMEOUT};
use crate::loops::{Means, Served, Signal, Wakes, after};

/// One connection.
pub(crate) struct Talk {
    conversation: Conversation,
    wakes: Arc<Wakes>,
    /// Until when the peer has to show that it speaks HTTP/2; `None` once it has.
    greeting_due: Option<i64>,
    /// Until when messages of calls up to a stream have to be whole.
    message_due: Option<(i64, u32)>,
    /// The beginning of a frame was left over by the last read.
    has_rest: bool,
    /// The frame or block of fields that has begun.
    begun: Begun,
    /// When the peer is asked to send no more calls, and from when on it is not waited for.
    leave_due: Option<i64>,
    end_due: Option<i64>,
    /// It was asked.
    leaves: bool,
    /// Until when a peer without calls may stay that was told that the connection ends.
    goodbye_due: Option<i64>,
    /// Until when a peer may take what it is still to be sent; `None` unless the connection is over.
    close_due: Option<i64>,
}

impl Talk {
    /// A connection that was opened; what is said first is said with the next step.
    pub(crate) fn new(means: &Means<'_>, mailboxes: &Arc<Mailboxes<Signal>>, at: ConnRef) -> Talk {
        let life = means.service.connection_age().map(Life::new);
        let at_end = |wait| after(means.now, wait);
        Talk {
            conversation: Conversation::new(means.service.clone()),
            leave_due: life.map(|life| at_end(life.leaves)),
            end_due: life.and_then(|life| life.ends).map(at_end),
            leaves: false,
            wakes: Wakes::new(mailboxes, at),
            greeting_due: Some(after(means.now, HANDSHAKE_TIMEOUT)),
            message_due: None,
            has_rest: false,
            begun: Begun::default(),
            goodbye_due: None,
            close_due: None,
        }
    }

    /// Reads what came, answers it, and goes on with the calls that wait.
    pub(crate) fn receive(&mut self, means: &mut Means<'_>, input: &[u8]) -> Served {
        self.lend_room(means);
        self.wakes.rest();
        match self.conversation.receive(input, Judge::Loop(means.brought)) {
            Ok(taken) => {
                self.has_rest = taken < input.len();
                self.proceed(means, taken)
            }
            Err(_) => {
                // What is to be said ends with the reason; nobody waits for the rest.
                self.take_output(means);
                self.close(means.now, input.len())
            }
        }
    }

    /// Goes on with what does not come from the peer: calls that were woken, times that have come, the end of the service.
    pub(crate) fn go_on(&mut self, means: &mut Means<'_>) -> Served {
        let now = means.now;
        let is_due = |due: Option<i64>| due.is_some_and(|due| due <= now);
        if is_due(self.greeting_due) || is_due(self.close_due) {
            // A peer that speaks no HTTP/2, or nothing, has nobody to be told; one that reads nothing is not told either.
            return Served {
                consumed: 0,
                flow: Flow::Drop,
                due: None,
            };
        }
        self.lend_room(means);
        if is_due(self.begun.due()) {
            self.conversation.shared.session.borrow_mut().end_late();
            self.take_output(means);
            return self.close(means.now, 0);
        }
        if let Some((due, last)) = self.message_due
            && due <= means.now
        {
            self.conversation.give_up(last);
            self.message_due = None;
        }
        self.proceed(means, 0)
    }

    /// It is not the peer that is waited for: what it sent is looked at later.
    pub(crate) fn put_off(&mut self, now: i64) {
        self.begun.put_off(now);
        if let Some((due, _)) = &mut self.message_due {
            *due = after(now, MESSAGE_TIMEOUT);
        }
    }

    fn proceed(&mut self, means: &mut Means<'_>, consumed: usize) -> Served {
        if self.conversation.waits() {
            let waker = self.wakes.listen();
            self.conversation.go_on(&mut Context::from_waker(&waker));
        }
        let mut session = self.conversation.shared.session.borrow_mut();
        if session.is_greeted() {
            self.greeting_due = None;
        }
        let now = means.now;
        let is_due = |due: Option<i64>| due.is_some_and(|due| due <= now);
        if is_due(self.leave_due) {
            (self.leave_due, self.leaves) = (None, true);
        }
        if means.stops || self.leaves {
            let due = after(means.now, GOODBYE_TIMEOUT);
            self.goodbye_due.get_or_insert(due);
            if session.is_greeted() {
                session.leave();
            }
        }
        // Messages that are on the way must come whole in time.
        if session.receiving() == 0 {
            self.message_due = None;
        } else if self.message_due.is_none() {
            let due = after(means.now, MESSAGE_TIMEOUT);
            self.message_due = Some((due, session.last_stream()));
        }
        self.begun.look(session.begun(self.has_rest), now);
        drop(session);
        self.take_output(means);
        let goodbye_due = self.goodbye_due.filter(|_| self.conversation.is_idle());
        if self.conversation.is_over() || is_due(goodbye_due) || is_due(self.end_due) {
            return self.close(now, consumed);
        }
        let dues = [
            self.greeting_due,
            self.message_due.map(|(due, _)| due),
            self.begun.due(),
            goodbye_due,
            self.leave_due,
            self.end_due.filter(|_| self.leaves),
        ];
        Served {
            consumed,
            flow: Flow::Continue,
            due: Some(dues.into_iter().flatten().min().unwrap_or(i64::MAX)),
        }
    }

    /// The connection is over, and closed when all that is said has been sent. Until then none of its other times count: the loop
    /// would come back for one that has passed before it sends anything.
    fn close(&mut self, now: i64, consumed: usize) -> Served {
        let due = *self.close_due.get_or_insert(after(now, LAST_TIMEOUT));
        Served {
            consumed,
            flow: Flow::Close,
            due: Some(due),
        }
    }

    /// Lends the room of the loop's answers to the session, behind what it has to say already.
    fn lend_room(&self, means: &mut Means<'_>) {
        let mut session = self.conversation.shared.session.borrow_mut();
        let out = session.out();
        means.output.append(out);
        std::mem::swap(means.output, out);
    }

    /// Takes it back, with what is to be said now.
    fn take_output(&self, means: &mut Means<'_>) {
        let mut session = self.conversation.shared.session.borrow_mut();
        let out = session.out();
        std::mem::swap(means.output, out);
        out.shrink_to(KEPT_ROOM);
    }
}

/// The wait for a frame or block of fields that has begun: when it ends, and for which part.
#[derive(Debug, Default)]
struct Begun(Option<(i64, u64)>);

impl Begun {
    /// When the wait ends.
    fn due(&self) -> Option<i64> {
        self.0.map(|(due, _)| due)
    }

    /// This part is waited for now.
    fn look(&mut self, part: Option<u64>, now: i64) {
        self.0 = part.map(|part| {
            let known = self.0.filter(|(_, known)| *known == part);
            known.unwrap_or_else(|| (after(now, MESSAGE_TIMEOUT), part))
        });
    }

    /// The wait begins anew.
    fn put_off(&mut self, now: i64) {
        if let Some((due, _)) = &mut self.0 {
            *due = after(now, MESSAGE_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_has_begun_has_its_time_and_the_next_one_has_its_own() {
        let all = after(0, MESSAGE_TIMEOUT);
        let mut begun = Begun::default();
        begun.look(Some(7), 0);
        begun.look(Some(7), 5);
        assert_eq!(begun.due(), Some(all), "more of it gives no more time");
        begun.look(Some(8), 5);
        assert_eq!(begun.due(), Some(all + 5));
        // The loop has left its bytes for later.
        begun.put_off(all);
        assert_eq!(begun.due(), Some(2 * all));
        begun.look(None, all);
        begun.put_off(all);
        assert_eq!(begun.due(), None);
    }
}
