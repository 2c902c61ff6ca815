//! Strings added by the server itself, for tests.

use tollgate_commands::{Effects, Event};
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;

use crate::Engine;
use crate::cell::{Cells, name};
use crate::held::with_held;
use crate::shards::LockSet;

impl Engine {
    /// Adds a string under `key` if nothing is there, as DEBUG POPULATE does for a client: who watches or tracks the key is
    /// told, replicas are not.
    pub fn add_missing(
        &self,
        client: u64,
        (db, key): (DbIndex, &[u8]),
        bytes: &[u8],
        now: Timestamp,
    ) {
        let index = self.seed.key(key).shard(self.shards.count());
        with_held(|held| match held {
            Some(held) => {
                held.acquire(index);
                self.add_missing_held(client, (db, key), bytes, now, held);
            }
            None => {
                let mut held = self.shards.lock_set(&[index]);
                self.add_missing_held(client, (db, key), bytes, now, &mut held);
                self.settle(&mut held, now);
            }
        });
    }

    fn add_missing_held(
        &self,
        client: u64,
        (db, key): (DbIndex, &[u8]),
        bytes: &[u8],
        now: Timestamp,
        held: &mut LockSet<'_>,
    ) {
        let hashed = self.seed.key(key);
        let index = hashed.shard(self.shards.count());
        let cell = held.cell(index);
        let is_new = cell.get(db, hashed, now.millis()).is_none();
        if is_new {
            cell.set_bytes(db, hashed, bytes, None, now.millis());
        }
        // What was found expired has gone before the new key came.
        self.announce(&Effects::new(), held, client);
        if is_new {
            // Whoever waits for the key waits for another type.
            held.cell(index).changed(&name(db, key));
            self.tell(client, db, key, Event::New);
        }
        if self.listeners.limits_memory() {
            self.count_held(held);
        }
    }
}
