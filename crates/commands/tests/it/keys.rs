use crate::world::{World, check, check_on};

#[test]
fn counting_and_deleting() {
    check(&[
        ("MSET a 1 b 2 c 3", "+OK|"),
        ("EXISTS a b a none", ":3|"),
        ("TOUCH a none b", ":2|"),
        ("DEL a a none", ":1|"),
        ("UNLINK b c", ":2|"),
        ("DBSIZE", ":0|"),
        ("TYPE none", "+none|"),
        ("SET s x", "+OK|"),
        ("TYPE s", "+string|"),
        ("DEL", "-ERR wrong number of arguments for 'del' command|"),
    ]);
}

#[test]
fn renaming() {
    check(&[
        ("RENAME a b", "-ERR no such key|"),
        ("RENAME a a", "-ERR no such key|"),
        ("SET a 1 EX 100", "+OK|"),
        ("RENAME a a", "+OK|"),
        ("RENAMENX a a", ":0|"),
        ("RENAME a b", "+OK|"),
        ("TTL b", ":100|"),
        ("EXISTS a", ":0|"),
        ("SET c 2", "+OK|"),
        ("RENAMENX b c", ":0|"),
        ("RENAME c b", "+OK|"),
        ("TTL b", ":-1|"),
        ("RENAMENX b d", ":1|"),
        ("GET d", "$1|2|"),
    ]);
}

#[test]
fn copying_and_moving() {
    let same = "-ERR source and destination objects are the same|";
    let range = "-ERR value is out of range, value must between -2147483648 and 2147483647|";
    check(&[
        ("COPY a b", ":0|"),
        ("COPY a a", same),
        ("SET a 1 EX 50", "+OK|"),
        ("COPY a b", ":1|"),
        ("TTL b", ":50|"),
        ("COPY a b", ":0|"),
        ("SET a 2", "+OK|"),
        ("COPY a b REPLACE", ":1|"),
        ("GET b", "$1|2|"),
        ("COPY a a DB 1", ":1|"),
        ("COPY a a DB 1", ":0|"),
        ("COPY a a DB 0", same),
        ("COPY a b DB 16", "-ERR DB index is out of range|"),
        ("COPY a b DB -1", "-ERR DB index is out of range|"),
        ("COPY a b DB 99999999999", range),
        (
            "COPY a b DB x",
            "-ERR value is not an integer or out of range|",
        ),
        ("COPY a b DB", "-ERR syntax error|"),
        ("COPY a b x", "-ERR syntax error|"),
        ("MOVE a 0", same),
        ("MOVE a 1", ":0|"),
        ("MOVE a 2", ":1|"),
        ("MOVE a 2", ":0|"),
        ("MOVE a 16", "-ERR DB index is out of range|"),
        ("MOVE a 99999999999", range),
        ("MOVE a x", "-ERR value is not an integer or out of range|"),
        ("EXISTS a", ":0|"),
    ]);
}

#[test]
fn objects() {
    check(&[
        ("OBJECT ENCODING none", "$-1|"),
        ("SET n 5", "+OK|"),
        ("OBJECT ENCODING n", "$3|int|"),
        ("OBJECT REFCOUNT n", ":2147483647|"),
        ("SET n 10000", "+OK|"),
        ("OBJECT REFCOUNT n", ":1|"),
        ("SET s abc", "+OK|"),
        ("OBJECT ENCODING s", "$6|embstr|"),
        ("OBJECT IDLETIME s", ":0|"),
        (
            "OBJECT FOO s",
            "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.|",
        ),
        (
            "OBJECT encoding",
            "-ERR wrong number of arguments for 'object|encoding' command|",
        ),
        (
            "OBJECT",
            "-ERR wrong number of arguments for 'object' command|",
        ),
        ("RL.TAKE lim FIXED 5 1000", "*5|:1|:5|:4|:0|:1000|"),
        ("OBJECT ENCODING lim", "$12|fixed-window|"),
    ]);
}

#[test]
fn flushing() {
    let mut world = World::new(8);
    world.run("SET a 1");
    world.run("COPY a a DB 3");
    check_on(
        &mut world,
        &[
            ("FLUSHDB foo", "-ERR syntax error|"),
            ("FLUSHDB ASYNC x", "-ERR syntax error|"),
            ("FLUSHDB ASYNC", "+OK|"),
            ("DBSIZE", ":0|"),
            ("SET a 1", "+OK|"),
        ],
    );
    world.run("FLUSHALL SYNC");
    let flushed: Vec<usize> = world.effects.flushed().iter().map(|db| db.get()).collect();
    assert_eq!(flushed, [0, 3], "a database without keys was not changed");
}

#[test]
fn many_keys_at_once() {
    let mut words = vec![b"MSET".to_vec()];
    words.extend((0..40_000).map(|n| format!("k{n}").into_bytes()));
    let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
    let mut world = World::new(1024);
    assert_eq!(world.run_words(&words), "+OK|");
    assert_eq!(world.run("DBSIZE"), ":20000|");
    assert!(world.run("KEYS *").starts_with("*20000|"));
    let mut del: Vec<&[u8]> = vec![b"DEL"];
    del.extend(&words[1..]);
    assert_eq!(world.run_words(&del), ":20000|");
}
