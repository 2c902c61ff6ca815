//! Locked shards, the executor, scripting, and the embedded handle.
//!
//! Every command, whoever asks for it (a client, a script, the service in the same process), goes through
//! [`Engine::execute`] or the same steps inside: look up the row, pass the gate, lock the shards of the keys,
//! run the handler, commit its effects, unlock. A command runs to completion on the calling thread; the engine
//! starts no thread and reads no clock of its own except to time commands for INFO.
//!
//! The lock rule: nobody waits for one shard while holding another, except the holder of the gate of
//! `shards`, of which there is one at a time. So there is no deadlock and no global order to keep.

mod access;
mod admission;
mod apply;
mod call;
mod cell;
mod cluster;
mod commit;
mod costs;
mod elsewhere;
mod engine;
mod execute;
mod garbage;
mod handle;
mod held;
mod hot;
mod journal;
mod keys;
mod later;
mod ledgers;
mod lock;
mod memory;
mod migrate;
mod monitor;
mod notify;
mod observe;
mod overview;
mod own;
mod pause;
mod plan;
mod populate;
mod pubsub;
mod quick;
mod script;
mod serve;
mod session;
mod shards;
mod snapshot;
mod stats;
mod subscriber;
mod tally;
mod tracking;
mod transaction;
mod waiter;
mod walk;
mod watch;

pub use access::{Access, ClientInfo};
pub use apply::{Applied, Applier, ApplyError};
pub use cluster::Cluster;
pub use engine::{DatabaseSize, Engine, EngineConfig, ExpireStep};
pub use handle::{Check, Decisions, Handle, Undecided, WrongState};
pub use hot::LocalHandle;
pub use journal::unwrap as unwrap_for_replica;
pub use journal::{
    AdoptError, FollowerFacts, Following, JournalFacts, LogBytes, LogFacts, Parting,
    Place as HistoryPlace, Replica, RoleError, SyncRequest, SyncStart,
};
pub use ledgers::AnyCheck;
pub use migrate::Parcel;
pub use monitor::Monitors;
pub use notify::Notify;
pub use observe::{
    CommandLog, HotKeyOptions, HotKeyReport, LatencySample, LatencySeries, LogKind, LoggedCommand,
    Observer, Spent,
};
pub use overview::{Overview, TtlSample};
pub use pause::{Pause, Paused, PausedBy};
pub use plan::Plan;
pub use pubsub::{PubSub, Topic};
pub use script::{REDIS_VERSION, give_up_flushed, keeps_flushed, script_flushes, sha1};
pub use session::{Node, NodeCx, Outcome, Replies, Session};
pub use shards::Visit;
pub use snapshot::{
    Base, Form, Loaded, Purpose, STUCK_SECS, Snapshot, SnapshotError, SnapshotProgress,
};
pub use stats::{CommandStats, Stats, TIMES};
pub use subscriber::{Place, Subscriber};
pub use tracking::{Tracker, Tracking, TrackingOptions};
pub use waiter::{Mail, Unblock, Wake};
pub use watch::Watches;
