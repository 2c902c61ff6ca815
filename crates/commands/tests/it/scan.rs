use std::collections::HashSet;

use crate::world::{World, check};

/// Walks a whole scan; the keys it returned and the pages it took.
fn walk(world: &mut World, options: &str) -> (Vec<String>, usize) {
    let (mut keys, mut pages, mut cursor) = (Vec::new(), 0, "0".to_owned());
    loop {
        let reply = world.run(&format!("SCAN {cursor}{options}"));
        let parts: Vec<&str> = reply.split('|').collect();
        assert_eq!(parts[0], "*2", "{reply}");
        cursor = parts[2].to_owned();
        keys.extend(parts[4..].chunks_exact(2).map(|pair| pair[1].to_owned()));
        pages += 1;
        if cursor == "0" {
            return (keys, pages);
        }
        assert!(pages < 100_000, "the scan does not end");
    }
}

#[test]
fn every_key_is_returned() {
    for shards in [1, 16, 1024] {
        for keys in [0, 1, 9, 100, 5000] {
            let mut world = World::new(shards);
            for n in 0..keys {
                world.run(&format!("SET key:{n} x"));
            }
            for options in ["", " COUNT 1", " COUNT 100", " COUNT 100000"] {
                let (found, _) = walk(&mut world, options);
                let distinct: HashSet<&String> = found.iter().collect();
                assert_eq!(
                    distinct.len(),
                    keys,
                    "{shards} shards, {keys} keys,{options}"
                );
                assert_eq!(found.len(), keys, "an undisturbed scan repeats nothing");
            }
        }
    }
}

#[test]
fn keys_that_stay_are_found_while_others_come_and_go() {
    let mut world = World::new(4);
    for n in 0..500 {
        world.run(&format!("SET stay:{n} x"));
    }
    let (mut found, mut cursor, mut round) = (HashSet::new(), "0".to_owned(), 0);
    loop {
        let reply = world.run(&format!("SCAN {cursor} COUNT 7"));
        let parts: Vec<&str> = reply.split('|').collect();
        found.extend(parts[4..].chunks_exact(2).map(|pair| pair[1].to_owned()));
        cursor = parts[2].to_owned();
        if cursor == "0" {
            break;
        }
        for n in 0..40 {
            world.run(&format!("SET come:{round}:{n} x"));
        }
        if round > 20 {
            for n in 0..40 {
                world.run(&format!("DEL come:{}:{n}", round - 20));
            }
        }
        round += 1;
        assert!(round < 20_000, "the scan does not end");
    }
    assert!((0..500).all(|n| found.contains(&format!("stay:{n}"))));
}

#[test]
fn a_sparse_keyspace_takes_few_pages() {
    let mut world = World::new(1024);
    (0..5).for_each(|n| {
        world.run(&format!("SET k{n} x"));
    });
    let (keys, pages) = walk(&mut world, "");
    assert_eq!((keys.len(), pages), (5, 1));
}

#[test]
fn filters_apply_after_the_page() {
    let mut world = World::new(4);
    (0..100).for_each(|n| {
        world.run(&format!("SET k{n} x"));
    });
    world.run("RL.TAKE lim FIXED 1 1000");
    assert_eq!(walk(&mut world, " MATCH k1?").0.len(), 10);
    assert_eq!(walk(&mut world, " MATCH k1? TYPE RateLimit").0.len(), 0);
    assert_eq!(walk(&mut world, " TYPE ratelimit").0, ["lim"]);
    assert_eq!(walk(&mut world, " TYPE nosuch").0.len(), 0);
}

#[test]
fn errors() {
    check(&[
        ("SCAN x", "-ERR invalid cursor|"),
        ("SCAN -", "-ERR invalid cursor|"),
        ("SCAN 1x", "-ERR invalid cursor|"),
        ("SCAN 99999999999999999999", "-ERR invalid cursor|"),
        ("SCAN ", "*2|$1|0|*0|"),
        ("SCAN +0", "*2|$1|0|*0|"),
        ("SCAN -1", "*2|$1|0|*0|"),
        ("SCAN 0\0x", "*2|$1|0|*0|"),
        ("SCAN \0", "*2|$1|0|*0|"),
        ("SCAN 0 COUNT 0", "-ERR syntax error|"),
        (
            "SCAN 0 COUNT x",
            "-ERR value is not an integer or out of range|",
        ),
        ("SCAN 0 COUNT", "-ERR syntax error|"),
        ("SCAN 0 MATCH", "-ERR syntax error|"),
        ("SCAN 0 FOO 1", "-ERR syntax error|"),
        ("KEYS", "-ERR wrong number of arguments for 'keys' command|"),
    ]);
}

#[test]
fn a_random_key_is_any_key() {
    for shards in [1, 1024] {
        let mut world = World::new(shards);
        assert_eq!(world.run("RANDOMKEY"), "$-1|");
        (0..4).for_each(|n| {
            world.run(&format!("SET k{n} x"));
        });
        let seen: HashSet<String> = (0..400).map(|_| world.run("RANDOMKEY")).collect();
        assert_eq!(seen.len(), 4, "{shards} shards: {seen:?}");
    }
}
