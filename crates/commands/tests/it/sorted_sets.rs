//! Sorted sets: their events.

use crate::world::World;

/// Runs commands and compares the events that each of them logs.
#[track_caller]
fn check_events(cases: &[(&str, &[&str])]) {
    let mut world = World::new(4);
    world.effects.set_listening(true);
    for (line, expected) in cases {
        world.run(line);
        let touches = world.effects.touches();
        let events: Vec<String> = touches
            .filter(|touch| touch.event.name() != "new")
            .map(|touch| format!("{} {}", touch.event.name(), touch.key.escape_ascii()))
            .collect();
        assert_eq!(events, *expected, "{line}");
    }
}

#[test]
fn sorted_sets_log_their_changes() {
    check_events(&[
        ("ZADD k 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h", &["zadd k"]),
        ("ZADD k 1 a", &[]),
        ("ZADD k NX 5 a", &[]),
        ("ZADD k XX 5 none", &[]),
        ("ZADD none XX 5 a", &[]),
        ("ZADD k INCR 1 a", &["zincr k"]),
        ("ZINCRBY k 0 a", &[]),
        ("ZINCRBY k 1 a", &["zincr k"]),
        ("ZREM k none", &[]),
        ("ZREM k a b none", &["zrem k"]),
        ("ZREMRANGEBYRANK k 0 0", &["zremrangebyrank k"]),
        ("ZREMRANGEBYRANK k 9 9", &[]),
        ("ZREMRANGEBYSCORE k 4 4", &["zremrangebyscore k"]),
        ("ZPOPMIN k", &["zpopmin k"]),
        ("ZPOPMAX k 0", &[]),
        ("ZPOPMAX k", &["zpopmax k"]),
        ("ZMPOP 2 none k MAX", &["zpopmax k"]),
        ("BZPOPMIN k 0", &["zpopmin k", "del k"]),
        ("ZADD l 0 x 0 y", &["zadd l"]),
        ("ZRANGESTORE dst l 0 -1", &["zrangestore dst"]),
        ("ZUNIONSTORE dst 1 l", &["zunionstore dst"]),
        ("ZINTERSTORE dst 1 l", &["zinterstore dst"]),
        ("ZDIFFSTORE dst 1 l", &["zdiffstore dst"]),
        ("ZDIFFSTORE dst 2 l l", &["del dst"]),
        ("ZDIFFSTORE dst 2 l l", &[]),
        ("ZREMRANGEBYLEX l - +", &["zremrangebylex l", "del l"]),
        ("GEOADD geo 1 1 here", &["zadd geo"]),
        (
            "GEOSEARCHSTORE dst geo FROMLONLAT 1 1 BYRADIUS 1 km",
            &["geosearchstore dst"],
        ),
        ("GEORADIUS geo 1 1 1 km STORE dst", &["georadiusstore dst"]),
        ("GEORADIUS geo 3 3 1 km STORE dst", &["del dst"]),
        ("ZREM geo here", &["zrem geo", "del geo"]),
    ]);
}
