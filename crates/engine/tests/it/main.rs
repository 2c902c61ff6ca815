//! The engine in process: atomicity under threads, scripts against redis-server, decisions, snapshots.

mod atomicity;
mod bounds;
mod decisions;
mod elsewhere;
mod following;
mod hot;
mod lending;
mod listening;
mod memory;
mod moment;
mod random;
mod scripts;
mod snapshots;
mod syncing;
mod transactions;
mod traps;
mod waiting;

use std::sync::Arc;

use tollgate_commands::{CmdError, NodeCommand, Reply};
use tollgate_engine::{Engine, EngineConfig, Node, NodeCx, Session};
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{ReplyBuf, Value, read_value};

/// A server that answers no command of its own.
struct NoNode;

impl Node for NoNode {
    fn run(&mut self, _command: NodeCommand, _cx: NodeCx<'_>) -> Result<Reply, CmdError> {
        Err(CmdError::err("not a server"))
    }
}

/// The time of tests that do not care.
const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// An engine of so many shards.
fn engine(shards: usize) -> Arc<Engine> {
    Engine::new(EngineConfig {
        shards,
        seed: 7,
        ..EngineConfig::default()
    })
}

/// A connection in process.
struct Client {
    engine: Arc<Engine>,
    session: Session,
    now: Timestamp,
    out: ReplyBuf,
}

impl Client {
    fn new(engine: &Arc<Engine>) -> Client {
        Client {
            engine: Arc::clone(engine),
            session: Session::new(1, true),
            now: NOW,
            out: ReplyBuf::default(),
        }
    }

    /// The reply's bytes.
    fn bytes<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Vec<u8> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        self.out.clear();
        self.engine.execute(
            &mut self.session,
            &args,
            self.now,
            &mut self.out,
            &mut NoNode,
        );
        self.out.bytes().to_vec()
    }

    /// The reply, which is exactly one.
    fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        let bytes = self.bytes(args);
        let (value, len) = read_value(&bytes)
            .expect("a well-formed reply")
            .expect("a whole reply");
        assert_eq!(len, bytes.len(), "one reply and no more");
        value
    }

    fn int<A: AsRef<[u8]>>(&mut self, args: &[A]) -> i64 {
        match self.call(args) {
            Value::Int(number) => number,
            Value::Bulk(digits) => String::from_utf8_lossy(&digits).parse().expect("a number"),
            other => panic!("not a number: {other:?}"),
        }
    }
}
