//! A keyspace with its clock, and commands run on it as the engine runs them.

use tollgate_commands::{
    Args, Cx, Effects, LockedShards, Origin, Reply, Rng, Run, ShardSet, StoreLimits, Walk, gate,
    keys_of, resolve,
};
use tollgate_keyspace::{DbIndex, Seed, Shard};
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf};

/// When every test begins: 2026-01-01.
pub(crate) const START_MS: i64 = 1_767_225_600_000;

pub(crate) struct World {
    shards: Shards,
    seed: Seed,
    pub(crate) now: Timestamp,
    pub(crate) db: DbIndex,
    pub(crate) protocol: Protocol,
    pub(crate) effects: Effects,
    pub(crate) limits: StoreLimits,
    rng: Rng,
}

struct Shards(Vec<Shard>);

impl LockedShards for Shards {
    fn shard(&mut self, index: usize) -> &mut Shard {
        &mut self.0[index]
    }

    fn look(&self, index: usize) -> &Shard {
        &self.0[index]
    }
}

impl Walk for Shards {
    fn shard_count(&self) -> usize {
        self.0.len()
    }
    fn with_shard(&mut self, index: usize, f: &mut dyn FnMut(&mut Shard)) {
        f(&mut self.0[index]);
    }
    fn with_all(&mut self, f: &mut dyn FnMut(usize, &mut Shard)) {
        self.0
            .iter_mut()
            .enumerate()
            .for_each(|(index, shard)| f(index, shard));
    }
}

impl World {
    pub(crate) fn new(shards: usize) -> World {
        let seed = Seed::new(7);
        World {
            shards: Shards((0..shards).map(|_| Shard::new(&seed)).collect()),
            seed,
            now: Timestamp::from_millis(START_MS),
            db: DbIndex::ZERO,
            protocol: Protocol::Resp2,
            effects: Effects::new(),
            limits: StoreLimits::default(),
            rng: Rng::new(1),
        }
    }

    pub(crate) fn advance_ms(&mut self, ms: i64) {
        self.now = Timestamp::from_nanos(self.now.nanos() + ms * 1_000_000);
    }

    /// Runs a command given as words in one string; the reply is raw RESP, `\r\n` shown as `|`.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run_words(&words)
    }

    pub(crate) fn run_words(&mut self, words: &[&[u8]]) -> String {
        let mut out = ReplyBuf::new(self.protocol);
        self.effects.clear();
        match self.answer(words, &mut out) {
            Ok(reply) => reply.write(&mut out),
            Err(error) => error.write(&mut out),
        }
        String::from_utf8_lossy(out.bytes()).replace("\r\n", "|")
    }

    fn answer(
        &mut self,
        words: &[&[u8]],
        out: &mut ReplyBuf,
    ) -> Result<Reply, tollgate_commands::CmdError> {
        let row = resolve(words)?;
        gate::check(row, words, &gate::GateView::open())?;
        let count = self.shards.0.len();
        let keys = keys_of(row, words)?;
        // The key spec must name every key that the handler uses: lock one shard where it is one.
        let mut indexes: Vec<usize> = keys
            .iter()
            .map(|at| self.seed.key(words[*at as usize]).shard(count))
            .collect();
        indexes.sort_unstable();
        indexes.dedup();
        let mut spare = Shards(Vec::new());
        let (set, walk): (ShardSet<'_>, &mut dyn Walk) = match (row.run, &indexes[..]) {
            (Run::Keys(_), [index]) => (
                ShardSet::one(*index, &mut self.shards.0[*index], count),
                &mut spare,
            ),
            (Run::Keys(_), _) => (ShardSet::many(&mut self.shards, count), &mut spare),
            _ => (ShardSet::none(count), &mut self.shards),
        };
        let mut cx = Cx {
            shards: set,
            walk,
            seed: &self.seed,
            db: self.db,
            now: self.now,
            out,
            effects: &mut self.effects,
            rng: &mut self.rng,
            limits: &self.limits,
            origin: Origin::Client,
            may_block: false,
            replicas: 0,
            synced: None,
            retry_as: None,
        };
        let args = Args::new(words, row.name_words(), &self.seed);
        match row.run {
            Run::Keys(handler)
            | Run::Keyspace(handler)
            | Run::Local(handler)
            | Run::Wait(handler) => handler(&mut cx, args),
            Run::Node(_)
            | Run::Script(_)
            | Run::PubSub(_)
            | Run::Transaction(_)
            | Run::Container => {
                panic!("{} is not answered by this crate", row.name)
            }
        }
    }
}

/// Runs `lines` (command `=>` reply) in order, on one shard and on many.
#[track_caller]
pub(crate) fn check(lines: &[(&str, &str)]) {
    for shards in [1, 64] {
        let mut world = World::new(shards);
        check_on(&mut world, lines);
    }
}

#[track_caller]
pub(crate) fn check_on(world: &mut World, lines: &[(&str, &str)]) {
    for (line, reply) in lines {
        assert_eq!(world.run(line), *reply, "{line}");
    }
}
