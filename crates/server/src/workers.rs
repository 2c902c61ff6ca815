//! Threads for commands that may be long, so that the connections of the thread that read them need not wait.
//!
//! They are started when there is work and none is free, and stay.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tollgate_net::threads;

/// Most threads of a server. Long commands beyond wait for one that is free; those that end others (SCRIPT KILL) need
/// none.
pub(crate) const WORKERS_MAX: usize = 32;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    /// Workers that wait for work.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    stopping: bool,
}

/// What the workers share.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    ready: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Work runs without the lock, so a panic in it leaves nothing half done here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.queue.pop_front() {
                drop(state);
                work();
                state = self.lock();
                continue;
            }
            if state.stopping {
                return;
            }
            // Looked at under the lock, so that no call is missed; closing a state may take long.
            if tollgate_engine::keeps_flushed() {
                drop(state);
                tollgate_engine::give_up_flushed();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            state = self
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// The pool of a server.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    most: usize,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.queue.lock();
        f.debug_struct("Workers")
            .field("threads", &state.threads.len())
            .field("idle", &state.idle)
            .finish()
    }
}

impl Workers {
    /// A pool of up to `most` threads, none of which is started yet.
    pub(crate) fn new(most: usize) -> Workers {
        Workers {
            queue: Arc::default(),
            most,
        }
    }

    /// Has `work` run by a worker. Gives it back when there is none and the system refuses a thread.
    pub(crate) fn run<W: FnOnce() + Send + 'static>(&self, work: W) -> Result<(), W> {
        let mut state = self.queue.lock();
        if state.stopping || self.most == 0 {
            return Err(work);
        }
        if state.idle <= state.queue.len() && state.threads.len() < self.most {
            let queue = Arc::clone(&self.queue);
            let name = format!("tollgate-work-{}", state.threads.len());
            match threads::spawn(name, None, move || queue.serve()) {
                Ok(thread) => state.threads.push(thread),
                Err(_) if state.threads.is_empty() => return Err(work),
                // The others will come to it.
                Err(_) => {}
            }
        }
        state.queue.push_back(Box::new(work));
        drop(state);
        self.queue.ready.notify_one();
        Ok(())
    }

    /// Has those without work look whether their Lua states are still wanted.
    pub(crate) fn call(&self) {
        // Who is about to wait has looked before, or waits by then.
        drop(self.queue.lock());
        self.queue.ready.notify_all();
    }

    /// Ends the workers when what is queued has been run.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut state = self.queue.lock();
            state.stopping = true;
            std::mem::take(&mut state.threads)
        };
        self.queue.ready.notify_all();
        let this = std::thread::current().id();
        // A worker may be the last one to let go of the server.
        for thread in threads.into_iter().filter(|one| one.thread().id() != this) {
            // A worker that panicked has nothing left to do.
            drop(thread.join());
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn work_that_waits_for_other_work_does_not_hold_it_up() {
        let workers = Workers::new(WORKERS_MAX);
        let (tell, told) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        let first = workers.run(move || {
            wait.recv_timeout(LONG).expect("the other one runs");
            tell.send(()).expect("the test waits");
        });
        assert!(first.is_ok());
        let second = workers.run(move || go.send(()).expect("the first one waits"));
        assert!(second.is_ok());
        told.recv_timeout(LONG).expect("both have run");
    }

    #[test]
    fn what_is_queued_runs_before_the_end_and_nothing_after() {
        let workers = Workers::new(WORKERS_MAX);
        let (tell, told) = mpsc::channel();
        for number in 0..100 {
            let tell = tell.clone();
            let queued = workers.run(move || tell.send(number).expect("the test waits"));
            assert!(queued.is_ok());
        }
        workers.stop();
        assert_eq!(told.try_iter().count(), 100);
        assert!(
            workers
                .run(|| unreachable!("the workers are gone"))
                .is_err()
        );
        let none = Workers::new(0).run(|| unreachable!("there are none"));
        assert!(none.is_err());
    }
}
