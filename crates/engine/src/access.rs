//! Users at work: who a connection is, what it may run, what was refused.
//!
//! A connection keeps the user it has authenticated as and the number of the state of the rules under which that user was
//! found to be unrestricted. Most connections belong to such a user, so a command costs them one comparison; for the
//! others it is checked word by word. A change of any user makes a new number, after which each connection looks its
//! user up once.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tollgate_commands::acl::{AclLog, DenialReason, Denied, LogContext, LogEntry, User, Users};
use tollgate_commands::gate::Permit;
use tollgate_commands::{CmdError, Row, Run, sort_option_for_any_key};
use tollgate_limiter::Timestamp;

use crate::Session;

/// Entries of the log of refusals until it is set otherwise (`acllog-max-len`).
const LOG_LEN: usize = 128;

/// A connection as other connections see it.
pub trait ClientInfo: fmt::Debug + Send + Sync {
    /// Takes over what the connection's record says now.
    fn note(&self, session: &Session, now: Timestamp);
    /// Where it comes from, as `ip:port`.
    fn address(&self) -> Vec<u8>;
    /// The line that CLIENT LIST shows for it.
    fn describe(&self, now: Timestamp) -> Vec<u8>;
}

/// Who runs a script or a transaction whose commands are to be checked.
#[derive(Debug)]
pub(crate) struct Caller {
    user: Arc<User>,
    client: Option<Arc<dyn ClientInfo>>,
}

impl Caller {
    /// Whether the user may run the command; nothing is logged. One whose keys are not there is not.
    pub(crate) fn may(&self, row: &'static Row, words: &[&[u8]]) -> bool {
        (row.keys.is_empty() || row.arity.accepts(words.len()))
            && self.user.check(row, words).is_ok()
    }

    /// Asks the user for a command of the script.
    pub(crate) fn permit<'a>(&'a self, access: &'a Access, now: Timestamp) -> UserPermit<'a> {
        UserPermit {
            access,
            user: &self.user,
            client: self.client.as_deref(),
            session: None,
            context: LogContext::Lua,
            now,
        }
    }
}

/// All users, and what they were refused.
#[derive(Debug)]
pub struct Access {
    users: RwLock<Users>,
    /// Number of the state of the rules; never 0.
    state: AtomicU64,
    /// Nobody needs to authenticate: the default user is enabled and takes any password.
    open: AtomicBool,
    log: Mutex<AclLog>,
    log_len: AtomicUsize,
    /// Refusals so far, in the order of [`DenialReason::ALL`].
    denials: [AtomicU64; DenialReason::ALL.len()],
}

impl Access {
    pub(crate) fn new() -> Access {
        Access {
            users: RwLock::default(),
            state: AtomicU64::new(1),
            open: AtomicBool::new(true),
            log: Mutex::default(),
            log_len: AtomicUsize::new(LOG_LEN),
            denials: Default::default(),
        }
    }

    /// The users as they are.
    pub fn users(&self) -> Users {
        // Users are replaced whole, so the table is valid wherever a holder panicked.
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        users.clone()
    }

    /// The user of that name.
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        users.get(name).cloned()
    }

    /// The default user.
    pub fn default_user(&self) -> Arc<User> {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(users.default_user())
    }

    /// True when connections need not authenticate.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Changes users; nobody else does meanwhile, and every command that begins afterwards is checked by the new rules.
    pub fn change<T>(&self, f: impl FnOnce(&mut Users) -> T) -> T {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut users);
        let default = users.default_user();
        self.open
            .store(default.enabled && default.any_password, Ordering::Relaxed);
        self.state.fetch_add(1, Ordering::Release);
        result
    }

    /// Puts the connection back to the default user, as a new one begins.
    pub fn begin(&self, session: &mut Session) {
        session.user = self.default_user();
        session.authenticated = session.user.enabled && session.user.any_password;
        session.unrestricted_at = 0;
    }

    /// Makes the connection that of `name` when the password is right. `command` is the word that asked, for the log.
    pub fn authenticate(
        &self,
        session: &mut Session,
        name: &[u8],
        password: &[u8],
        command: &[u8],
        now: Timestamp,
    ) -> Result<(), CmdError> {
        match self.user(name).filter(|user| user.accepts(password)) {
            Some(user) => {
                session.user = user;
                session.authenticated = true;
                session.unrestricted_at = 0;
                Ok(())
            }
            None => {
                let permit = UserPermit::of_client(self, session, now);
                permit.log(DenialReason::Auth, command, name);
                Err(CmdError::WrongPassword)
            }
        }
    }

    /// True when the connection's commands need no check.
    #[inline]
    pub(crate) fn is_unrestricted(&self, session: &Session) -> bool {
        session.unrestricted_at == self.state.load(Ordering::Acquire)
    }

    /// As [`Access::is_unrestricted`], after looking the connection's user up again.
    #[cold]
    pub(crate) fn refresh(&self, session: &mut Session) -> bool {
        let state = self.state.load(Ordering::Acquire);
        session.user = match self.user(&session.user.name) {
            Some(user) => user,
            // Removed: the connection is about to be closed, and may do nothing until then.
            None => Arc::new(User::new(&session.user.name, false)),
        };
        if session.user.is_unrestricted() {
            session.unrestricted_at = state;
        }
        session.unrestricted_at == state
    }

    /// Who must be asked for the commands of the script that `row` runs; none when the user may do everything.
    pub(crate) fn caller(
        &self,
        row: &Row,
        session: &Session,
        now: Timestamp,
    ) -> Option<Arc<Caller>> {
        if !matches!(row.run, Run::Script(_)) || self.is_unrestricted(session) {
            return None;
        }
        if let Some(client) = &session.client {
            client.note(session, now);
        }
        Some(Arc::new(Caller {
            user: Arc::clone(&session.user),
            client: session.client.clone(),
        }))
    }

    fn log(&self) -> MutexGuard<'_, AclLog> {
        // Entries are added whole.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many commands and passwords were refused for this reason, since the start.
    pub fn denials(&self, reason: DenialReason) -> u64 {
        self.denials[reason as usize].load(Ordering::Relaxed)
    }

    fn log_entry(&self, entry: LogEntry) {
        self.denials[entry.reason as usize].fetch_add(1, Ordering::Relaxed);
        self.log().add(entry, self.log_len.load(Ordering::Relaxed));
    }

    /// The newest refusals, newest first.
    pub fn newest_denials(&self, most: usize) -> Vec<LogEntry> {
        self.log().entries().take(most).cloned().collect()
    }

    /// Forgets the refusals.
    pub fn clear_log(&self) {
        self.log().clear();
    }

    /// Sets how many refusals are kept.
    pub fn set_log_len(&self, most: usize) {
        self.log_len.store(most, Ordering::Relaxed);
    }
}

/// Asks a connection's user, and logs what is refused.
#[derive(Debug)]
pub(crate) struct UserPermit<'a> {
    access: &'a Access,
    user: &'a User,
    client: Option<&'a dyn ClientInfo>,
    /// The record that the connection has not shown to others yet.
    session: Option<&'a Session>,
    context: LogContext,
    now: Timestamp,
}

impl<'a> UserPermit<'a> {
    /// Asks for the commands that a client sends.
    #[inline]
    pub(crate) fn of_client(
        access: &'a Access,
        session: &'a Session,
        now: Timestamp,
    ) -> UserPermit<'a> {
        UserPermit {
            access,
            user: &session.user,
            client: session.client.as_deref(),
            session: Some(session),
            context: match session.transaction {
                Some(_) => LogContext::Multi,
                None => LogContext::TopLevel,
            },
            now,
        }
    }

    /// Asks for the commands of a transaction that EXEC runs.
    pub(crate) fn of_exec(
        access: &'a Access,
        session: &'a Session,
        now: Timestamp,
    ) -> UserPermit<'a> {
        UserPermit {
            context: LogContext::Multi,
            ..UserPermit::of_client(access, session, now)
        }
    }

    /// Whether the user may run the command; a refusal is logged.
    pub(crate) fn check(&self, row: &'static Row, words: &[&[u8]]) -> Result<(), Denied> {
        self.user.check(row, words).inspect_err(|denied| {
            let name = row.name.to_ascii_lowercase();
            let object = match denied.reason {
                DenialReason::Command | DenialReason::Auth => name.as_bytes(),
                DenialReason::Key | DenialReason::Channel => {
                    words.get(denied.word).copied().unwrap_or_default()
                }
            };
            self.log(denied.reason, object, &self.user.name);
        })
    }

    #[cold]
    fn log(&self, reason: DenialReason, object: &[u8], user: &[u8]) {
        if let (Some(client), Some(session)) = (self.client, self.session) {
            client.note(session, self.now);
        }
        let client = self.client.map(|client| client.describe(self.now));
        self.access.log_entry(LogEntry {
            count: 1,
            reason,
            context: self.context,
            object: object.into(),
            user: user.into(),
            at_ms: self.now.millis(),
            client: client.unwrap_or_default().into(),
        });
    }
}

impl Permit for UserPermit<'_> {
    fn permit(&self, row: &'static Row, words: &[&[u8]]) -> Result<(), CmdError> {
        self.check(row, words)
            .map_err(|denied| match self.context {
                LogContext::Lua => denied.to_script_error(),
                LogContext::TopLevel | LogContext::Multi => denied.to_error(row),
            })?;
        // Which keys a pattern of SORT names, only the data tell.
        if matches!(row.name, "SORT" | "SORT_RO")
            && let Some(option) = sort_option_for_any_key(words)
            && !self.user.may_read_any_key(row, words)
        {
            return Err(CmdError::err(format!(
                "{option} option of SORT denied due to insufficient ACL permissions."
            )));
        }
        Ok(())
    }
}
