//! Many connections on one limit: exactly the limit is admitted, whoever asks first.

use std::sync::Barrier;

use tollgate_testkit::process::Server;
use tollgate_wire::resp::Value;

const CLIENTS: usize = 100;
const CALLS: usize = 20;
const LIMIT: usize = 777;

/// INCR and EXPIRE, as scripts of applications count.
const COUNTER: &str = "local n = redis.call('INCR', KEYS[1]) \
     if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end \
     if n > tonumber(ARGV[1]) then return {0} end \
     return {1}";

/// Admissions of a command that all clients send at once and over and over.
fn admitted(server: &Server, command: &[&str], is_allowed: fn(i64) -> bool) -> usize {
    let start = Barrier::new(CLIENTS);
    let client = || {
        let mut client = server.connect().unwrap();
        start.wait();
        let calls = (0..CALLS).map(|_| match client.call(command).unwrap() {
            Value::Array(items) => match items[0] {
                Value::Int(flag) => usize::from(is_allowed(flag)),
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        });
        calls.sum::<usize>()
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    })
}

#[test]
fn a_hundred_connections_get_exactly_the_limit() {
    let server = Server::tollgate(&["--threads", "2"]).unwrap();
    let limit = LIMIT.to_string();
    let burst = (LIMIT - 1).to_string();
    let fixed = ["RL.TAKE", "fixed", "FIXED", &limit, "3600000"];
    assert_eq!(admitted(&server, &fixed, |flag| flag == 1), LIMIT);
    // One unit comes back in an hour.
    let cell = ["CL.THROTTLE", "cell", &burst, "1", "3600"];
    assert_eq!(admitted(&server, &cell, |flag| flag == 0), LIMIT);
    let script = ["EVAL", COUNTER, "1", "script", &limit, "3600000"];
    assert_eq!(admitted(&server, &script, |flag| flag == 1), LIMIT);
}
