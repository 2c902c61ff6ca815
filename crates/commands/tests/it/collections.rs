//! Hashes and sets: what scripts against redis-server cannot show.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::World;

/// The events that a command logs.
fn events(world: &mut World, line: &str) -> Vec<String> {
    world.effects.set_listening(true);
    world.run(line);
    let text =
        |t: tollgate_commands::Touch<'_>| format!("{} {}", t.event.name(), t.key.escape_ascii());
    world.effects.touches().map(text).collect()
}

#[track_caller]
fn check_events(world: &mut World, cases: &[(&str, &[&str])]) {
    for (line, expected) in cases {
        assert_eq!(events(world, line), *expected, "{line}");
    }
}

#[test]
fn hashes_log_their_changes() {
    let mut world = World::new(4);
    check_events(
        &mut world,
        &[
            ("HSET h a 1 b 2", &["new h", "hset h"]),
            ("HMSET h a 1", &["hset h"]),
            ("HSETNX h c 1", &["hset h"]),
            ("HSETNX h c 1", &[]),
            ("HINCRBY h a 1", &["hincrby h"]),
            ("HINCRBY h x y", &[]),
            ("HINCRBYFLOAT h a 1", &["hincrbyfloat h"]),
            ("HEXPIRE h 100 FIELDS 2 a b", &["hexpire h"]),
            ("HEXPIRE h 100 NX FIELDS 2 a b", &[]),
            ("HPERSIST h FIELDS 1 a", &["hpersist h"]),
            ("HPERSIST h FIELDS 1 a", &[]),
            ("HGETEX h EX 5 FIELDS 1 a", &["hexpire h"]),
            ("HGETEX h FIELDS 1 a", &[]),
            ("HGETEX h PERSIST FIELDS 1 a", &["hpersist h"]),
            ("HSETEX h FIELDS 1 a 1", &["hset h"]),
            ("HSETEX h EX 5 FIELDS 1 a 1", &["hset h", "hexpire h"]),
            ("HSETEX h FNX FIELDS 1 a 1", &[]),
            ("HDEL h c none", &["hdel h"]),
            ("HDEL h c", &[]),
            ("HGETDEL h FIELDS 1 c", &[]),
            ("HGETDEL h FIELDS 1 b", &["hdel h"]),
            ("HEXPIREAT h 1 FIELDS 1 a", &["hdel h", "del h"]),
            ("HSET h a 1 b 2", &["new h", "hset h"]),
            ("HEXPIREAT h 1 FIELDS 2 a x", &["hdel h"]),
            ("DEL h", &["del h"]),
            (
                "HSETEX h EX 0 FIELDS 1 a 1",
                &["new h", "hset h", "hdel h", "del h"],
            ),
            ("HSET h a 1", &["new h", "hset h"]),
            ("HDEL h a", &["hdel h", "del h"]),
        ],
    );
    assert_eq!(world.run("DBSIZE"), ":0|");
}

#[test]
fn a_write_that_meets_an_expired_field_says_so() {
    let mut world = World::new(1);
    world.run("HSET h a 1 b 2");
    world.run("HPEXPIRE h 5 FIELDS 2 a b");
    world.advance_ms(6);
    check_events(
        &mut world,
        &[
            ("HGETALL h", &[]),
            ("HINCRBY h a 5", &["hexpired h", "hincrby h"]),
            ("HDEL h b a", &["hexpired h", "hdel h", "del h"]),
        ],
    );
    world.run("HSET h a 1");
    world.run("HPEXPIRE h 5 FIELDS 1 a");
    world.advance_ms(6);
    assert_eq!(world.run("HLEN h"), ":1|", "not yet removed");
    assert_eq!(world.run("HRANDFIELD h"), "$-1|");
    assert_eq!(world.run("HRANDFIELD h -3"), "*0|");
    assert_eq!(events(&mut world, "HSETNX h a 2"), ["hexpired h", "hset h"]);
    let gone = |world: &World| -> Vec<_> {
        let fields = world.effects.gone_fields().iter();
        fields.map(|field| field.name.to_vec()).collect()
    };
    assert_eq!(gone(&world), [b"a"]);
    world.run("HSET h b 1 c 1");
    assert!(gone(&world).is_empty());
    world.run("HPEXPIRE h 5 FIELDS 2 b c");
    world.advance_ms(6);
    assert_eq!(
        events(&mut world, "HGETEX h EX 9 FIELDS 3 a b c"),
        ["hexpired h", "hexpire h"],
        "told once"
    );
    assert_eq!(gone(&world), [b"b", b"c"]);
    world.advance_ms(9001);
    assert_eq!(
        events(&mut world, "HSETEX h FXX FIELDS 1 a 1"),
        ["hexpired h", "del h"]
    );
}

#[test]
fn sets_log_their_changes() {
    let mut world = World::new(4);
    check_events(
        &mut world,
        &[
            ("SADD s a b c", &["new s", "sadd s"]),
            ("SADD s a", &[]),
            ("SREM s x", &[]),
            ("SREM s a", &["srem s"]),
            ("SMOVE s t b", &["srem s", "new t", "sadd t"]),
            ("SADD s b", &["sadd s"]),
            ("SMOVE s t b", &["srem s"]),
            ("SMOVE s s c", &[]),
            ("SMOVE s t c", &["srem s", "del s", "sadd t"]),
            ("SPOP t 0", &[]),
            ("SPOP t 1", &["spop t"]),
            ("SPOP t", &["spop t", "del t"]),
            ("SADD a 1 2", &["new a", "sadd a"]),
            ("SUNIONSTORE r a", &["new r", "sunionstore r"]),
            ("SINTERSTORE r a", &["sinterstore r"]),
            ("SDIFFSTORE r a", &["sdiffstore r"]),
            ("SDIFFSTORE r a a", &["del r"]),
            ("SDIFFSTORE r a a", &[]),
            ("SPOP a 5", &["spop a", "del a"]),
        ],
    );
}

/// How often each member is the answer.
fn tally(world: &mut World, line: &str, rounds: usize) -> BTreeMap<String, usize> {
    let mut hits = BTreeMap::new();
    for _ in 0..rounds {
        for member in world
            .run(line)
            .split('|')
            .filter(|part| part.starts_with('m'))
        {
            *hits.entry(member.to_owned()).or_default() += 1;
        }
    }
    hits
}

#[test]
fn random_choices_are_uniform() {
    let mut world = World::new(1);
    for members in [10, 100] {
        for i in 0..members {
            world.run(&format!("SADD s{members} m{i}"));
            world.run(&format!("HSET h{members} m{i} v"));
        }
        for (line, picks) in [
            ("SRANDMEMBER s", 1),
            ("HRANDFIELD h", 1),
            ("SRANDMEMBER s 3", 3),
            ("HRANDFIELD h 3", 3),
            ("SRANDMEMBER s 7", 7),
            ("HRANDFIELD h -5", 5),
        ] {
            let mut words = line.split(' ');
            let (name, key) = (words.next().expect("a name"), words.next().expect("a key"));
            let line = format!("{name} {key}{members} {}", words.next().unwrap_or_default());
            let rounds = 300 * members / picks;
            let hits = tally(&mut world, line.trim_end(), rounds);
            assert_eq!(hits.len(), members, "{line}");
            // Five standard deviations of a binomial distribution with mean 300.
            let near = |hits: &usize| hits.abs_diff(300) < 90;
            assert!(hits.values().all(near), "{line}: {hits:?}");
        }
    }
}

#[test]
fn popped_members_are_uniform() {
    let mut world = World::new(1);
    let mut hits = BTreeMap::new();
    for round in 0..2000 {
        let line = if round % 2 == 0 { "SPOP s" } else { "SPOP s 2" };
        world.run("SADD s m0 m1 m2 m3 m4");
        for (member, count) in tally(&mut world, line, 1) {
            *hits.entry(member).or_insert(0) += count;
        }
    }
    assert!(
        hits.values().all(|hits| hits.abs_diff(600) < 120),
        "{hits:?}"
    );
}

/// All elements that a scan returns while others come and go.
fn scan(world: &mut World, command: &str, mut churn: impl FnMut(&mut World)) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = world.run(&format!("{command} {cursor} COUNT 7"));
        let parts: Vec<&str> = reply.split('|').collect();
        cursor = parts[2].to_owned();
        seen.extend(parts[3..].iter().map(|part| (*part).to_owned()));
        if cursor == "0" {
            return seen;
        }
        churn(world);
    }
}

#[test]
fn scans_return_what_stays() {
    let mut world = World::new(1);
    for i in 0..900 {
        world.run(&format!("SADD s stay{i} go{i}"));
        world.run(&format!("HSET h stay{i} v go{i} v"));
    }
    for (command, add, remove) in [
        ("SSCAN s", "SADD s", "SREM s"),
        ("HSCAN h", "HSET h", "HDEL h"),
    ] {
        let mut i = 0;
        let value = if add.starts_with('H') { " v" } else { "" };
        let seen = scan(&mut world, command, |world| {
            world.run(&format!("{remove} go{} go{}", i, i + 450));
            world.run(&format!("{add} new{i}{value}"));
            i += 1;
        });
        assert!(i > 100, "{command}");
        assert!(
            (0..900).all(|i| seen.contains(&format!("stay{i}"))),
            "{command}"
        );
    }
}

#[test]
fn compact_hashes_end_at_their_limits() {
    let mut world = World::new(1);
    let limits = [
        ("hash-max-listpack-entries", 3),
        ("hash-max-listpack-value", 4),
    ];
    for (name, value) in limits {
        assert!(world.limits.set(name, value));
    }
    for (line, encoding) in [
        ("HSET a 1 1 2 2 3 3", "listpack"),
        ("HSET a 3 1234", "listpack"),
        ("HSET a 4 4", "hashtable"),
        ("HDEL a 4 3", "hashtable"),
        ("HSET b 1 12345", "hashtable"),
        ("HSET b 1 1", "hashtable"),
        ("HINCRBY c n 99999", "hashtable"),
    ] {
        world.run(line);
        let key = &line.split(' ').nth(1).expect("a key");
        let reply = world.run(&format!("OBJECT ENCODING {key}"));
        assert!(reply.contains(encoding), "{line}: {reply}");
    }
}

/// What save points and `rdb_changes_since_last_save` go by: as in Redis each element counts, and a move from one key to
/// another is one change.
#[test]
fn elements_are_counted_as_changes() {
    let cases: &[(&str, u64)] = &[
        ("RPUSH l a b c d e f g h", 8),
        ("LPUSHX l x y", 2),
        ("LPUSHX none x y", 0),
        ("LPOP l 3", 3),
        ("RPOP l", 1),
        ("LMPOP 1 l LEFT COUNT 2", 2),
        ("LMOVE l other LEFT LEFT", 1),
        ("RPOPLPUSH other other", 1),
        ("LTRIM l 0 -1", 0),
        ("RPUSH l q q q", 3),
        ("LREM l 2 q", 2),
        ("LTRIM l 1 1", 3),
        ("RENAME l m", 1),
        ("COPY m n", 1),
        ("MOVE n 1", 1),
        ("SADD s a b c c d", 4),
        ("SREM s a b none", 2),
        ("SPOP s 2", 2),
        ("SADD s a b c", 3),
        ("SMOVE s t a", 2),
        ("SUNIONSTORE u s t", 1),
        ("HSET h a 1 b 2 c 3", 3),
        ("HSET h a 1 b 2", 2),
        ("HDEL h a b none", 2),
        ("HSETEX h FIELDS 2 x 1 y 2", 2),
        ("HGETDEL h FIELDS 3 x y none", 2),
        ("ZADD z 1 a 2 b 3 c", 3),
        ("ZADD z 1 a 5 b 4 d 6 e", 3),
        ("ZREM z a none", 1),
        ("ZPOPMIN z 2", 2),
        ("ZADD z 1 a 2 b 3 c", 3),
        ("ZREMRANGEBYRANK z 0 1", 2),
        ("GEOADD g 13 38 a 14 38 b 15 38 c", 3),
        (
            "GEOSEARCHSTORE g2 g FROMMEMBER a BYRADIUS 5000 km ASC COUNT 2",
            2,
        ),
        ("SORT z BY nosort STORE sorted", 2),
        ("SADD numbers 3 1 2", 3),
        ("SORT numbers STORE sorted", 3),
        ("PFADD p a b c", 4),
        ("PFADD p a", 0),
        ("BITFIELD b SET u8 0 1 INCRBY u8 8 0 GET u8 0", 2),
        ("BITFIELD b SET u8 0 1 INCRBY u8 8 3", 1),
        ("MSET a 1 b 2", 2),
        ("DEL a b none", 2),
    ];
    let mut world = World::new(4);
    for (line, expected) in cases {
        let reply = world.run(line);
        assert_eq!(world.effects.dirty(), *expected, "{line}: {reply}");
    }
}
