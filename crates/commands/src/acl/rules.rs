//! The rules of a user: the words of ACL SETUSER and of the ACL file.

use std::borrow::Cow;

use tollgate_wire::resp::split_line;

use super::password::PasswordHash;
use super::selector::Selector;
use super::user::User;

/// Why a rule does not apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleError {
    /// No rule looks so, or a pattern has spaces.
    Syntax,
    /// No such command or category.
    UnknownCommand,
    /// A pattern of keys behind the one that matches all.
    KeysAfterAll,
    /// A pattern of channels behind the one that matches all.
    ChannelsAfterAll,
    /// The password to be removed is not the user's.
    NoSuchPassword,
    /// Not the hexadecimal form of a hash.
    BadHash,
    /// A first word behind a sub-command.
    FirstWordOfSubcommand,
}

impl RuleError {
    /// In Redis' words.
    pub const fn text(self) -> &'static str {
        match self {
            RuleError::Syntax => "Syntax error",
            RuleError::UnknownCommand => "Unknown command or category name in ACL",
            RuleError::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::FirstWordOfSubcommand => {
                "Allowing first-arg of a subcommand is not supported"
            }
        }
    }
}

/// True when the text has a space or a NUL, so that it could not be written to a file of rules.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    text.iter()
        .any(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0))
}

/// Joins the words of selectors that were cut at their spaces. Fails with the number of the word at which a selector
/// begins that does not end.
pub(super) fn join_selectors<'a>(words: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, usize> {
    let mut joined: Vec<Cow<'a, [u8]>> = Vec::with_capacity(words.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, &word) in words.iter().enumerate() {
        if word.starts_with(b"(") && !word.ends_with(b")") {
            open = Some((at, word.to_vec()));
        } else if let Some((start, mut selector)) = open.take() {
            selector.push(b' ');
            selector.extend_from_slice(word);
            match word.ends_with(b")") {
                true => joined.push(selector.into()),
                false => open = Some((start, selector)),
            }
        } else {
            joined.push(word.into());
        }
    }
    match open {
        Some((start, _)) => Err(start),
        None => Ok(joined),
    }
}

impl User {
    /// Applies one rule; the empty one changes nothing. `all_channels` is what new selectors and `reset` begin with.
    pub fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            [] => {}
            _ if is("on") => self.enabled = true,
            _ if is("off") => self.enabled = false,
            _ if is("skip-sanitize-payload") => self.sanitize = Some(false),
            _ if is("sanitize-payload") => self.sanitize = Some(true),
            _ if is("nopass") => {
                self.any_password = true;
                self.passwords.clear();
            }
            _ if is("resetpass") => {
                self.any_password = false;
                self.passwords.clear();
            }
            [b'>', password @ ..] => self.add_password(PasswordHash::of(password)),
            [b'#', hash @ ..] => {
                self.add_password(PasswordHash::parse(hash).ok_or(RuleError::BadHash)?);
            }
            [b'<', password @ ..] => self.remove_password(&PasswordHash::of(password))?,
            [b'!', hash @ ..] => {
                self.remove_password(&PasswordHash::parse(hash).ok_or(RuleError::BadHash)?)?;
            }
            [b'(', rules @ .., b')'] => {
                let mut selector = Selector::new(all_channels);
                let mut result = Ok(());
                // Unbalanced quotes make no rules at all, as in Redis.
                let mut words: Vec<Vec<u8>> = Vec::new();
                if split_line(rules, |word| words.push(word.to_vec())).is_ok() {
                    result = words.iter().try_for_each(|word| selector.apply(word));
                }
                result?;
                self.selectors.push(selector);
            }
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => {
                self.any_password = false;
                self.passwords.clear();
                self.enabled = false;
                self.sanitize = Some(true);
                self.selectors.clear();
                self.selectors.push(Selector::new(all_channels));
            }
            _ => self.selectors[0].apply(rule)?,
        }
        Ok(())
    }

    fn add_password(&mut self, hash: PasswordHash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.any_password = false;
    }

    fn remove_password(&mut self, hash: &PasswordHash) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == hash);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_joined_at_their_spaces() {
        let joined = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let all = join_selectors(&words)?;
            let text = |word: &Cow<'_, [u8]>| String::from_utf8_lossy(word).into_owned();
            Ok::<_, usize>(all.iter().map(text).collect::<Vec<_>>())
        };
        assert_eq!(
            joined(&["on", "(~a", "+get)", "(+@all)"]).expect("closed"),
            ["on", "(~a +get)", "(+@all)"]
        );
        assert_eq!(joined(&["on", "(~a", "+get"]), Err(1));
        assert_eq!(joined(&["(", "on", "(x", ")"]).expect("closed"), ["(x )"]);
    }

    #[test]
    fn a_wrong_rule_says_why() {
        for (rule, error) in [
            ("", None),
            ("+nosuch", Some(RuleError::UnknownCommand)),
            ("+@nosuch", Some(RuleError::UnknownCommand)),
            ("-nosuch", Some(RuleError::UnknownCommand)),
            ("-select|0", Some(RuleError::UnknownCommand)),
            ("+config|nosuch", Some(RuleError::UnknownCommand)),
            ("+config|get|x", Some(RuleError::FirstWordOfSubcommand)),
            ("+select|", Some(RuleError::Syntax)),
            ("+select|0", None),
            ("%~x", Some(RuleError::Syntax)),
            ("%RR~x", Some(RuleError::Syntax)),
            ("%R", None),
            ("%", Some(RuleError::Syntax)),
            ("%Rx", Some(RuleError::Syntax)),
            ("%wr~x", None),
            ("~a b", Some(RuleError::Syntax)),
            ("&a b", Some(RuleError::Syntax)),
            ("%X~a", Some(RuleError::Syntax)),
            ("nosuch", Some(RuleError::Syntax)),
            ("<none", Some(RuleError::NoSuchPassword)),
            ("#abc", Some(RuleError::BadHash)),
            ("!abc", Some(RuleError::BadHash)),
            ("(+get", Some(RuleError::Syntax)),
            ("(on)", Some(RuleError::Syntax)),
            ("(~a +get)", None),
        ] {
            let mut user = User::new(b"u", false);
            assert_eq!(user.apply(rule.as_bytes(), false).err(), error, "{rule}");
        }
        let mut user = User::new(b"u", false);
        user.apply(b"~*", false).expect("a rule");
        assert_eq!(user.apply(b"~a", false), Err(RuleError::KeysAfterAll));
        user.apply(b"&*", false).expect("a rule");
        assert_eq!(user.apply(b"&a", false), Err(RuleError::ChannelsAfterAll));
    }
}
