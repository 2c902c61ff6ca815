use tollgate_commands::Event;
use tollgate_wire::resp::Protocol;

use crate::world::{START_MS, World, check, check_on};

const WRONGTYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
const SYNTAX: &str = "-ERR syntax error|";
const NOT_INT: &str = "-ERR value is not an integer or out of range|";

#[test]
fn set_and_get() {
    check(&[
        ("GET k", "$-1|"),
        ("SET k v", "+OK|"),
        ("GET k", "$1|v|"),
        ("SET k 12", "+OK|"),
        ("GET k", "$2|12|"),
        ("SET k v2 NX", "$-1|"),
        ("SET k v2 XX GET", "$2|12|"),
        ("SET fresh v NX GET", "$-1|"),
        ("GET fresh", "$1|v|"),
        ("SET none v XX GET", "$-1|"),
        ("GET none", "$-1|"),
        ("SET k v3 NX XX", SYNTAX),
        ("SET k v3 EX 10 PX 100", SYNTAX),
        ("SET k v3 EX 10 KEEPTTL", SYNTAX),
        ("SET k v3 KEEPTTL EX 10", SYNTAX),
        ("SET k v3 EX", SYNTAX),
        ("SET k v3 PERSIST", SYNTAX),
        ("SET k v3 EX 10 EX 20", "+OK|"),
        ("TTL k", ":20|"),
        (
            "SET k v3 EX 0",
            "-ERR invalid expire time in 'set' command|",
        ),
        (
            "SET k v3 EX 9223372036854775807",
            "-ERR invalid expire time in 'set' command|",
        ),
        (
            "SET k v3 PX 9223372036854775807",
            "-ERR invalid expire time in 'set' command|",
        ),
        ("SET k v3 EX x", NOT_INT),
        ("SET k v4 KEEPTTL", "+OK|"),
        ("TTL k", ":20|"),
        ("SET k v5", "+OK|"),
        ("TTL k", ":-1|"),
        ("SET k v PXAT 1", "+OK|"),
        ("EXISTS k", ":0|"),
    ]);
}

#[test]
fn a_failed_set_get_writes_nothing() {
    check(&[
        ("RL.TAKE lim FIXED 5 1000", "*5|:1|:5|:4|:0|:1000|"),
        ("SET lim v GET", WRONGTYPE),
        ("TYPE lim", "+ratelimit|"),
        ("GET lim", WRONGTYPE),
        ("APPEND lim x", WRONGTYPE),
        ("INCR lim", WRONGTYPE),
        ("INCRBYFLOAT lim 1", WRONGTYPE),
        ("STRLEN lim", WRONGTYPE),
        ("GETRANGE lim 0 1", WRONGTYPE),
        ("SETRANGE lim 0 x", WRONGTYPE),
        ("GETSET lim x", WRONGTYPE),
        ("GETDEL lim", WRONGTYPE),
        ("GETEX lim EX x", WRONGTYPE),
        ("MGET lim", "*1|$-1|"),
        ("SET lim v", "+OK|"),
        ("TYPE lim", "+string|"),
    ]);
}

#[test]
fn older_setters() {
    check(&[
        ("SETNX k v", ":1|"),
        ("SETNX k w", ":0|"),
        ("SETEX k 10 v", "+OK|"),
        ("TTL k", ":10|"),
        (
            "SETEX k 0 v",
            "-ERR invalid expire time in 'setex' command|",
        ),
        (
            "PSETEX k -1 v",
            "-ERR invalid expire time in 'psetex' command|",
        ),
        ("PSETEX k 1500 v", "+OK|"),
        ("PTTL k", ":1500|"),
        ("GETSET k w", "$1|v|"),
        ("TTL k", ":-1|"),
        ("GETSET none w", "$-1|"),
        ("GETDEL none", "$1|w|"),
        ("GETDEL none", "$-1|"),
        ("MSET a 1 b 2 a 3", "+OK|"),
        ("MGET a b none", "*3|$1|3|$1|2|$-1|"),
        ("MSETNX c 1 a 2", ":0|"),
        ("EXISTS c", ":0|"),
        ("MSETNX c 1 d 2", ":1|"),
        (
            "MSET a 1 b",
            "-ERR wrong number of arguments for 'mset' command|",
        ),
        (
            "MSETNX a 1 b",
            "-ERR wrong number of arguments for 'msetnx' command|",
        ),
        (
            "MSET a",
            "-ERR wrong number of arguments for 'mset' command|",
        ),
    ]);
}

#[test]
fn getex() {
    check(&[
        ("SET k v", "+OK|"),
        ("GETEX k", "$1|v|"),
        ("GETEX k EX 10", "$1|v|"),
        ("TTL k", ":10|"),
        ("GETEX k PERSIST", "$1|v|"),
        ("TTL k", ":-1|"),
        ("GETEX k PERSIST EX 1", SYNTAX),
        ("GETEX k EX 1 PERSIST", SYNTAX),
        ("GETEX k KEEPTTL", SYNTAX),
        (
            "GETEX k EX 0",
            "-ERR invalid expire time in 'getex' command|",
        ),
        ("GETEX k EX x", NOT_INT),
        ("GETEX none EX x", "$-1|"),
        ("GETEX k PXAT 1", "$1|v|"),
        ("EXISTS k", ":0|"),
    ]);
}

#[test]
fn ranges() {
    check(&[
        ("SET k Hello", "+OK|"),
        ("GETRANGE k 0 -1", "$5|Hello|"),
        ("GETRANGE k -3 -2", "$2|ll|"),
        ("GETRANGE k -2 -3", "$0||"),
        ("GETRANGE k 3 1", "$0||"),
        ("GETRANGE k -100 100", "$5|Hello|"),
        ("SUBSTR k 1 2", "$2|el|"),
        ("GETRANGE none 0 -1", "$0||"),
        ("GETRANGE k x 1", NOT_INT),
        (
            "GETRANGE k -9223372036854775808 9223372036854775807",
            "$5|Hello|",
        ),
        ("SET n 12345", "+OK|"),
        ("GETRANGE n 1 2", "$2|23|"),
        ("STRLEN n", ":5|"),
        ("APPEND n 6", ":6|"),
        ("GET n", "$6|123456|"),
        ("OBJECT ENCODING n", "$3|raw|"),
        ("INCR n", ":123457|"),
        ("APPEND fresh 7", ":1|"),
        ("OBJECT ENCODING fresh", "$3|int|"),
        ("SETRANGE k 1 EY", ":5|"),
        ("GET k", "$5|HEYlo|"),
        ("SETRANGE pad 3 x", ":4|"),
        ("GET pad", "$4|\0\0\0x|"),
        ("OBJECT ENCODING pad", "$3|raw|"),
        ("SETRANGE k -1 x", "-ERR offset is out of range|"),
        (
            "SETRANGE k 536870912 x",
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|",
        ),
    ]);
    let mut world = World::new(4);
    assert_eq!(world.run_words(&[b"SETRANGE", b"none", b"5", b""]), ":0|");
    assert_eq!(world.run("EXISTS none"), ":0|");
    world.run("SET k abc");
    assert_eq!(world.run_words(&[b"SETRANGE", b"k", b"5", b""]), ":3|");
    world.limits.set("proto-max-bulk-len", 4);
    assert_eq!(
        world.run("APPEND k de"),
        "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|"
    );
}

#[test]
fn counters() {
    check(&[
        ("INCR n", ":1|"),
        ("DECR n", ":0|"),
        ("INCRBY n 10", ":10|"),
        ("DECRBY n 3", ":7|"),
        (
            "DECRBY n -9223372036854775808",
            "-ERR decrement would overflow|",
        ),
        ("INCRBY n x", NOT_INT),
        ("SET n 9223372036854775807", "+OK|"),
        ("INCR n", "-ERR increment or decrement would overflow|"),
        ("GET n", "$19|9223372036854775807|"),
        ("SET n 01", "+OK|"),
        ("INCR n", NOT_INT),
        ("SET n -0", "+OK|"),
        ("INCR n", NOT_INT),
        ("SET n 10 EX 100", "+OK|"),
        ("INCR n", ":11|"),
        ("TTL n", ":100|"),
        ("SET f 10.5", "+OK|"),
        ("INCRBYFLOAT f 0.1", "$4|10.6|"),
        ("SET f 3.0e3", "+OK|"),
        ("INCRBYFLOAT f 200", "$4|3200|"),
        ("OBJECT ENCODING f", "$6|embstr|"),
        ("INCRBYFLOAT f x", "-ERR value is not a valid float|"),
        ("INCRBYFLOAT f nan", "-ERR value is not a valid float|"),
        (
            "INCRBYFLOAT f inf",
            "-ERR increment would produce NaN or Infinity|",
        ),
        ("INCRBYFLOAT none 3", "$1|3|"),
        ("SET g v", "+OK|"),
        ("INCRBYFLOAT g 1", "-ERR value is not a valid float|"),
    ]);
}

#[test]
fn nulls_of_the_newer_protocol() {
    let mut world = World::new(4);
    world.protocol = Protocol::Resp3;
    check_on(
        &mut world,
        &[
            ("GET none", "_|"),
            ("MGET none", "*1|_|"),
            ("SET k v XX", "_|"),
        ],
    );
}

#[test]
fn changes_are_logged_only_when_made() {
    let mut world = World::new(4);
    world.effects.set_listening(true);
    let mut events = |line: &str| -> Vec<String> {
        world.run(line);
        world
            .effects
            .touches()
            .filter(|t| !matches!(t.event, Event::New | Event::KeyMiss))
            .map(|t| format!("{} {}", t.event.name(), String::from_utf8_lossy(t.key)))
            .collect()
    };
    assert_eq!(events("SET k 1 EX 10"), ["set k", "expire k"]);
    assert_eq!(events("SET k 1 NX"), [""; 0]);
    assert_eq!(events("INCR k"), ["incrby k"]);
    assert_eq!(events("GET k"), [""; 0]);
    assert_eq!(events("SET k x"), ["set k"]);
    assert_eq!(events("INCR k"), [""; 0]);
    assert_eq!(events("APPEND k y"), ["append k"]);
    assert_eq!(events("SETRANGE new 1 y"), ["setrange new"]);
    assert_eq!(events("MSET a 1 b 2"), ["set a", "set b"]);
    assert_eq!(events("GETDEL a"), ["del a"]);
    assert_eq!(events("GETEX b PX 5"), ["expire b"]);
    assert_eq!(events("GETEX b PERSIST"), ["persist b"]);
    assert_eq!(events("GETEX b PERSIST"), [""; 0]);
    assert_eq!(events("RENAME b c"), ["rename_from b", "rename_to c"]);
    assert_eq!(events("COPY c d"), ["copy_to d"]);
    assert_eq!(events("DEL c none"), ["del c"]);
    assert_eq!(events("EXPIRE d -1"), ["del d"]);
    assert_eq!(events("RL.TAKE lim FIXED 1 1000"), ["ratelimit lim"]);
    assert_eq!(events("RL.TAKE lim FIXED 1 1000"), [""; 0]);
}

#[test]
fn a_value_expires_when_its_time_is_over() {
    let mut world = World::new(4);
    let at = START_MS + 1000;
    world.run(&format!("SET k v PXAT {at}"));
    world.advance_ms(1000);
    assert_eq!(world.run("GET k"), "$1|v|");
    world.advance_ms(1);
    assert_eq!(world.run("GET k"), "$-1|");
    assert_eq!(world.run("SET k v XX"), "$-1|");
}
