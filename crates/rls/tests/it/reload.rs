//! Rules that change while the service runs.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tollgate_rls::LogLevel;
use tollgate_testkit::PATIENCE;
use tollgate_testkit::process::temp_dir;

use crate::support::{RULES, Service};

fn metric(service: &Service, name: &str) -> u64 {
    let (status, body) = service.http("GET", "/metrics", "");
    assert_eq!(status, 200);
    let prefix = format!("ratelimit_service_config_load_{name} ");
    body.lines()
        .find_map(|line| line.strip_prefix(&*prefix)?.parse().ok())
        .expect("the metric is there")
}

fn wait_for(service: &Service, name: &str, least: u64) {
    let deadline = Instant::now() + PATIENCE;
    while metric(service, name) < least {
        assert!(Instant::now() < deadline, "{name} stays below {least}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a descriptor of the key is left when it has taken one; `None` without a limit.
fn left(service: &Service, domain: &str, key: &str) -> Option<String> {
    asked(service, domain, key, 1)
}

/// What it is left as it is.
fn look(service: &Service, domain: &str, key: &str) -> Option<String> {
    asked(service, domain, key, 0)
}

fn asked(service: &Service, domain: &str, key: &str, hits: u64) -> Option<String> {
    let body = format!(
        r#"{{"domain":"{domain}","descriptors":[{{"entries":[{{"key":"{key}","value":"x"}}],"hitsAddend":"{hits}"}}]}}"#
    );
    let (_, reply) = service.json(&body);
    let (_, rest) = reply.split_once(r#""limitRemaining":"#)?;
    Some(rest.split([',', '}']).next()?.to_owned())
}

#[test]
fn changed_rules_are_taken_up_and_bad_ones_are_not() {
    let service = Service::embedded();
    assert_eq!(left(&service, "test", "ten"), Some("9".to_owned()));
    assert_eq!(left(&service, "more", "a"), None);
    assert_eq!(
        (metric(&service, "success"), metric(&service, "error")),
        (1, 0)
    );

    let more =
        "domain: more\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 5}}]\n";
    service.write_rules("z.yaml", more);
    wait_for(&service, "success", 2);
    assert_eq!(left(&service, "more", "a"), Some("4".to_owned()));
    // Counters are as they were.
    assert_eq!(left(&service, "test", "ten"), Some("8".to_owned()));

    service.write_rules("rules.yaml", "domain: test\nwrong: 1\n");
    wait_for(&service, "error", 1);
    assert_eq!(left(&service, "test", "ten"), Some("7".to_owned()));
    assert_eq!(left(&service, "more", "a"), Some("3".to_owned()));

    let lower = RULES.replace("requests_per_unit: 10}", "requests_per_unit: 5}");
    // A file may be seen half written; it counts once it is whole.
    service.write_rules("rules.yaml", &lower);
    let deadline = Instant::now() + PATIENCE;
    // Three of ten are taken, and they stay taken.
    while look(&service, "test", "ten").as_deref() != Some("2") {
        assert!(Instant::now() < deadline, "the limit is not lowered");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_file_is_followed_as_a_folder_is() {
    let service = Service::with_config(|config| {
        config.rules_dir = config.rules_dir.join("rules.yaml");
    });
    assert_eq!(left(&service, "test", "ten"), Some("9".to_owned()));
    let higher = RULES.replace("requests_per_unit: 10}", "requests_per_unit: 20}");
    service.write_rules("rules.yaml", &higher);
    let deadline = Instant::now() + PATIENCE;
    while look(&service, "test", "ten").as_deref() != Some("19") {
        assert!(Instant::now() < deadline, "the limit is not raised");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const SHOP: &str = "domain: shop\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 10, inherit: proportional}}]\n";

/// Changed numbers, and back, on services that were started and asked the same.
fn counters_go_on(service: &Service) {
    service.write_rules("z.yaml", SHOP);
    wait_for(service, "success", 2);
    for want in ["9", "8", "7", "6"] {
        assert_eq!(left(service, "shop", "a").as_deref(), Some(want));
    }
    service.write_rules("z.yaml", &SHOP.replace("10", "100"));
    let deadline = Instant::now() + PATIENCE;
    // Six of ten are sixty of a hundred.
    while look(service, "shop", "a").as_deref() != Some("60") {
        assert!(Instant::now() < deadline, "the limit is not raised");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left(service, "shop", "a").as_deref(), Some("59"));
}

#[test]
fn counters_go_on_under_a_changed_limit() {
    counters_go_on(&Service::embedded());
}

#[test]
fn counters_go_on_under_a_changed_limit_on_redis() {
    let Some(redis) = tollgate_testkit::Server::redis(&[]).expect("redis-server starts") else {
        tollgate_testkit::peers::skip(
            "counters_go_on_under_a_changed_limit_on_redis",
            "redis-server",
        );
        return;
    };
    counters_go_on(&Service::remote(&format!("redis://{}", redis.addr())));
}

/// Files that would fill the memory or the stack, were they read as they want to be.
#[test]
fn bombs_are_refused_and_the_old_rules_stay() {
    let service = Service::embedded();
    let mut aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        aliases.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    let within_itself = "domain: x\ndescriptors: &a [*a]\n".to_owned();
    let deep = format!("domain: {}", "[".repeat(100_000));
    let scalar = format!("domain: {}", "x".repeat(1 << 20));
    let copies = format!(
        "domain: &a {}\ndescriptors: [{}]",
        "x".repeat(60_000),
        "*a, ".repeat(1 << 18)
    );
    let bombs = [aliases, within_itself, deep, scalar, copies];
    for (errors, bomb) in bombs.iter().enumerate() {
        service.write_rules("bomb.yaml", bomb);
        wait_for(&service, "error", errors as u64 + 1);
        let left = left(&service, "test", "ten");
        assert_eq!(left, Some((9 - errors).to_string()));
    }
}

/// Whatever lies in the folder under a rule file's name: the old rules stay, the log names the file, and once it is gone the
/// folder is read again.
#[test]
fn files_that_cannot_be_read_are_named_and_the_old_rules_stay() {
    static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
    fn log(_: LogLevel, line: &str) {
        LOG.lock().expect("whole").push(line.to_owned());
    }
    let mut dir = PathBuf::new();
    let service = Service::with_config(|config| {
        config.log = log;
        dir.clone_from(&config.rules_dir);
    });
    let path = dir.join("bad.yaml");
    type Make<'a> = &'a dyn Fn(&Path);
    let kinds: [(&str, Make<'_>); 6] = [
        ("not a regular file", &|path| {
            std::fs::create_dir(path).expect("the folder is ours");
        }),
        ("not a regular file", &|path| {
            let made = Command::new("mkfifo").arg(path).status();
            assert!(made.expect("mkfifo runs").success());
        }),
        ("not a regular file", &|path| {
            symlink("/dev/zero", path).expect("the folder is ours");
        }),
        ("No such file", &|path| {
            symlink("/nowhere", path).expect("the folder is ours");
        }),
        ("UTF-8", &|path| {
            std::fs::write(path, b"domain: \xff").expect("the folder is ours");
        }),
        ("longer than", &|path| {
            let file = File::create(path).expect("the folder is ours");
            file.set_len(1 << 40).expect("a file without content");
        }),
    ];
    // Made beside it, since a file is not to be read half made.
    let beside = temp_dir().expect("a folder").join("made");
    for (turn, (reason, make)) in kinds.into_iter().enumerate() {
        make(&beside);
        std::fs::rename(&beside, &path).expect("the folder is ours");
        wait_for(&service, "error", turn as u64 + 1);
        let line = LOG.lock().expect("whole").last().cloned();
        let line = line.expect("it is told");
        for part in ["the rules stay as they were", "bad.yaml", reason] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert_eq!(left(&service, "test", "ten"), Some((9 - turn).to_string()));
        match path.is_dir() {
            true => std::fs::remove_dir(&path).expect("the folder is ours"),
            false => std::fs::remove_file(&path).expect("the folder is ours"),
        }
        wait_for(&service, "success", turn as u64 + 2);
    }
}
