//! Whether a user may run a command.

use tollgate_containers::glob;

use super::selector::{KeyPattern, Patterns, Selector};
use super::user::User;
use crate::keyspec::{KeyFlags, KeyPositions};
use crate::{CmdError, Flags, Row};

/// What a user lacked. Of several reasons the greatest is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DenialReason {
    /// The command.
    Command,
    /// A key of it.
    Key,
    /// The right password.
    Auth,
    /// A channel of it.
    Channel,
}

impl DenialReason {
    /// All of them, in the order of their discriminants.
    pub const ALL: [DenialReason; 4] = [
        DenialReason::Command,
        DenialReason::Key,
        DenialReason::Auth,
        DenialReason::Channel,
    ];

    /// As ACL LOG names it.
    pub const fn name(self) -> &'static str {
        match self {
            DenialReason::Command => "command",
            DenialReason::Key => "key",
            DenialReason::Auth => "auth",
            DenialReason::Channel => "channel",
        }
    }
}

/// A command that a user may not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denied {
    /// What is lacking.
    pub reason: DenialReason,
    /// The number of the key or channel among the words; 0 for the command itself.
    pub word: usize,
}

impl Denied {
    /// The reply to a client that sent the command.
    #[cold]
    pub fn to_error(self, row: &Row) -> CmdError {
        match self.reason {
            DenialReason::Key => CmdError::KeyNotPermitted,
            DenialReason::Channel => CmdError::ChannelNotPermitted,
            DenialReason::Command | DenialReason::Auth => {
                let name = row.name.to_ascii_lowercase();
                CmdError::line(format!(
                    "NOPERM this user has no permissions to run the '{name}' command"
                ))
            }
        }
    }

    /// The reply to a script that called the command.
    #[cold]
    pub fn to_script_error(self) -> CmdError {
        let what = match self.reason {
            DenialReason::Key => {
                "can't access at least one of the keys mentioned in the command arguments"
            }
            DenialReason::Channel => "can't publish to the channel mentioned in the command",
            DenialReason::Command | DenialReason::Auth => "can't run this command or subcommand",
        };
        CmdError::err(format!("The user executing the script {what}"))
    }

    /// The reply in place of a queued command whose user lost the permission before EXEC.
    #[cold]
    pub fn to_exec_error(self) -> CmdError {
        let why = match self.reason {
            DenialReason::Key => "no permission to touch the specified keys",
            DenialReason::Channel => {
                "no permission to access one of the channels used as arguments"
            }
            DenialReason::Command | DenialReason::Auth => {
                "no permission to execute the command or subcommand"
            }
        };
        CmdError::line(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {why}"
        ))
    }

    /// What ACL DRYRUN answers.
    pub fn describe(self, row: &Row, words: &[&[u8]]) -> Vec<u8> {
        let (verb, object, kind): (_, &[u8], _) = match self.reason {
            DenialReason::Key => (
                "access",
                words.get(self.word).copied().unwrap_or_default(),
                "key",
            ),
            DenialReason::Channel => (
                "access",
                words.get(self.word).copied().unwrap_or_default(),
                "channel",
            ),
            DenialReason::Command | DenialReason::Auth => ("run", row.name.as_bytes(), "command"),
        };
        let object = match kind {
            "command" => object.to_ascii_lowercase(),
            _ => object.to_vec(),
        };
        let head = format!("This user has no permissions to {verb} the '");
        [head.as_bytes(), &object, b"' ", kind.as_bytes()].concat()
    }
}

/// The keys of a call with what happens to them, found when first asked for.
struct CallKeys<'a> {
    row: &'a Row,
    words: &'a [&'a [u8]],
    found: Option<Vec<(usize, KeyFlags)>>,
}

impl CallKeys<'_> {
    fn get(&mut self) -> &[(usize, KeyFlags)] {
        let (row, words) = (self.row, self.words);
        self.found.get_or_insert_with(|| {
            let mut all = Vec::new();
            let keys = row.keys.iter();
            for spec in keys.filter(|spec| !spec.flags.intersects(KeyFlags::NOT_KEY)) {
                let mut positions = KeyPositions::new();
                // A call whose keys cannot be found is refused by the command itself.
                if spec.collect(words, &mut positions).is_err() {
                    return Vec::new();
                }
                let flags = spec.flags_in(words);
                all.extend(positions.iter().map(|at| (*at as usize, flags)));
            }
            all
        })
    }
}

impl User {
    /// Whether the user may run the command in `words` (name included), which has passed the arity check. The first
    /// selector that allows it decides; else the greatest reason is told, the last word of several alike.
    pub fn check(&self, row: &'static Row, words: &[&[u8]]) -> Result<(), Denied> {
        let mut keys = CallKeys {
            row,
            words,
            found: None,
        };
        let mut worst = Denied {
            reason: DenialReason::Command,
            word: 0,
        };
        for selector in self.selectors() {
            match selector.check(row, words, &mut keys) {
                Ok(()) => return Ok(()),
                Err(denied) if (denied.reason, denied.word) > (worst.reason, worst.word) => {
                    worst = denied;
                }
                Err(_) => {}
            }
        }
        Err(worst)
    }

    /// Whether a selector allows the command and, besides, reading any key: what SORT needs for BY and GET patterns.
    pub fn may_read_any_key(&self, row: &'static Row, words: &[&[u8]]) -> bool {
        let mut keys = CallKeys {
            row,
            words,
            found: None,
        };
        self.selectors().iter().any(|selector| {
            let any = match &selector.keys {
                Patterns::All => true,
                Patterns::Some(patterns) => patterns.iter().any(|it| it.read && *it.glob == *b"*"),
            };
            any && selector.check(row, words, &mut keys).is_ok()
        })
    }
}

impl Selector {
    fn check(
        &self,
        row: &'static Row,
        words: &[&[u8]],
        keys: &mut CallKeys<'_>,
    ) -> Result<(), Denied> {
        if !self.allows_command(row, words) {
            return Err(Denied {
                reason: DenialReason::Command,
                word: 0,
            });
        }
        if let Patterns::Some(patterns) = &self.keys
            && !row.keys.is_empty()
        {
            let refused = keys
                .get()
                .iter()
                .find(|(at, flags)| !allows_key(patterns, words[*at], *flags));
            if let Some((word, _)) = refused {
                return Err(Denied {
                    reason: DenialReason::Key,
                    word: *word,
                });
            }
        }
        if let Some(channels) = &row.channels {
            let mut named = channels.positions(words.len());
            let refused =
                named.find(|at| !self.allows_channel(words[*at], channels.are_patterns()));
            if let Some(word) = refused {
                return Err(Denied {
                    reason: DenialReason::Channel,
                    word,
                });
            }
        }
        Ok(())
    }

    fn allows_command(&self, row: &'static Row, words: &[&[u8]]) -> bool {
        self.all_commands
            || row.flags.contains(Flags::NO_AUTH)
            || self.commands.contains(row)
            || self.first_words.get(row.name).is_some_and(|allowed| {
                let first = words.get(row.name_words()).copied();
                first.is_some_and(|word| allowed.iter().any(|it| it.eq_ignore_ascii_case(word)))
            })
    }
}

/// Whether one pattern allows all that happens to the key.
fn allows_key(patterns: &[KeyPattern], key: &[u8], flags: KeyFlags) -> bool {
    let reads = flags.contains(KeyFlags::ACCESS);
    let writes = flags.intersects(KeyFlags::INSERT.or(KeyFlags::DELETE).or(KeyFlags::UPDATE));
    patterns.iter().any(|pattern| {
        (pattern.read || !reads)
            && (pattern.write || !writes)
            && glob::matches(&pattern.glob, key, false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve;

    fn check(rules: &str, call: &str) -> Option<(DenialReason, usize)> {
        let mut user = User::new(b"u", false);
        let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
        for rule in super::super::rules::join_selectors(&rules).expect("closed") {
            user.apply(&rule, false).expect("a rule");
        }
        let words: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        let row = resolve(&words).expect("a command");
        user.check(row, &words).err().map(|it| (it.reason, it.word))
    }

    #[test]
    fn commands_sub_commands_and_first_words() {
        let command = Some((DenialReason::Command, 0));
        for (rules, call, denied) in [
            ("", "get k", command),
            ("", "auth x", None),
            ("+@all ~*", "get k", None),
            ("+@all -@string ~*", "get k", command),
            ("+@all -@string +get ~*", "get k", None),
            ("+get -get ~*", "get k", command),
            ("+config", "config get x", None),
            ("+config -config|set", "config set a b", command),
            ("+config -config|set", "config get x", None),
            ("+config|get", "config get x", None),
            ("+config|get", "config set a b", command),
            ("+@all -config +config|get", "config get x", None),
            ("+select|0", "select 0", None),
            ("+select|0", "select 1", command),
            ("+select|0 -select", "select 0", command),
            ("(+get ~a) (+set ~b)", "set b 1", None),
            ("(+get ~a) (+set ~b)", "get b", Some((DenialReason::Key, 1))),
            ("(+get ~a)", "del a", command),
        ] {
            assert_eq!(check(rules, call), denied, "{rules}: {call}");
        }
    }

    #[test]
    fn keys_are_read_or_written() {
        let key = |word| Some((DenialReason::Key, word));
        for (rules, call, denied) in [
            ("+@all ~a*", "get a1", None),
            ("+@all ~a*", "mget a1 b1", key(2)),
            ("+@all ~a*", "get A1", key(1)),
            ("+@all %R~r", "get r", None),
            ("+@all %R~r", "set r 1", key(1)),
            ("+@all %W~w", "set w 1", None),
            ("+@all %W~w", "set w 1 get", key(1)),
            ("+@all %W~w", "get w", key(1)),
            ("+@all %R~x %W~x", "set x 1 get", None),
            ("+@all %RW~x", "set x 1 get", None),
            ("+@all %R~a %W~b", "copy a b", None),
            ("+@all %R~a %W~b", "copy b a", key(1)),
            ("+@all %R~x", "exists x", None),
            ("+@all %W~x", "exists x", None),
            ("+@all ~x", "flushall", None),
        ] {
            assert_eq!(check(rules, call), denied, "{rules}: {call}");
        }
    }

    #[test]
    fn a_reply_names_what_is_lacking() {
        let words: [&[u8]; 3] = [b"SET", b"k", b"v"];
        let row = resolve(&words).expect("a command");
        let denied = |reason, word| Denied { reason, word };
        let text = |it: Denied| String::from_utf8_lossy(&it.describe(row, &words)).into_owned();
        assert_eq!(
            text(denied(DenialReason::Command, 0)),
            "This user has no permissions to run the 'set' command"
        );
        assert_eq!(
            text(denied(DenialReason::Key, 1)),
            "This user has no permissions to access the 'k' key"
        );
        assert_eq!(
            denied(DenialReason::Command, 0).to_error(row).to_string(),
            "NOPERM this user has no permissions to run the 'set' command"
        );
    }
}
