//! The place in a history across restarts: what files say of it, and what a server makes of it that has loaded one.
//!
//! A file that says where its data are in the history holds all entries, those past their time too: replicas that go on from
//! there have them, and are told by DEL that they went. A master that starts with such a file begins a new history, which it
//! lets replicas enter that have the old one just as far; a replica asks its master for what comes next.

use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_persist::rdb::History;

use super::{State, unit};
use crate::Engine;

impl State {
    /// Where the data are in the history.
    pub(super) fn history(&self) -> History {
        let stream_db = match self.lineage.relays {
            true => self.master_db(),
            // Whatever comes next selects one if none is.
            false => self.db.unwrap_or_default(),
        };
        History {
            id: self.id.clone(),
            offset: self.offset,
            stream_db,
            limiters_from: self.lineage.limiters_from,
        }
    }
}

impl Engine {
    /// Where the data are in the history; all shards are held. `None`: changes are not counted, or the data are not what the
    /// history has made of them.
    pub(crate) fn history(&self) -> Option<History> {
        let state = self.journal.lock();
        (state.open && state.lineage.place_is_true()).then(|| state.history())
    }

    /// Entries that have expired before that time are of no use in a snapshot. There are none on a replica, whose master may
    /// go on with them, and none where others may go on from here.
    pub(crate) fn lapsed_before(&self, now: Timestamp) -> Timestamp {
        match self.is_replica() || self.history().is_some() {
            true => Timestamp::from_millis(0),
            false => now,
        }
    }

    /// A master is about to load a file: what goes meanwhile is counted for replicas that come back.
    pub(crate) fn begin_restoring(&self) {
        let mut state = self.journal.lock();
        state.open = !state.lineage.relays;
    }

    /// Tells replicas that come back of an entry of the file that was past its time.
    pub(crate) fn record_lapsed(&self, db: DbIndex, key: &[u8]) {
        unit::add(db, &[b"DEL", key]);
        self.journal.conclude(false);
    }

    /// The file is loaded: goes on from where its data are in a history, if it says so. A replica is there; a master lets
    /// replicas come back that are there, and calls what comes next by its own name.
    pub(crate) fn end_restoring(&self, history: Option<History>, now: Timestamp) {
        {
            let mut state = self.journal.lock();
            match history {
                Some(history) if state.lineage.relays => {
                    state.id = history.id;
                    state.offset = history.offset;
                    state.lineage.enter(history.stream_db);
                    // What comes next is counted, also if this server becomes a master before it has found its own.
                    state.open = true;
                }
                Some(history) => {
                    // The journal has told of what had gone, from its beginning on.
                    state.offset += history.offset;
                    state.lineage.come_from(history.id, history.offset + 1);
                    state.lineage.limiters_from = history.limiters_from;
                    state.alone_since_ms = Some(now.millis());
                    if history.limiters_from.is_some() {
                        self.journal.send_limiters();
                    }
                }
                None => state.forget_journal(),
            }
        }
        self.follow_journal();
    }
}
