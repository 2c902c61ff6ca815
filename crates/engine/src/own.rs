//! Keys that clients of a replica let expire.
//!
//! On a replica no key goes by itself: its master says when. That master knows nothing of what clients of the replica write,
//! where they may (`replica-read-only no`), so the keys on which they set an expiry are noted, and go when it is over. If the
//! master writes the same key there is no telling whose it is, as in Redis.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use parking_lot::Mutex;
use tollgate_commands::gate::Restrictions;
use tollgate_commands::{Effects, Event};
use tollgate_limiter::Timestamp;

use crate::Engine;
use crate::cell::{Cells, Name, name, parts};

/// Keys whose time is over that are looked at in one round.
const ROUND_MAX: usize = 1_024;

/// Keys of which a round looks whether they still expire at all.
const SAMPLE: usize = 16;

/// Keys by their names, and in the order in which they are to be looked at again (Unix milliseconds). Locked behind shards.
#[derive(Default)]
pub(crate) struct OwnKeys(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    due: HashMap<Name, i64>,
    order: BTreeSet<(i64, Name)>,
    /// Where it was last looked whether they still expire.
    looked: Option<(i64, Name)>,
}

impl Noted {
    fn note(&mut self, name: Name, at_ms: i64) {
        if let Some(before) = self.due.insert(name.clone(), at_ms) {
            self.order.remove(&(before, name.clone()));
        }
        self.order.insert((at_ms, name));
    }

    /// Takes those whose time is over, and a few others.
    fn take(&mut self, now_ms: i64) -> Vec<Name> {
        let is_over = |(at_ms, _): &&(i64, Name)| *at_ms < now_ms;
        let mut places: Vec<_> = (self.order.iter().take_while(is_over))
            .take(ROUND_MAX)
            .cloned()
            .collect();
        let from = match self.looked.take() {
            Some(looked) => Bound::Excluded(looked),
            None => Bound::Unbounded,
        };
        let others = self.order.range((from, Bound::Unbounded)).take(SAMPLE);
        self.looked = others.clone().last().cloned();
        places.extend(others.cloned());
        for place in &places {
            self.order.remove(place);
            self.due.remove(&place.1);
        }
        places.into_iter().map(|(_, name)| name).collect()
    }
}

impl OwnKeys {
    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Noted::default();
    }
}

impl Engine {
    /// Whether clients of this replica may write.
    fn is_writable_replica(&self) -> bool {
        let now = self.restrictions();
        now.contains(Restrictions::REPLICA) && !now.contains(Restrictions::READ_ONLY)
    }

    /// Has what clients let expire noted while they may write on a replica. To be called when [`Engine::restrict`] has been.
    /// Others may do so at the same time; whoever is last sees what is true.
    pub fn follow_restrictions(&self) {
        while self.is_writable_replica() != self.listeners.notes_own() {
            self.listen_for_own(self.is_writable_replica());
        }
    }

    /// Notes the keys on which a client has set an expiry; their shards are held.
    #[cold]
    pub(crate) fn note_own<H: Cells + ?Sized>(&self, effects: &Effects, held: &mut H) {
        for touch in effects.touches() {
            let sets_expiry = matches!(
                touch.event,
                Event::Expire | Event::Restore | Event::RenameTo | Event::CopyTo | Event::MoveTo
            );
            if !sets_expiry {
                continue;
            }
            let key = self.seed.key(touch.key);
            let cell = held.cell(key.shard(self.shards.count()));
            let found = cell.look(touch.db, key, i64::MIN);
            if let Some(at_ms) = found.and_then(|entry| entry.expires_at_ms()) {
                let mut noted = self.own.0.lock();
                noted.note(name(touch.db, touch.key), at_ms);
            }
        }
    }

    /// Keys that are noted.
    pub fn own_expiring(&self) -> usize {
        self.own.0.lock().due.len()
    }

    /// Removes those of the noted keys whose time is over, and forgets some that do not expire any more.
    pub fn expire_own(&self, now: Timestamp) {
        if !self.is_replica() {
            return;
        }
        let names = self.own.0.lock().take(now.millis());
        for noted in names {
            let (db, key) = parts(&noted);
            let key = self.seed.key(key);
            let index = key.shard(self.shards.count());
            let Some(mut cell) = self.shards.lock_unless_kept(index) else {
                // A long command has it.
                self.own.0.lock().note(noted, now.millis());
                continue;
            };
            let found = cell.look(db, key, i64::MIN);
            let Some(at_ms) = found.and_then(|entry| entry.expires_at_ms()) else {
                continue;
            };
            if at_ms >= now.millis() {
                self.own.0.lock().note(noted, at_ms);
                continue;
            }
            // Whoever is about to write finds nothing where the time is over, on a replica too.
            let left = cell.get_mut(db, key, now.millis());
            debug_assert!(left.is_none(), "its time is over");
            self.tell_expired(index, &mut cell, now);
        }
    }
}
