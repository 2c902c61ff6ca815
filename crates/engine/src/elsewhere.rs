//! Keeping threads that serve connections free: which commands are run elsewhere, and which are put off because a long
//! command holds what they need.

use tollgate_commands::{
    ClusterCommand, Flags, FunctionCommand, NodeCommand, Row, Run, ScriptCommand,
    TransactionCommand, keys_of, uses_hidden_keys,
};
use tollgate_keyspace::{DbIndex, ValueRef};
use tollgate_limiter::Timestamp;

use std::sync::atomic::Ordering;

use crate::{Engine, Session};

/// Steps of a command that a thread which serves connections does itself; a few tenths of a millisecond.
const STEPS_MAX: usize = 4_096;

/// Bytes of a string that cost as much as an element of a collection.
const BYTES_PER_STEP: usize = 256;

/// Cells of LCS' table that cost as much.
const CELLS_PER_STEP: usize = 64;

/// Commands that look at, or free, the whole of a data set.
const WHOLE: &[&str] = &["KEYS", "FLUSHALL", "FLUSHDB"];

impl Session {
    /// The record with which a long command of this connection runs on a thread for such commands. A transaction goes
    /// along: what is run there is its EXEC.
    pub fn for_worker(&mut self) -> Session {
        let mut session = Session::new(self.id, self.authenticated);
        session.db = self.db;
        session.protocol = self.protocol;
        session.user.clone_from(&self.user);
        // What it shows of itself, so that it does not seem to have changed.
        session.name.clone_from(&self.name);
        session.lib_name.clone_from(&self.lib_name);
        session.lib_version.clone_from(&self.lib_version);
        session.no_evict = self.no_evict;
        session.client.clone_from(&self.client);
        session.no_touch = self.no_touch;
        session.is_worker = true;
        if self.transaction.is_some() {
            session.transaction = self.transaction.take();
            session.watches = std::mem::take(&mut self.watches);
        }
        session
    }

    /// Lets commands that may be long be run elsewhere: they end with [`crate::Outcome::Elsewhere`].
    pub fn allow_moves(&mut self) {
        self.may_move = true;
    }
}

impl Engine {
    /// Whether the command is known to be one for another thread before it is looked at more closely.
    #[inline]
    pub(crate) fn is_elsewhere(
        &self,
        row: &Row,
        session: &Session,
        args: &[&[u8]],
        now: Timestamp,
    ) -> bool {
        if !session.may_move {
            return false;
        }
        match row.run {
            Run::Keys(_) => {
                let is_bulky = row.flags.contains(Flags::BULKY);
                is_bulky && self.steps_of(row, session.db, args, now) > STEPS_MAX
                    || self.may_meet_kept(row, args)
            }
            Run::Transaction(TransactionCommand::Exec) => self.transaction_is_long(session, now),
            // It waits for another server.
            Run::Node(NodeCommand::Migrate) => true,
            Run::Node(NodeCommand::Debug) => args
                .get(1)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"LOADAOF")),
            Run::Node(NodeCommand::Cluster(command)) => {
                keeps_slots(command) || (counts_slots(command) && self.deep.load(Ordering::Relaxed))
            }
            Run::Keyspace(_) => WHOLE.contains(&row.name) && self.deep.load(Ordering::Relaxed),
            Run::Script(ScriptCommand::Function(command)) => {
                matches!(command, FunctionCommand::Load | FunctionCommand::Restore)
            }
            _ => false,
        }
    }

    /// Whether the command may come to need what a long command holds: it does not name all that it looks at.
    pub(crate) fn may_meet_kept(&self, row: &Row, args: &[&[u8]]) -> bool {
        self.shards.are_kept()
            && match row.run {
                Run::Keys(_) => uses_hidden_keys(row, args),
                Run::Script(command) => {
                    runs_script(command) && crate::script::needs_gate(self, command, args)
                }
                _ => false,
            }
    }

    /// About how much work a command is, by the sizes of the values that it names. What others have locked counts as
    /// nothing.
    fn steps_of(&self, row: &Row, db: DbIndex, args: &[&[u8]], now: Timestamp) -> usize {
        let Ok(positions) = keys_of(row, args) else {
            return 0;
        };
        let sizes = positions.iter().map(|&at| {
            let key = self.seed.key(args[at as usize]);
            let index = key.shard(self.shards.count());
            let cell = self.shards.try_lock(index)?;
            let found = cell.look(db, key, now.millis())?;
            Some(match found.value() {
                ValueRef::Object(object) => (object.len(), 0),
                ValueRef::Bytes(bytes) => (0, bytes.len()),
                _ => (0, 0),
            })
        });
        let sizes = sizes.flatten();
        match row.name {
            "LCS" => {
                let cells = sizes.map(|(_, bytes)| bytes).fold(1, usize::saturating_mul);
                cells / CELLS_PER_STEP
            }
            // The smallest one decides.
            "SINTER" | "SINTERCARD" | "SINTERSTORE" | "ZINTER" | "ZINTERCARD" | "ZINTERSTORE" => {
                let smallest = sizes.map(|(elements, _)| elements).min();
                smallest.unwrap_or(0).saturating_mul(positions.len())
            }
            _ => sizes.fold(0, |all: usize, (elements, bytes)| {
                all.saturating_add(elements + bytes / BYTES_PER_STEP)
            }),
        }
    }

    /// Whether the command would have to wait for a long one; its connection is told when to try again.
    #[cold]
    pub(crate) fn is_put_off(&self, row: &Row, session: &Session, args: &[&[u8]]) -> bool {
        let Some(mail) = &session.mail else {
            return false;
        };
        let waits = match row.run {
            Run::Transaction(TransactionCommand::Exec) => self.transaction_waits(session),
            _ => self.waits_for_kept(row, args),
        };
        waits && self.shards.put_off(mail)
    }

    /// Whether a long command holds what this one needs.
    pub(crate) fn waits_for_kept(&self, row: &Row, args: &[&[u8]]) -> bool {
        let needs_kept = || {
            self.shards_of(row, args)
                .is_ok_and(|wanted| wanted.iter().any(|&index| self.shards.is_kept(index)))
        };
        match row.run {
            Run::Keys(_) => {
                needs_kept() || (self.shards.is_gate_kept() && uses_hidden_keys(row, args))
            }
            Run::Transaction(TransactionCommand::Watch) => needs_kept(),
            Run::Keyspace(_) => true,
            Run::Script(command) => {
                runs_script(command)
                    && (needs_kept()
                        || (self.shards.is_gate_kept()
                            && crate::script::needs_gate(self, command, args)))
            }
            Run::Node(NodeCommand::Migrate) => needs_kept(),
            Run::Node(command) => looks_at_all(command),
            _ => false,
        }
    }
}

/// Commands of the server that count or write what all shards hold.
fn looks_at_all(command: NodeCommand) -> bool {
    matches!(
        command,
        NodeCommand::ConfigResetStat
            | NodeCommand::LatencyHistogram
            | NodeCommand::MemoryDoctor
            | NodeCommand::MemoryStats
            | NodeCommand::Debug
            | NodeCommand::ReplicaOf
            | NodeCommand::Save
            | NodeCommand::BgRewriteAof
            | NodeCommand::BgSave
            | NodeCommand::Cluster(
                ClusterCommand::CountKeysInSlot
                    | ClusterCommand::FlushSlots
                    | ClusterCommand::GetKeysInSlot
                    | ClusterCommand::Reset
                    | ClusterCommand::SlotStats
            )
    )
}

/// Commands that write the file of a cluster's node, and so wait for a disk.
fn keeps_slots(command: ClusterCommand) -> bool {
    matches!(
        command,
        ClusterCommand::AddSlots
            | ClusterCommand::AddSlotsRange
            | ClusterCommand::BumpEpoch
            | ClusterCommand::DelSlots
            | ClusterCommand::DelSlotsRange
            | ClusterCommand::FlushSlots
            | ClusterCommand::Reset
            | ClusterCommand::SaveConfig
            | ClusterCommand::SetConfigEpoch
            | ClusterCommand::SetSlot
    )
}

/// Commands that look at all keys for their slots.
fn counts_slots(command: ClusterCommand) -> bool {
    matches!(
        command,
        ClusterCommand::CountKeysInSlot | ClusterCommand::GetKeysInSlot | ClusterCommand::SlotStats
    )
}

fn runs_script(command: ScriptCommand) -> bool {
    matches!(
        command,
        ScriptCommand::Eval
            | ScriptCommand::EvalRo
            | ScriptCommand::EvalSha
            | ScriptCommand::EvalShaRo
            | ScriptCommand::Fcall
            | ScriptCommand::FcallRo
    )
}
