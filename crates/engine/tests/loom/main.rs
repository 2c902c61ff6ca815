//! The epochs of hot keys under every interleaving of threads: the same file as in the engine, over the model checker's
//! atomics.

use loom::sync::{Arc, Mutex};
use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}
#[path = "../../src/hot/slot.rs"]
mod slot;

use slot::HotSlot;
use sync::{AtomicU64, Ordering};

const LIMIT: u64 = 3;
const LEASE: u64 = 2;

/// A limit: units left, behind the lock of its shard, and how often it was reset.
struct Limit {
    state: Mutex<(u64, u64)>,
    slot: HotSlot,
    /// Resets that somebody has been told of.
    told: AtomicU64,
    /// Units admitted before and after the reset.
    admitted: [AtomicU64; 2],
}

impl Limit {
    fn new() -> Arc<Limit> {
        Arc::new(Limit {
            state: Mutex::new((LIMIT, 0)),
            slot: HotSlot::new(),
            told: AtomicU64::new(0),
            admitted: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    /// Takes a lease: its units, its epoch and the generation of the state that it was taken from.
    fn lease(&self) -> (u64, u64, u64) {
        let mut state = self.state.lock().expect("no thread panics");
        let units = state.0.min(LEASE);
        state.0 -= units;
        self.slot.grant(units);
        (units, self.slot.lease_epoch(), state.1)
    }

    fn reset(&self) {
        let mut state = self.state.lock().expect("no thread panics");
        *state = (LIMIT, state.1 + 1);
        self.slot.revoke();
        drop(state);
        self.told.fetch_add(1, Ordering::Release);
    }

    /// Spends a lease; what remains when it was revoked.
    fn spend(&self, (mut units, epoch, generation): (u64, u64, u64)) -> u64 {
        while units > 0 {
            let told = self.told.load(Ordering::Acquire);
            if self.slot.lease_epoch() != epoch {
                break;
            }
            assert!(told <= generation, "spent after a reset that was known");
            self.admitted[generation as usize].fetch_add(1, Ordering::Relaxed);
            units -= 1;
        }
        units
    }
}

/// Every interleaving with at most two preemptions, which is where such faults show, and all that a test has time for.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn no_lease_outlives_a_reset_and_none_admits_more() {
    explore(|| {
        let limit = Limit::new();
        let spenders: Vec<_> = (0..2)
            .map(|_| {
                let limit = Arc::clone(&limit);
                thread::spawn(move || {
                    let lease = limit.lease();
                    limit.spend(lease);
                })
            })
            .collect();
        limit.reset();
        for spender in spenders {
            spender.join().expect("no thread panics");
        }
        for generation in &limit.admitted {
            assert!(generation.load(Ordering::Relaxed) <= LIMIT);
        }
    });
}

#[test]
fn a_denial_ends_when_units_come_back() {
    explore(|| {
        let limit = Limit::new();
        let holder = limit.lease();
        let other = Arc::clone(&limit);
        let returner = thread::spawn(move || {
            let mut state = other.state.lock().expect("no thread panics");
            state.0 += holder.0;
            other.slot.settle(holder.0, holder.0);
            drop(state);
            other.told.fetch_add(1, Ordering::Release);
        });
        // Denied for want of two units, unless they are back already.
        let denied = {
            let state = limit.state.lock().expect("no thread panics");
            (state.0 < LEASE).then(|| limit.slot.denial_epoch())
        };
        if let Some(epoch) = denied {
            let told = limit.told.load(Ordering::Acquire);
            if told == 1 {
                assert_ne!(
                    limit.slot.denial_epoch(),
                    epoch,
                    "denied what is known to be there"
                );
            }
        }
        returner.join().expect("no thread panics");
        assert_eq!(limit.slot.granted(), 0);
    });
}
