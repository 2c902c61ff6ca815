//! Access control lists: which user may run which command on which keys and channels.
//!
//! Everything here is a pure function of rules and words. A [`User`] has passwords and one or more [`Selector`]s; a
//! command is allowed when one selector allows it whole. Rules are the words of ACL SETUSER, applied one after the
//! other, so their order counts; [`User::describe`] writes rules that give the same user again. [`Users`] is the table,
//! with the text of the ACL file; [`AclLog`] remembers what was refused.
//!
//! Users are immutable once they are in the table: a change puts another one in place, so that whoever checks a command
//! does so against one state of the rules.

mod check;
mod command_set;
mod describe;
mod log;
mod password;
mod rules;
mod selector;
mod user;
mod users;

pub use check::{DenialReason, Denied};
pub use command_set::CommandSet;
pub use log::{AclLog, LogContext, LogEntry};
pub use password::{HASH_LEN, PasswordHash};
pub use rules::RuleError;
pub use selector::{KeyPattern, Patterns, Selector};
pub use user::User;
pub use users::{DEFAULT_USER, Users};
