use crate::world::{START_MS, World, check, check_on};

#[test]
fn setting_and_reading() {
    let at = START_MS / 1000 + 100;
    let lines = [
        ("EXPIRE k 10".to_owned(), ":0|".to_owned()),
        ("TTL k".to_owned(), ":-2|".to_owned()),
        ("PEXPIRETIME k".to_owned(), ":-2|".to_owned()),
        ("SET k v".to_owned(), "+OK|".to_owned()),
        ("EXPIRETIME k".to_owned(), ":-1|".to_owned()),
        (format!("EXPIREAT k {at}"), ":1|".to_owned()),
        ("EXPIRETIME k".to_owned(), format!(":{at}|")),
        ("PEXPIRETIME k".to_owned(), format!(":{at}000|")),
        ("TTL k".to_owned(), ":100|".to_owned()),
        ("PEXPIRE k 1498".to_owned(), ":1|".to_owned()),
        ("TTL k".to_owned(), ":1|".to_owned()),
        ("PEXPIRE k 400".to_owned(), ":1|".to_owned()),
        ("TTL k".to_owned(), ":0|".to_owned()),
        ("PERSIST k".to_owned(), ":1|".to_owned()),
        ("PERSIST k".to_owned(), ":0|".to_owned()),
        ("PERSIST none".to_owned(), ":0|".to_owned()),
        ("PEXPIREAT k 1".to_owned(), ":1|".to_owned()),
        ("EXISTS k".to_owned(), ":0|".to_owned()),
    ];
    let lines: Vec<(&str, &str)> = lines.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    check(&lines);
}

#[test]
fn conditions() {
    check(&[
        ("SET k v", "+OK|"),
        ("EXPIRE k 100 XX", ":0|"),
        ("EXPIRE k 100 GT", ":0|"),
        ("EXPIRE k 100 LT", ":1|"),
        ("EXPIRE k 100 NX", ":0|"),
        ("EXPIRE k 50 GT", ":0|"),
        ("EXPIRE k 100 GT", ":0|"),
        ("EXPIRE k 150 GT XX", ":1|"),
        ("EXPIRE k 200 LT", ":0|"),
        ("EXPIRE k 20 lt", ":1|"),
        ("TTL k", ":20|"),
        (
            "EXPIRE k 1 NX GT",
            "-ERR NX and XX, GT or LT options at the same time are not compatible|",
        ),
        (
            "EXPIRE k 1 NX XX",
            "-ERR NX and XX, GT or LT options at the same time are not compatible|",
        ),
        (
            "EXPIRE k 1 GT LT",
            "-ERR GT and LT options at the same time are not compatible|",
        ),
        ("EXPIRE k x FOO", "-ERR Unsupported option FOO|"),
        (
            "EXPIRE k x",
            "-ERR value is not an integer or out of range|",
        ),
        (
            "EXPIRE k 9223372036854775807",
            "-ERR invalid expire time in 'expire' command|",
        ),
        (
            "EXPIRE none 9223372036854775807",
            "-ERR invalid expire time in 'expire' command|",
        ),
        (
            "PEXPIRE k 9223372036854775807",
            "-ERR invalid expire time in 'pexpire' command|",
        ),
        (
            "EXPIREAT k 9223372036854775807",
            "-ERR invalid expire time in 'expireat' command|",
        ),
        ("PEXPIREAT k 9223372036854775807", ":1|"),
        ("EXPIRE k -1", ":1|"),
        ("EXISTS k", ":0|"),
    ]);
}

#[test]
fn an_expired_key_is_absent_everywhere() {
    let mut world = World::new(8);
    world.run("SET k v PX 10");
    world.advance_ms(11);
    check_on(
        &mut world,
        &[
            ("DBSIZE", ":1|"),
            ("RANDOMKEY", "$-1|"),
            ("KEYS *", "*0|"),
            ("SCAN 0", "*2|$1|0|*0|"),
            ("EXISTS k", ":0|"),
            ("DBSIZE", ":0|"),
        ],
    );
}
