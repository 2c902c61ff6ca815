//! Running a command that may be long on a worker, while its connection waits.

use crate::client::{Client, Signal};
use crate::node::NodeRunner;
use crate::outbox::Running;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tollgate_engine::{Outcome, Session};
use tollgate_limiter::Timestamp;
use tollgate_net::Clock;
use tollgate_wire::resp::{ReplyBuf, request_len};

/// A command with all it needs.
struct Job {
    shared: Arc<Shared>,
    client: Arc<Client>,
    session: Session,
    words: Vec<Box<[u8]>>,
    /// It may change data.
    _writes: Option<LongWrite>,
}

/// Counts a command that may change data and has been given to a worker.
struct LongWrite(Arc<Shared>);

impl LongWrite {
    fn new(shared: &Arc<Shared>) -> LongWrite {
        shared.failover.long_writes.fetch_add(1, Ordering::SeqCst);
        LongWrite(Arc::clone(shared))
    }
}

impl Drop for LongWrite {
    fn drop(&mut self) {
        self.0.failover.long_writes.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Job {
    /// Runs the command and posts its reply to the connection.
    fn run(mut self) {
        let mut out = ReplyBuf::new(self.session.protocol);
        let words: Vec<&[u8]> = self.words.iter().map(|word| &**word).collect();
        let mut node = NodeRunner {
            shared: &self.shared,
            client: &self.client,
        };
        let joined = words.join(&b' ');
        let running = Running::client(self.client.id, &joined);
        let now = Timestamp::from_nanos(Clock::now());
        // A command that may be long neither waits nor ends its connection. One that has waited until a script made the
        // server busy is refused the next time.
        let engine = &self.shared.engine;
        while engine.execute(&mut self.session, &words, now, &mut out, &mut node)
            == Outcome::TryAgain
        {}
        drop(running);
        let sizes = (request_len(&words), out.len());
        engine.exchanged(&self.session, &words, sizes, now);
        self.shared
            .mailboxes
            .answer(self.client.at, Signal::Answer(out.bytes().to_vec()));
    }
}

/// Has a command run elsewhere; its reply comes as [`Signal::Answer`].
pub(crate) fn run(
    shared: &Arc<Shared>,
    client: &Arc<Client>,
    session: &mut Session,
    words: &[&[u8]],
) {
    let session = session.for_worker();
    let writes = shared.engine.may_change(&session, words);
    let job = Job {
        shared: Arc::clone(shared),
        client: Arc::clone(client),
        _writes: writes.then(|| LongWrite::new(shared)),
        session,
        words: words.iter().map(|&word| word.into()).collect(),
    };
    if let Err(job) = shared.workers.run(move || job.run()) {
        // There is no thread for it, so it keeps this one.
        job();
    }
}

/// Has a worker free what UNLINK has left.
#[cold]
pub(crate) fn free(shared: &Arc<Shared>) {
    let job = Arc::clone(shared);
    if let Err(free) = shared.workers.run(move || job.engine.free_garbage()) {
        free();
    }
}

/// Has every thread look whether its Lua state is still wanted, as SCRIPT FLUSH was run.
#[cold]
pub(crate) fn give_up_states(shared: &Shared) {
    tollgate_engine::give_up_flushed();
    // A thread whose mailbox is full does so when it next ticks.
    shared.mailboxes.tick_all().ok();
    shared.workers.call();
}
