//! Connections as the engine sees them: somebody to whom messages can be sent.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tollgate_wire::resp::{Protocol, ReplyBuf};

/// Where a message goes that a connection causes for itself while one of its commands runs. Messages for others are
/// queued in any case, behind the replies that their threads have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before the reply, as published messages do in Redis.
    BeforeReply,
    /// Behind the reply: an invalidation must not overtake the value that it makes stale.
    AfterReply,
}

/// A connection that can be sent messages from any thread.
pub trait Subscriber: fmt::Debug + Send + Sync {
    /// CLIENT ID.
    fn id(&self) -> u64;
    /// The protocol it speaks now.
    fn protocol(&self) -> Protocol;
    /// It has subscriptions of some kind.
    fn subscribed(&self) -> bool;
    /// False once it is closed or being closed.
    fn is_open(&self) -> bool;
    /// Queues whole messages in its protocol. Never waits; whoever does not read is disconnected by the server.
    fn deliver(&self, message: &Arc<[u8]>, place: Place);
    /// The same as long as it has a subscription: behind the end of the last one nobody would expect the message.
    fn deliver_while_subscribed(&self, message: &Arc<[u8]>, place: Place) {
        if self.subscribed() {
            self.deliver(message, place);
        }
    }
}

/// A message for several receivers, encoded once for each protocol that is met.
pub(crate) struct Message<F> {
    write: F,
    encoded: [OnceLock<Arc<[u8]>>; 2],
}

impl<F: Fn(&mut ReplyBuf)> Message<F> {
    /// A message that `write` writes.
    pub(crate) fn new(write: F) -> Message<F> {
        Message {
            write,
            encoded: [OnceLock::new(), OnceLock::new()],
        }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self, protocol: Protocol) -> &Arc<[u8]> {
        self.encoded[usize::from(protocol == Protocol::Resp3)].get_or_init(|| {
            let mut out = ReplyBuf::new(protocol);
            (self.write)(&mut out);
            out.bytes().into()
        })
    }

    /// Queues it for a receiver.
    pub(crate) fn send(&self, to: &dyn Subscriber, place: Place) {
        to.deliver(self.bytes(to.protocol()), place);
    }
}
