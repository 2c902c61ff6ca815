//! The binary: what it prints, how it ends.

mod replay;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tollgate_testkit::process::{free_port, temp_dir, temp_root, tollgate_binary};
use tollgate_testkit::{Client, PATIENCE, Server, eventually, peers};
use tollgate_wire::resp::Value;

fn run(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(tollgate_binary().unwrap());
    let mut child = command
        .args(args)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A server that takes what it should refuse would run for ever.
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("still running: {args:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Starts the binary and reads the line that says what listens where.
fn start(args: &[&str]) -> (Child, String) {
    let mut command = Command::new(tollgate_binary().unwrap());
    let mut child = command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    if line.is_empty() {
        let mut error = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut error)
            .unwrap();
        panic!("not started: {error}");
    }
    (child, line)
}

fn port_of(line: &str) -> u16 {
    let address = line
        .split("redis ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    address.rsplit(':').next().unwrap().parse().unwrap()
}

fn wait(mut child: Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the process did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(pid: u32, name: &str) {
    let mut kill = Command::new("kill");
    let sent = kill.args([format!("-{name}"), pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

fn terminate(child: &Child) {
    signal(child.id(), "TERM");
}

#[test]
fn one_line_says_what_listens_where_and_sigterm_ends_it_with_success() {
    let (child, line) = start(&["serve", "--port", "0", "--threads", "2"]);
    assert!(
        line.starts_with("tollgate 0.1.0 ready: redis 127.0.0.1:")
            && line.ends_with(" (2 threads)\n"),
        "{line}"
    );
    let mut client = Client::connect(([127, 0, 0, 1], port_of(&line)).into()).unwrap();
    assert_eq!(client.line("PING").unwrap().as_bytes(), Some(&b"PONG"[..]));
    // What was sent before the signal is answered.
    client.send("PING\r\n".repeat(1_000).as_bytes()).unwrap();
    terminate(&child);
    assert_eq!(
        client.until_closed().unwrap().len(),
        1_000 * "+PONG\r\n".len()
    );
    assert_eq!(wait(child), Some(0));
}

/// Tools that start a redis-server read its standard output until it says so. Some look for the sign of the level, too, as
/// redigo's tests do for ` * Ready to accept connections`.
#[test]
fn standard_output_says_in_words_of_redis_that_the_server_is_ready() {
    let socket = temp_root().join(format!("tollgate-{}.sock", std::process::id()));
    let mut command = Command::new(tollgate_binary().unwrap());
    let mut child = command
        .args(["serve", "--port", "0", "--unixsocket"])
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = out.lines().map(Result::unwrap).skip(1);
    let at = format!(
        " * The server is now ready to accept connections at {}",
        socket.display()
    );
    let start = format!("{}:M ", child.id());
    for end in [&at, " * Ready to accept connections"] {
        let line = lines.next().unwrap();
        assert!(line.starts_with(&start) && line.ends_with(end), "{line}");
    }
    terminate(&child);
    assert_eq!(lines.next(), None);
    assert_eq!(wait(child), Some(0));
}

/// Every setting of a server, in its order.
fn all_settings(client: &mut Client) -> Vec<(String, String)> {
    let reply = client.line("CONFIG GET *").unwrap();
    let text = |value: &Value| String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned();
    let words: Vec<String> = reply.as_array().unwrap().iter().map(text).collect();
    words
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

#[test]
fn a_configuration_of_redis_is_taken_whole() {
    let test = "a_configuration_of_redis_is_taken_whole";
    let Some(redis) = Server::redis(&["--save", "3600 1 300 100"]).unwrap() else {
        return peers::skip(test, "redis-server");
    };
    // Those of this very process and machine.
    let own = ["port", "dir", "bind", "pidfile", "proc-title-template"];
    let mut theirs = all_settings(&mut redis.connect().unwrap());
    theirs.retain(|(name, _)| !own.contains(&name.as_str()));
    let dir = temp_dir().unwrap();
    let lines: String = theirs
        .iter()
        .map(|(name, value)| format!("{name} \"{value}\"\n"))
        .collect();
    let file = dir.join("redis.conf");
    // The addresses are those of the redis.conf of Redis 6.2 and later, and one that no machine has.
    let own = format!(
        "port 0\ndir {}\nbind 127.0.0.1 -::1 -192.0.2.1\n",
        dir.display()
    );
    fs::write(&file, lines + &own).unwrap();
    let (child, line) = start(&["serve", file.to_str().unwrap()]);
    let mut client = Client::connect(([127, 0, 0, 1], port_of(&line)).into()).unwrap();
    let ours = all_settings(&mut client);
    for (name, value) in &theirs {
        let here = ours.iter().find(|(it, _)| it == name);
        assert_eq!(here.map(|(_, value)| value), Some(value), "{name}");
    }
    let bind = ("bind".to_owned(), "127.0.0.1 -::1 -192.0.2.1".to_owned());
    assert!(ours.contains(&bind));
    terminate(&child);
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let absent = "# Warning: cannot listen on 192.0.2.1:";
    assert!(log.contains(absent), "{log}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_killed_server_leaves_its_address_free_at_once() {
    // One that the system gave could be another test's as soon as it is free.
    let port = free_port().unwrap();
    let start = || start(&["serve", "--port", &port.to_string()]).0;
    let mut child = start();
    for _ in 0..20 {
        let mut client = Client::connect(([127, 0, 0, 1], port).into()).unwrap();
        client.line("PING").unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        child = start();
    }
    terminate(&child);
    assert_eq!(wait(child), Some(0));
}

#[test]
fn shutdown_ends_the_process_without_a_reply() {
    let (child, line) = start(&["serve", "--port", "0"]);
    let mut client = Client::connect(([127, 0, 0, 1], port_of(&line)).into()).unwrap();
    client.send(b"SHUTDOWN NOSAVE\r\n").unwrap();
    assert_eq!(client.until_closed().unwrap(), b"");
    assert_eq!(wait(child), Some(0));
}

#[test]
fn users_stand_on_the_command_line_as_redis_server_takes_them() {
    let (child, line) = start(&[
        "serve", "--user", "bob", "on", "nopass", "~a*", "+get", "--port", "0", "--user", "eve off",
    ]);
    let mut client = Client::connect(([127, 0, 0, 1], port_of(&line)).into()).unwrap();
    client.send(b"ACL LIST\r\n").unwrap();
    let users = String::from_utf8(client.frame().unwrap()).unwrap();
    for user in [
        "user bob on nopass ~a* resetchannels -@all +get",
        "user eve off ",
    ] {
        assert!(users.contains(user), "{users}");
    }
    terminate(&child);
    assert_eq!(wait(child), Some(0));
}

/// The resident memory of a server in KiB. Asking the server itself would have its allocator at work, which then gives back.
fn resident(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
    size.unwrap().parse().unwrap()
}

/// Fills a server and empties it, has it do `then`, and waits until the memory is the system's again.
fn memory_is_given_back(then: &[&[&str]]) {
    let server = Server::tollgate(&["--threads", "2"]).unwrap();
    let mut client = server.connect().unwrap();
    let before = resident(&server);
    // Small enough that the allocator gives nothing back by itself.
    let value = "x".repeat(400);
    for start in (0..200_000).step_by(1_000) {
        let keys: Vec<String> = (start..start + 1_000).map(|n| format!("key:{n}")).collect();
        let words = keys.iter().flat_map(|key| [key.as_str(), &value]);
        let command: Vec<&str> = std::iter::once("MSET").chain(words).collect();
        client.call(&command).unwrap();
    }
    let filled = resident(&server) - before;
    client.call(&["FLUSHALL"]).unwrap();
    for command in then {
        client.call(command).unwrap();
    }
    eventually("it is given back", || {
        resident(&server).saturating_sub(before) < filled / 4
    });
}

#[test]
fn memory_purge_gives_back_what_flushall_has_freed() {
    memory_is_given_back(&[&["MEMORY", "PURGE"]]);
}

#[test]
fn much_free_memory_is_given_back_unasked() {
    memory_is_given_back(&[]);
}

/// Requests that come from many clients at once fill as many buffers.
#[test]
fn what_a_burst_has_taken_is_given_back_unasked() {
    const CLIENTS: usize = 400;
    const REQUESTS: usize = 10_000;
    let server = Server::tollgate(&["--threads", "1"]).unwrap();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect().unwrap()).collect();
    for client in &mut clients {
        client.line("PING").unwrap();
    }
    let before = resident(&server);
    signal(server.pid(), "STOP");
    for client in &mut clients {
        client.send("PING\r\n".repeat(REQUESTS).as_bytes()).unwrap();
    }
    signal(server.pid(), "CONT");
    for client in &mut clients {
        for _ in 0..REQUESTS {
            client.frame().unwrap();
        }
    }
    eventually("it is given back", || {
        resident(&server).saturating_sub(before) < 10 << 10
    });
}

#[test]
fn what_scripts_log_is_written_from_notice_on() {
    let server = Server::tollgate(&["--threads", "1"]).unwrap();
    let body = "redis.log(redis.LOG_VERBOSE, 'quiet') redis.log(redis.LOG_NOTICE, 'two\\nlines')";
    server
        .connect()
        .unwrap()
        .call(&["EVAL", body, "0"])
        .unwrap();
    eventually("the line is written", || {
        server.log().contains(" * two\\nlines\n")
    });
    let log = server.log();
    assert!(!log.contains("quiet"), "{log}");
}

#[test]
fn the_version_is_told_as_redis_server_tells_it() {
    let told = |args: &[&str]| {
        let output = run(args, &[]);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{args:?}"
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let line = told(&["serve", "--version"]);
    assert_eq!(told(&["serve", "-v"]), line);
    let version = line.strip_prefix("Tollgate server v=").unwrap();
    let server = Server::tollgate(&["--threads", "1"]).unwrap();
    let info = server.connect().unwrap().line("INFO server").unwrap();
    let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
    let release = version.split(' ').next().unwrap();
    assert!(
        info.contains(&format!("redis_version:{release}\r\n")),
        "{info}"
    );
    let Some(program) = peers::find_or_skip(
        "the_version_is_told_as_redis_server_tells_it",
        "redis-server",
    ) else {
        return;
    };
    let theirs = Command::new(program).arg("--version").output().unwrap();
    assert!(theirs.stdout.starts_with(b"Redis server v="), "{theirs:?}");
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_1() {
    let taken = Server::tollgate(&["--threads", "1"]).unwrap();
    let port = taken.addr().port().to_string();
    let dir = temp_dir().unwrap();
    let file = dir.join("tollgate.conf");
    fs::write(&file, "# settings\nport 0\nmaxclients none\n").unwrap();
    let file = file.display().to_string();
    let missing = dir.join("missing.conf").display().to_string();
    let no_environment: &[(&str, &str)] = &[];
    for (args, environment, reason) in [
        (
            vec!["serve", "--port", &port],
            no_environment,
            format!("Failed listening on port {port} (TCP), aborting: cannot listen on 127.0.0.1:{port}: the address is already in use; the store takes another one with --port, or a free one with --port 0"),
        ),
        (
            vec!["serve", "--bind", "192.0.2.1"],
            no_environment,
            "cannot listen on 192.0.2.1:6379: this machine has no such address".to_owned(),
        ),
        (
            vec!["serve", "--bind=-192.0.2.1"],
            no_environment,
            "cannot listen on 192.0.2.1:6379: this machine has no such address".to_owned(),
        ),
        (
            vec!["serve", "--qqqq"],
            no_environment,
            "unexpected argument '--qqqq' found".to_owned(),
        ),
        (
            vec!["serve", "--port", "x"],
            no_environment,
            "--port: argument couldn't be parsed into an integer".to_owned(),
        ),
        (
            vec!["serve", "--config", &file],
            no_environment,
            format!("{file}:3: maxclients: argument couldn't be parsed into an integer"),
        ),
        (
            vec!["serve", "--config", &missing],
            no_environment,
            format!("{missing}: No such file or directory (os error 2)"),
        ),
        (
            vec!["serve"],
            &[("TOLLGATE_HZ", "x")],
            "TOLLGATE_HZ: argument couldn't be parsed into an integer".to_owned(),
        ),
        (
            vec!["serve", "--backend", "redis://127.0.0.1:1"],
            no_environment,
            "--backend: the service needs --rules DIR as well".to_owned(),
        ),
        (
            vec!["qqqq"],
            no_environment,
            "unrecognized subcommand 'qqqq'".to_owned(),
        ),
        (
            vec![],
            no_environment,
            "say what to do: `tollgate serve`, `tollgate check`, `tollgate replay`, `tollgate bench`, or `tollgate --help`".to_owned(),
        ),
    ] {
        let output = run(&args, environment);
        let told = String::from_utf8_lossy(&output.stderr);
        let line = told.lines().next_back().expect("it says why");
        assert_eq!(line, format!("tollgate: {reason}"), "{args:?}");
        // What redis-server says of settings stands before it, for programs that look for it.
        let is_setting = reason.contains("couldn't be parsed") && environment.is_empty();
        let start = match is_setting {
            true => "\n*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***\n",
            false => "tollgate: ",
        };
        assert!(told.starts_with(start), "{told}");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn rules_are_checked_without_a_server() {
    let dir = temp_dir().unwrap();
    let file = dir.join("a.yaml");
    let check = |path: &std::path::Path| run(&["check", &path.display().to_string()], &[]);
    fs::write(
        &file,
        "domain: a\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}]\n",
    )
    .unwrap();
    for path in [&dir, &file] {
        let output = check(path);
        let summary = format!("{}: valid, 1 domain, 1 limit\n", path.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), summary);
        assert_eq!(output.status.code(), Some(0));
    }
    fs::write(&file, "domain: a\nrules: []\n").unwrap();
    let output = check(&dir);
    let reason = format!(
        "tollgate: {}:2: config error, unknown key 'rules'\n",
        file.display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), reason);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    fs::write(dir.join("b.yaml"), "domain: ''\n").unwrap();
    let output = check(&dir);
    let more = format!(
        "{reason}tollgate: {}:1: config file cannot have empty domain\n",
        dir.join("b.yaml").display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), more);
    assert_eq!(output.status.code(), Some(1));
    fs::remove_dir_all(dir).unwrap();
}

/// Files of one domain are a mistake, unless they are to count together; both usual endings are read.
#[test]
fn domains_are_merged_where_that_is_wanted() {
    let dir = temp_dir().unwrap();
    for (name, key) in [("a.yaml", "a"), ("b.yml", "b")] {
        let rule = format!(
            "domain: d\ndescriptors: [{{key: {key}, rate_limit: {{unit: day, requests_per_unit: 1}}}}]\n"
        );
        fs::write(dir.join(name), rule).unwrap();
    }
    let path = dir.display().to_string();
    let output = run(&["check", &path], &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("b.yml:1: duplicate domain 'd' in config file"),
        "{told}"
    );
    let output = run(&["check", "--merge-domains", &path], &[]);
    let summary = format!("{path}: valid, 1 domain, 2 limits\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), summary);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn flags_win_over_environment_over_file() {
    let dir = temp_dir().unwrap();
    let file = dir.join("tollgate.conf");
    fs::write(&file, "port 1\nmaxclients 11\nhz 11\ntimeout 11\n").unwrap();
    let mut command = Command::new(tollgate_binary().unwrap());
    command
        .args(["serve", "--config"])
        .arg(&file)
        .args(["--port", "0", "--timeout", "33"]);
    command
        .env("TOLLGATE_HZ", "22")
        .env("TOLLGATE_TIMEOUT", "22");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let mut client = Client::connect(([127, 0, 0, 1], port_of(&line)).into()).unwrap();
    for (name, value) in [("maxclients", "11"), ("hz", "22"), ("timeout", "33")] {
        let reply = client.call(&["CONFIG", "GET", name]).unwrap();
        assert_eq!(
            reply.as_array().unwrap()[1].as_bytes(),
            Some(value.as_bytes()),
            "{name}"
        );
    }
    terminate(&child);
    assert_eq!(wait(child), Some(0));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_unix_socket_is_served_beside_tcp_and_removed_at_the_end() {
    let dir = temp_dir().unwrap();
    let path = dir.join("tollgate.sock");
    let (child, line) = start(&[
        "serve",
        "--port",
        "0",
        "--unixsocket",
        path.to_str().unwrap(),
        "--unixsocketperm",
        "600",
    ]);
    assert!(line.contains(&format!(" {} (", path.display())), "{line}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    std::io::Write::write_all(&mut stream, b"CLIENT INFO\r\n").unwrap();
    let mut reply = vec![0; 4_096];
    let n = stream.read(&mut reply).unwrap();
    let reply = String::from_utf8_lossy(&reply[..n]).into_owned();
    assert!(
        reply.contains(&format!(" addr={}:0 ", path.display())) && reply.contains(" flags=U "),
        "{reply}"
    );
    terminate(&child);
    assert_eq!(wait(child), Some(0));
    assert!(!path.exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_snapshot_taken_at_shutdown_is_there_after_the_next_start() {
    let dir = temp_dir().unwrap();
    let args = [
        "serve",
        "--port",
        "0",
        "--dir",
        dir.to_str().unwrap(),
        "--dbfilename",
        "store.rdb",
    ];
    let (child, line) = start(&args);
    let mut client = Client::connect(([127, 0, 0, 1], port_of(&line)).into()).unwrap();
    for command in [
        "SET number 12",
        "SET text hello EX 100000",
        "SELECT 5",
        "SET other 1",
        "SET gone 1 PX 1",
    ] {
        assert_eq!(
            client.line(command).unwrap().as_bytes(),
            Some(&b"OK"[..]),
            "{command}"
        );
    }
    client.send(b"SHUTDOWN SAVE\r\n").unwrap();
    assert_eq!(client.until_closed().unwrap(), b"");
    assert_eq!(wait(child), Some(0));
    assert!(dir.join("store.rdb").is_file());
    let (child, line) = start(&args);
    let mut client = Client::connect(([127, 0, 0, 1], port_of(&line)).into()).unwrap();
    assert_eq!(client.line("INCR number").unwrap().as_int(), Some(13));
    assert_eq!(
        client.line("GET text").unwrap().as_bytes(),
        Some(&b"hello"[..])
    );
    assert!((99_000..=100_000).contains(&client.line("TTL text").unwrap().as_int().unwrap()));
    client.line("SELECT 5").unwrap();
    assert_eq!(client.line("DBSIZE").unwrap().as_int(), Some(1));
    terminate(&child);
    assert_eq!(wait(child), Some(0));
    fs::write(dir.join("store.rdb"), b"REDIS0099 is from the future").unwrap();
    let output = run(&args, &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = error.lines().last().unwrap();
    assert!(
        last.starts_with("tollgate: ") && last.contains("store.rdb"),
        "{error}"
    );
    assert_eq!(output.status.code(), Some(1));
    fs::remove_dir_all(dir).unwrap();
}
