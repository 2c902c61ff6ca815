//! Scripts that take too much, and what the engine counts.

use std::sync::mpsc;
use std::thread;

use tollgate_testkit::PATIENCE;
use tollgate_wire::resp::Value;

use super::{Client, NOW, engine};

fn error(value: Value) -> String {
    match value {
        Value::Error(line) => String::from_utf8_lossy(&line).into_owned(),
        other => panic!("not an error: {other:?}"),
    }
}

#[test]
fn an_endless_script_ends_when_the_server_stops() {
    for body in [
        "redis.log(redis.LOG_NOTICE, 'started') while true do end",
        "redis.log(redis.LOG_NOTICE, 'started') while true do pcall(function() while true do end end) end",
        "redis.call('set', 'x', 1) redis.log(redis.LOG_NOTICE, 'started') while true do end",
    ] {
        let engine = engine(16);
        let (tell, told) = mpsc::channel();
        engine.on_script_log(move |level, text| {
            assert_eq!((level, text), (2, &b"started"[..]));
            tell.send(()).expect("the test waits");
        });
        let mut client = Client::new(&engine);
        let script = thread::spawn(move || client.call(&["EVAL", body, "0"]));
        told.recv_timeout(PATIENCE).expect("the script starts");
        engine.stop_scripts();
        let text = error(script.join().expect("the script ends"));
        assert!(text.contains("Script ended by the server"), "{text}");
        let refused = error(Client::new(&engine).call(&["EVAL", "return 1", "0"]));
        assert_eq!(refused, "ERR The server is shutting down");
    }
}

#[test]
fn an_endless_script_ends_by_itself_and_frees_its_keys() {
    let engine = engine(16);
    engine.set_script_time_limit(100);
    let body = "redis.call('get', KEYS[1]) while true do end";
    let text = error(Client::new(&engine).call(&["EVAL", body, "1", "k"]));
    assert!(text.contains("Script ended by the server"), "{text}");
    assert_eq!(Client::new(&engine).int(&["INCR", "k"]), 1);
}

#[test]
fn a_script_that_fills_the_memory_fails_and_the_next_one_runs() {
    let mut client = Client::new(&engine(16));
    let text = error(client.call(&[
        "EVAL",
        "local t = {} while true do t[#t + 1] = string.rep('x', 1000000) .. #t end",
        "0",
    ]));
    assert!(text.contains("not enough memory"), "{text}");
    for _ in 0..3 {
        assert_eq!(
            client.int(&["EVAL", "return #string.rep('x', 1000000)", "0"]),
            1_000_000
        );
    }
    // Caught by the script itself.
    assert_eq!(
        client.call(&["EVAL", "return pcall(string.rep, 'x', 1e9)", "0"]),
        Value::Null
    );
    assert_eq!(client.int(&["EVAL", "return 1", "0"]), 1);
}

#[test]
fn nesting_without_end_is_answered() {
    let mut client = Client::new(&engine(16));
    client.bytes(&["EVAL", "local t = {} t[1] = t return t", "0"]);
    client.bytes(&[
        "EVAL",
        "return string.rep('x', 100):gsub('x', function() error({}) end)",
        "0",
    ]);
    error(client.call(&[
        "EVAL",
        "cjson.decode_max_depth(100000) return cjson.decode(string.rep('[', 90000))",
        "0",
    ]));
    error(client.call(&["EVAL", "local t = {} for i = 1, 90000 do t = {t} end cjson.encode_max_depth(100000) return cjson.encode(t)", "0"]));
    error(client.call(&[
        "EVAL",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]",
        "0",
    ]));
    error(client.call(&[
        "EVAL",
        "local t = {} for i = 1, 60 do t = {t, t} end return cjson.encode(t)",
        "0",
    ]));
    assert_eq!(client.int(&["EVAL", "return 1", "0"]), 1);
}

#[test]
fn one_script_leaves_nothing_to_the_next() {
    let mut client = Client::new(&engine(16));
    for body in [
        "rawset(string, 'leak', 1)",
        "string.leak = 1",
        "getmetatable('').__index = nil",
        "getmetatable('').leak = 1",
        "local mt = getmetatable('') rawset(mt, 'leak', 1)",
        "_G.leak = 1",
        "rawset(_G, 'leak', 1)",
        "table.insert = nil",
        "setmetatable(_G, nil)",
        "setmetatable(redis, {__index = function() return 1 end})",
        "cjson.encode_number_precision(1)",
        "collectgarbage('stop')",
        "local f = load(function() return nil end) return f()",
        "cjson.null = 1",
    ] {
        client.bytes(&["EVAL", body, "0"]);
        let probe = "return {tostring(rawget(_G, 'leak')), tostring(string.leak), ('x'):upper(), \
            cjson.encode(1/3), tostring(cjson.null), type(table.insert), tostring(pcall(function() return leak end))}";
        let expected = [
            "nil",
            "nil",
            "X",
            "0.33333333333333",
            "userdata: (nil)",
            "function",
            "false",
        ];
        let Value::Array(found) = client.call(&["EVAL", probe, "0"]) else {
            panic!("not a list after {body}")
        };
        let found: Vec<_> = found
            .iter()
            .map(|value| match value {
                Value::Bulk(text) => {
                    String::from_utf8_lossy(text).replace("userdata: NULL", "userdata: (nil)")
                }
                other => panic!("{other:?} after {body}"),
            })
            .collect();
        assert_eq!(found, expected, "after {body}");
    }
}

#[test]
fn time_stands_still_in_a_script() {
    let mut client = Client::new(&engine(16));
    client.call(&["SET", "k", "v", "PX", "1"]);
    let body = "local a = redis.call('time') local x = 0 for i = 1, 1000 do x = x + i end local b = redis.call('time') \
        return {a[1] == b[1] and a[2] == b[2], redis.call('exists', 'k')}";
    assert_eq!(
        client.call(&["EVAL", body, "0"]),
        Value::Array(vec![Value::Int(1), Value::Int(1)])
    );
    client.now = NOW.plus(2_000_000);
    assert_eq!(
        client.int(&["EVAL", "return redis.call('exists', 'k')", "0"]),
        0
    );
}

#[test]
fn a_script_that_waits_by_the_time_comes_to_its_end() {
    let mut client = Client::new(&engine(16));
    client.call(&["SET", "k", "v", "PX", "1"]);
    let body = "local function now() local t = redis.call('time') return t[1] * 1000000 + t[2] end \
        local later = now() + 2000 while now() < later do end return redis.call('exists', 'k')";
    assert_eq!(client.int(&["EVAL", body, "0"]), 1);
}

#[test]
fn a_forgotten_script_is_forgotten_by_every_thread() {
    let engine = engine(16);
    let Value::Bulk(sha) = Client::new(&engine).call(&["SCRIPT", "LOAD", "return 7"]) else {
        panic!("no digest")
    };
    let sha = String::from_utf8(sha).expect("hexadecimal");
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel();
    let other = thread::spawn({
        let (engine, sha) = (engine.clone(), sha.clone());
        move || {
            let mut client = Client::new(&engine);
            for () in asked {
                answer
                    .send(client.call(&["EVALSHA", &sha, "0"]))
                    .expect("the test waits");
            }
        }
    });
    let from_other = || {
        ask.send(()).expect("the thread waits");
        answered.recv_timeout(PATIENCE).expect("an answer")
    };
    assert_eq!(from_other(), Value::Int(7));
    Client::new(&engine).call(&["SCRIPT", "FLUSH"]);
    assert_eq!(
        error(from_other()),
        "NOSCRIPT No matching script. Please use EVAL."
    );
    Client::new(&engine).call(&["EVAL", "return 7", "0"]);
    assert_eq!(from_other(), Value::Int(7));
    drop(ask);
    other.join().expect("the thread ends");
}

#[test]
fn commands_are_counted_whoever_calls_them() {
    let engine = engine(16);
    let mut client = Client::new(&engine);
    client.call(&["SET", "k", "1"]);
    client.call(&["GET", "k"]);
    client.call(&["GET", "nokey"]);
    client.call(&["GET"]);
    client.call(&["INCR", "k", "x"]);
    client.call(&["SET", "k", "v"]);
    client.call(&["INCR", "k"]);
    client.call(&["EVAL", "return redis.call('get', KEYS[1])", "1", "k"]);
    let stats = engine.stats();
    let of = |name: &str| {
        let found = stats
            .by_command
            .iter()
            .find(|command| command.row.name == name);
        found.map(|command| (command.calls, command.rejected, command.failed))
    };
    assert_eq!(of("GET"), Some((3, 1, 0)));
    assert_eq!(of("INCR"), Some((1, 1, 1)));
    assert_eq!(of("SET"), Some((2, 0, 0)));
    assert_eq!(of("EVAL"), Some((1, 0, 0)));
    assert_eq!(of("DEL"), None);
    assert_eq!((stats.commands, stats.errors, stats.changes), (7, 3, 2));
    assert_eq!((stats.hits, stats.misses), (2, 1));
    engine.reset_stats();
    let stats = engine.stats();
    assert_eq!(
        (
            stats.commands,
            stats.hits,
            stats.by_command.len(),
            stats.changes
        ),
        (0, 0, 0, 2)
    );
}

#[test]
fn a_script_that_sorts_by_other_keys_finds_them() {
    let mut client = Client::new(&engine(64));
    client.call(&["RPUSH", "list", "1", "2", "3", "4", "5", "6"]);
    for element in 1..=6 {
        client.call(&["SET", &format!("w_{element}"), &(10 - element).to_string()]);
    }
    for script in [
        "return redis.call('SORT', KEYS[1], 'BY', 'w_*', 'GET', '#', 'GET', 'w_*')",
        "return redis.call('SORT_RO', KEYS[1], 'BY', ARGV[1], 'GET', '#', 'GET', ARGV[1])",
        "return redis.call('SORT_RO', KEYS[1], unpack(ARGV))",
    ] {
        let reply = client.call(&["EVAL", script, "1", "list", "w_*", "GET", "w_*"]);
        assert!(
            matches!(&reply, Value::Array(all) if all.len() == 12)
                || matches!(&reply, Value::Error(_)),
            "{script}: {reply:?}"
        );
    }
    // Keys that are called like options.
    for n in 0..20 {
        let list = format!("list{n}");
        client.call(&["RPUSH", &list, "1"]);
        let words = ["SORT", &list, "STORE", "STORE", "GET", "#"];
        assert_eq!(client.int(&words), 1);
    }
    let script = "return redis.call('SORT', KEYS[1], 'BY', 'w_*', 'STORE', KEYS[1])";
    assert_eq!(client.int(&["EVAL", script, "1", "list"]), 6);
}

/// Long texts fill the states of threads, of which a new one is made where the old one keeps too much.
const LONG_TEXT: usize = 8 << 20;
/// More of them than a state keeps.
const MANY_TEXTS: usize = 20;

#[test]
fn a_script_runs_where_it_was_compiled_though_the_state_has_become_too_large() {
    let mut client = Client::new(&engine(16));
    let text = "x".repeat(LONG_TEXT);
    for number in 0..MANY_TEXTS {
        let body = format!("local text = '{number}{text}' return {number}");
        assert_eq!(client.int(&["EVAL", &body, "0"]), number as i64);
    }
}

#[test]
fn a_function_is_itself_though_the_state_it_was_compiled_in_has_become_too_large() {
    let mut client = Client::new(&engine(16));
    let text = "x".repeat(LONG_TEXT);
    for number in 0..MANY_TEXTS {
        let body = format!(
            "#!lua name=l{number}\nredis.register_function('f{number}', \
             function() local text = '{number}{text}' return {number} end)"
        );
        let name = format!("l{number}").into_bytes();
        assert_eq!(client.call(&["FUNCTION", "LOAD", &body]), Value::Bulk(name));
    }
    for number in 0..MANY_TEXTS {
        assert_eq!(
            client.int(&["FCALL", &format!("f{number}"), "0"]),
            number as i64
        );
    }
}
