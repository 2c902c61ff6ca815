//! Threads for commands that may be long, so that the connections of the thread that read them need not wait.
//!
//! They are started when there is work and none is free, and stay. As many run at once as there are processors: more would
//! only interrupt each other. Who has run for long no longer counts, so that nothing waits for a command without end.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_net::{Clock, threads};

/// Most threads of a server. Long commands beyond wait for one that is free; those that end others (SCRIPT KILL) need
/// none.
pub(crate) const WORKERS_MAX: usize = 32;

/// How long work counts among what runs at once.
const TURN: Duration = Duration::from_millis(10);

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    /// When the work that runs was begun, the oldest first.
    running: Vec<Instant>,
    /// Workers that wait, for work or for its turn, or are about to start.
    idle: usize,
    /// One of them waits for the turn of what is queued.
    watched: bool,
    threads: Vec<JoinHandle<()>>,
    stopping: bool,
}

/// What the workers share.
struct Queue {
    state: Mutex<State>,
    ready: Condvar,
    /// How much may run at once, at least 1, of what has not run for `turn` yet.
    places: usize,
    turn: Duration,
    /// Most threads.
    most: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Work runs without the lock, so a panic in it leaves nothing half done here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many places are free.
    fn free(&self, state: &State, now: Instant) -> usize {
        let taken = state.running.iter().rev();
        let taken = taken.take_while(|&&begun| now.saturating_duration_since(begun) < self.turn);
        self.places.saturating_sub(taken.count())
    }

    /// How long it takes until one of the places, all of which are taken, is free though nothing ends.
    fn until_free(&self, state: &State, now: Instant) -> Duration {
        let ends = state.running.iter().map(|&begun| begun + self.turn);
        let next = ends.filter(|&end| end > now).min();
        next.map_or(Duration::ZERO, |end| end.saturating_duration_since(now))
    }

    /// Has one more thread look at the queue, in which so much will be waiting, and starts it where too few are idle to
    /// begin what may begin and to watch what has to wait for its turn. `Err`: there is none and the system refuses one.
    fn staff(self: &Arc<Self>, state: &mut State, waiting: usize) -> io::Result<()> {
        let free = self.free(state, Clock::instant());
        let wanted = free.max(1).min(waiting);
        if state.idle < wanted && state.threads.len() < self.most && !state.stopping {
            let queue = Arc::clone(self);
            let name = format!("tollgate-work-{}", state.threads.len());
            match threads::spawn(name, None, move || queue.serve()) {
                Ok(thread) => {
                    state.threads.push(thread);
                    state.idle += 1;
                }
                Err(error) if state.threads.is_empty() => return Err(error),
                // The others will come to it.
                Err(_) => {}
            }
        }
        self.ready.notify_one();
        Ok(())
    }

    fn serve(self: &Arc<Self>) {
        let mut state = self.lock();
        state.idle -= 1;
        loop {
            let now = Clock::instant();
            if !state.queue.is_empty() && self.free(&state, now) > 0 {
                state = self.work(state, now);
                continue;
            }
            if state.stopping && state.queue.is_empty() {
                return;
            }
            // Looked at under the lock, so that no call is missed; closing a state may take long.
            if tollgate_engine::keeps_flushed() {
                drop(state);
                tollgate_engine::give_up_flushed();
                state = self.lock();
                continue;
            }
            state = self.wait(state, now);
        }
    }

    /// Runs what is first in the queue.
    fn work<'q>(
        self: &'q Arc<Self>,
        mut state: MutexGuard<'q, State>,
        now: Instant,
    ) -> MutexGuard<'q, State> {
        let Some(work) = state.queue.pop_front() else {
            return state;
        };
        state.running.push(now);
        // Another is to watch those that are left. Without one, they are begun when something ends.
        let waiting = state.queue.len();
        if waiting > 0 {
            self.staff(&mut state, waiting).ok();
        }
        drop(state);
        work();
        let mut state = self.lock();
        if let Some(at) = state.running.iter().position(|&begun| begun == now) {
            state.running.remove(at);
        }
        state
    }

    fn wait<'q>(&'q self, mut state: MutexGuard<'q, State>, now: Instant) -> MutexGuard<'q, State> {
        // At the end each looks for itself whether it is still needed.
        let watches = !state.queue.is_empty() && (!state.watched || state.stopping);
        state.idle += 1;
        if watches {
            state.watched = true;
            let turn = self.until_free(&state, now);
            let waited = self.ready.wait_timeout(state, turn);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.watched = false;
        } else {
            let waited = self.ready.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.idle -= 1;
        state
    }
}

/// The pool of a server.
pub(crate) struct Workers {
    queue: Arc<Queue>,
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
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Workers::with(most, processors, TURN)
    }

    /// A pool that begins up to `places` works within a `turn`.
    fn with(most: usize, places: usize, turn: Duration) -> Workers {
        Workers {
            queue: Arc::new(Queue {
                state: Mutex::default(),
                ready: Condvar::new(),
                places,
                turn,
                most,
            }),
        }
    }

    /// Has `work` run by a worker. Gives it back when there is none and the system refuses a thread.
    pub(crate) fn run<W: FnOnce() + Send + 'static>(&self, work: W) -> Result<(), W> {
        let mut state = self.queue.lock();
        if state.stopping || self.queue.most == 0 {
            return Err(work);
        }
        let waiting = state.queue.len() + 1;
        if self.queue.staff(&mut state, waiting).is_err() {
            return Err(work);
        }
        state.queue.push_back(Box::new(work));
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Runs `count` works that tell how many run at once.
    fn most_at_once(workers: &Workers, count: usize) -> usize {
        let running = Arc::new(AtomicUsize::new(0));
        let (tell, told) = mpsc::channel();
        for _ in 0..count {
            let (tell, running) = (tell.clone(), Arc::clone(&running));
            let queued = workers.run(move || {
                let before = running.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(1));
                running.fetch_sub(1, Ordering::SeqCst);
                tell.send(before + 1).expect("the test waits");
            });
            assert!(queued.is_ok());
        }
        let told = (0..count).map(|_| told.recv_timeout(LONG).expect("all of them run"));
        told.max().unwrap_or(0)
    }

    #[test]
    fn no_more_runs_at_once_than_there_are_places() {
        for places in [1, 3] {
            let workers = Workers::with(WORKERS_MAX, places, LONG);
            let most = most_at_once(&workers, 100);
            assert!(most <= places, "{most}");
            // One more than those that run, which watches.
            assert!(workers.queue.lock().threads.len() <= places + 1);
        }
    }

    #[test]
    fn what_runs_for_long_takes_no_place() {
        let workers = Workers::with(WORKERS_MAX, 1, Duration::from_millis(1));
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for _ in 0..5 {
            let wait = Arc::clone(&wait);
            // Until the test has seen what it waits for.
            let queued = workers.run(move || drop(wait.lock().map(|wait| wait.recv())));
            assert!(queued.is_ok());
        }
        assert!(most_at_once(&workers, 10) > 0);
        drop(go);
    }

    #[test]
    fn the_end_comes_while_some_wait_for_their_turn() {
        for _ in 0..20 {
            let workers = Workers::with(WORKERS_MAX, 1, Duration::from_millis(2));
            let (tell, told) = mpsc::channel();
            for number in 0..20 {
                let tell = tell.clone();
                let queued = workers.run(move || {
                    thread::sleep(Duration::from_millis(number % 4));
                    tell.send(number).expect("the test waits");
                });
                assert!(queued.is_ok());
            }
            workers.stop();
            assert_eq!(told.try_iter().count(), 20);
        }
    }

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
