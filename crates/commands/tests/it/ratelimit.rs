use crate::world::{World, check, check_on};

#[test]
fn a_fixed_window_admits_its_limit() {
    for shards in [1, 64] {
        let mut world = World::new(shards);
        check_on(
            &mut world,
            &[
                ("RL.TAKE k FIXED 3 1000 PEEK", "*5|:1|:3|:2|:0|:1000|"),
                ("EXISTS k", ":0|"),
                ("RL.TAKE k FIXED 3 1000 COST 2", "*5|:1|:3|:1|:0|:1000|"),
                ("RL.TAKE k FIXED 3 1000 cost 2", "*5|:0|:3|:1|:1000|:1000|"),
                ("RL.TAKE k FIXED 3 1000 COST 4", "*5|:0|:3|:1|:-1|:1000|"),
                ("PTTL k", ":1000|"),
            ],
        );
        world.advance_ms(400);
        check_on(
            &mut world,
            &[
                ("RL.TAKE k FIXED 3 1000", "*5|:1|:3|:0|:0|:600|"),
                ("RL.TAKE k FIXED 3 1000", "*5|:0|:3|:0|:600|:600|"),
                ("RL.TAKE k FIXED 3 1000 PEEK COST 0", "*5|:1|:3|:0|:0|:600|"),
            ],
        );
        world.advance_ms(600);
        assert_eq!(world.run("RL.TAKE k FIXED 3 1000"), "*5|:1|:3|:2|:0|:1000|");
    }
}

/// Whenever its first request comes, an aligned window ends at the next whole multiple of its length.
#[test]
fn an_aligned_window_ends_at_a_whole_multiple() {
    let mut world = World::new(1);
    world.advance_ms(12_345);
    let to_day_end = |world: &World| 86_400_000 - world.now.millis().rem_euclid(86_400_000);
    let left = to_day_end(&world);
    let want = format!("*5|:1|:1|:0|:0|:{left}|");
    assert_eq!(world.run("RL.TAKE k ALIGNED 1 86400000"), want);
    world.advance_ms(left - 1);
    assert_eq!(
        world.run("RL.TAKE k ALIGNED 1 86400000"),
        "*5|:0|:1|:0|:1|:1|"
    );
    world.advance_ms(1);
    assert_eq!(
        world.run("RL.TAKE k ALIGNED 1 86400000"),
        "*5|:1|:1|:0|:0|:86400000|"
    );
}

#[test]
fn bad_arguments_are_named() {
    check(&[
        (
            "RL.TAKE k FIXED 3",
            "-ERR wrong number of arguments for 'rl.take' command|",
        ),
        (
            "RL.TAKE k FUNNEL 3 1000",
            "-ERR unknown algorithm 'FUNNEL', expected FIXED, ALIGNED, SLIDING, LOG, GCRA, TOKENS, LEAKY or CALENDAR|",
        ),
        (
            "RL.TAKE k FIXED -1 1000",
            "-ERR limit is not an integer or out of range|",
        ),
        (
            "RL.TAKE k FIXED x 1000",
            "-ERR limit is not an integer or out of range|",
        ),
        (
            "RL.TAKE k FIXED 3 0",
            "-ERR window is not an integer or out of range|",
        ),
        (
            "RL.TAKE k FIXED 3 9223372036854775807",
            "-ERR window is not an integer or out of range|",
        ),
        (
            "RL.TAKE k FIXED 3 1000 COST -1",
            "-ERR cost is not an integer or out of range|",
        ),
        ("RL.TAKE k FIXED 3 1000 COST", "-ERR syntax error|"),
        ("RL.TAKE k FIXED 3 1000 FOO", "-ERR syntax error|"),
        ("RL.TAKE k FIXED 0 1000", "*5|:0|:0|:0|:-1|:0|"),
        ("SET s x", "+OK|"),
        (
            "RL.TAKE s FIXED 3 1000",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
        ),
        (
            "CL.THROTTLE s 3 1 1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
        ),
        ("CL.THROTTLE g 3 1 1", "*5|:0|:4|:3|:-1|:1|"),
        (
            "RL.TAKE g FIXED 3 1000",
            "-ERR the key holds a rate limiter of another algorithm|",
        ),
        ("RL.TAKE w FIXED 3 1000", "*5|:1|:3|:2|:0|:1000|"),
        (
            "CL.THROTTLE w 3 1 1",
            "-ERR the key holds a rate limiter of another algorithm|",
        ),
    ]);
}

#[test]
fn throttle_answers_as_redis_cell() {
    let usage = "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> \
                 <period> [<quantity>]|";
    let mut world = World::new(4);
    check_on(
        &mut world,
        &[
            ("CL.THROTTLE k 4 1 1 6", "*5|:1|:5|:5|:-1|:0|"),
            ("EXISTS k", ":0|"),
            ("CL.THROTTLE k 4 1 1", "*5|:0|:5|:4|:-1|:1|"),
            ("CL.THROTTLE k 4 1 1 4", "*5|:0|:5|:0|:-1|:5|"),
            ("CL.THROTTLE k 4 1 1", "*5|:1|:5|:0|:1|:5|"),
            ("OBJECT ENCODING k", "$4|gcra|"),
            ("PTTL k", ":5000|"),
            ("CL.THROTTLE k 4 1", usage),
            ("CL.THROTTLE k 4 1 1 1 1", usage),
            (
                "CL.THROTTLE k 4 0 1",
                "-Cell error: Store error: Zero rates are not supported|",
            ),
            (
                "CL.THROTTLE k x 1 1",
                "-Cell error: Store error: Couldn't parse as integer: x|",
            ),
        ],
    );
    world.advance_ms(3000);
    assert_eq!(world.run("CL.THROTTLE k 4 1 1"), "*5|:0|:5|:2|:-1|:3|");
}

#[test]
fn a_window_follows_its_expiry() {
    check(&[
        ("RL.TAKE k FIXED 1 60000", "*5|:1|:1|:0|:0|:60000|"),
        ("PEXPIRE k 5", ":1|"),
        ("RL.TAKE k FIXED 1 60000", "*5|:0|:1|:0|:5|:5|"),
        ("COPY k c", ":1|"),
        ("RL.TAKE c FIXED 1 60000", "*5|:0|:1|:0|:5|:5|"),
        ("RENAME k d", "+OK|"),
        ("RL.TAKE k FIXED 1 60000", "*5|:1|:1|:0|:0|:60000|"),
        ("DEL k", ":1|"),
        ("RL.TAKE k FIXED 1 60000", "*5|:1|:1|:0|:0|:60000|"),
    ]);
}

#[test]
fn a_limit_with_reservations_is_decided_in_its_place() {
    let mut world = World::new(1);
    check_on(
        &mut world,
        &[
            (
                "RL.RESERVE k a 400 FIXED 10 1000 COST 4",
                "*5|:1|:10|:6|:0|:1000|",
            ),
            ("RL.TAKE k FIXED 10 1000 COST 3", "*5|:1|:10|:3|:0|:1000|"),
            (
                "RL.TAKE k FIXED 10 1000 COST 4",
                "*5|:0|:10|:3|:1000|:1000|",
            ),
            (
                "RL.TAKE k LOG 10 1000",
                "-ERR the key holds a rate limiter of another algorithm|",
            ),
            ("OBJECT ENCODING k", "$12|reservations|"),
        ],
    );
    // Its time is up: the units are back, those that were taken stay taken.
    world.advance_ms(400);
    check_on(
        &mut world,
        &[
            ("RL.TAKE k FIXED 10 1000 COST 8", "*5|:0|:10|:7|:600|:600|"),
            ("RL.TAKE k FIXED 10 1000 COST 7", "*5|:1|:10|:0|:0|:600|"),
            ("OBJECT ENCODING k", "$12|fixed-window|"),
        ],
    );
    // Units of a window that has passed do not come back.
    world.advance_ms(600);
    check_on(
        &mut world,
        &[(
            "RL.RESERVE k b 9000 FIXED 10 1000 COST 10",
            "*5|:1|:10|:0|:0|:1000|",
        )],
    );
    world.advance_ms(1_000);
    check_on(
        &mut world,
        &[
            ("RL.TAKE k FIXED 10 1000 COST 10", "*5|:1|:10|:0|:0|:1000|"),
            ("RL.CANCEL k b", "*3|:0|:10|:0|"),
            ("RL.TAKE k FIXED 10 1000", "*5|:0|:10|:0|:1000|:1000|"),
        ],
    );
}

#[test]
fn keys_that_are_named_several_times_among_many_are_one() {
    let keys: Vec<String> = (0..30).map(|at| format!("k{}", at % 10)).collect();
    let take = |limit: usize| {
        let limits = vec![format!("FIXED {limit} 1000"); keys.len()].join(" ");
        format!("RL.MTAKE {} {} {limits}", keys.len(), keys.join(" "))
    };
    let five =
        |allowed, limit, left, wait| format!("*5|:{allowed}|:{limit}|:{left}|:{wait}|:1000|");
    let mut world = World::new(8);
    // Three on each: two are too few, and then nothing is taken.
    let denied = format!(
        "*3|:0|$2|20|*30|{}{}",
        "*5|:1|:2|:2|:0|:0|".repeat(20),
        five(0, 2, 0, 1_000).repeat(10)
    );
    let passed = format!(
        "*3|:1|$-1|*30|{}{}{}",
        five(1, 3, 2, 0).repeat(10),
        five(1, 3, 1, 0).repeat(10),
        five(1, 3, 0, 0).repeat(10)
    );
    check_on(
        &mut world,
        &[
            (&take(2), &denied),
            (&take(3), &passed),
            ("RL.TAKE k7 FIXED 3 1000", "*5|:0|:3|:0|:1000|:1000|"),
        ],
    );
}

/// A string as redis-cell stores it, of a key with 3 of 5 units left: one unit is a second.
fn set_as_redis_cell(world: &mut World, key: &str) {
    let tat = world.now.plus(2_000_000_000).nanos();
    let expires = world.now.millis() + 2_000;
    let set = format!("SET {key} {tat} PXAT {expires}");
    assert_eq!(world.run(&set), "+OK|");
}

#[test]
fn a_limiter_of_redis_cell_is_taken_over() {
    for (command, reply, denied) in [
        (
            "CL.THROTTLE k 4 1 1 3",
            "*5|:0|:5|:0|:-1|:5|",
            "*5|:1|:5|:0|:1|:5|",
        ),
        (
            "RL.THROTTLE k 4 1 1 3",
            "*5|:0|:5|:0|:-1|:5|",
            "*5|:1|:5|:0|:1|:5|",
        ),
        (
            "THROTTLE k 5 1 1 3",
            "*5|:1|:5|:0|:5|:0|",
            "*5|:0|:5|:0|:5|:3|",
        ),
        (
            "GCRA k 4 1 1 TOKENS 3",
            "*5|:0|:5|:0|:-1|:5|",
            "*5|:1|:5|:0|:3|:5|",
        ),
    ] {
        let mut world = World::new(1);
        set_as_redis_cell(&mut world, "k");
        assert_eq!(world.run(command), reply, "{command}");
        assert_eq!(world.run("TYPE k"), "+ratelimit|");
        assert_eq!(world.run("PTTL k"), ":5000|");
        let again = command.replace("CL.THROTTLE k 4 1 1 3", "CL.THROTTLE k 4 1 1");
        let again = again.replace("RL.THROTTLE k 4 1 1 3", "RL.THROTTLE k 4 1 1");
        assert_eq!(world.run(&again), denied, "{command}");
    }
    // A denial, and a look, change nothing.
    let mut world = World::new(1);
    set_as_redis_cell(&mut world, "k");
    let denied = world.run("CL.THROTTLE k 4 1 1 4");
    assert_eq!(denied, "*5|:1|:5|:3|:1|:2|");
    assert_eq!(world.run("CL.THROTTLE k 4 1 1 0"), "*5|:0|:5|:3|:-1|:2|");
    assert_eq!(world.run("TYPE k"), "+string|");
}

#[test]
fn other_strings_are_no_limiters() {
    let mut world = World::new(1);
    let now = world.now.millis();
    for line in [
        format!("SET k {}", world.now.plus(2_000_000_000).nanos()),
        format!(
            "SET k {} PXAT {}",
            world.now.plus(2_000_000_000).nanos(),
            now + 60_000
        ),
        format!("SET k 17 PXAT {}", now + 2_000),
        format!("SET k -9223372036854775808 PXAT {}", now + 2_000),
        format!("SET k x PXAT {}", now + 2_000),
    ] {
        world.run(&line);
        let value = world.run("GET k");
        let reply = world.run("CL.THROTTLE k 4 1 1");
        assert!(reply.starts_with("-WRONGTYPE"), "{line}: {reply}");
        assert_eq!(world.run("GET k"), value);
    }
}
