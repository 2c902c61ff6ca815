//! Asking the gate about the commands of clients, and refusing them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate_commands::{CmdError, Flags, Row, Run, gate, gate::Redirect, gate::Restrictions};
use tollgate_limiter::Timestamp;

use crate::access::UserPermit;
use crate::cluster::{self, OfClient};
use crate::execute::is_exec;
use crate::{Engine, Node, Plan, Session};

impl Engine {
    /// Asks the gate about a command that a client wants to be run later.
    ///
    /// # Errors
    ///
    /// The refusal, as the client would get it now.
    pub fn may_run(
        &self,
        plan: &Plan<'_>,
        session: &mut Session,
        args: &[&[u8]],
        now: Timestamp,
    ) -> Result<(), CmdError> {
        let row = plan.row.ok_or(CmdError::Syntax)?;
        self.pass_gate(row, session, args, now)
    }

    /// Asks the gate about a command of a client. Commands that [`Engine::passes`] lets through are not asked, so it must
    /// know of whatever is asked here.
    #[inline]
    pub(crate) fn pass_gate(
        &self,
        row: &'static Row,
        session: &mut Session,
        args: &[&[u8]],
        now: Timestamp,
    ) -> Result<(), CmdError> {
        self.look_again(row);
        session.out_of_memory = self.is_out_of_memory(now);
        if self.listeners.tracking() {
            self.tracking.trim();
        }
        let unrestricted = self.access.is_unrestricted(session) || self.access.refresh(session);
        let permit = UserPermit::of_client(&self.access, session, now);
        let log_error = self.log_error();
        let lacks_replicas = self.lacks_replicas.load(Ordering::Relaxed);
        let restrictions = self.restrictions();
        let in_cluster = self.cluster.is_on();
        // Nobody looks at the flags otherwise.
        let judges = session.out_of_memory
            || lacks_replicas
            || log_error.is_some()
            || restrictions != Restrictions::NONE
            || in_cluster;
        let flags = if judges {
            self.flags_of(row, args)
        } else {
            row.flags
        };
        let slots = OfClient {
            cluster: &self.cluster,
            session,
            flags,
        };
        let master = self.master_of(session, restrictions);
        let in_transaction = session.transaction.is_some();
        let view = gate::GateView {
            log_error: log_error.as_deref(),
            authenticated: session.authenticated || self.access.is_open(),
            lacks_replicas,
            out_of_memory: session.out_of_memory
                && (in_transaction || !self.keeps_limiter(row, args, session.db, now)),
            restrictions,
            flags: Some(flags),
            queued: (judges && is_exec(row))
                .then(|| session.queued_flags())
                .flatten(),
            in_transaction,
            busy: self.scripts.long.busy(),
            redirect: master.as_deref().map(|to| Redirect {
                to,
                reads_here: session.reads_replicas,
            }),
            slots: in_cluster.then_some(&slots as &dyn gate::Slots),
            permit: (!unrestricted).then_some(&permit as &dyn gate::Permit),
            ..gate::GateView::open()
        };
        gate::check(row, args, &view)
    }

    /// Host and port of the last master that was followed.
    pub fn master(&self) -> Option<Arc<str>> {
        self.master.lock().clone()
    }

    /// Says whom this server is about to follow.
    pub fn set_master(&self, address: Option<Arc<str>>) {
        *self.master.lock() = address;
    }

    /// Where the client is to be sent with what it asks of keys: nowhere unless this is a replica.
    fn master_of(&self, session: &Session, restrictions: Restrictions) -> Option<Arc<str>> {
        let asks = session.follows_redirects && restrictions.contains(Restrictions::REPLICA);
        asks.then(|| self.master()).flatten()
    }

    /// The flags of a call: those of its row, or what the script says of itself that it runs.
    #[inline]
    pub(crate) fn flags_of(&self, row: &Row, args: &[&[u8]]) -> Flags {
        match row.run {
            Run::Script(command) => crate::script::flags_of(self, command, args, row.flags),
            _ => row.flags,
        }
    }

    /// A command was refused by the gate; gives the error to reply. Those who monitor see an EXEC, whose MULTI they have seen.
    #[cold]
    pub(crate) fn refused(
        &self,
        row: &Row,
        session: &mut Session,
        args: &[&[u8]],
        error: &CmdError,
        node: &dyn Node,
    ) -> CmdError {
        if is_exec(row) && (cluster::is_refusal(error) || error.is_redirect()) {
            session.transaction = None;
            self.unwatch(session);
            return error.clone();
        }
        if is_exec(row) {
            self.show(row, session, args, node);
            return self.refuse_exec(session, error);
        }
        session.abort();
        error.clone()
    }
}
