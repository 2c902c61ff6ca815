//! Commands that take long, on a server of one thread: nobody waits for them who need not, and they can be ended.

use crate::harness::{Local, eventually, info, raw};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tollgate_testkit::{Client, PATIENCE};

const ENDLESS: &str = "redis.call('GET', KEYS[1]) while true do end";
const ENDLESS_WRITER: &str = "redis.call('SET', KEYS[1], 'x') while true do end";
const LIBRARY: &str =
    "#!lua name=l\nredis.register_function('forever', function() while true do end end)";

fn send(client: &mut Client, words: &[&str]) {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut bytes = Vec::new();
    tollgate_wire::resp::write_command(&mut bytes, &words);
    client.send(&bytes).unwrap();
}

fn frame(client: &mut Client) -> String {
    String::from_utf8_lossy(&client.frame().unwrap()).into_owned()
}

/// Starts a script on a connection of its own and waits until it is known to run.
fn start(server: &Local, client: &mut Client, script: &str) -> Client {
    let mut runner = server.connect();
    send(&mut runner, &["EVAL", script, "1", "held"]);
    eventually("the script runs", || {
        raw(client, "FUNCTION STATS").starts_with("-BUSY")
    });
    runner
}

/// Scripts may run for as long as the test does, however slow the machine, and hardly any key lies where the held one does.
const PATIENT: [(&str, &str); 4] = [
    ("threads", "1"),
    ("shards", "4096"),
    ("busy-reply-threshold", "0"),
    ("script-time-limit", "600000"),
];

/// A key that does not lie where the held one does: of a few, the first that is answered while a script holds that one.
fn elsewhere(server: &Local, client: &mut Client) -> String {
    let mut runner = start(server, client, ENDLESS);
    let (tell, told) = mpsc::channel();
    for number in 0..4 {
        let (mut other, tell) = (server.connect(), tell.clone());
        thread::spawn(move || {
            let key = format!("elsewhere{number}");
            raw(&mut other, &format!("EXISTS {key}"));
            tell.send(key).ok();
        });
    }
    let key = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(raw(client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    key
}

#[test]
fn others_are_served_while_a_script_runs() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let mut runner = start(&server, &mut client, ENDLESS);
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    // One of these keys may happen to lie where the held one does.
    let (tell, told) = mpsc::channel();
    for number in 0..4 {
        let (mut other, tell) = (server.connect(), tell.clone());
        thread::spawn(move || {
            tell.send(raw(&mut other, &format!("INCR other:{number}")))
                .ok()
        });
    }
    for _ in 0..2 {
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), ":1\r\n");
    }
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    let error = frame(&mut runner);
    assert!(error.starts_with("-ERR Script killed by user with SCRIPT KILL... script: "));
    assert!(error.ends_with(", on @user_script:1.\r\n"), "{error}");
    assert!(raw(&mut client, "SCRIPT KILL").starts_with("-NOTBUSY "));
}

#[test]
fn neither_housekeeping_nor_info_waits_for_a_script() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    assert_eq!(raw(&mut client, "SET held x PX 1000000"), "+OK\r\n");
    assert_eq!(
        info(&mut client, "used_memory_dataset"),
        info(&mut client, "used_memory_dataset")
    );
    let mut runner = start(&server, &mut client, ENDLESS);
    // Longer than from one round of what is due each second to the next.
    for _ in 0..25 {
        assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
        thread::sleep(Duration::from_millis(100));
    }
    // The held shard is told of as it was.
    let keyspace = info(&mut client, "db0");
    assert!(
        keyspace.starts_with("keys=1,expires=1,avg_ttl="),
        "{keyspace}"
    );
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    let keyspace = info(&mut client, "db0");
    let ttl = keyspace.rsplit('=').next().unwrap().parse::<i64>().unwrap();
    assert!((1..=1_000_000).contains(&ttl), "{ttl}");
}

#[test]
fn who_waits_for_a_held_key_or_watches_it_may_go() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let (mut watcher, mut waiter) = (server.connect(), server.connect());
    assert_eq!(raw(&mut watcher, "WATCH held"), "+OK\r\n");
    send(&mut waiter, &["BLPOP", "held", "5"]);
    eventually("it waits", || info(&mut client, "blocked_clients") == "1");
    let mut runner = start(&server, &mut client, ENDLESS);
    assert_eq!(raw(&mut watcher, "UNWATCH"), "+OK\r\n");
    assert_eq!(frame(&mut waiter), "*-1\r\n");
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    // Nothing of them is there any more.
    assert_eq!(raw(&mut client, "RPUSH held x"), ":1\r\n");
    assert_eq!(raw(&mut waiter, "LLEN held"), ":1\r\n");
}

#[test]
fn what_needs_a_held_key_runs_after_the_script_and_in_order() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let mut runner = start(&server, &mut client, ENDLESS);
    let mut waiters: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for waiter in &mut waiters {
        send(waiter, &["INCR", "held"]);
        send(waiter, &["PING"]);
        send(waiter, &["MGET", "held", "none"]);
        send(waiter, &["DBSIZE"]);
    }
    send(&mut runner, &["PING"]);
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    assert_eq!(frame(&mut runner), "+PONG\r\n");
    let mut counts = Vec::new();
    for waiter in &mut waiters {
        counts.push(frame(waiter));
        assert_eq!(frame(waiter), "+PONG\r\n");
        assert!(frame(waiter).starts_with("*2\r\n$1\r\n"));
        assert_eq!(frame(waiter), ":1\r\n");
    }
    counts.sort();
    assert_eq!(counts, [":1\r\n", ":2\r\n", ":3\r\n"]);
}

#[test]
fn a_script_that_has_written_is_ended_by_its_time_alone() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let mut runner = start(&server, &mut client, ENDLESS_WRITER);
    // It is known to run before it has written; this ends no script.
    eventually("it has written", || {
        raw(&mut client, "FUNCTION KILL").starts_with("-UNKILLABLE ")
    });
    assert!(raw(&mut client, "SCRIPT KILL").starts_with("-UNKILLABLE "));
    let mut waiter = server.connect();
    send(&mut waiter, &["GET", "held"]);
    assert_eq!(
        raw(&mut client, "CONFIG SET script-time-limit 1"),
        "+OK\r\n"
    );
    assert!(frame(&mut runner).contains("Script ended by the server"));
    assert_eq!(frame(&mut waiter), "$1\r\nx\r\n");
}

#[test]
fn the_server_is_busy_beyond_the_threshold() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    send(&mut client, &["FUNCTION", "LOAD", LIBRARY]);
    assert_eq!(frame(&mut client), "$1\r\nl\r\n");
    assert_eq!(raw(&mut client, "CONFIG SET lua-time-limit 1"), "+OK\r\n");
    let busy = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n";
    let mut runner = server.connect();
    send(&mut runner, &["FCALL", "forever", "1", "held"]);
    // Put off at first or refused at once, it is not to wait for the end.
    let mut waiter = server.connect();
    send(&mut waiter, &["GET", "held"]);
    eventually("the server is busy", || raw(&mut client, "PING") == busy);
    assert!(["$-1\r\n", busy].contains(&frame(&mut waiter).as_str()));
    for command in [
        "GET none",
        "INFO",
        "EVAL return 0",
        "FCALL forever 0",
        "SHUTDOWN",
    ] {
        let reply = raw(&mut client, command);
        assert!(reply == busy || reply.contains("wrong number"), "{reply}");
    }
    let stats = raw(&mut client, "FUNCTION STATS");
    assert!(
        stats.contains("forever") && stats.contains("FCALL"),
        "{stats}"
    );
    assert_eq!(raw(&mut client, "SCRIPT KILL"), busy);
    assert_eq!(raw(&mut client, "FUNCTION KILL"), "+OK\r\n");
    assert!(frame(&mut runner).contains(
        "Script killed by user with SCRIPT KILL... script: forever, on @user_function:2."
    ));
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
}

/// What waits elsewhere for the script is refused like all others.
#[test]
fn who_looks_at_all_keys_does_not_wait_beyond_the_threshold() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let mut runner = start(&server, &mut client, ENDLESS);
    let commands = [
        "DBSIZE",
        "FLUSHALL",
        "FLUSHDB",
        "KEYS *",
        "RANDOMKEY",
        "SCAN 0",
        "SWAPDB 0 1",
    ];
    let mut waiters = commands.map(|command| {
        let mut waiter = server.connect();
        waiter.send(format!("{command}\r\n").as_bytes()).unwrap();
        let name = command.split(' ').next().unwrap().to_ascii_lowercase();
        eventually(command, || {
            raw(&mut client, "CLIENT LIST").contains(&format!(" cmd={name} "))
        });
        waiter
    });
    assert_eq!(
        raw(&mut client, "CONFIG SET busy-reply-threshold 1"),
        "+OK\r\n"
    );
    for (command, waiter) in commands.iter().zip(&mut waiters) {
        let reply = frame(waiter);
        assert!(reply.starts_with("-BUSY "), "{command}: {reply}");
    }
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    for (command, waiter) in commands.iter().zip(&mut waiters) {
        let reply = raw(waiter, command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

#[test]
fn a_client_that_leaves_does_not_take_the_script_along() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    drop(start(&server, &mut client, ENDLESS));
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    eventually("the script has ended", || {
        raw(&mut client, "SCRIPT KILL").starts_with("-NOTBUSY")
    });
}

#[test]
fn a_server_ends_while_a_script_runs() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let runner = start(&server, &mut client, ENDLESS_WRITER);
    drop(server);
    drop(runner);
}

/// Scripts that hardly come to an instruction of Lua: what they call is at work all the time.
const ENDLESS_CALLS: &[&str] = &[
    "local s = ('a'):rep(30000) redis.call('GET', KEYS[1]) return s:find(('a*'):rep(30) .. 'b')",
    "local s = ('a'):rep(30000) return s:match(('.-'):rep(30) .. 'b')",
    "local s = ('a'):rep(30000) for a in s:gmatch(('a?a+'):rep(20) .. 'b') do end",
    "local s = ('ab'):rep(30000) return s:gsub(('[^%d]*'):rep(20) .. '%d', '')",
    "local s = ('a'):rep(30000) while true do pcall(string.find, s, ('a*'):rep(30) .. 'b') end",
    "local s = ('x'):rep(20000000) while true do local t = s .. 'y' end",
    "local s = ('x'):rep(10000000) while true do s:upper() end",
    "local t = {} for i = 1, 300000 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
    "local t = {} for i = 1, 300000 do t[i] = '' end while true do table.concat(t) end",
    "local s, t = ('x'):rep(1000000), {} for i = 1, 100000 do t[i] = s end table.sort(t)",
    "local t = {} for i = 1, 200000 do t[i] = {} end while true do collectgarbage() end",
    "local t = {} for i = 1, 60 do t = {t, t} end return t",
];

#[test]
fn a_script_is_ended_in_the_midst_of_what_it_calls() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    for script in ENDLESS_CALLS {
        let mut runner = start(&server, &mut client, script);
        assert_eq!(raw(&mut client, "PING"), "+PONG\r\n", "{script}");
        assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n", "{script}");
        let error = frame(&mut runner);
        assert!(error.starts_with("-ERR "), "{script}: {error}");
        let is_told = error.starts_with("-ERR Script killed by user with SCRIPT KILL... script: ");
        assert!(is_told || script.ends_with("return t"), "{script}: {error}");
    }
    assert_eq!(
        raw(&mut client, "CONFIG SET script-time-limit 1"),
        "+OK\r\n"
    );
    for script in ENDLESS_CALLS {
        let mut runner = server.connect();
        send(&mut runner, &["EVAL", script, "1", "held"]);
        let error = frame(&mut runner);
        assert!(
            error.starts_with("-ERR ") && error.len() < 1_000,
            "{script}: {error}"
        );
    }
}

#[test]
fn the_server_is_busy_with_a_pattern_as_with_a_loop() {
    const LIBRARY: &str = "#!lua name=l\nredis.register_function('forever', function(keys) \
                           local at = string.find(('a'):rep(30000), ('a*'):rep(30) .. 'b') end)";
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    send(&mut client, &["FUNCTION", "LOAD", LIBRARY]);
    assert_eq!(frame(&mut client), "$1\r\nl\r\n");
    assert_eq!(
        raw(&mut client, "CONFIG SET busy-reply-threshold 1"),
        "+OK\r\n"
    );
    let mut runner = server.connect();
    send(&mut runner, &["FCALL", "forever", "1", "held"]);
    eventually("the server is busy", || {
        raw(&mut client, "PING").starts_with("-BUSY ")
    });
    assert!(raw(&mut client, "GET other").starts_with("-BUSY "));
    assert_eq!(raw(&mut client, "FUNCTION KILL"), "+OK\r\n");
    let error = frame(&mut runner);
    assert!(
        error.contains("SCRIPT KILL... script: forever, on @user_function:2."),
        "{error}"
    );
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    // One that has written is ended with the server alone.
    let writer = format!("redis.call('SET', KEYS[1], 'x') {}", ENDLESS_CALLS[1]);
    send(&mut runner, &["EVAL", &writer, "1", "held"]);
    eventually("the server is busy", || {
        raw(&mut client, "PING").starts_with("-BUSY ")
    });
    assert!(raw(&mut client, "SCRIPT KILL").starts_with("-UNKILLABLE "));
    drop(server);
    drop(runner);
}

#[test]
fn a_server_ends_while_a_pattern_is_matched() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let writer = format!("redis.call('SET', KEYS[1], 'x') {}", ENDLESS_CALLS[0]);
    let runner = start(&server, &mut client, &writer);
    drop(server);
    drop(runner);
}

/// Sends a command that takes long, and others on a second connection meanwhile: they are not to wait for it. One that is
/// over too soon to tell is sent again.
fn overtaken(server: &Local, other: &str, words: &[&str]) {
    const TURNS: usize = 3;
    let (mut slow, mut quick) = (server.connect(), server.connect());
    eventually(&format!("{} is overtaken", words[0]), || {
        send(&mut slow, words);
        // A thread that had begun the long command could serve at most the first of them before its reply.
        for _ in 0..TURNS {
            assert_eq!(raw(&mut quick, &format!("GET {other}")), "$1\r\nx\r\n");
        }
        slow.stream().set_nonblocking(true).unwrap();
        let is_there = slow.stream().peek(&mut [0]);
        slow.stream().set_nonblocking(false).unwrap();
        frame(&mut slow);
        is_there.is_err()
    });
}

#[test]
fn large_values_do_not_hold_up_others() {
    const MANY: usize = 30_000;
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let other = &elsewhere(&server, &mut client);
    // Keys that share a shard with those of the long commands would have to wait.
    let fill = |client: &mut Client, command: &str, each: &dyn Fn(usize) -> String| {
        for start in (0..MANY).step_by(5_000) {
            let values: Vec<String> = (start..start + 5_000).map(each).collect();
            let reply = raw(client, &format!("{command} {}", values.join(" ")));
            assert!(!reply.starts_with('-'), "{reply}");
        }
    };
    fill(&mut client, "RPUSH {held}list", &|n| {
        (n * 7_919 % MANY).to_string()
    });
    fill(&mut client, "SADD {held}set", &|n| format!("m{n}"));
    fill(&mut client, "ZADD {held}zset", &|n| format!("{n} m{n}"));
    fill(&mut client, "MSET", &|n| format!("k{n} v"));
    raw(
        &mut client,
        &format!("MSET {{held}}a {0} {{held}}b {0}", "ab".repeat(2_000)),
    );
    assert_eq!(raw(&mut client, &format!("SET {other} x")), "+OK\r\n");
    overtaken(&server, other, &["SORT", "{held}list", "ALPHA"]);
    overtaken(
        &server,
        other,
        &["SORT", "{held}list", "STORE", "{held}sorted"],
    );
    overtaken(
        &server,
        other,
        &["SUNIONSTORE", "{held}all", "{held}set", "{held}none"],
    );
    overtaken(
        &server,
        other,
        &["ZUNIONSTORE", "{held}both", "2", "{held}zset", "{held}set"],
    );
    overtaken(&server, other, &["LCS", "{held}a", "{held}b", "LEN"]);
    overtaken(&server, other, &["DUMP", "{held}zset"]);
    overtaken(
        &server,
        other,
        &["COPY", "{held}zset", "{held}copy", "REPLACE"],
    );
    overtaken(
        &server,
        other,
        &[
            "EVAL",
            "for i = 1, 1000000 do KEYS[1] = KEYS[1] end return redis.call('GET', '{held}a')",
            "1",
            "{held}a",
        ],
    );
}

#[test]
fn a_transaction_with_an_endless_script_holds_up_nobody_else() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    for _ in 0..2 {
        let mut runner = server.connect();
        assert_eq!(raw(&mut runner, "MULTI"), "+OK\r\n");
        send(&mut runner, &["EVAL", ENDLESS, "1", "held"]);
        assert_eq!(frame(&mut runner), "+QUEUED\r\n");
        assert_eq!(raw(&mut runner, "ECHO after"), "+QUEUED\r\n");
        send(&mut runner, &["EXEC"]);
        send(&mut runner, &["PING"]);
        eventually("the script runs", || {
            raw(&mut client, "FUNCTION STATS").starts_with("-BUSY")
        });
        assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
        assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
        let reply = frame(&mut runner);
        assert!(reply.starts_with("*2\r\n-ERR Script killed"), "{reply}");
        assert!(reply.ends_with("$5\r\nafter\r\n"), "{reply}");
        assert_eq!(frame(&mut runner), "+PONG\r\n");
        assert_eq!(raw(&mut runner, "EXEC"), "-ERR EXEC without MULTI\r\n");
    }
}

#[test]
fn a_client_that_leaves_its_running_transaction_leaves_nothing_behind() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let mut runner = server.connect();
    assert_eq!(raw(&mut runner, "WATCH held watched"), "+OK\r\n");
    assert_eq!(raw(&mut runner, "MULTI"), "+OK\r\n");
    send(&mut runner, &["EVAL", ENDLESS, "1", "held"]);
    send(&mut runner, &["EXEC"]);
    eventually("the script runs", || {
        raw(&mut client, "FUNCTION STATS").starts_with("-BUSY")
    });
    drop(runner);
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert_eq!(raw(&mut client, "SET held x"), "+OK\r\n");
}

#[test]
fn what_was_sent_before_the_end_is_run_though_it_has_to_wait() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let fill = "for i = 1, 20000 do redis.call('RPUSH', KEYS[1], i) end";
    send(&mut client, &["EVAL", fill, "1", "list"]);
    assert_eq!(frame(&mut client), "$-1\r\n");
    // One is run by a worker, the other waits for a key that another one's command holds.
    let mut runner = start(&server, &mut client, ENDLESS);
    let mut ending = [
        (
            "SORT list STORE sorted\r\nSET after 1\r\n",
            ":20000\r\n+OK\r\n",
        ),
        ("INCR held\r\nSET behind 1\r\n", ":1\r\n+OK\r\n"),
    ]
    .map(|(sent, answer)| {
        let mut socket = TcpStream::connect(server.addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(sent.as_bytes()).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        (socket, answer)
    });
    // Their ends have come when this is answered: they came before.
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    for (socket, answer) in &mut ending {
        let mut all = String::new();
        socket.read_to_string(&mut all).unwrap();
        assert_eq!(all, *answer);
    }
}

/// Everything that has to do with a held key and is not a command that needs it.
#[test]
fn nobody_waits_for_a_held_key_who_need_not() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let other = elsewhere(&server, &mut client);
    let (list, source) = (format!("{{{other}}}list"), format!("{{{other}}}source"));
    assert_eq!(raw(&mut client, &format!("RPUSH {list} 1 2")), ":2\r\n");
    let policy = "CONFIG SET maxmemory-policy allkeys-lru";
    assert_eq!(raw(&mut client, policy), "+OK\r\n");
    let connect = |commands: &[&str]| {
        let mut other = server.connect();
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            send(&mut other, &words);
            if !command.starts_with("BL") {
                assert!(!frame(&mut other).starts_with('-'), "{command}");
            }
        }
        other
    };
    let mut watchers: Vec<Client> = (0..4).map(|_| connect(&["WATCH held"])).collect();
    assert_eq!(raw(&mut watchers[0], "MULTI"), "+OK\r\n");
    let mut blocked: Vec<Client> = (0..3).map(|_| connect(&[])).collect();
    let ids: Vec<String> = blocked
        .iter_mut()
        .map(|one| raw(one, "CLIENT ID").replace([':', '\r', '\n'], ""))
        .collect();
    for one in &mut blocked {
        send(one, &["BLPOP", "held", "0"]);
    }
    let mut timed = connect(&["BLPOP held 0.001"]);
    let mut either = connect(&[&format!("BLPOP {other} held 0")]);
    let mut mover = connect(&[&format!("BLMOVE {source} held LEFT RIGHT 0")]);
    let mut tracker = connect(&["HELLO 3", "CLIENT TRACKING ON"]);
    let mut beginner = connect(&["HELLO 3"]);
    let mut queued = connect(&["MULTI", "CLIENT TRACKING ON", "SELECT 0"]);
    assert_eq!(frame(&mut timed), "*-1\r\n");
    eventually("all wait", || info(&mut client, "blocked_clients") == "5");

    let mut runner = start(&server, &mut client, ENDLESS);
    assert_eq!(raw(&mut watchers[0], "DISCARD"), "+OK\r\n");
    assert_eq!(raw(&mut watchers[1], "UNWATCH"), "+OK\r\n");
    assert_eq!(raw(&mut watchers[2], "RESET"), "+RESET\r\n");
    drop(watchers);
    assert_eq!(
        raw(&mut client, &format!("CLIENT UNBLOCK {}", ids[0])),
        ":1\r\n"
    );
    assert_eq!(frame(&mut blocked[0]), "*-1\r\n");
    assert_eq!(
        raw(&mut client, &format!("CLIENT KILL ID {}", ids[1])),
        ":1\r\n"
    );
    drop(blocked);
    assert_eq!(raw(&mut client, &format!("RPUSH {other} x")), ":1\r\n");
    assert!(frame(&mut either).starts_with("*2\r\n"));
    // What is moved to a held key stays for the time being.
    assert_eq!(raw(&mut client, &format!("RPUSH {source} x")), ":1\r\n");
    assert_eq!(raw(&mut tracker, "CLIENT TRACKING OFF"), "+OK\r\n");
    assert_eq!(raw(&mut beginner, "CLIENT TRACKING ON"), "+OK\r\n");
    assert!(raw(&mut queued, "EXEC").starts_with("*2\r\n"));
    drop(queued);
    for command in [
        "CONFIG SET notify-keyspace-events KEA",
        "CONFIG SET maxmemory 1000000000",
        "CONFIG SET maxmemory-policy allkeys-lfu",
        "CONFIG SET maxmemory 0",
    ] {
        assert_eq!(raw(&mut client, command), "+OK\r\n", "{command}");
    }
    // These may come to need it: they run where nobody waits for them.
    let mut hidden: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let undeclared = "return redis.call('EXISTS', ARGV[1])";
    send(&mut hidden[0], &["EVAL", undeclared, "0", "held"]);
    send(&mut hidden[1], &["SORT", &list, "BY", "*d", "GET", "hel*"]);
    for words in [&["MULTI"][..], &["EVAL", undeclared, "0", "held"]] {
        send(&mut hidden[2], words);
        assert!(frame(&mut hidden[2]).starts_with('+'));
    }
    send(&mut hidden[2], &["EXEC"]);
    for words in [
        &["MULTI"][..],
        &["SELECT", "0"],
        &["EVAL", undeclared, "0", "held"],
    ] {
        send(&mut hidden[3], words);
        assert!(frame(&mut hidden[3]).starts_with('+'));
    }
    send(&mut hidden[3], &["EXEC"]);
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");

    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    assert_eq!(frame(&mut mover), "$1\r\nx\r\n");
    assert!(frame(&mut hidden[0]).starts_with(':'));
    assert!(frame(&mut hidden[1]).starts_with("*2\r\n"));
    assert!(frame(&mut hidden[2]).starts_with("*1\r\n:"));
    assert!(frame(&mut hidden[3]).starts_with("*2\r\n+OK\r\n:"));
    // Who has begun to track meanwhile is told of what expires there.
    let mut keys = (0..).map(|number| format!("{{held}}{number}"));
    let key = keys.find(|key| {
        raw(&mut client, &format!("SET {key} x PX 100"));
        raw(&mut beginner, &format!("GET {key}")) == "$1\r\nx\r\n"
    });
    let key = key.unwrap();
    eventually("it expires", || {
        raw(&mut client, &format!("GET {key}")) == "$-1\r\n"
    });
    let told = format!(
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n",
        key.len()
    );
    eventually("it is told", || frame(&mut beginner) == told);
    // Nobody watches any more, nor waits.
    assert_eq!(raw(&mut client, "DEL held"), ":1\r\n");
    assert_eq!(raw(&mut client, "RPUSH held x"), ":1\r\n");
    eventually("nobody waits", || {
        info(&mut client, "blocked_clients") == "0"
    });
}

#[test]
fn memory_is_made_beside_a_held_key() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let other = elsewhere(&server, &mut client);
    let mut runner = start(&server, &mut client, ENDLESS);
    let mut limited = server.connect();
    assert_eq!(raw(&mut client, "CONFIG SET maxmemory 1"), "+OK\r\n");
    send(&mut limited, &["CL.THROTTLE", "held", "10", "10", "10"]);
    assert!(raw(&mut client, &format!("SET {{{other}}}key x")).starts_with("-OOM "));
    assert_eq!(
        raw(&mut client, "CONFIG SET maxmemory-policy allkeys-lru"),
        "+OK\r\n"
    );
    for number in 0..4 {
        let reply = raw(&mut client, &format!("SET {{{other}}}{number} x"));
        assert!(reply == "+OK\r\n" || reply.starts_with("-OOM "), "{reply}");
    }
    assert_eq!(raw(&mut client, "CONFIG SET maxmemory 0"), "+OK\r\n");
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    assert!(frame(&mut limited).starts_with("*5\r\n:0\r\n"));
}

#[test]
fn the_house_is_kept_while_a_script_runs() {
    let server = Local::start(&[PATIENT.as_slice(), &[("save", "1 1")]].concat());
    let mut client = server.connect();
    assert_eq!(raw(&mut client, "SET other x"), "+OK\r\n");
    let mut runner = start(&server, &mut client, ENDLESS);
    // What is due once a second comes several times.
    for _ in 0..25 {
        assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
}

#[test]
fn what_runs_elsewhere_leaves_what_the_client_shows_of_itself() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    for command in [
        "CLIENT SETNAME me",
        "CLIENT SETINFO LIB-NAME lib",
        "CLIENT SETINFO LIB-VER 1",
        "CLIENT NO-EVICT ON",
    ] {
        assert_eq!(raw(&mut client, command), "+OK\r\n");
    }
    send(
        &mut client,
        &["EVAL", "for i = 1, 2 do redis.call('INFO') end", "0"],
    );
    assert_eq!(frame(&mut client), "$-1\r\n");
    let list = raw(&mut server.connect(), "CLIENT LIST");
    assert!(
        list.contains(" name=me ") && list.contains(" flags=e "),
        "{list}"
    );
    assert!(list.contains(" lib-name=lib lib-ver=1"), "{list}");
}

#[test]
fn who_changes_functions_waits_for_no_snapshot_that_waits_for_a_script() {
    let server = Local::start(&PATIENT);
    let mut client = server.connect();
    let mut runner = start(&server, &mut client, ENDLESS);
    // Both begin with all shards held.
    assert_eq!(raw(&mut client, "CONFIG SET appendonly yes"), "+OK\r\n");
    let mut replica = server.connect();
    send(&mut replica, &["SYNC"]);
    let mut other = server.connect();
    for _ in 0..10 {
        send(&mut other, &["FUNCTION", "FLUSH"]);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
    }
    assert_eq!(raw(&mut client, "SCRIPT KILL"), "+OK\r\n");
    assert!(frame(&mut runner).starts_with("-ERR Script killed"));
    for _ in 0..10 {
        assert_eq!(frame(&mut other), "+OK\r\n");
    }
}
