//! The store's own commands on the counters of the rules of [`storm`](crate::storm), as a client beside the service asks.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_limiter::ALGORITHMS;
use tollgate_testkit::Client;
use tollgate_wire::resp::Value;

use crate::storm::LIMIT;

/// The year of the rules.
const YEAR_MS: u64 = 365 * 86_400_000;
/// Longer than any test.
const LEASE_MS: u64 = 36_000_000;

/// A connection; none while a question is under way.
pub(crate) struct Resp(Option<Client>);

/// The key under which the service counts a descriptor by a limit of that kind.
fn counter(kind: &str, key: &str, value: &str) -> String {
    let (key_len, value_len) = (key.len(), value.len());
    format!("rl:{kind}:4:test:{key_len}:{key}:{value_len}:{value}")
}

/// Words of a place in use, each under a name of its own.
fn lease(places: usize) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("LEASES {places} COST 1 HOLD resp{name} {LEASE_MS}")
}

/// The command that takes one unit of a rule's limit, or of all its limits.
fn command(key: &str, value: &str) -> String {
    match key {
        "concurrency" => format!(
            "RL.MTAKE 1 {} {}",
            counter("concurrency", key, value),
            lease(LIMIT)
        ),
        "several" => format!(
            "RL.MTAKE 2 {} {} GCRA {LIMIT} {YEAR_MS} COST 1 {}",
            counter(&format!("gcra-{YEAR_MS}"), key, value),
            counter("concurrency", key, value),
            lease(LIMIT + 1)
        ),
        "calendar" => format!(
            "RL.TAKE {} CALENDAR {LIMIT} year ZONE UTC",
            counter("calendar-year-UTC", key, value)
        ),
        "sliding-log" => format!(
            "RL.TAKE {} LOG {LIMIT} {YEAR_MS}",
            counter(&format!("sliding-log-{YEAR_MS}"), key, value)
        ),
        name => {
            let row = ALGORITHMS.iter().find(|row| row.name == name);
            let word = row.expect("a known algorithm").word;
            // The year of the clock is a unit.
            let kind = match name {
                "fixed-window-epoch" => "y".to_owned(),
                _ => format!("{name}-{YEAR_MS}"),
            };
            let key = counter(&kind, key, value);
            format!("RL.TAKE {key} {word} {LIMIT} {YEAR_MS}")
        }
    }
}

impl Resp {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        Self(Some(Client::connect(addr).expect("the store listens")))
    }

    /// Whether one unit passes; an error is no answer.
    pub(crate) async fn ask(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let command = command(key, value);
        let mut client = self.0.take().expect("one question at a time");
        let asked = tokio::task::spawn_blocking(move || {
            let words: Vec<&str> = command.split(' ').collect();
            let reply = client.call(&words);
            (client, reply)
        });
        let (client, reply) = asked.await.expect("no panic");
        self.0 = Some(client);
        match reply.map_err(|error| error.to_string())? {
            Value::Array(items) => match items.first() {
                Some(Value::Int(allowed)) => Ok(*allowed == 1),
                other => panic!("{other:?}"),
            },
            other => panic!("{key}: {other:?}"),
        }
    }
}
