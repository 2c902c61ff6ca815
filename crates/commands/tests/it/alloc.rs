//! The commands on every hot path work without the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tollgate_commands::{
    Args, Cx, Effects, Origin, Rng, Run, ShardSet, StoreLimits, Walk, gate, resolve,
};
use tollgate_keyspace::{DbIndex, Seed, Shard};
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged; counting touches a plain
// thread-local cell that neither allocates nor has a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` came from the system.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Nowhere;

impl Walk for Nowhere {
    fn shard_count(&self) -> usize {
        1
    }
    fn with_shard(&mut self, _: usize, _: &mut dyn FnMut(&mut Shard)) {}
    fn with_all(&mut self, _: &mut dyn FnMut(usize, &mut Shard)) {}
}

/// Allocations of a thousand calls, after some that give the reply buffer its size.
fn allocations(line: &str) -> usize {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let seed = Seed::new(1);
    let mut shard = Shard::new(&seed);
    let mut out = ReplyBuf::new(Protocol::Resp2);
    let (mut effects, mut rng, limits) = (Effects::new(), Rng::new(1), StoreLimits::default());
    let mut before = 0;
    for round in 0..1010 {
        let row = resolve(&words).expect("the command exists");
        gate::check(row, &words, &gate::GateView::open()).expect("the gate is open");
        let Run::Keys(handler) = row.run else {
            panic!("{} has no keys", row.name)
        };
        let key = seed.key(words[1]);
        let mut cx = Cx {
            shards: ShardSet::one(0, &mut shard, 1),
            walk: &mut Nowhere,
            seed: &seed,
            db: DbIndex::ZERO,
            now: Timestamp::from_millis(1_767_225_600_000),
            out: &mut out,
            effects: &mut effects,
            rng: &mut rng,
            limits: &limits,
            origin: Origin::Client,
            may_block: false,
            replicas: 0,
            synced: None,
            retry_as: None,
        };
        let reply = handler(&mut cx, Args::new(&words, 1, &seed).with_keys(&[key]));
        reply.expect("the command succeeds").write(&mut out);
        out.clear();
        effects.clear();
        if round == 9 {
            before = ALLOCATIONS.get();
        }
    }
    ALLOCATIONS.get() - before
}

#[test]
fn hot_commands_do_not_allocate() {
    for line in [
        "GET key:000000000001",
        "SET key:000000000001 xxx",
        "SET key:000000000001 12345",
        "SET key:000000000001 xxx EX 100 NX",
        "INCR key:000000000001",
        "INCRBY key:000000000001 5",
        "EXPIRE key:000000000001 100",
        "TTL key:000000000001",
        "EXISTS key:000000000001",
        "RL.TAKE key:000000000001 FIXED 100000 60000",
        "RL.TAKE key:000000000001 FIXED 10 60000 COST 3",
        "CL.THROTTLE key:000000000001 10 100 60",
    ] {
        assert_eq!(allocations(line), 0, "{line}");
    }
}
