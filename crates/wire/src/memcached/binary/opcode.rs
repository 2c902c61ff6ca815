//! The operations: their numbers, the shape of their frames, and what they ask.

use super::{Ask, Body, CREDENTIALS_MAX, Shows, Status, owned, plain, seconds, stats_of};
use crate::memcached::request::{Flags, Mode, Operation, Options, Style, Target};

/// An expiry that stands for: what is not there is not made.
const NEVER_MADE: u32 = u32::MAX;

/// The unique number is wanted.
const CAS: Flags<'static> = Flags(b"c");

/// The unique number, the value, and for what is made an expiry.
const NUMBER: Flags<'static> = Flags(b"c v N");

/// The operations, without the difference of telling and quiet ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Get,
    GetKey,
    Set,
    Add,
    Replace,
    Delete,
    Increment,
    Decrement,
    Quit,
    Flush,
    Noop,
    Version,
    Append,
    Prepend,
    Stat,
    Touch,
    GetAndTouch,
    GetKeyAndTouch,
    Mechanisms,
    LogIn,
    LogInFurther,
}

/// The operation of a number, and whether it is quiet.
pub(super) fn kind_of(opcode: u8) -> Option<(Kind, bool)> {
    Some(match opcode {
        0x00 => (Kind::Get, false),
        0x01 => (Kind::Set, false),
        0x02 => (Kind::Add, false),
        0x03 => (Kind::Replace, false),
        0x04 => (Kind::Delete, false),
        0x05 => (Kind::Increment, false),
        0x06 => (Kind::Decrement, false),
        0x07 => (Kind::Quit, false),
        0x08 => (Kind::Flush, false),
        0x09 => (Kind::Get, true),
        0x0a => (Kind::Noop, false),
        0x0b => (Kind::Version, false),
        0x0c => (Kind::GetKey, false),
        0x0d => (Kind::GetKey, true),
        0x0e => (Kind::Append, false),
        0x0f => (Kind::Prepend, false),
        0x10 => (Kind::Stat, false),
        0x11 => (Kind::Set, true),
        0x12 => (Kind::Add, true),
        0x13 => (Kind::Replace, true),
        0x14 => (Kind::Delete, true),
        0x15 => (Kind::Increment, true),
        0x16 => (Kind::Decrement, true),
        0x17 => (Kind::Quit, true),
        0x18 => (Kind::Flush, true),
        0x19 => (Kind::Append, true),
        0x1a => (Kind::Prepend, true),
        0x1c => (Kind::Touch, false),
        0x1d => (Kind::GetAndTouch, false),
        0x1e => (Kind::GetAndTouch, true),
        0x20 => (Kind::Mechanisms, false),
        0x21 => (Kind::LogIn, false),
        0x22 => (Kind::LogInFurther, false),
        0x23 => (Kind::GetKeyAndTouch, false),
        0x24 => (Kind::GetKeyAndTouch, true),
        _ => return None,
    })
}

impl Kind {
    /// Whether parts of these lengths belong to it.
    pub(super) fn takes(self, extras: usize, key: usize, value: usize) -> bool {
        match self {
            Kind::Get | Kind::GetKey | Kind::Delete => extras == 0 && key > 0 && value == 0,
            Kind::Set | Kind::Add | Kind::Replace => extras == 8 && key > 0,
            Kind::Append | Kind::Prepend => extras == 0 && key > 0,
            Kind::Increment | Kind::Decrement => extras == 20 && key > 0 && value == 0,
            Kind::Touch | Kind::GetAndTouch | Kind::GetKeyAndTouch => {
                extras == 4 && key > 0 && value == 0
            }
            Kind::Quit | Kind::Noop | Kind::Version | Kind::Mechanisms => extras + key + value == 0,
            Kind::Flush => (extras == 0 || extras == 4) && key + value == 0,
            Kind::Stat => extras == 0 && value == 0,
            Kind::LogIn | Kind::LogInFurther => extras == 0 && key > 0 && value <= CREDENTIALS_MAX,
        }
    }

    /// Whether a value comes with it.
    pub(super) fn stores(self) -> bool {
        self.mode().is_some()
    }

    fn mode(self) -> Option<Mode> {
        Some(match self {
            Kind::Set => Mode::Set,
            Kind::Add => Mode::Add,
            Kind::Replace => Mode::Replace,
            Kind::Append => Mode::Append,
            Kind::Prepend => Mode::Prepend,
            _ => return None,
        })
    }

    /// The client flags of the value that comes with it.
    pub(super) fn flags(self, body: &Body<'_>) -> u32 {
        match self {
            Kind::Set | Kind::Add | Kind::Replace => body.word(0),
            _ => 0,
        }
    }

    /// What a frame of it asks, whose parts have the lengths that belong to it.
    pub(super) fn ask<'a>(self, body: Body<'a>, quiet: bool, item_max: usize) -> Ask<'a> {
        if let Some(mode) = self.mode() {
            return self.store(&body, mode, quiet, item_max);
        }
        match self {
            Kind::Get => read(&body, None, true, false),
            Kind::GetKey => read(&body, None, true, true),
            Kind::Touch => read(&body, Some(seconds(body.word(0))), false, false),
            Kind::GetAndTouch => read(&body, Some(seconds(body.word(0))), true, false),
            Kind::GetKeyAndTouch => read(&body, Some(seconds(body.word(0))), true, true),
            Kind::Delete => item(&body, Operation::Delete, Options::default(), Flags(b"")),
            Kind::Increment | Kind::Decrement => {
                let made = body.word(16);
                let options = Options {
                    delta: body.long(0),
                    initial: body.long(8),
                    decrement: self == Kind::Decrement,
                    vivify: (made != NEVER_MADE).then(|| seconds(made)),
                    value: true,
                    item_max: item_max as u64,
                    ..Options::default()
                };
                item(&body, Operation::Arithmetic, options, NUMBER)
            }
            Kind::Flush => Ask::FlushAll(seconds(body.word(0))),
            Kind::Stat => Ask::Stats(stats_of(body.key)),
            Kind::LogIn => Ask::LogIn(match body.key {
                b"PLAIN" => plain(body.value),
                _ => None,
            }),
            Kind::LogInFurther => Ask::LogIn(None),
            Kind::Mechanisms => Ask::Mechanisms,
            Kind::Version => Ask::Version,
            Kind::Quit => Ask::Quit,
            Kind::Noop => Ask::Noop,
            Kind::Set | Kind::Add | Kind::Replace | Kind::Append | Kind::Prepend => {
                Ask::Refused(Status::UnknownCommand, false)
            }
        }
    }

    fn store<'a>(self, body: &Body<'a>, mode: Mode, quiet: bool, item_max: usize) -> Ask<'a> {
        let extends = matches!(mode, Mode::Append | Mode::Prepend);
        let options = Options {
            // With a number every way to store is `cas`.
            mode: match extends || body.cas == 0 {
                true => mode,
                false => Mode::Set,
            },
            flags: self.flags(body),
            exptime: (!extends).then(|| seconds(body.word(4))),
            item_max: item_max as u64,
            ..Options::default()
        };
        // Who hears nothing needs no number.
        let flags = if quiet { Flags(b"") } else { CAS };
        item(body, Operation::Store, options, flags)
    }
}

/// A request whose answer is read as that of a meta command.
fn item<'a>(
    body: &Body<'a>,
    operation: Operation,
    options: Options,
    flags: Flags<'static>,
) -> Ask<'a> {
    Ask::Item {
        target: Target {
            operation,
            key: owned(body.key),
            data: body.value,
            options: Options {
                style: Style::Meta,
                compare: (body.cas != 0).then_some(body.cas),
                ..options
            },
            flags,
        },
        shows: Shows {
            key: false,
            value: options.value,
        },
    }
}

/// A request whose answer is read as that of `gets`.
fn read<'a>(body: &Body<'a>, exptime: Option<i32>, value: bool, key: bool) -> Ask<'a> {
    Ask::Item {
        target: Target {
            operation: Operation::Get,
            key: owned(body.key),
            data: b"",
            options: Options {
                style: Style::TextCas,
                exptime,
                value,
                ..Options::default()
            },
            flags: Flags::default(),
        },
        shows: Shows { key, value },
    }
}
