//! What the log is told when the program ends by a mistake in it.

use crate::log::Log;
use crate::outbox::Running;
use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use tollgate_net::process;

/// Bytes of what a client has sent that are shown.
const SHOWN: usize = 512;

/// Where what a client sends may hold a password, it is not shown.
const SECRETS: [&[u8]; 3] = [b"auth", b"pass", b"acl"];

/// Has a panic of any thread reported in the log, after which the program ends.
pub fn report_panics(log: &Arc<Log>) {
    let log = Arc::clone(log);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(&log, panic);
        log.flush();
        if !log.is_on_stderr() {
            before(panic);
        }
        std::process::abort();
    }));
}

fn report(log: &Log, panic: &PanicHookInfo<'_>) {
    let say = |line: &str| log.warning(format_args!("{line}"));
    let thread = std::thread::current();
    say("=== TOLLGATE BUG REPORT START: Cut & paste starting from here ===");
    say(&format!(
        "Tollgate {} on {}: thread {} {}",
        env!("CARGO_PKG_VERSION"),
        process::system_name(),
        thread.name().unwrap_or("without a name"),
        // The place, and what was said there.
        panic.to_string().replace('\n', " ")
    ));
    say("------ STACK TRACE ------");
    Backtrace::force_capture().to_string().lines().for_each(say);
    let (client, input) = Running::what();
    if client != 0 {
        say("------ CURRENT CLIENT INFO ------");
        say(&format!("id={client}"));
        say(&shown(&input));
    }
    say("=== TOLLGATE BUG REPORT END. Make sure to include from START to END. ===");
}

/// The beginning of what the client has sent.
fn shown(input: &[u8]) -> String {
    let part = &input[..input.len().min(SHOWN)];
    let lower = part.to_ascii_lowercase();
    let has = |secret: &[u8]| lower.windows(secret.len()).any(|bytes| bytes == secret);
    match SECRETS.iter().any(|secret| has(secret)) {
        true => format!("input: {} bytes, not shown", input.len()),
        false => format!("input: {} bytes: {}", input.len(), part.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_shown_unless_it_may_hold_a_password() {
        let short = b"*1\r\n$4\r\nPING\r\n";
        assert_eq!(shown(short), "input: 14 bytes: *1\\r\\n$4\\r\\nPING\\r\\n");
        assert_eq!(shown(b"HELLO 3 Auth a b"), "input: 16 bytes, not shown");
        assert!(shown(&[b'x'; 10_000]).len() < 600);
    }
}
