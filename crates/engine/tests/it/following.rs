//! A server that becomes a replica, and those who want to follow it meanwhile.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_engine::{Engine, HistoryPlace, Parting, Replica, RoleError, SyncRequest};

use super::{Client, NOW, engine};

/// As by PSYNC.
const REQUEST: SyncRequest = SyncRequest {
    acks: true,
    most: 0,
    is_patient: false,
};

/// A connection that follows, and is told when it may not.
#[derive(Debug, Default)]
struct Follower(AtomicBool);

impl Replica for Follower {
    fn id(&self) -> u64 {
        9
    }

    fn send(&self, bytes: &Arc<[u8]>) {
        let greeted = bytes.starts_with(b"+FULLRESYNC");
        self.0.fetch_or(greeted, Ordering::Relaxed);
    }

    fn knows_limiters(&self) -> bool {
        true
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn is_valkey(&self) -> bool {
        false
    }

    fn disconnect(&self, _why: Parting) {}
}

/// The data of a master; while they are read somebody asks for those that are here.
struct Asked<'a> {
    data: &'a [u8],
    engine: &'a Arc<Engine>,
    follower: &'a Arc<Follower>,
    refused: Option<bool>,
}

impl Read for Asked<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.refused.is_none() {
            let to = Arc::clone(self.follower) as Arc<dyn Replica>;
            let mut data = Vec::new();
            let sync = self
                .engine
                .sync_alone(to, REQUEST, &mut data, NOW, &mut |_| true);
            self.refused = Some(sync.is_err());
        }
        self.data.read(into)
    }
}

#[test]
fn nobody_is_sent_data_that_are_being_loaded() {
    let master = engine(4);
    Client::new(&master).call(&["SET", "new", "1"]);
    let mut data = Vec::new();
    master.save(&mut data, NOW, &mut |_| true).expect("memory");
    let replica = engine(4);
    Client::new(&replica).call(&["SET", "old", "1"]);
    let following = replica.follow(None).expect("nothing is loaded");
    let follower = Arc::new(Follower::default());
    let mut source = Asked {
        data: &data,
        engine: &replica,
        follower: &follower,
        refused: None,
    };
    let place = HistoryPlace {
        id: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        offset: 7,
    };
    let adopted = replica.adopt(following, &place, &mut source, NOW);
    adopted.expect("good data");
    assert_eq!(source.refused, Some(true));
    assert!(!follower.0.load(Ordering::Relaxed));
    assert!(replica.followers(NOW).is_empty());
    // Afterwards it is.
    let mut data = Vec::new();
    let to = Arc::clone(&follower) as Arc<dyn Replica>;
    let sync = replica.sync_alone(to, REQUEST, &mut data, NOW, &mut |_| true);
    sync.expect("memory");
    assert!(follower.0.load(Ordering::Relaxed));
}

/// A replica that has everything is not handed over to when more has come since that was found, be it a sign of life.
#[test]
fn a_master_turns_only_where_its_journal_ends() {
    let master = engine(4);
    let follower = Arc::new(Follower::default());
    let to = Arc::clone(&follower) as Arc<dyn Replica>;
    let mut data = Vec::new();
    let sync = master.sync_alone(to, REQUEST, &mut data, NOW, &mut |_| true);
    sync.expect("memory");
    let offset = master.journal_facts().offset;
    let later = NOW.plus(60_000_000_000);
    master.tend_replicas(later, (10_000, i64::MAX, 0), || None);
    let moved = master.journal_facts().offset;
    assert!(moved > offset, "a sign of life");
    assert_eq!(master.follow(Some(offset)), Err(RoleError::Moved));
    assert!(!master.is_replica());
    Client::new(&master).call(&["SET", "k", "v"]);
    assert_eq!(master.follow(Some(moved)), Err(RoleError::Moved));
    let end = master.journal_facts().offset;
    assert!(master.follow(Some(end)).is_ok());
    assert!(master.is_replica());
}
