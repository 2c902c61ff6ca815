//! Keeping threads that serve connections free: which commands are run elsewhere, and which are put off because a long
//! command holds what they need.

use tollgate_commands::{
    FunctionCommand, NodeCommand, Row, Run, ScriptCommand, TransactionCommand,
};

use std::sync::atomic::Ordering;

use crate::execute::names_keys_in_data;
use crate::{Engine, Session};

/// Commands that look at, or free, the whole of a data set.
const WHOLE: &[&str] = &["KEYS", "FLUSHALL", "FLUSHDB"];

impl Session {
    /// The record with which a long command of this connection runs on a thread for such commands.
    pub fn for_worker(&self) -> Session {
        let mut session = Session::new(self.id, self.authenticated);
        session.db = self.db;
        session.protocol = self.protocol;
        session.user.clone_from(&self.user);
        session.client.clone_from(&self.client);
        session.no_touch = self.no_touch;
        session.is_worker = true;
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
    pub(crate) fn is_elsewhere(&self, row: &Row, session: &Session, args: &[&[u8]]) -> bool {
        if !session.may_move {
            return false;
        }
        match row.run {
            Run::Keys(_) => {
                names_keys_in_data(row) && {
                    let place = self.costs.place(row.name.as_bytes(), args[1]);
                    !self.costs.is_trusted(place)
                }
            }
            Run::Keyspace(_) => WHOLE.contains(&row.name) && self.deep.load(Ordering::Relaxed),
            Run::Script(ScriptCommand::Function(command)) => {
                matches!(command, FunctionCommand::Load | FunctionCommand::Restore)
            }
            _ => false,
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
            Run::Keys(_) => needs_kept() || (names_keys_in_data(row) && self.shards.is_gate_kept()),
            Run::Transaction(TransactionCommand::Watch) => needs_kept(),
            Run::Keyspace(_) => true,
            Run::Script(command) => {
                runs_script(command)
                    && (needs_kept()
                        || (self.shards.is_gate_kept()
                            && crate::script::needs_gate(self, command, args)))
            }
            Run::Node(command) => looks_at_all(command),
            _ => false,
        }
    }
}

/// Commands of the server that count or write what all shards hold.
fn looks_at_all(command: NodeCommand) -> bool {
    matches!(
        command,
        NodeCommand::Info
            | NodeCommand::ConfigResetStat
            | NodeCommand::LatencyHistogram
            | NodeCommand::MemoryDoctor
            | NodeCommand::MemoryStats
            | NodeCommand::Debug
            | NodeCommand::Save
            | NodeCommand::BgRewriteAof
            | NodeCommand::BgSave
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
