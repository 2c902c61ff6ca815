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

/// Knows what the user of a connection may do.
pub trait Permit: std::fmt::Debug {
    /// Refuses the command, or lets it pass.
    fn permit(&self, row: &'static Row, words: &[&[u8]]) -> Result<(), CmdError>;
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
    /// The script that asks may not write.
    pub read_only_script: bool,
    /// Scripts may call what they otherwise may not; only DEBUG allows that.
    pub all_from_scripts: bool,
    /// Memory is above the limit and eviction could not help.
    pub out_of_memory: bool,
    /// Why the append-only file cannot be written, if that has failed.
    pub log_error: Option<&'a str>,
    /// Writes need more replicas than there are.
    pub lacks_replicas: bool,
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
            read_only_script: false,
            all_from_scripts: false,
            out_of_memory: false,
            log_error: None,
            lacks_replicas: false,
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
    if view.origin == Origin::Script
        && row.flags.contains(Flags::NOSCRIPT)
        && !view.all_from_scripts
    {
        return Err(CmdError::NotFromScript);
    }
    if let Some(permit) = view.permit {
        permit.permit(row, words)?;
    }
    if view.origin == Origin::Script
        && view.read_only_script
        && (row.writes() || row.flags.contains(Flags::MAY_REPLICATE))
    {
        return Err(CmdError::WriteFromReadOnlyScript);
    }
    if view.out_of_memory
        && row.flags.contains(Flags::DENYOOM)
        && matches!(view.origin, Origin::Client | Origin::Script)
    {
        return Err(CmdError::OutOfMemory);
    }
    if let Some(reason) = view.log_error
        && (row.writes() || row.name == "PING")
        && matches!(view.origin, Origin::Client | Origin::Script)
    {
        return Err(CmdError::log_failed(reason));
    }
    if view.lacks_replicas && row.writes() {
        return Err(CmdError::NoReplicas);
    }
    if let Some(busy) = view.busy
        && view.origin == Origin::Client
        && !row.flags.contains(Flags::ALLOW_BUSY)
    {
        return Err(busy.error());
    }
    Ok(())
}
