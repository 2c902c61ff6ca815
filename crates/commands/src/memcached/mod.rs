//! The requests of Memcached's clients as commands.
//!
//! Each is run by the executor like a command of Redis, under the row of the one that does about the same: `get` under that of GET,
//! `set` under that of SET. So the gate, users, tracking, statistics, the journal and all else that goes by rows hold for it. Only
//! the handler is another: it takes [`Options`] instead of words, and writes the answer of Memcached's protocol.
//!
//! The words of such a command are the row's name, the key, the data, [`Options::to_bytes`] and the flags of a meta command.

mod arithmetic;
mod fetch;
mod remove;
mod store;

use std::sync::LazyLock;

use tollgate_containers::number;
use tollgate_keyspace::{Key, Mark, TypeName, ValueRef};
use tollgate_wire::memcached::{Digits, Flags, Mode, Operation, Options, digits, encode_base64};
use tollgate_wire::resp::ReplyBuf;

use crate::keyspec::{KeyFlags, KeySpec};
use crate::{Args, Arity, CmdError, Cx, Handler, Row, Run, lookup};

/// A row under which requests run, and the row of the table that it is made of.
#[derive(Debug)]
pub struct Variant {
    /// The row with another handler.
    pub row: Row,
    /// The row of the table.
    pub base: &'static Row,
}

const READS: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS))];
const WRITES: &[KeySpec] = &[KeySpec::at(
    1,
    KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
)];
const REPLACES: &[KeySpec] = &[KeySpec::at(1, KeyFlags::OW.or(KeyFlags::UPDATE))];
const DELETES: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RM.or(KeyFlags::DELETE))];

/// Where in [`VARIANTS`] each kind of request stands.
#[derive(Clone, Copy)]
enum Place {
    Get,
    Describe,
    GetAndTouch,
    GetOrMake,
    Store,
    Extend,
    Increment,
    Decrement,
    Delete,
    Invalidate,
    Touch,
}

static VARIANTS: LazyLock<Vec<Variant>> = LazyLock::new(|| {
    // In the order of `Place`.
    let variants: [(&str, &'static [KeySpec], Handler); 11] = [
        ("GET", READS, fetch::get),
        ("GET", READS, fetch::describe),
        ("GETEX", WRITES, fetch::get),
        ("SET", WRITES, fetch::get),
        ("SET", REPLACES, store::store),
        ("APPEND", WRITES, store::store),
        ("INCRBY", WRITES, arithmetic::add),
        ("DECRBY", WRITES, arithmetic::add),
        ("DEL", DELETES, remove::delete),
        ("PEXPIREAT", WRITES, remove::delete),
        ("PEXPIREAT", WRITES, remove::touch),
    ];
    let variant = |(name, keys, handler): (&str, _, Handler)| {
        let base = lookup(name.as_bytes()).expect("the command is in the table");
        let mut row = base.clone().keys(keys);
        row.run = Run::Keys(handler);
        row.arity = Arity::Exactly(WORDS as u16);
        Variant { row, base }
    };
    variants.into_iter().map(variant).collect()
});

/// Words of each such command.
pub const WORDS: usize = 5;

/// The rows under which requests of Memcached's clients run. They are not in the table, so no name finds them.
pub fn variants() -> &'static [Variant] {
    &VARIANTS
}

/// The row under which a request runs.
pub fn row(operation: Operation, options: &Options) -> &'static Row {
    let place = match operation {
        Operation::Get if options.vivify.is_some() => Place::GetOrMake,
        Operation::Get if options.exptime.is_some() => Place::GetAndTouch,
        Operation::Get => Place::Get,
        Operation::Describe => Place::Describe,
        Operation::Store if matches!(options.mode, Mode::Append | Mode::Prepend) => Place::Extend,
        Operation::Store => Place::Store,
        Operation::Arithmetic if options.decrement => Place::Decrement,
        Operation::Arithmetic => Place::Increment,
        Operation::Delete if options.invalidate => Place::Invalidate,
        Operation::Delete => Place::Delete,
        Operation::Touch => Place::Touch,
    };
    &VARIANTS[place as usize].row
}

/// The options of a command that runs under one of these rows; `None` for every other command.
pub fn options_of(row: &Row, words: &[&[u8]]) -> Option<Options> {
    let is_one = VARIANTS
        .iter()
        .any(|variant| std::ptr::eq(&variant.row, row));
    is_one.then(|| Options::from_bytes(words.get(3)?)).flatten()
}

/// A request as its handler takes it.
struct Asked<'a> {
    key: Key<'a>,
    data: &'a [u8],
    options: Options,
    flags: Flags<'a>,
}

impl<'a> Asked<'a> {
    fn of(mut args: Args<'a>) -> Result<Asked<'a>, CmdError> {
        Ok(Asked {
            key: args.key()?,
            data: args.next()?,
            options: Options::from_bytes(args.next()?).ok_or(CmdError::Syntax)?,
            flags: Flags(args.next()?),
        })
    }
}

/// When an item is to expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expiry {
    Never,
    /// Unix milliseconds.
    At(i64),
    /// It is over already.
    Over,
}

impl Expiry {
    /// For the entry; what is over is not kept.
    fn at(self) -> Option<i64> {
        match self {
            Expiry::At(at) => Some(at),
            Expiry::Never | Expiry::Over => None,
        }
    }
}

/// Numbers of seconds up to here count from now, larger ones are times.
const RELATIVE_MAX_SECS: i32 = 60 * 60 * 24 * 30;

/// The expiry that a client means by a number of seconds.
fn expiry(seconds: i32, now_ms: i64) -> Expiry {
    let ms = i64::from(seconds) * 1000;
    match seconds {
        0 => Expiry::Never,
        ..0 => Expiry::Over,
        1..=RELATIVE_MAX_SECS => Expiry::At(now_ms + ms),
        _ if ms <= now_ms => Expiry::Over,
        _ => Expiry::At(ms),
    }
}

/// An item as a request finds it.
#[derive(Clone, Copy)]
struct Seen {
    mark: Mark,
    expires_at_ms: Option<i64>,
    /// Bytes of the value.
    len: usize,
    /// Seconds since it was last used.
    idle_secs: u64,
    /// Bytes it takes in memory.
    memory: usize,
}

/// What is at the key, for those who take it for an item: only strings are.
fn seen(entry: tollgate_keyspace::EntryRef<'_>, now_ms: i64) -> Option<Seen> {
    (entry.type_name() == TypeName::String).then(|| Seen {
        mark: entry.mark(),
        expires_at_ms: entry.expires_at_ms(),
        len: with_text(entry.value(), <[u8]>::len),
        idle_secs: entry.idle_secs(now_ms),
        memory: entry.memory(),
    })
}

/// What `f` makes of the bytes of a string; those of other values are none.
fn with_text<T>(value: ValueRef<'_>, f: impl FnOnce(&[u8]) -> T) -> T {
    match value {
        ValueRef::Bytes(bytes) => f(bytes),
        ValueRef::Int(int) => f(number::write_i64(&mut [0; number::I64_TEXT_LEN], int)),
        ValueRef::Limiter(_) | ValueRef::Object(_) => f(b""),
    }
}

impl Cx<'_> {
    /// The string at the key, without a trace of an access.
    fn item(&mut self, key: Key<'_>) -> Option<Seen> {
        let now_ms = self.now_ms();
        seen(self.peek(key)?, now_ms)
    }

    /// Changes what is known of the item at the key, if one is there. That is no change of the data.
    fn set_mark(&mut self, key: Key<'_>, mark: Mark) {
        let (db, now_ms) = (self.db, self.now_ms());
        if let Some(mut entry) = self.shards.of(key).get_mut(db, key, now_ms) {
            entry.set_mark(mark);
        }
    }

    /// A unique number for a new state of the key's item.
    fn new_cas(&mut self, key: Key<'_>) -> u64 {
        let now_ms = self.now_ms();
        self.shards.of(key).next_cas(now_ms)
    }

    /// The unique number of an item. If nobody was told one yet, it is given one now.
    fn told_cas(&mut self, key: Key<'_>, mark: &mut Mark) -> u64 {
        if mark.cas == 0 {
            mark.cas = self.new_cas(key);
            self.set_mark(key, *mark);
        }
        mark.cas
    }
}

fn put_number(out: &mut ReplyBuf, number: u64) {
    out.raw(digits(number, &mut Digits::default()));
}

/// Writes a flag of an answer and its number.
fn put_flag(out: &mut ReplyBuf, letter: u8, number: u64) {
    out.raw(&[b' ', letter]);
    put_number(out, number);
}

/// Writes an opaque token as it came.
fn put_opaque(out: &mut ReplyBuf, token: &[u8]) {
    out.raw(b" O");
    out.raw(token);
}

/// Writes the key in the form in which it came.
fn put_key(out: &mut ReplyBuf, key: &[u8], base64: bool) {
    out.raw(b" k");
    match base64 {
        false => out.raw(key),
        true => {
            let mut text = Vec::new();
            encode_base64(key, &mut text);
            text.extend_from_slice(b" b");
            out.raw(&text);
        }
    }
}

/// Writes the seconds until an item expires.
fn put_ttl(out: &mut ReplyBuf, expires_at_ms: Option<i64>, now_ms: i64) {
    match expires_at_ms {
        None => out.raw(b" t-1"),
        Some(at) => put_flag(out, b't', seconds_left(at, now_ms)),
    }
}

fn seconds_left(at_ms: i64, now_ms: i64) -> u64 {
    u64::try_from(at_ms.saturating_sub(now_ms))
        .unwrap_or(0)
        .div_ceil(1000)
}

/// Ends the answer of a meta command that found nothing or did nothing: the opaque token and the key, in their order.
fn end_line(out: &mut ReplyBuf, asked: &Asked<'_>) {
    for (letter, token) in asked.flags.iter() {
        match letter {
            b'O' => put_opaque(out, token),
            b'k' => put_key(out, asked.key.bytes(), asked.options.base64),
            _ => {}
        }
    }
    out.raw(b"\r\n");
}
