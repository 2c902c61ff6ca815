//! What is sent of a command: the same command where it does the same everywhere and at any time, else one that does.
//!
//! The forms are those of Redis 7.0: durations become times, what was chosen by chance or by the clock is named, commands
//! that wait become those that do not. What Redis 7.0 does not know is sent as the state it has left: RESTORE, or DEL. Of fields
//! that expire it has no state either, so commands on them are sent as Redis 8 and Valkey 9 send them ([`fields`]).
//! State of rate limiters has no form in Redis, so replicas are not sent it; the append-only file has it as RESTORE too,
//! whose payload Redis refuses and passes over.

use std::sync::LazyLock;

use tollgate_commands::{
    CmdError, Effects, Event, EventClass, Flags, FunctionCommand, GoneField, Group, PubSubCommand,
    Reply, Row, Run, ScriptCommand, memcached,
};
use tollgate_keyspace::{DbIndex, EntryRef, ExpiredFields, Key, TypeName, ValueRef};
use tollgate_persist::rdb::dump_value;
use tollgate_wire::memcached::{Mode, Options};
use tollgate_wire::resp::{Value, read_value};

use super::unit::{self, Audience};
use super::{fields, streams, wrap};
use crate::Engine;
use crate::call::Call;
use crate::cell::{Cell, Cells};
use crate::stats;

/// As what a command is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    AsItIs,
    /// The state of the keys that it has changed.
    State,
    /// SET, its expiry as a time.
    Set,
    /// SET of the string as it is now.
    String,
    /// What Memcached's protocol knows of the string, for replicas of this kind.
    Flags,
    /// HSET of the field as it is now, or HSETEX if it expires.
    Field,
    /// HPEXPIREAT, HPERSIST, HDEL of the fields that were met.
    FieldExpiry,
    HGetEx,
    HSetEx,
    /// HDEL of the fields that are named behind their number.
    RemovedFields,
    /// When the key expires, or that it has gone.
    Expiry,
    /// DEL.
    Removal,
    /// SET.
    Replacement,
    Restore,
    /// SREM of those that were taken.
    RandomMembers,
    /// A pop of this name from the key that had something.
    Popped(&'static str),
    /// The command of this name, which does not wait.
    Moved(&'static str),
    /// LPOP or RPOP with a count.
    PoppedElements,
    /// ZPOPMIN or ZPOPMAX with a count.
    PoppedMembers,
    /// As it is, unless any that fit will do.
    Found,
    XAdd,
    XTrim,
    XReadGroup,
    XClaim,
    XAutoClaim,
}

/// The forms of all rows, by their numbers.
static FORMS: LazyLock<Box<[Form]>> = LazyLock::new(|| {
    stats::all_rows()
        .iter()
        .map(|row| Form::made(row))
        .collect()
});

impl Form {
    #[inline]
    fn of(row: &'static Row) -> Form {
        FORMS[stats::number_of(row)]
    }

    fn made(row: &Row) -> Form {
        match row.name {
            "HGETDEL" => return Form::RemovedFields,
            "HEXPIRE" | "HPEXPIRE" | "HEXPIREAT" | "HPEXPIREAT" | "HPERSIST" => {
                return Form::FieldExpiry;
            }
            "HGETEX" => return Form::HGetEx,
            "HSETEX" => return Form::HSetEx,
            // Their state has no form in Redis 7.0, either.
            "XCFGSET" | "XIDMPRECORD" => return Form::AsItIs,
            _ => {}
        }
        if row.group == Group::RateLimit || is_younger(row) {
            return Form::State;
        }
        match row.name {
            "SET" | "SETEX" | "PSETEX" => Form::Set,
            "INCRBYFLOAT" => Form::String,
            "MC.FLAGS" => Form::Flags,
            "HINCRBYFLOAT" => Form::Field,
            "GETEX" | "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => Form::Expiry,
            "GETDEL" => Form::Removal,
            "GETSET" => Form::Replacement,
            "RESTORE" | "RESTORE-ASKING" => Form::Restore,
            "SPOP" => Form::RandomMembers,
            "BLPOP" => Form::Popped("LPOP"),
            "BRPOP" => Form::Popped("RPOP"),
            "BZPOPMIN" => Form::Popped("ZPOPMIN"),
            "BZPOPMAX" => Form::Popped("ZPOPMAX"),
            "BLMOVE" => Form::Moved("LMOVE"),
            "BRPOPLPUSH" => Form::Moved("RPOPLPUSH"),
            "LMPOP" | "BLMPOP" => Form::PoppedElements,
            "ZMPOP" | "BZMPOP" => Form::PoppedMembers,
            // The order of texts is the server's, and sets have none.
            "SORT" => Form::State,
            "GEOSEARCHSTORE" | "GEORADIUS" | "GEORADIUSBYMEMBER" => Form::Found,
            "XADD" => Form::XAdd,
            "XTRIM" => Form::XTrim,
            "XREADGROUP" => Form::XReadGroup,
            "XCLAIM" => Form::XClaim,
            "XAUTOCLAIM" => Form::XAutoClaim,
            _ => Form::AsItIs,
        }
    }
}

/// Whether commands of the group work on values of one type alone, so that they never leave a rate limiter behind.
fn is_typed(group: Group) -> bool {
    matches!(
        group,
        Group::String
            | Group::Bitmap
            | Group::HyperLogLog
            | Group::List
            | Group::Set
            | Group::Hash
            | Group::SortedSet
            | Group::Geo
    )
}

/// Whether all that is to be known of a command for recording it are its words, and whether it has changed anything.
#[inline]
pub(crate) fn is_recorded_as_it_is(row: &'static Row, words: usize) -> bool {
    let number = stats::number_of(row);
    // What Memcached's clients ask runs under rows of its own, and is recorded in the words of Redis.
    std::ptr::eq(stats::all_rows()[number], row)
        && match FORMS[number] {
            Form::AsItIs => row.flags.contains(Flags::READONLY) || is_typed(row.group),
            // Without options: no expiry, and the key is there afterwards.
            Form::Set => words == 3,
            _ => false,
        }
}

/// A command that has changed data, with all that tells what it did.
pub(super) struct Done<'a> {
    pub(super) engine: &'a Engine,
    pub(super) call: &'a Call<'a>,
    pub(super) effects: &'a Effects,
    /// What it has written of its reply.
    written: &'a [u8],
}

impl Engine {
    /// Adds what a command has done to the unit at hand. The shards of its keys are held, and whoever listens has been
    /// told.
    #[cold]
    pub(crate) fn record_done<H: Cells + ?Sized>(
        &self,
        call: &Call<'_>,
        effects: &Effects,
        held: &mut H,
        result: &Result<Reply, CmdError>,
        written: &[u8],
    ) {
        if effects.dirty() == 0 || result.is_err() {
            return;
        }
        let done = Done {
            engine: self,
            call,
            effects,
            written,
        };
        self.record_gone_fields(effects);
        done.record(held);
    }

    /// Adds that fields are gone, before the command that found them past their time.
    #[inline]
    pub(crate) fn record_gone_fields(&self, effects: &Effects) {
        for GoneField { db, key, name } in effects.gone_fields() {
            unit::add_gone(*db, &[b"HDEL", key, name]);
        }
    }

    /// Adds a command of which [`is_recorded_as_it_is`] holds, and that has changed something.
    pub(crate) fn record_as_it_is(&self, call: &Call<'_>) {
        unit::add(call.db, call.args);
    }

    /// Adds a command about whole databases as it is. All shards are held.
    pub(crate) fn record_sweep(&self, db: DbIndex, words: &[&[u8]]) {
        if !self.listeners.journals() {
            return;
        }
        unit::add(db, words);
    }

    /// Adds a command that is about no key as it is.
    fn record_words(&self, audience: Audience, db: DbIndex, words: &[&[u8]]) {
        if self.listeners.journals() {
            unit::for_audience(audience, || unit::add(db, words));
        }
    }

    /// Adds a call that is passed on though it changes no data: a message, or a change of functions.
    pub(crate) fn record_call(&self, call: &Call<'_>, succeeded: bool) {
        if !succeeded {
            return;
        }
        match call.row.run {
            // There is nothing of it to keep.
            Run::PubSub(PubSubCommand::Publish | PubSubCommand::SPublish) => {
                self.record_words(Audience::REPLICAS, call.db, call.args);
            }
            Run::Script(ScriptCommand::Function(
                FunctionCommand::Load
                | FunctionCommand::Delete
                | FunctionCommand::Flush
                | FunctionCommand::Restore,
            )) => self.record_words(Audience::ALL, call.db, call.args),
            _ => {}
        }
    }

    /// Fields of a hash have gone by themselves.
    pub(crate) fn record_fields(&self, gone: &ExpiredFields) {
        if !self.listeners.journals() {
            return;
        }
        if gone.emptied {
            return unit::add_gone(gone.db, &[b"DEL", &gone.key]);
        }
        let mut words: Vec<&[u8]> = vec![b"HDEL", &gone.key];
        words.extend(gone.names.iter().map(|name| &name[..]));
        unit::add_gone(gone.db, &words);
    }

    /// A key has gone by itself, or since memory was short.
    pub(crate) fn record_gone(&self, db: DbIndex, key: &[u8]) {
        if self.listeners.journals() {
            unit::add_gone(db, &[b"DEL", key]);
        }
    }

    /// Whether replicas are sent the state of rate limiters.
    fn sends_limiters(&self) -> bool {
        self.listeners.replicates() && self.journal.wants_limiters()
    }

    /// A decision of the service has changed the limiter at a key.
    pub(crate) fn record_limiter(&self, db: DbIndex, key: Key<'_>, cell: &Cell) {
        let (logs, replicates) = (self.listeners.logs(), self.sends_limiters());
        if !logs && !replicates {
            return;
        }
        let state = cell.look(db, key, i64::MIN).map(dumped);
        if replicates {
            wrap::add(db, key.bytes(), state.as_ref());
        }
        if !logs {
            return;
        }
        unit::for_audience(Audience::LOG, || {
            add_state(db, key.bytes(), state.as_ref());
        });
    }
}

impl<'a> Done<'a> {
    pub(super) fn add(&self, words: &[&[u8]]) {
        unit::add(self.call.db, words);
    }

    pub(super) fn word(&self, at: usize) -> &'a [u8] {
        self.call.args.get(at).copied().unwrap_or_default()
    }

    /// What `f` makes of the entry of `key` as it is now.
    pub(super) fn entry<H: Cells + ?Sized, T>(
        &self,
        held: &mut H,
        (db, key): (DbIndex, &[u8]),
        f: impl FnOnce(EntryRef<'_>) -> T,
    ) -> Option<T> {
        let key = self.engine.seed.key(key);
        let cell = held.cell(key.shard(self.engine.shards.count()));
        cell.look(db, key, i64::MIN).map(f)
    }

    /// The key at word 1.
    pub(super) fn key(&self) -> (DbIndex, &'a [u8]) {
        (self.call.db, self.word(1))
    }

    fn record<H: Cells + ?Sized>(&self, held: &mut H) {
        if let Some(options) = memcached::options_of(self.call.row, self.call.args) {
            return self.record_item(held, &options);
        }
        let form = Form::of(self.call.row);
        if form != Form::State && self.touches_limiter(held) {
            return self.record_state(held);
        }
        let has = |words: &[&[u8]]| {
            self.call
                .args
                .iter()
                .skip(2)
                .any(|word| is_one_of(word, words))
        };
        match form {
            Form::AsItIs => self.add(self.call.args),
            Form::State => self.record_state(held),
            Form::Set => self.record_set(held),
            Form::String => self.record_string(held),
            Form::Flags => {
                let flags = self.entry(held, self.key(), |entry| entry.mark().flags);
                wrap::add_flags(self.call.db, self.word(1), flags.unwrap_or(0));
            }
            Form::Field => fields::record_field(self, held),
            Form::FieldExpiry => fields::record_expiry(self, held),
            Form::HGetEx => fields::record_hgetex(self, held),
            Form::HSetEx => fields::record_hsetex(self, held),
            Form::RemovedFields => {
                let mut words: Vec<&[u8]> = vec![b"HDEL", self.word(1)];
                words.extend(self.call.args.iter().skip(4));
                self.add(&words);
            }
            Form::Expiry => self.record_expiry(held),
            Form::Removal => self.add(&[b"DEL", self.word(1)]),
            Form::Replacement => self.add(&[b"SET", self.word(1), self.word(2)]),
            Form::Restore => self.record_restore(held),
            Form::RandomMembers => self.record_spop(held),
            Form::Popped(name) => {
                if let [key, ..] = &self.replied()[..] {
                    self.add(&[name.as_bytes(), value_bytes(key)]);
                }
            }
            // Without the time-out at the end.
            Form::Moved(name) => {
                let mut words = self.call.args[..self.call.args.len() - 1].to_vec();
                words[0] = name.as_bytes();
                self.add(&words);
            }
            Form::PoppedElements => self.record_pops(b"RPOP", b"LPOP", &[b"LEFT"], 1),
            Form::PoppedMembers => self.record_pops(b"ZPOPMAX", b"ZPOPMIN", &[b"MIN"], 2),
            // Which are found first is the server's.
            Form::Found if has(&[b"ANY"]) => self.record_state(held),
            Form::Found => self.add(self.call.args),
            Form::XAdd => streams::record_xadd(self, held),
            Form::XTrim => streams::record_xtrim(self, held),
            Form::XReadGroup => streams::record_xreadgroup(self, held, &self.replied()),
            Form::XClaim => streams::record_xclaim(self, held),
            Form::XAutoClaim => streams::record_xautoclaim(self, held, &self.replied()),
        }
    }

    /// The elements of the reply.
    pub(super) fn replied(&self) -> Vec<Value> {
        match read_value(self.written) {
            Ok(Some((value, _))) => elements(value),
            _ => Vec::new(),
        }
    }

    /// Whether a rate limiter has come to be, or has been, where the command changed something.
    fn touches_limiter<H: Cells + ?Sized>(&self, held: &mut H) -> bool {
        !is_typed(self.call.row.group)
            && self.effects.touches().any(|touch| {
                self.entry(held, (touch.db, touch.key), |entry| entry.type_name())
                    == Some(TypeName::RateLimit)
            })
    }

    /// The state of a key as it is now.
    fn record_key<H: Cells + ?Sized>(&self, held: &mut H, (db, key): &(DbIndex, Vec<u8>)) {
        let state = self.entry(held, (*db, key), dumped);
        add_state(*db, key, state.as_ref());
    }

    /// The state of every key that was changed; state of limiters for the append-only file alone.
    pub(super) fn record_state<H: Cells + ?Sized>(&self, held: &mut H) {
        if self.engine.listeners.logs() {
            let mut keys: Vec<_> = (self.effects.touches())
                .filter(|touch| is_change(touch.event))
                .map(|touch| (touch.db, touch.key.to_vec()))
                .collect();
            keys.sort_unstable();
            keys.dedup();
            unit::for_audience(Audience::LOG, || {
                keys.iter().for_each(|name| self.record_key(held, name));
            });
        }
        if self.engine.listeners.replicates() {
            unit::for_audience(Audience::REPLICAS, || self.record_state_for_redis(held));
        }
        if self.engine.sends_limiters() {
            self.record_limiters(held);
        }
    }

    /// The state of every limiter that was changed, for replicas that know what it is.
    fn record_limiters<H: Cells + ?Sized>(&self, held: &mut H) {
        let mut seen: Vec<(DbIndex, &[u8])> = Vec::new();
        for touch in self.effects.touches() {
            let name = (touch.db, touch.key);
            if !is_change(touch.event) || seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let state = self.entry(held, name, |entry| {
                (entry.type_name() == TypeName::RateLimit).then(|| dumped(entry))
            });
            match state {
                Some(None) => {}
                Some(Some(state)) => wrap::add(touch.db, touch.key, Some(&state)),
                None if touch.event.class() == EventClass::RateLimit => {
                    wrap::add(touch.db, touch.key, None);
                }
                None => {}
            }
        }
    }

    fn record_state_for_redis<H: Cells + ?Sized>(&self, held: &mut H) {
        let mut seen: Vec<(DbIndex, &[u8])> = Vec::new();
        for touch in self.effects.touches() {
            let passes = !is_change(touch.event) || touch.event.class() == EventClass::RateLimit;
            let name = (touch.db, touch.key);
            if passes || seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let state = self.entry(held, name, |entry| {
                (entry.type_name() != TypeName::RateLimit).then(|| dumped(entry))
            });
            add_state(touch.db, touch.key, state.flatten().as_ref());
        }
    }

    /// What a request of a Memcached client has left at its key.
    fn record_item<H: Cells + ?Sized>(&self, held: &mut H, options: &Options) {
        let state = self.entry(held, self.key(), |entry| {
            let at = entry.expires_at_ms().map(|at| at.to_string());
            let text = match self.call.row.name {
                // The value is as it was.
                "GETEX" | "PEXPIREAT" => None,
                "APPEND" if options.mode == Mode::Append => None,
                _ => text(entry.value()),
            };
            (text, at, entry.mark().flags)
        });
        let Some((text, at, flags)) = state else {
            return self.add(&[b"DEL", self.word(1)]);
        };
        match (&text, &at) {
            (Some(text), Some(at)) => {
                self.add(&[b"SET", self.word(1), text, b"PXAT", at.as_bytes()]);
            }
            (Some(text), None) => self.add(&[b"SET", self.word(1), text]),
            (None, _) if self.call.row.name == "APPEND" => {
                self.add(&[b"APPEND", self.word(1), self.word(2)]);
            }
            (None, Some(at)) => self.add(&[b"PEXPIREAT", self.word(1), at.as_bytes()]),
            (None, None) => self.add(&[b"PERSIST", self.word(1)]),
        }
        if text.is_some() && flags != 0 {
            wrap::add_flags(self.call.db, self.word(1), flags);
        }
    }

    /// A string as it is now, its expiry left alone.
    fn record_string<H: Cells + ?Sized>(&self, held: &mut H) {
        let text = self.entry(held, self.key(), |entry| text(entry.value()));
        match text.flatten() {
            Some(text) => self.add(&[b"SET", self.word(1), &text, b"KEEPTTL"]),
            None => self.add(&[b"DEL", self.word(1)]),
        }
    }

    fn record_set<H: Cells + ?Sized>(&self, held: &mut H) {
        let now = self.entry(held, self.key(), |entry| entry.expires_at_ms());
        let is_set = self.call.row.name == "SET";
        let value = self.word(if is_set { 2 } else { 3 });
        let options = if is_set { &self.call.args[3..] } else { &[] };
        let options = words_alone(options);
        let keeps = options.iter().any(|word| is_one_of(word, &[b"KEEPTTL"]));
        match now {
            None => self.add(&[b"DEL", self.word(1)]),
            Some(Some(at)) if !keeps => {
                let at = at.to_string();
                self.add(&[b"SET", self.word(1), value, b"PXAT", at.as_bytes()]);
            }
            Some(_) => {
                let mut words: Vec<&[u8]> = vec![b"SET", self.word(1), value];
                let kept = |word: &&&[u8]| is_one_of(word, &[b"NX", b"XX", b"KEEPTTL"]);
                words.extend(options.iter().filter(kept).copied());
                self.add(&words);
            }
        }
    }

    /// When the key expires now, if it does; or that it has gone.
    fn record_expiry<H: Cells + ?Sized>(&self, held: &mut H) {
        match self.entry(held, self.key(), |entry| entry.expires_at_ms()) {
            None => self.add(&[b"DEL", self.word(1)]),
            Some(None) => self.add(&[b"PERSIST", self.word(1)]),
            Some(Some(at)) => {
                let at = at.to_string();
                let mut words: Vec<&[u8]> = vec![b"PEXPIREAT", self.word(1), at.as_bytes()];
                if self.call.row.name != "GETEX" {
                    // The condition held here, so it holds there.
                    words.extend(&self.call.args[3..]);
                }
                self.add(&words);
            }
        }
    }

    /// RESTORE with a time instead of a duration.
    fn record_restore<H: Cells + ?Sized>(&self, held: &mut H) {
        let mut options = self.call.args.iter().skip(4);
        let is_absolute = options.any(|word| is_one_of(word, &[b"ABSTTL"]));
        match self.entry(held, self.key(), |entry| entry.expires_at_ms()) {
            None => self.add(&[b"DEL", self.word(1)]),
            Some(None) => self.add(self.call.args),
            Some(Some(at)) => {
                let at = at.to_string();
                let mut words = self.call.args.to_vec();
                words[0] = b"RESTORE";
                words[2] = at.as_bytes();
                if !is_absolute {
                    words.push(b"ABSTTL");
                }
                self.add(&words);
            }
        }
    }

    fn record_spop<H: Cells + ?Sized>(&self, held: &mut H) {
        if self.entry(held, self.key(), |_| ()).is_none() && self.call.args.len() > 2 {
            return self.add(&[b"DEL", self.word(1)]);
        }
        let members = self.replied();
        let mut words: Vec<&[u8]> = vec![b"SREM", self.word(1)];
        words.extend(members.iter().map(value_bytes));
        if words.len() > 2 {
            self.add(&words);
        }
    }

    /// Pops from the first key that has something: the reply tells which, and how many (`per` values for each).
    fn record_pops(&self, back: &[u8], front: &[u8], front_words: &[&[u8]], per: usize) {
        let replied = self.replied();
        let [key, popped] = &replied[..] else {
            return;
        };
        let popped = elements(popped.clone());
        // Scores stand in pairs of their own.
        let nested = popped.iter().any(|it| matches!(it, Value::Array(_)));
        let count = match nested {
            true => popped.len(),
            false => popped.len() / per,
        };
        let keys = usize::from(self.call.row.name.starts_with('B')) + 1;
        let numkeys = tollgate_containers::number::parse_i64(self.word(keys)).unwrap_or(0);
        let end = self.word(keys + 1 + usize::try_from(numkeys).unwrap_or(0));
        let name = if is_one_of(end, front_words) {
            front
        } else {
            back
        };
        self.add(&[name, value_bytes(key), count.to_string().as_bytes()]);
    }
}

/// The options of SET that are single words: what stands behind others is their value, whatever it reads.
fn words_alone<'a>(options: &[&'a [u8]]) -> Vec<&'a [u8]> {
    const VALUED: [&[u8]; 8] = [
        b"EX", b"PX", b"EXAT", b"PXAT", b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE",
    ];
    let mut alone = Vec::new();
    let mut options = options.iter();
    while let Some(word) = options.next() {
        if is_one_of(word, &VALUED) {
            options.next();
        } else {
            alone.push(*word);
        }
    }
    alone
}

/// An entry as RESTORE takes it: the payload, and when it expires (0: never).
pub(crate) fn dumped(entry: EntryRef<'_>) -> (Vec<u8>, String) {
    dumped_parts(entry.value(), entry.expires_at_ms())
}

/// As [`dumped`], of the parts of an entry.
pub(crate) fn dumped_parts(value: ValueRef<'_>, expires_at_ms: Option<i64>) -> (Vec<u8>, String) {
    (dump_value(value), expires_at_ms.unwrap_or(0).to_string())
}

/// Whether an event tells of a change: a miss does not, and a new key is told of again by what has made it.
fn is_change(event: Event) -> bool {
    !matches!(event, Event::KeyMiss | Event::New)
}

/// Adds the state of a key: what [`dumped`] gave, or that nothing is there.
fn add_state(db: DbIndex, key: &[u8], state: Option<&(Vec<u8>, String)>) {
    match state {
        Some((payload, at)) => unit::add(db, &restoring(key, at, payload)),
        None => unit::add(db, &[b"DEL", key]),
    }
}

/// The command that makes an entry of what [`dumped`] gave.
pub(crate) fn restoring<'a>(key: &'a [u8], at: &'a str, payload: &'a [u8]) -> [&'a [u8]; 6] {
    [
        b"RESTORE",
        key,
        at.as_bytes(),
        payload,
        b"REPLACE",
        b"ABSTTL",
    ]
}

/// A string's text.
fn text(value: ValueRef<'_>) -> Option<Vec<u8>> {
    match value {
        ValueRef::Bytes(bytes) => Some(bytes.to_vec()),
        ValueRef::Int(number) => Some(number.to_string().into_bytes()),
        _ => None,
    }
}

/// Whether Redis 7.0 does not have the command.
fn is_younger(row: &Row) -> bool {
    let mut parts = row.since.split('.').map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    version > (7, 0)
}

pub(super) fn is_one_of(word: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|one| one.eq_ignore_ascii_case(word))
}

/// The parts of a collection; of a map, keys and values in turn.
pub(super) fn elements(value: Value) -> Vec<Value> {
    match value {
        Value::Array(parts) | Value::Set(parts) | Value::Push(parts) => parts,
        Value::Map(pairs) => pairs
            .into_iter()
            .flat_map(|(key, value)| [key, value])
            .collect(),
        Value::Null => Vec::new(),
        other => vec![other],
    }
}

pub(super) fn value_bytes(value: &Value) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}
