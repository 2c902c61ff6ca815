//! Both services at once: every request goes to both, and their answers are compared.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_testkit::Server;
use tollgate_wire::resp::Value;
use tollgate_wire::rls::value::Kind as ValueKind;
use tollgate_wire::rls::{Duration, RateLimitRequest, RateLimitResponse, Struct};
use tonic::Status;

use super::program::{Ground, Kind, PATIENCE, Program, is_there};
use crate::support::Client;

/// Both services, each on a store of its own unless told otherwise.
pub(super) struct Pair {
    pub(super) original: Program,
    pub(super) ours: Program,
    clients: [Client; 2],
    /// Where the first keeps its counters, and where the second does if that is a Redis too.
    pub(super) stores: [Option<Server>; 2],
}

/// Where ours counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    /// In a Redis, by the original's keys.
    SharedKeys,
    /// In a Redis, by keys of our own.
    OwnKeys,
    /// In its own process.
    Embedded,
}

impl Pair {
    /// `None` after saying what is missing.
    pub(super) async fn start(
        test: &str,
        store: Store,
        ground: &Ground,
        env: &[(&str, &str)],
    ) -> Option<Self> {
        Self::start_each(test, store, ground, env, |_| ("LOG_LEVEL", "info")).await
    }

    /// The same, with a variable that each has of its own.
    pub(super) async fn start_each(
        test: &str,
        store: Store,
        ground: &Ground,
        env: &[(&str, &str)],
        own: impl Fn(Kind) -> (&'static str, &'static str),
    ) -> Option<Self> {
        if !is_there(test) {
            return None;
        }
        let theirs = redis(test)?;
        let theirs_addr = theirs.addr().to_string();
        let mut given = vec![
            ("BACKEND_TYPE", "redis"),
            ("REDIS_SOCKET_TYPE", "tcp"),
            ("REDIS_URL", &*theirs_addr),
        ];
        given.extend(env);
        given.push(own(Kind::Original));
        let original = given;
        let mut given = env.to_vec();
        given.push(own(Kind::Ours));
        let our_store = match store {
            Store::Embedded => None,
            Store::SharedKeys | Store::OwnKeys => redis(test),
        };
        let our_addr = our_store.as_ref().map(|store| store.addr().to_string());
        if let Some(addr) = &our_addr {
            given.extend([
                ("BACKEND_TYPE", "redis"),
                ("REDIS_SOCKET_TYPE", "tcp"),
                ("REDIS_URL", addr),
            ]);
        }
        if store == Store::SharedKeys {
            given.push(("TOLLGATE_COUNTER_KEYS", "envoy"));
        }
        let pair = Self::told(ground, [&original, &given]).await;
        Some(Self {
            stores: [Some(theirs), our_store],
            ..pair
        })
    }

    /// Each by its own variables, on stores that are the caller's.
    pub(super) async fn told(ground: &Ground, env: [&[(&str, &str)]; 2]) -> Self {
        let original = Program::start(Kind::Original, ground, env[0]);
        let ours = Program::start(Kind::Ours, ground, env[1]);
        let clients = [
            Client::connect(original.grpc).await,
            Client::connect(ours.grpc).await,
        ];
        Self {
            original,
            ours,
            clients,
            stores: [None, None],
        }
    }

    pub(super) fn both(&self) -> [&Program; 2] {
        [&self.original, &self.ours]
    }

    /// What both answer, with the times of windows checked and taken out.
    pub(super) async fn answers(
        &mut self,
        request: &RateLimitRequest,
    ) -> [Result<RateLimitResponse, Status>; 2] {
        let mut answers = Vec::new();
        for client in &mut self.clients {
            let before = now_secs();
            let answer = client.ask(request.clone()).await;
            let seen = (before, now_secs());
            answers.push(answer.map(|response| without_times(response, seen)));
        }
        answers.try_into().expect("two clients")
    }

    /// Asks both; they must say the same, which is given back.
    pub(super) async fn ask(&mut self, request: &RateLimitRequest) -> RateLimitResponse {
        match self.answers(request).await {
            [Ok(original), Ok(ours)] => {
                assert_eq!(ours, original, "ours, and the original's, to {request:?}");
                ours
            }
            answers => panic!("{answers:?} to {request:?}"),
        }
    }

    /// Asks both; both must refuse with the same words, which are given back.
    pub(super) async fn refused(&mut self, request: &RateLimitRequest) -> String {
        match self.answers(request).await {
            [Err(original), Err(ours)] => {
                assert_eq!(ours.message(), original.message());
                ours.message().to_owned()
            }
            answers => panic!("{answers:?} to {request:?}"),
        }
    }

    /// Waits until both have sent as much to statsd, and it is the same.
    pub(super) fn compare_counters(&self, passes: impl Fn(&str) -> bool + Copy) {
        let count = |program: &Program| program.statsd.counters(passes);
        let alike = || count(&self.original) == count(&self.ours) && !count(&self.ours).is_empty();
        let deadline = std::time::Instant::now() + PATIENCE;
        while !alike() {
            if std::time::Instant::now() > deadline {
                let (original, ours) = (count(&self.original), count(&self.ours));
                let of = |all: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>| {
                    let all = all.iter();
                    let only = all.filter(|(name, value)| other.get(*name) != Some(*value));
                    only.map(|(name, value)| format!("  {name} {value}\n"))
                        .collect::<String>()
                };
                panic!(
                    "the original counted\n{}ours\n{}",
                    of(&original, &ours),
                    of(&ours, &original)
                );
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Both stores hold the same counters, which were made to be kept for so many seconds.
    pub(super) fn compare_stores(&self, kept: RangeInclusive<u64>) {
        let [original, ours] = self.stores.each_ref().map(|store| {
            let store = store.as_ref().expect("both count in a Redis");
            dump(store, &kept)
        });
        assert_eq!(ours, original, "ours, and the original's");
    }
}

pub(super) fn redis(test: &str) -> Option<Server> {
    crate::support::redis(test, &[])
}

/// Every key of a store with its value. All were last set to live for so many seconds, not longer ago than a test may take.
pub(super) fn dump(store: &Server, kept: &RangeInclusive<u64>) -> BTreeMap<String, String> {
    const LONGEST_TEST_SECS: u64 = 3_600;
    let mut client = store.connect().expect("redis-server answers");
    let mut call = |args: &[&str]| client.call(args).expect("redis-server answers");
    let Value::Array(keys) = call(&["KEYS", "*"]) else {
        panic!("no list of keys");
    };
    let mut all = BTreeMap::new();
    for key in keys.iter().map(text) {
        let value = text(&call(&["GET", &key]));
        let ttl = call(&["TTL", &key]).as_int().expect("a number");
        let ttl = u64::try_from(ttl).expect("it expires");
        let allowed = kept.start() - LONGEST_TEST_SECS..=*kept.end();
        assert!(allowed.contains(&ttl), "{key} lives for {ttl} s");
        all.insert(key, value);
    }
    all
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).expect("text"),
        other => panic!("{other:?}"),
    }
}

pub(super) fn now_secs() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

/// Seconds of a unit by its number in responses.
pub(super) fn unit_secs(unit: i32) -> u64 {
    match unit {
        1 => 1,
        2 => 60,
        3 => 3_600,
        4 => 86_400,
        5 => 30 * 86_400,
        6 => 365 * 86_400,
        7 => 7 * 86_400,
        other => panic!("unit {other}"),
    }
}

/// A response whose times are those of windows as they were from `before` to `after`, and then all alike.
fn without_times(mut response: RateLimitResponse, seen: (u64, u64)) -> RateLimitResponse {
    let ends = |unit: i32, left: u64| {
        let secs = unit_secs(unit);
        (seen.0..=seen.1).any(|now| left == secs - now % secs)
    };
    for status in &mut response.statuses {
        if let (Some(left), Some(limit)) = (&mut status.duration_until_reset, &status.current_limit)
        {
            let secs = u64::try_from(left.seconds).expect("not negative");
            assert!(
                ends(limit.unit, secs) && left.nanos == 0,
                "{left:?} of {limit:?}"
            );
            *left = Duration::default();
        }
    }
    if let Some(said) = &mut response.dynamic_metadata {
        with_single_spaces(said);
    }
    let units: Vec<i32> = response
        .statuses
        .iter()
        .filter_map(|status| status.current_limit.as_ref())
        .map(|limit| limit.unit)
        .collect();
    // The third of three, by whatever name.
    if let [_, _, reset] = &mut response.response_headers_to_add[..] {
        let left = reset.value.parse().expect("seconds");
        assert!(units.iter().any(|&unit| ends(unit, left)), "{reset:?}");
        reset.value.clear();
    }
    response
}

/// The text form of messages has one space or two between fields, as the library of Go likes it.
fn with_single_spaces(said: &mut Struct) {
    for value in said.fields.values_mut() {
        single_spaces(value);
    }
}

fn single_spaces(value: &mut tollgate_wire::rls::Value) {
    match &mut value.kind {
        Some(ValueKind::StringValue(text)) => *text = text.replace("  ", " "),
        Some(ValueKind::StructValue(inner)) => with_single_spaces(inner),
        Some(ValueKind::ListValue(list)) => list.values.iter_mut().for_each(single_spaces),
        _ => {}
    }
}
