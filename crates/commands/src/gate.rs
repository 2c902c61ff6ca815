//! The ordered checks before a command runs: client commands, transactions, scripts, replay and
//! replica apply all pass them, and the origin says which apply.
//!
//! The order shows in replies, so it is Redis': existence and arity, authentication, then what a
//! script may not do, then what the user may not do, then memory.

use crate::{CmdError, Flags, Origin, Row};

/// What keeps the server from taking other commands, because it has been running for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Busy {
    /// A script, which SCRIPT KILL ends.
    Script,
    /// A function, which FUNCTION KILL ends.
    Function,
}

impl Busy {
    /// What is answered meanwhile.
    pub const fn error(self) -> CmdError {
        match self {
            Busy::Script => CmdError::BusyScript,
            Busy::Function => CmdError::BusyFunction,
        }
    }
}

/// What a server may not do because of its part in replication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restrictions(u8);

impl Restrictions {
    /// Nothing is restricted.
    pub const NONE: Restrictions = Restrictions(0);
    /// A replica that clients may not write to.
    pub const READ_ONLY: Restrictions = Restrictions(1);
    /// A replica without a link to its master, which is not to answer from what it has.
    pub const STALE: Restrictions = Restrictions(1 << 1);
    /// Data are being loaded.
    pub const LOADING: Restrictions = Restrictions(1 << 2);
    /// A replica, which leaves it to its master what goes when memory is short.
    pub const KEEPS_ALL: Restrictions = Restrictions(1 << 3);

    /// Both together.
    #[must_use]
    pub const fn or(self, other: Restrictions) -> Restrictions {
        Restrictions(self.0 | other.0)
    }

    /// Whether all of `other` hold.
    #[inline]
    pub const fn contains(self, other: Restrictions) -> bool {
        self.0 & other.0 == other.0
    }

    /// A replica: nobody waits for replicas of it.
    pub const REPLICA: Restrictions = Restrictions(1 << 4);

    /// The last snapshot could not be written, and `stop-writes-on-bgsave-error` says that nothing more is to change.
    pub const UNSAVED: Restrictions = Restrictions(1 << 5);
    /// Commands that write are put off for a moment; no reason to refuse one.
    pub const CROWDED: Restrictions = Restrictions(1 << 6);

    /// As one byte.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// What [`Restrictions::bits`] gave.
    pub const fn from_bits(bits: u8) -> Restrictions {
        Restrictions(bits)
    }
}

/// Knows what the user of a connection may do.
pub trait Permit: std::fmt::Debug {
    /// Refuses the command, or lets it pass.
    fn permit(&self, row: &'static Row, words: &[&[u8]]) -> Result<(), CmdError>;
}

/// Knows which slots a node of a cluster serves.
pub trait Slots: std::fmt::Debug {
    /// Lets a command on keys of one slot that is served here pass, if the cluster is well; of EXEC, what is queued.
    fn admit(&self, row: &'static Row, words: &[&[u8]]) -> Result<(), CmdError>;
}

/// Where a replica sends a client that follows redirections.
#[derive(Clone, Copy, Debug)]
pub struct Redirect<'a> {
    /// Host and port of the master.
    pub to: &'a str,
    /// The client reads here (READONLY), and only writes there.
    pub reads_here: bool,
}

/// What the gate must know of the connection and the server.
#[derive(Clone, Copy, Debug)]
pub struct GateView<'a> {
    /// The connection has authenticated, or need not.
    pub authenticated: bool,
    /// Who asks.
    pub origin: Origin,
    /// Whom to ask about the user's permissions; nobody when the user may do everything.
    pub permit: Option<&'a dyn Permit>,
    /// The slots served here, if the server is a node of a cluster.
    pub slots: Option<&'a dyn Slots>,
    /// Where the client is to ask for what it asks of keys, if not here.
    pub redirect: Option<Redirect<'a>>,
    /// The script that asks may not write.
    pub read_only_script: bool,
    /// The script that asks has written.
    pub script_wrote: bool,
    /// Scripts may call what they otherwise may not; only DEBUG allows that.
    pub all_from_scripts: bool,
    /// Memory is above the limit and eviction could not help.
    pub out_of_memory: bool,
    /// Why the append-only file cannot be written, if that has failed.
    pub log_error: Option<&'a str>,
    /// Writes need more replicas than there are.
    pub lacks_replicas: bool,
    /// What the server may not do because of its part in replication.
    pub restrictions: Restrictions,
    /// The flags of the call where they are not the row's: what the script says of itself that it runs.
    pub flags: Option<Flags>,
    /// Of what EXEC would run: the flags of any command, and those of all.
    pub queued: Option<(Flags, Flags)>,
    /// The client is in a transaction, whose queue takes memory.
    pub in_transaction: bool,
    /// A script has been running for too long.
    pub busy: Option<Busy>,
}

impl GateView<'_> {
    /// A client that may do everything.
    pub const fn open() -> Self {
        GateView {
            authenticated: true,
            origin: Origin::Client,
            permit: None,
            slots: None,
            redirect: None,
            read_only_script: false,
            script_wrote: false,
            all_from_scripts: false,
            out_of_memory: false,
            log_error: None,
            lacks_replicas: false,
            restrictions: Restrictions::NONE,
            flags: None,
            queued: None,
            in_transaction: false,
            busy: None,
        }
    }
}

/// Refuses the command, or lets it pass. `words` is the whole command, name included.
#[inline]
pub fn check(row: &'static Row, words: &[&[u8]], view: &GateView<'_>) -> Result<(), CmdError> {
    if !row.arity.accepts(words.len()) {
        return Err(match view.origin {
            Origin::Script => CmdError::ArityFromScript,
            _ => CmdError::Arity(row.name),
        });
    }
    if !view.authenticated && !row.flags.contains(Flags::NO_AUTH) {
        return Err(CmdError::NotAuthenticated);
    }
    if view.in_transaction && row.flags.contains(Flags::NO_MULTI) {
        return Err(CmdError::NotInTransaction);
    }
    if view.origin == Origin::Script
        && row.flags.contains(Flags::NOSCRIPT)
        && !view.all_from_scripts
    {
        return Err(CmdError::NotFromScript);
    }
    if view.origin == Origin::Script
        && view.restrictions.contains(Restrictions::STALE)
        && !row.flags.contains(Flags::STALE)
    {
        return Err(CmdError::StaleFromScript);
    }
    if let Some(permit) = view.permit {
        permit.permit(row, words)?;
    }
    if let Some(slots) = view.slots {
        slots.admit(row, words)?;
    }
    if view.origin == Origin::Script {
        return check_called(row, view);
    }
    let flags = view.flags.unwrap_or(row.flags);
    if let Some(redirect) = view.redirect
        && is_for_master(flags, redirect.reads_here, view.queued)
    {
        return Err(CmdError::redirect(redirect.to));
    }
    if view.out_of_memory && view.origin == Origin::Client && needs_memory(row, flags, view) {
        return Err(CmdError::OutOfMemory);
    }
    let writes = writes(flags, view);
    if let Some(error) = unsaved(view)
        && (writes || row.name == "PING")
        && view.origin == Origin::Client
    {
        return Err(error);
    }
    if view.lacks_replicas && writes {
        return Err(CmdError::NoReplicas);
    }
    if view.restrictions != Restrictions::NONE {
        check_role(flags, view)?;
    }
    if let Some(busy) = view.busy
        && view.origin == Origin::Client
        && !row.flags.contains(Flags::ALLOW_BUSY)
    {
        return Err(busy.error());
    }
    Ok(())
}

/// What a script may not call, as it was judged itself before. One that has written is not refused half-way for what is wrong
/// with the server.
#[inline]
fn check_called(row: &Row, view: &GateView<'_>) -> Result<(), CmdError> {
    if view.read_only_script && row.flags.intersects(Flags::WRITE.or(Flags::MAY_REPLICATE)) {
        return Err(CmdError::WriteFromReadOnlyScript);
    }
    if view.script_wrote {
        return Ok(());
    }
    if row.writes() {
        if view.restrictions.contains(Restrictions::READ_ONLY) {
            return Err(CmdError::ReadOnlyReplica);
        }
        if let Some(error) = unsaved(view) {
            return Err(error);
        }
        if view.lacks_replicas {
            return Err(CmdError::NoReplicas);
        }
    }
    if view.out_of_memory && row.flags.contains(Flags::DENYOOM) {
        return Err(CmdError::OutOfMemory);
    }
    Ok(())
}

/// Whether the command may take memory, or is an EXEC of one that does. Queueing takes some, too.
fn needs_memory(row: &Row, flags: Flags, view: &GateView<'_>) -> bool {
    let needs = |flags: Flags| flags.contains(Flags::DENYOOM);
    needs(flags)
        || view.queued.is_some_and(|(any, _)| needs(any))
        || view.in_transaction && !is_for_transactions(row)
}

/// Commands that are not queued, and that are allowed when memory is short.
fn is_for_transactions(row: &Row) -> bool {
    matches!(row.name, "EXEC" | "DISCARD" | "QUIT" | "RESET")
}

/// Whether a replica leaves a command to its master, if the client goes there. `reads_here`: it reads from replicas (READONLY);
/// `queued` as in [`GateView::queued`].
pub fn is_for_master(flags: Flags, reads_here: bool, queued: Option<(Flags, Flags)>) -> bool {
    let is = |flag| flags.contains(flag) || queued.is_some_and(|(any, _)| any.contains(flag));
    is(Flags::WRITE) || (is(Flags::READONLY) && !reads_here)
}

/// Whether the command writes, or is an EXEC of one that does.
fn writes(flags: Flags, view: &GateView<'_>) -> bool {
    flags.contains(Flags::WRITE)
        || view
            .queued
            .is_some_and(|(any, _)| any.contains(Flags::WRITE))
}

/// What is said to who wants to write while a disk does not take what is written.
fn unsaved(view: &GateView<'_>) -> Option<CmdError> {
    if view.restrictions.contains(Restrictions::UNSAVED) {
        return Some(CmdError::Unsaved);
    }
    view.log_error.map(CmdError::log_failed)
}

/// What a replica may not do: write, answer without its master, use data that are not there yet.
#[cold]
fn check_role(flags: Flags, view: &GateView<'_>) -> Result<(), CmdError> {
    if view.origin.is_applied() {
        return Ok(());
    }
    let all = view.queued.map_or(flags, |(_, all)| all);
    let is = |restriction| view.restrictions.contains(restriction);
    if is(Restrictions::READ_ONLY) && writes(flags, view) {
        return Err(CmdError::ReadOnlyReplica);
    }
    let allowed = |flag| flags.contains(flag) && all.contains(flag);
    if is(Restrictions::STALE) && !allowed(Flags::STALE) {
        return Err(CmdError::MasterDown);
    }
    if is(Restrictions::LOADING) && !allowed(Flags::LOADING) {
        return Err(CmdError::Loading);
    }
    Ok(())
}
