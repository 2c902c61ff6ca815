//! Collections as handlers see them: typed access to a key's value.
#![allow(
    clippy::needless_borrows_for_generic_args,
    reason = "a key by value is a copy of it in memory"
)]

use smallvec::SmallVec;
use tollgate_containers::hash::Hash;
use tollgate_containers::list::List;
use tollgate_containers::set::Set;
use tollgate_containers::sorted_set::SortedSet;
use tollgate_containers::stream::Stream;
use tollgate_keyspace::{DbIndex, Key, Object, Seed, Value, ValueRef};
use tollgate_wire::resp::ReplyBuf;

use crate::{CmdError, Cx, Effects, Event, Rng, StoreLimits};

/// One of the collections that an [`Object`] can be.
pub trait ObjectKind: Default {
    /// The collection, if the object is of this kind.
    fn of(object: &Object) -> Option<&Self>;
    /// The collection to change, if the object is of this kind.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    /// The object that holds this collection.
    fn into_object(self) -> Object;
    /// True when a key vanishes with its last element.
    const VANISHES: bool = true;
    /// True when its elements may expire by themselves.
    const EXPIRES: bool = false;
}

macro_rules! kinds {
    ($($kind:ident $vanishes:literal $expires:literal,)*) => {
        $(impl ObjectKind for $kind {
            #[inline]
            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$kind(value) => Some(value),
                    _ => None,
                }
            }

            #[inline]
            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$kind(value) => Some(value),
                    _ => None,
                }
            }

            #[inline]
            fn into_object(self) -> Object {
                Object::$kind(self.into())
            }

            const VANISHES: bool = $vanishes;
            const EXPIRES: bool = $expires;
        })*
    };
}

kinds! {
    List true false,
    Set true false,
    Hash true true,
    SortedSet true false,
    Stream false false,
}

/// A collection to read, and what the handler needs beside it.
pub struct Seen<'c, T> {
    /// The collection.
    pub value: &'c T,
    /// Where replies go.
    pub out: &'c mut ReplyBuf,
    /// Limits to keep.
    pub limits: &'c StoreLimits,
    /// Randomness.
    pub rng: &'c mut Rng,
    /// The time of the command, Unix milliseconds; before all times when elements expire at another server's word.
    pub now_ms: i64,
}

/// Whether a change makes a key that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Create {
    /// It does; an empty collection to begin with.
    Yes,
    /// It leaves an absent key alone.
    No,
}

/// A collection to change, and what the handler needs beside it.
///
/// What was changed must be said with [`Change::touched`]; a key that is new and untouched is not kept.
pub struct Change<'c, T> {
    /// The collection.
    pub value: &'c mut T,
    /// Where replies go.
    pub out: &'c mut ReplyBuf,
    /// Limits to keep.
    pub limits: &'c StoreLimits,
    /// Randomness.
    pub rng: &'c mut Rng,
    /// The time of the command, Unix milliseconds; before all times when elements expire at another server's word.
    pub now_ms: i64,
    /// The secret of hashes: large collections take theirs from it.
    pub seed: &'c Seed,
    /// The key was not there before.
    pub is_new: bool,
    touched: bool,
    effects: &'c mut Effects,
    db: DbIndex,
    key: &'c [u8],
}

impl<T> Change<'_, T> {
    /// Logs one change of the key.
    #[inline]
    pub fn touched(&mut self, event: Event) {
        self.touched = true;
        self.effects.touch(self.db, self.key, event);
    }

    /// Logs one event for several changes of the key, such as elements that were added together.
    #[inline]
    pub(crate) fn touched_times(&mut self, event: Event, changes: usize) {
        self.touched(event);
        self.effects.count(changes.saturating_sub(1) as u64);
    }

    /// Logs a change that counts as part of another key's: a move from one to the other is one change.
    pub(crate) fn touched_along(&mut self, event: Event) {
        self.touched = true;
        self.effects.note(self.db, self.key, event);
    }

    /// Logs that a field, which is removed now, was past its time.
    pub(crate) fn field_gone(&mut self, name: &[u8]) {
        self.touched = true;
        self.effects.field_gone(self.db, self.key, name);
    }

    /// Counts further changes within one that is logged, or changes that nobody is told of.
    #[inline]
    pub(crate) fn count_more(&mut self, changes: u64) {
        self.effects.count(changes);
    }

    /// Logs a second event of a change that is logged already.
    pub fn note(&mut self, event: Event) {
        self.effects.note(self.db, self.key, event);
    }
}

/// The collection of a value; WRONGTYPE when it is of another kind.
#[inline]
fn typed<T: ObjectKind>(value: ValueRef<'_>) -> Result<&T, CmdError> {
    match value {
        ValueRef::Object(object) => T::of(object).ok_or(CmdError::WrongType),
        _ => Err(CmdError::WrongType),
    }
}

impl Cx<'_> {
    /// The time as collections of that kind see it: to what was decided elsewhere their elements have not expired.
    #[inline]
    fn time_for<T: ObjectKind>(&self) -> i64 {
        if T::EXPIRES && self.origin.is_applied() {
            i64::MIN
        } else {
            self.now.millis()
        }
    }

    /// The collection at `key`, if the key exists. Counts as an access.
    // Always inlined, as `Args::key` is: the key stays in registers. Each caller has a copy of its own anyway.
    #[inline(always)]
    pub(crate) fn read_as<'c, T: ObjectKind + 'c>(
        &'c mut self,
        key: Key<'c>,
    ) -> Result<Option<Seen<'c, T>>, CmdError> {
        let (now, time) = (self.now.millis(), self.time_for::<T>());
        let Some(entry) = self.shards.of(key).get(self.db, &key, now) else {
            self.effects.missed(self.db, key.bytes());
            return Ok(None);
        };
        Ok(Some(Seen {
            value: typed(entry.value())?,
            out: self.out,
            limits: self.limits,
            rng: self.rng,
            now_ms: time,
        }))
    }

    /// The collection at `key`, on which depends what a write does; see [`Cx::find`].
    pub(crate) fn find_as<'c, T: ObjectKind + 'c>(
        &'c mut self,
        key: Key<'c>,
    ) -> Result<Option<&'c T>, CmdError> {
        match self.find(key) {
            Some(entry) => typed(entry.value()).map(Some),
            None => Ok(None),
        }
    }

    /// The collections at several keys, in their order, to be read together. Each counts as an access.
    pub(crate) fn peek_all<'c, T: ObjectKind + 'c>(
        &'c mut self,
        keys: &[Key<'_>],
    ) -> Result<SmallVec<[Option<&'c T>; 8]>, CmdError> {
        self.peek_values(keys, |value| typed::<T>(value).is_ok())?
            .into_iter()
            .map(|value| value.map(typed).transpose())
            .collect()
    }

    /// The values of several keys, in their order, to be read together. Each counts as an access.
    ///
    /// # Errors
    ///
    /// WRONGTYPE at the first value that does not fit; those behind it are not looked at.
    pub(crate) fn peek_values<'c>(
        &'c mut self,
        keys: &[Key<'_>],
        fits: impl Fn(ValueRef<'_>) -> bool,
    ) -> Result<SmallVec<[Option<ValueRef<'c>>; 8]>, CmdError> {
        let now = self.now.millis();
        for key in keys {
            // Removes an expired one and counts.
            match self.shards.of(*key).get(self.db, *key, now) {
                None => self.effects.missed(self.db, key.bytes()),
                Some(entry) if !fits(entry.value()) => return Err(CmdError::WrongType),
                Some(_) => {}
            }
        }
        let (shards, db) = (&self.shards, self.db);
        let values = keys.iter().map(|key| {
            let entry = shards.look(*key).look(db, *key, now)?;
            Some(entry.value())
        });
        Ok(values.collect())
    }

    /// Changes the collection at `key` by `f`. `Ok(None)` when the key is absent and not to be made. A collection that
    /// `f` leaves empty vanishes with its key, unless its kind may be empty.
    ///
    /// # Errors
    ///
    /// WRONGTYPE, and those of `f`.
    // As for `read_as`.
    #[inline(always)]
    pub fn change<T: ObjectKind, R>(
        &mut self,
        key: Key<'_>,
        create: Create,
        f: impl FnOnce(&mut Change<'_, T>) -> Result<R, CmdError>,
    ) -> Result<Option<R>, CmdError> {
        let (now, time) = (self.now.millis(), self.time_for::<T>());
        let shard = self.shards.of(key);
        let Some(mut entry) = shard.get_mut(self.db, &key, now) else {
            return match create {
                Create::No => Ok(None),
                Create::Yes => self.create(key, f).map(Some),
            };
        };
        typed::<T>(entry.value())?;
        let (result, touched, vanishes) = {
            let mut object = entry.object_mut().ok_or(CmdError::WrongType)?;
            let value = T::of_mut(&mut object).ok_or(CmdError::WrongType)?;
            let mut change = Change {
                value,
                out: self.out,
                limits: self.limits,
                rng: self.rng,
                now_ms: time,
                seed: self.seed,
                is_new: false,
                touched: false,
                effects: self.effects,
                db: self.db,
                key: key.bytes(),
            };
            let result = f(&mut change);
            let touched = change.touched;
            (result, touched, T::VANISHES && object.is_empty())
        };
        if vanishes {
            self.shards.of(key).remove(self.db, key, now);
            if touched {
                self.effects.note(self.db, key.bytes(), Event::Del);
            }
        }
        result.map(Some)
    }

    /// Runs `f` on an empty collection and keeps what it has become.
    #[inline(never)]
    fn create<T: ObjectKind, R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(&mut Change<'_, T>) -> Result<R, CmdError>,
    ) -> Result<R, CmdError> {
        let (now, time) = (self.now.millis(), self.time_for::<T>());
        let mark = self.effects.mark();
        let mut value = T::default();
        let mut change = Change {
            value: &mut value,
            out: self.out,
            limits: self.limits,
            rng: self.rng,
            now_ms: time,
            seed: self.seed,
            is_new: true,
            touched: false,
            effects: self.effects,
            db: self.db,
            key: key.bytes(),
        };
        let result = f(&mut change);
        if change.touched {
            let object = value.into_object();
            if !T::VANISHES || !object.is_empty() {
                let value = Value::Object(Box::new(object));
                self.shards.of(key).set(self.db, key, value, None, now);
                self.effects.created(mark, self.db, key.bytes());
            } else {
                // It came and went within the command.
                self.effects.created(mark, self.db, key.bytes());
                self.effects.note(self.db, key.bytes(), Event::Del);
            }
        }
        result
    }

    /// Puts a whole collection at `key`, replacing what is there; an empty one only removes it, with the event `del`.
    pub fn put<T: ObjectKind>(&mut self, key: Key<'_>, value: T, event: Event) {
        let object = value.into_object();
        if T::VANISHES && object.is_empty() {
            self.clear(key);
        } else {
            self.set(key, Value::Object(Box::new(object)), None, event);
        }
    }
}
