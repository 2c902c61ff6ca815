//! Messages on their way to a connection, and the limits that drop it when it does not read.
//!
//! Any thread may put messages into the outbox of a connection. The first one wakes the connection's own thread, which
//! takes them all; so a burst costs one wake-up, and the mailbox of a thread holds at most one post for each of its
//! connections. A connection that is running a command takes them itself, behind the command's reply.

use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_engine::Place;
use tollgate_wire::resp::ReplyBuf;

/// Whose commands a thread runs, 0 = nobody's, and the bytes that they are in.
type Current = (u64, *const [u8]);

thread_local! {
    static RUNNING: Cell<Current> =
        const { Cell::new((0, std::ptr::slice_from_raw_parts(std::ptr::dangling(), 0))) };
}

/// Marks whose commands this thread runs until it is dropped; then the one before holds again.
pub(crate) struct Running<'i> {
    before: Current,
    input: PhantomData<&'i [u8]>,
}

impl<'i> Running<'i> {
    /// `input`: the bytes that the commands are in.
    #[inline]
    pub(crate) fn client(id: u64, input: &'i [u8]) -> Running<'i> {
        Running {
            before: RUNNING.replace((id, input)),
            input: PhantomData,
        }
    }

    /// Whether this thread is running commands of that client.
    pub(crate) fn is(id: u64) -> bool {
        RUNNING.get().0 == id
    }

    /// Shows the client whose commands this thread is running, and the bytes that they are in.
    pub(crate) fn show<R>(to: impl FnOnce(u64, &[u8]) -> R) -> R {
        let (id, input) = RUNNING.get();
        // SAFETY: whoever has set it has borrowed the bytes for as long as it is set; without a client there are none.
        to(id, unsafe { &*input })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        RUNNING.set(self.before);
    }
}

/// The kinds of clients that `client-output-buffer-limit` tells apart, by their place in the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Normal = 0,
    Replica = 1,
    PubSub = 2,
}

/// Limits of one class; 0 = none.
#[derive(Debug, Default)]
struct ClassLimits {
    hard: AtomicU64,
    soft: AtomicU64,
    soft_secs: AtomicU64,
}

/// `client-output-buffer-limit`, and how often it has acted.
#[derive(Debug, Default)]
pub(crate) struct OutputLimits {
    classes: [ClassLimits; 3],
    /// Bytes of messages that a client without a limit may leave unread.
    messages: AtomicU64,
    dropped: AtomicU64,
    /// There may be clients above their soft limit, whose time passes though nothing more comes for them.
    above_soft: AtomicBool,
}

impl OutputLimits {
    /// Takes over the limits: hard, soft and seconds for each class in the order of the setting.
    pub(crate) fn set(&self, limits: &[[u64; 3]; 3], messages: u64) {
        for (class, [hard, soft, soft_secs]) in self.classes.iter().zip(limits) {
            class.hard.store(*hard, Ordering::Relaxed);
            class.soft.store(*soft, Ordering::Relaxed);
            class.soft_secs.store(*soft_secs, Ordering::Relaxed);
        }
        self.messages.store(messages, Ordering::Relaxed);
    }

    /// Bytes that replies alone may reach; `None` = any number.
    pub(crate) fn hard(&self, class: Class) -> Option<u64> {
        let hard = self.classes[class as usize].hard.load(Ordering::Relaxed);
        (hard > 0).then_some(hard)
    }

    /// Clients dropped because they did not read.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn count_drop(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.dropped.store(0, Ordering::Relaxed);
    }

    /// Whether a client was found above its soft limit since this was asked last.
    pub(crate) fn take_above_soft(&self) -> bool {
        self.above_soft.swap(false, Ordering::Relaxed)
    }
}

/// The time of the soft limit of one client.
#[derive(Debug, Default)]
pub(crate) struct SoftLimit {
    /// Since when the client has been above it, in clock nanoseconds; 0 = it is not.
    since: AtomicU64,
}

impl SoftLimit {
    /// Whether a client of `class` with `held` unread bytes, `messages` of them messages, is to be dropped.
    pub(crate) fn is_exceeded(
        &self,
        limits: &OutputLimits,
        class: Class,
        held: u64,
        messages: u64,
        now: impl FnOnce() -> i64,
    ) -> bool {
        let own = &limits.classes[class as usize];
        let (hard, soft) = (
            own.hard.load(Ordering::Relaxed),
            own.soft.load(Ordering::Relaxed),
        );
        if hard > 0 && held >= hard {
            return true;
        }
        if hard == 0 && messages >= limits.messages.load(Ordering::Relaxed) {
            return true;
        }
        if soft == 0 || held < soft {
            if self.since.load(Ordering::Relaxed) != 0 {
                self.since.store(0, Ordering::Relaxed);
            }
            return false;
        }
        limits.above_soft.store(true, Ordering::Relaxed);
        let now = now().max(1) as u64;
        let since = match self
            .since
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => now,
            Err(since) => since,
        };
        let limit = own.soft_secs.load(Ordering::Relaxed);
        now.saturating_sub(since) / 1_000_000_000 > limit
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// Messages that come before the reply of the command that the connection is running.
    before: Vec<Arc<[u8]>>,
    after: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// The connection's thread knows that there is something.
    announced: bool,
    /// Takes nothing more.
    closed: bool,
}

/// Messages for one connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    pending: AtomicBool,
}

/// What has become of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Put {
    /// The connection's thread must be woken.
    pub(crate) wake: bool,
    /// Bytes that wait now.
    pub(crate) bytes: usize,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Messages are put in and taken out whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is something to take.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Puts a message in; `own`: by a command that the connection is running.
    pub(crate) fn put(&self, message: &Arc<[u8]>, place: Place, own: bool) -> Put {
        let mut queue = self.lock();
        if queue.closed {
            return Put {
                wake: false,
                bytes: 0,
            };
        }
        queue.bytes += message.len();
        if own && place == Place::BeforeReply {
            queue.before.push(Arc::clone(message));
        } else {
            queue.after.push_back(Arc::clone(message));
        }
        self.pending.store(true, Ordering::Release);
        Put {
            wake: !own && !std::mem::replace(&mut queue.announced, true),
            bytes: queue.bytes,
        }
    }

    /// The wake-up could not be posted: the next message tries again.
    pub(crate) fn not_announced(&self) {
        self.lock().announced = false;
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        if self.is_pending() {
            self.lock().bytes
        } else {
            0
        }
    }

    /// Has all that is there come before the reply of the command that the connection is running: that ends what it was sent
    /// for, so behind the reply nobody would expect it.
    pub(crate) fn bring_forward(&self) {
        if self.is_pending() {
            let mut queue = self.lock();
            let after = std::mem::take(&mut queue.after);
            queue.before.extend(after);
        }
    }

    /// Moves everything to `out`: what comes before the reply to `mark`, the rest to the end.
    #[cold]
    pub(crate) fn take(&self, out: &mut ReplyBuf, mark: usize) {
        let mut queue = self.lock();
        if !queue.before.is_empty() {
            let before = std::mem::take(&mut queue.before).concat();
            out.insert(mark, &before);
        }
        for message in queue.after.drain(..) {
            out.raw(&message);
        }
        if queue.after.capacity() > 64 {
            queue.after = VecDeque::new();
        }
        queue.bytes = 0;
        queue.announced = false;
        self.pending.store(false, Ordering::Release);
    }

    /// Drops everything, now and later.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        *queue = Queue {
            closed: true,
            ..Queue::default()
        };
        self.pending.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::resp::Protocol;

    fn text(text: &str) -> Arc<[u8]> {
        text.as_bytes().into()
    }

    #[test]
    fn a_burst_wakes_once_and_keeps_its_order() {
        let outbox = Outbox::default();
        let mut out = ReplyBuf::new(Protocol::Resp2);
        out.raw(b"earlier,");
        let mark = out.len();
        out.raw(b"reply,");
        assert!(!outbox.is_pending());
        assert!(outbox.put(&text("a,"), Place::AfterReply, false).wake);
        assert!(!outbox.put(&text("b,"), Place::BeforeReply, false).wake);
        let put = outbox.put(&text("own,"), Place::BeforeReply, true);
        assert_eq!((put.wake, put.bytes), (false, 8));
        assert!(outbox.is_pending());
        outbox.take(&mut out, mark);
        assert_eq!(out.bytes(), b"earlier,own,reply,a,b,");
        assert!(!outbox.is_pending());
        assert!(outbox.put(&text("c"), Place::AfterReply, false).wake);
        outbox.close();
        assert_eq!(outbox.bytes(), 0);
        assert!(!outbox.put(&text("d"), Place::AfterReply, false).wake);
        assert!(!outbox.is_pending());
    }

    #[test]
    fn limits_are_those_of_the_class() {
        let limits = OutputLimits::default();
        limits.set(&[[0, 0, 0], [0, 0, 0], [1000, 100, 5]], 10_000);
        let soft = SoftLimit::default();
        let second = 1_000_000_000;
        let at = |held, time: i64| soft.is_exceeded(&limits, Class::PubSub, held, held, || time);
        assert!(!at(99, 1));
        assert!(!at(999, second));
        assert!(!at(100, 6 * second), "as long as the limit is not longer");
        assert!(at(100, 7 * second));
        assert!(!at(99, 7 * second), "below it the time begins anew");
        assert!(!at(100, 9 * second));
        assert!(at(1000, 9 * second));
        let normal =
            |held, messages| soft.is_exceeded(&limits, Class::Normal, held, messages, || 0);
        assert!(!normal(1 << 40, 9_999));
        assert!(normal(10_000, 10_000), "messages have a limit in any case");
    }
}
