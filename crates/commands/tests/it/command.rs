use tollgate_wire::resp::Protocol;

use crate::world::{World, check, check_on};

#[test]
fn info_is_that_of_redis() {
    let get = "*10|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*3|+@read|+@string|+@fast|*0|*1|*6|$5|flags|\
               *2|+RO|+access|$12|begin_search|*4|$4|type|$5|index|$4|spec|*2|$5|index|:1|$9|\
               find_keys|*4|$4|type|$5|range|$4|spec|*6|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|*0|";
    let id = "*10|$9|client|id|:2|*3|+noscript|+loading|+stale|:0|:0|:0|*2|+@slow|+@connection|*0|*0|\
              *0|";
    let mut world = World::new(1);
    assert_eq!(world.run("COMMAND INFO get"), format!("*1|{get}"));
    assert_eq!(
        world.run("COMMAND INFO Client|ID none"),
        format!("*2|{id}$-1|")
    );
    world.protocol = Protocol::Resp3;
    assert!(
        world
            .run("COMMAND INFO set")
            .contains("|~4|+RW|+access|+update|+variable_flags|")
    );
    assert!(world.run("COMMAND INFO none").ends_with("|_|"));
}

#[test]
fn key_extraction() {
    check(&[
        ("COMMAND GETKEYS GET a", "*1|$1|a|"),
        ("COMMAND GETKEYS MSET a 1 b 2", "*2|$1|a|$1|b|"),
        ("COMMAND GETKEYS DEL a b c", "*3|$1|a|$1|b|$1|c|"),
        ("COMMAND GETKEYS EVAL x 2 a b c", "*2|$1|a|$1|b|"),
        ("COMMAND GETKEYS EVAL x 0 a", "*0|"),
        ("COMMAND GETKEYS EVAL x 2 a", "*0|"),
        ("COMMAND GETKEYS EVAL x -1 a", "*0|"),
        ("COMMAND GETKEYS OBJECT ENCODING k", "*1|$1|k|"),
        ("COMMAND GETKEYS RENAME a b", "*2|$1|a|$1|b|"),
        ("COMMAND GETKEYS RL.TAKE a FIXED 1 1", "*1|$1|a|"),
        ("COMMAND GETKEYS foo bar", "-ERR Invalid command specified|"),
        (
            "COMMAND GETKEYS ping x y",
            "-ERR The command has no key arguments|",
        ),
        (
            "COMMAND GETKEYS get a b",
            "-ERR Invalid number of arguments specified for command|",
        ),
        (
            "COMMAND GETKEYSANDFLAGS RENAME a b",
            "*2|*2|$1|a|*3|+RW|+access|+delete|*2|$1|b|*2|+OW|+update|",
        ),
        (
            "COMMAND GETKEYSANDFLAGS SET a b",
            "*1|*2|$1|a|*2|+OW|+update|",
        ),
        (
            "COMMAND GETKEYSANDFLAGS SET a b GET",
            "*1|*2|$1|a|*3|+RW|+access|+update|",
        ),
    ]);
}

#[test]
fn lists() {
    check(&[
        ("COMMAND LIST FILTERBY PATTERN getd*", "*1|$6|getdel|"),
        (
            "COMMAND LIST FILTERBY ACLCAT ratelimit",
            "*18|$11|cl.throttle|$4|gcra|$10|rl.acquire|$6|rl.ban|$9|rl.cancel|$9|rl.commit|$10|rl.inspect|\
             $8|rl.lease|$8|rl.mtake|$9|rl.refund|$10|rl.release|$10|rl.reserve|$8|rl.reset|$7|rl.take|\
             $11|rl.throttle|$6|rl.top|$8|rl.unban|$8|throttle|",
        ),
        ("COMMAND LIST FILTERBY ACLCAT foo", "*0|"),
        ("COMMAND LIST FILTERBY MODULE foo", "*0|"),
        ("COMMAND LIST FILTERBY", "-ERR syntax error|"),
        ("COMMAND LIST FILTERBY ACLCAT", "-ERR syntax error|"),
        ("COMMAND LIST FOO BAR BAZ", "-ERR syntax error|"),
        (
            "COMMAND FOO",
            "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.|",
        ),
        ("COMMAND DOCS nosuch", "*0|"),
    ]);
    let mut world = World::new(1);
    let count = world.run("COMMAND COUNT").replace([':', '|'], "");
    assert!(world.run("COMMAND").starts_with(&format!("*{count}|")));
    assert!(world.run("COMMAND INFO").starts_with(&format!("*{count}|")));
    world.protocol = Protocol::Resp3;
    assert!(world.run("COMMAND DOCS").starts_with(&format!("%{count}|")));
}

#[test]
fn docs_show_arguments_as_trees() {
    let mut world = World::new(1);
    world.protocol = Protocol::Resp3;
    let docs = world.run("COMMAND DOCS rl.take");
    let cost = "%4|$4|name|$4|cost|$4|type|$7|integer|$5|token|$4|COST|$5|flags|~1|+optional|";
    assert!(docs.contains(cost), "{docs}");
    assert!(
        docs.contains("%3|$4|name|$3|key|$4|type|$3|key|$14|key_spec_index|:0|"),
        "{docs}"
    );
    let radius = world.run("COMMAND DOCS georadius");
    let choice =
        "|$4|type|$5|oneof|$9|arguments|*4|%3|$4|name|$1|m|$4|type|$10|pure-token|$5|token|$1|M|";
    assert!(radius.contains(choice), "{radius}");
    let renamed = world.run("COMMAND DOCS rename");
    assert!(
        renamed.contains("$6|newkey|$4|type|$3|key|$14|key_spec_index|:1|"),
        "{renamed}"
    );
}

#[test]
fn small_answers() {
    let mut world = World::new(1);
    check_on(
        &mut world,
        &[
            ("PING", "+PONG|"),
            ("PING hi", "$2|hi|"),
            (
                "PING a b",
                "-ERR wrong number of arguments for 'ping' command|",
            ),
            ("ECHO hi", "$2|hi|"),
            ("TIME", "*2|$10|1767225600|$1|0|"),
        ],
    );
    world.advance_ms(1);
    assert_eq!(world.run("TIME"), "*2|$10|1767225600|$4|1000|");
    for container in ["CLIENT", "CONFIG", "OBJECT", "COMMAND", "SCRIPT"] {
        let help = world.run(&format!("{container} HELP"));
        assert!(
            help.contains(&format!("+{container} <subcommand>")),
            "{help}"
        );
        assert!(help.ends_with("|+HELP|+    Prints this help.|"), "{help}");
    }
}
