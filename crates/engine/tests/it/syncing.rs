//! Replicas that ask for all data share the snapshots that they can share.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_engine::{Engine, Parting, Replica, SnapshotError, SyncRequest};

use super::{Client, NOW, engine};

/// As by PSYNC, of one that waits for nobody.
const AT_ONCE: SyncRequest = SyncRequest {
    acks: true,
    most: 0,
    is_patient: false,
};

/// The same of one that waits for others.
const PATIENT: SyncRequest = SyncRequest {
    is_patient: true,
    ..AT_ONCE
};

/// A replica that remembers what it was sent.
#[derive(Debug, Default)]
struct Remembers {
    id: u64,
    is_valkey: bool,
    knows_limiters: bool,
    sent: Mutex<Vec<u8>>,
    gone: AtomicBool,
}

impl Remembers {
    fn new(id: u64) -> Arc<Remembers> {
        Arc::new(Remembers {
            id,
            ..Remembers::default()
        })
    }

    fn ask(self: &Arc<Self>, engine: &Engine, request: SyncRequest) -> bool {
        let to = Arc::clone(self) as Arc<dyn Replica>;
        engine.ask_for_data(to, request, NOW)
    }

    fn sent(&self) -> String {
        String::from_utf8_lossy(&self.sent.lock().expect("no panic")).into_owned()
    }
}

impl Replica for Remembers {
    fn id(&self) -> u64 {
        self.id
    }

    fn send(&self, bytes: &Arc<[u8]>) {
        self.sent.lock().expect("no panic").extend_from_slice(bytes);
    }

    fn knows_limiters(&self) -> bool {
        self.knows_limiters
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn is_valkey(&self) -> bool {
        self.is_valkey
    }

    fn disconnect(&self, _why: Parting) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// A master with some keys.
fn master() -> (Arc<Engine>, Client) {
    let master = engine(4);
    let mut client = Client::new(&master);
    for key in 0..100 {
        client.call(&["SET", &key.to_string(), "x"]);
    }
    (master, client)
}

/// Writes the snapshot; `meanwhile` is called once, while it is being written.
fn write(
    master: &Arc<Engine>,
    sync: u64,
    meanwhile: &mut dyn FnMut(),
) -> Result<Vec<u8>, SnapshotError> {
    let mut data = Vec::new();
    let mut first = true;
    master.write_sync(sync, &mut data, NOW, &mut |_| {
        if std::mem::take(&mut first) {
            meanwhile();
        }
        true
    })?;
    Ok(data)
}

fn due(master: &Engine) -> Option<u64> {
    master.next_sync(NOW, 0, 0)
}

#[test]
fn those_who_wait_share_one_snapshot() {
    let (master, mut client) = master();
    let replicas = [1, 2, 3].map(Remembers::new);
    for replica in &replicas {
        assert!(!replica.ask(&master, AT_ONCE));
    }
    let states = master.followers(NOW);
    assert!(
        states.iter().all(|it| it.state == "wait_bgsave"),
        "{states:?}"
    );
    let sync = due(&master).expect("somebody waits");
    assert_eq!(due(&master), None, "all are taken in");
    write(&master, sync, &mut || {
        client.call(&["SET", "later", "1"]);
    })
    .expect("memory");
    assert_eq!(master.end_sync(sync), [1, 2, 3]);
    assert_eq!(due(&master), None);
    let greetings: Vec<_> = replicas.iter().map(|replica| replica.sent()).collect();
    assert!(greetings[0].starts_with("+FULLRESYNC "), "{greetings:?}");
    assert!(
        greetings.iter().all(|sent| *sent == greetings[0]),
        "{greetings:?}"
    );
    for replica in &replicas {
        master.go_online(replica.id);
        let sent = replica.sent();
        assert_eq!(sent.matches("later").count(), 1, "{sent}");
    }
    assert_eq!(master.journal_facts().syncs.0, 3);
}

#[test]
fn who_comes_while_a_snapshot_is_written_shares_it() {
    let (master, mut client) = master();
    let (first, second) = (Remembers::new(1), Remembers::new(2));
    first.ask(&master, AT_ONCE);
    let sync = due(&master).expect("it waits");
    write(&master, sync, &mut || {
        client.call(&["SET", "before", "1"]);
        assert!(second.ask(&master, AT_ONCE));
        client.call(&["SET", "after", "1"]);
    })
    .expect("memory");
    assert_eq!(master.end_sync(sync), [1, 2]);
    for replica in [&first, &second] {
        master.go_online(replica.id);
    }
    assert_eq!(first.sent(), second.sent());
    assert!(second.sent().contains("before") && second.sent().contains("after"));
    // The next one comes too late.
    assert!(!Remembers::new(3).ask(&master, AT_ONCE));
    assert!(due(&master).is_some());
}

#[test]
fn a_snapshot_is_shared_by_those_who_read_it() {
    let (master, mut client) = master();
    let first = Remembers::new(1);
    first.ask(&master, AT_ONCE);
    let sync = due(&master).expect("it waits");
    let other = |id, is_valkey, knows_limiters| {
        Arc::new(Remembers {
            id,
            is_valkey,
            knows_limiters,
            ..Remembers::default()
        })
    };
    write(&master, sync, &mut || {
        client.call(&["SET", "before", "1"]);
        // Another form; what the journal has not had from the moment on; more than it may leave unread.
        assert!(!other(2, true, false).ask(&master, AT_ONCE));
        assert!(!other(3, false, true).ask(&master, AT_ONCE));
        let little = SyncRequest { most: 5, ..AT_ONCE };
        assert!(!other(4, false, false).ask(&master, little));
        // What waited for one that is gone is no use.
        first.disconnect(Parting::Overflow);
        assert!(!other(5, false, false).ask(&master, AT_ONCE));
    })
    .expect_err("nobody waits for it");
    assert_eq!(master.end_sync(sync), [1]);
    let sync = due(&master).expect("three of one form");
    let valkey = due(&master).expect("and one of another");
    write(&master, sync, &mut || {}).expect("memory");
    assert_eq!(master.end_sync(sync), [3, 4, 5]);
    write(&master, valkey, &mut || {}).expect("memory");
    assert_eq!(master.end_sync(valkey), [2]);
}

#[test]
fn a_snapshot_goes_on_while_somebody_waits_for_it() {
    let (master, _) = master();
    let (first, second) = (Remembers::new(1), Remembers::new(2));
    first.ask(&master, AT_ONCE);
    second.ask(&master, AT_ONCE);
    let sync = due(&master).expect("they wait");
    write(&master, sync, &mut || {
        first.disconnect(Parting::Overflow);
        master.unfollow(1, NOW);
    })
    .expect("the other waits");
    assert_eq!(master.end_sync(sync), [2]);
}

#[test]
fn others_are_waited_for() {
    let (master, _) = master();
    let (first, second) = (Remembers::new(1), Remembers::new(2));
    first.ask(&master, PATIENT);
    let later = |secs: u64| NOW.plus(secs * 1_000_000_000);
    assert_eq!(master.next_sync(later(4), 5_000, 0), None);
    assert_eq!(master.next_sync(later(4), 5_000, 2), None);
    second.ask(&master, PATIENT);
    assert_eq!(master.next_sync(later(4), 5_000, 0), None);
    let sync = master
        .next_sync(later(4), 5_000, 2)
        .expect("two are enough");
    write(&master, sync, &mut || {}).expect("memory");
    assert_eq!(master.end_sync(sync), [1, 2]);
    Remembers::new(3).ask(&master, PATIENT);
    let sync = master
        .next_sync(later(5), 5_000, 0)
        .expect("the time is over");
    assert_eq!(master.end_sync(sync), [3]);
    // One that cannot wait has it written at once, for all.
    Remembers::new(4).ask(&master, AT_ONCE);
    assert!(master.next_sync(NOW, 5_000, 0).is_some());
}

/// Whoever waits is sent nothing of the journal, which need not even be kept.
#[test]
fn who_waits_for_the_data_is_sent_no_changes() {
    let (master, mut client) = master();
    let first = Remembers::new(1);
    first.ask(&master, PATIENT);
    client.call(&["SET", "before", "1"]);
    let later = NOW.plus(60_000_000_000);
    master.tend_replicas(later, (10_000, 60_000, 0), || None);
    assert_eq!(master.journal_facts().offset, 0);
    assert_eq!(first.sent(), "\n");
    assert!(!first.is_gone());
}
