//! What one selector of a user allows: commands, keys, channels.

use std::collections::BTreeMap;

use tollgate_containers::glob;

use super::command_set::CommandSet;
use super::rules::{RuleError, has_spaces};
use crate::table::by_full_name;
use crate::{Acl, Row};

/// Patterns of keys or of channels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Patterns<T> {
    /// Everything.
    All,
    /// What one of these matches.
    Some(Vec<T>),
}

/// Keys that may be read, written, or both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyPattern {
    /// Data of the keys may be returned.
    pub read: bool,
    /// Data of the keys may be changed.
    pub write: bool,
    /// A glob pattern.
    pub glob: Box<[u8]>,
}

/// A set of permissions; a command must be allowed whole by one selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    /// Commands that may run.
    pub commands: CommandSet,
    /// No command has been taken out since all were allowed: nothing needs to be looked up.
    pub(super) all_commands: bool,
    /// Commands outside the set that may run with one of these words behind their name, by the name of the row.
    pub(super) first_words: BTreeMap<&'static str, Vec<Box<[u8]>>>,
    /// Keys that may be used.
    pub keys: Patterns<KeyPattern>,
    /// Channels that may be used.
    pub channels: Patterns<Box<[u8]>>,
}

impl Selector {
    /// Allows nothing, but every channel when that is the default.
    pub fn new(all_channels: bool) -> Selector {
        Selector {
            commands: CommandSet::none(),
            all_commands: false,
            first_words: BTreeMap::new(),
            keys: Patterns::Some(Vec::new()),
            channels: match all_channels {
                true => Patterns::All,
                false => Patterns::Some(Vec::new()),
            },
        }
    }

    /// True when nothing is refused.
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.keys == Patterns::All && self.channels == Patterns::All
    }

    /// Applies one rule.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        if is("allkeys") || is("~*") {
            self.keys = Patterns::All;
        } else if is("resetkeys") {
            self.keys = Patterns::Some(Vec::new());
        } else if is("allchannels") || is("&*") {
            self.channels = Patterns::All;
        } else if is("resetchannels") {
            self.channels = Patterns::Some(Vec::new());
        } else if is("allcommands") || is("+@all") {
            self.commands = CommandSet::all();
            self.all_commands = true;
            self.first_words.clear();
        } else if is("nocommands") || is("-@all") {
            self.commands = CommandSet::none();
            self.all_commands = false;
            self.first_words.clear();
        } else {
            return match rule {
                [b'~' | b'%', ..] => self.add_key_pattern(rule),
                [b'&', channel @ ..] => self.add_channel(channel),
                [b'+', b'@', category @ ..] => self.change_category(category, true),
                [b'-', b'@', category @ ..] => self.change_category(category, false),
                [b'+', command @ ..] => self.allow(command),
                [b'-', command @ ..] => {
                    let row = by_full_name(command).ok_or(RuleError::UnknownCommand)?;
                    self.change(row, false);
                    Ok(())
                }
                _ => Err(RuleError::Syntax),
            };
        }
        Ok(())
    }

    fn add_key_pattern(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let Patterns::Some(patterns) = &mut self.keys else {
            return Err(RuleError::KeysAfterAll);
        };
        let pattern = parse_key_pattern(rule)?;
        match patterns.iter_mut().find(|known| known.glob == pattern.glob) {
            Some(known) => {
                known.read |= pattern.read;
                known.write |= pattern.write;
            }
            None => patterns.push(pattern),
        }
        Ok(())
    }

    fn add_channel(&mut self, channel: &[u8]) -> Result<(), RuleError> {
        let Patterns::Some(channels) = &mut self.channels else {
            return Err(RuleError::ChannelsAfterAll);
        };
        if has_spaces(channel) {
            return Err(RuleError::Syntax);
        }
        if !channels.iter().any(|known| **known == *channel) {
            channels.push(channel.into());
        }
        Ok(())
    }

    fn change_category(&mut self, name: &[u8], allow: bool) -> Result<(), RuleError> {
        let category = Acl::by_name(name).ok_or(RuleError::UnknownCommand)?;
        for row in super::command_set::every_row().filter(|row| row.acl.contains(category)) {
            self.forget_first_words(row);
        }
        self.commands.set_category(category, allow);
        self.all_commands &= allow;
        Ok(())
    }

    pub(super) fn change(&mut self, row: &'static Row, allow: bool) {
        self.commands.set(row, allow);
        self.forget_first_words(row);
        self.all_commands &= allow;
    }

    fn forget_first_words(&mut self, row: &'static Row) {
        self.first_words.remove(row.name);
        for sub in row.subs {
            self.first_words.remove(sub.name);
        }
    }

    /// `+command`, `+container|sub-command`, or `+command|first-word`.
    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|&b| b == b'|') else {
            let row = by_full_name(name).ok_or(RuleError::UnknownCommand)?;
            self.change(row, true);
            return Ok(());
        };
        let row = by_full_name(&name[..bar]).ok_or(RuleError::UnknownCommand)?;
        let word = &name[bar + 1..];
        if row.is_sub() {
            return Err(RuleError::FirstWordOfSubcommand);
        }
        if word.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !row.subs.is_empty() {
            let sub = row.sub(word).ok_or(RuleError::UnknownCommand)?;
            self.change(sub, true);
            return Ok(());
        }
        let words = self.first_words.entry(row.name).or_default();
        if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            words.push(word.into());
        }
        Ok(())
    }

    /// Whether a channel, or a pattern of channels taken literally, may be used.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        match &self.channels {
            Patterns::All => true,
            Patterns::Some(known) => known.iter().any(|pattern| match is_pattern {
                true => **pattern == *channel,
                false => glob::matches(pattern, channel, false),
            }),
        }
    }
}

/// Reads `~glob`, `%R~glob`, `%W~glob` or `%RW~glob`; one without `~` is of the empty key, as in Redis.
fn parse_key_pattern(rule: &[u8]) -> Result<KeyPattern, RuleError> {
    let (mut read, mut write) = (rule[0] == b'~', rule[0] == b'~');
    let mut glob = &rule[1..];
    if rule[0] == b'%' {
        loop {
            let Some((first, rest)) = glob.split_first() else {
                match read || write {
                    true => break,
                    false => return Err(RuleError::Syntax),
                }
            };
            glob = rest;
            match first {
                b'R' | b'r' if !read => read = true,
                b'W' | b'w' if !write => write = true,
                b'~' if read || write => break,
                _ => return Err(RuleError::Syntax),
            }
        }
    }
    if has_spaces(glob) {
        return Err(RuleError::Syntax);
    }
    let glob = glob.into();
    Ok(KeyPattern { read, write, glob })
}
