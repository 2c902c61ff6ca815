//! `tollgate replay` as people call it.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use tollgate_testkit::process::{temp_dir, tollgate_binary};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3}
    descriptors: [{key: path, value: /pay, rate_limit: {unit: hour, requests_per_unit: 1}}]
  - key: job
    rate_limit: {concurrency: 1, lease: 60s}
";

fn replayed(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(tollgate_binary().unwrap())
        .arg("replay")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses its arguments reads nothing.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// `count` requests of a user to a path, a second apart from `minute` on.
fn log(user: &str, path: &str, minute: u32, count: u32) -> String {
    let line = |second| {
        format!(
            "10.0.0.1 - {user} [22/Nov/2026:10:{minute:02}:{second:02} +0000] \"GET {path}?x=1 HTTP/1.1\" 200 5 \"-\" \"curl\"\n"
        )
    };
    (0..count).map(line).collect()
}

#[test]
fn an_access_log_tells_whom_rules_would_have_denied_and_what_limits_suit() {
    let dir = temp_dir().unwrap();
    let rules = dir.join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let rules = rules.to_str().unwrap();
    // The second minute comes first, as in a log that is written when requests end.
    let lines = [
        log("ann", "/", 1, 2),
        log("ann", "/", 0, 5),
        log("bob", "/", 0, 1),
        log("bob", "/pay", 30, 2),
        log("-", "/", 0, 9),
        "nonsense\n".to_owned(),
    ];
    let (args, input) = (
        [
            rules,
            "--descriptor",
            "user={remote_user}",
            "--descriptor",
            "user={remote_user},path={path}",
        ],
        lines.concat(),
    );
    let said = replayed(&args, &input);
    assert_eq!(text(&said.stderr), "");
    assert_eq!(
        text(&said.stdout),
        "\
10 requests from 2026-11-22T10:00:00Z to 2026-11-22T10:30:01Z
lines left out: 1, such as standard input, line 20: it is neither JSON nor a line of the common, combined or Envoy's log format
lines without descriptors: 9
denied: 3 (30.0 %)

shop.user: 3 per 1 min, fixed-window-epoch
  over: 2 of 10 requests (20.0 %), 1 of 2 keys (50.0 %)
    user=ann: 2 of 7
    a limit of        denies requests                of keys
             2            3  (30.0 %)            1  (50.0 %)
             3            2  (20.0 %)            1  (50.0 %)  <- the rule's
             5            0     (0 %)            0     (0 %)

shop.user.path_/pay: 1 per 1 h, fixed-window-epoch
  over: 1 of 2 requests (50.0 %), 1 of 1 keys (100.0 %)
    user=bob, path=/pay: 1 of 2
    a limit of        denies requests                of keys
             1            1  (50.0 %)            1 (100.0 %)  <- the rule's
             2            0     (0 %)            0     (0 %)
"
    );

    // Twice the limit for users, and payments as they are.
    let wider = dir.join("wider.yaml");
    fs::write(&wider, RULES.replace("unit: 3", "unit: 5")).unwrap();
    let against = [
        &args[..],
        &["--against", wider.to_str().unwrap(), "--at-most", "30%"],
    ]
    .concat();
    let said = replayed(&against, &input);
    let compared = "\ncompared with the other rules: 2 newly denied, 0 newly allowed\n    user=ann, user=ann, path=/: 2 newly denied\n";
    assert!(
        text(&said.stdout).ends_with(compared),
        "{}",
        text(&said.stdout)
    );
    assert_eq!(said.status.code(), Some(0));
    let said = replayed(&[&args[..], &["--at-most", "29.9"]].concat(), &input);
    assert_eq!(said.status.code(), Some(2));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn requests_in_json_bring_their_descriptors_and_how_long_they_took() {
    let dir = temp_dir().unwrap();
    let rules = dir.join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let request = |time: &str, duration: f64| {
        format!(
            "{{\"time\": \"2026-11-22T10:00:{time}Z\", \"duration\": {duration}, \"descriptors\": [{{\"entries\": [{{\"key\": \"job\", \"value\": \"a\"}}]}}]}}\n"
        )
    };
    // The second comes while the first is under way, the third when it has ended.
    let input = [request("00", 2.0), request("01.5", 1.0), request("02", 1.0)].concat();
    let said = replayed(&[rules.to_str().unwrap(), "--json"], &input);
    assert_eq!(text(&said.stderr), "");
    let told = text(&said.stdout);
    for part in [
        "\"requests\": 3",
        "\"denied\": 1",
        "\"algorithm\": \"concurrency\"",
        "\"limit\": 2,\n          \"denied\": 0,",
        "\"window_ms\": 60000",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn mistakes_are_a_line_each() {
    let dir = temp_dir().unwrap();
    let rules = dir.join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let rules = rules.to_str().unwrap();
    let line = "{\"time\": 1, \"descriptors\": [{\"entries\": [{\"key\": \"user\"}]}]}\n";
    for (args, input, error) in [
        (&[rules] as &[&str], "", "there are no requests in it"),
        (
            &[rules],
            "x\n",
            "there are no requests in it: standard input, line 1: it is neither JSON nor a line of the common, combined or Envoy's log format",
        ),
        (
            &[rules, "--max-requests", "1"],
            &line.repeat(2),
            "standard input: there are more than 1 requests; --max-requests reads more",
        ),
        (
            &[rules, "/nowhere/access.log"],
            "",
            "/nowhere/access.log: No such file or directory (os error 2)",
        ),
        (
            &[rules, "--at-most", "101"],
            "",
            "invalid value '101' for '--at-most <PERCENT>': it is not a percentage from 0 to 100",
        ),
        (
            &[rules, "--descriptor", "user"],
            "",
            "invalid value 'user' for '--descriptor <KEY={FIELD},...>': 'user' is not KEY=VALUE, such as user={remote_user}",
        ),
    ] {
        let said = replayed(args, input);
        let told = text(&said.stderr);
        assert!(told.starts_with(&format!("tollgate: {error}")), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert_eq!(said.status.code(), Some(1), "{args:?}");
        assert_eq!(text(&said.stdout), "", "{args:?}");
    }
    fs::remove_dir_all(dir).unwrap();
}
