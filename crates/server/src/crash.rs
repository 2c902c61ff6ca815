//! What the log is told when the program ends by a mistake in it.

use crate::log::Log;
use crate::outbox::Running;
use std::backtrace::Backtrace;
use std::fmt::{self, Write};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use tollgate_net::{fatal, process};

/// Bytes of what a client has sent that are shown.
const SHOWN: usize = 512;

/// Where what a client sends may hold a password, it is not shown.
const SECRETS: [&[u8]; 3] = [b"auth", b"pass", b"acl"];

/// Has a panic of any thread reported in the log, and a signal that ends the program. It ends after a panic in any case.
///
/// # Errors
///
/// The system refuses to hand over the signals.
pub fn report_crashes(log: &Arc<Log>) -> io::Result<()> {
    let file = log.file().map(|path| path.as_os_str().as_bytes().to_vec());
    let program = concat!("Tollgate ", env!("CARGO_PKG_VERSION"));
    fatal::report(file, program, say_client)?;
    let log = Arc::clone(log);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let told = !fatal::is_silent();
        if told {
            report(&log, panic);
            log.flush();
        }
        if !told || !log.is_on_stderr() {
            before(panic);
        }
        fatal::abort();
    }));
    Ok(())
}

/// Switches what [`report_crashes`] has set up on or off (`crash-log-enabled`).
pub fn tell_crashes(on: bool) {
    fatal::silence(!on);
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
    let mut client = String::new();
    // A text takes everything.
    say_client(&mut client).unwrap_or_default();
    client.lines().for_each(say);
    say("=== TOLLGATE BUG REPORT END. Make sure to include from START to END. ===");
}

/// Whose command this thread is running, if it runs one, and the beginning of what the client has sent. It allocates nothing.
fn say_client(out: &mut dyn Write) -> fmt::Result {
    Running::show(|client, input| {
        if client == 0 {
            return Ok(());
        }
        writeln!(out, "------ CURRENT CLIENT INFO ------\nid={client}")?;
        show(out, input)
    })
}

fn show(out: &mut dyn Write, input: &[u8]) -> fmt::Result {
    let part = &input[..input.len().min(SHOWN)];
    let has = |secret: &&[u8]| {
        part.windows(secret.len())
            .any(|bytes| bytes.eq_ignore_ascii_case(secret))
    };
    write!(out, "input: {} bytes", input.len())?;
    match SECRETS.iter().any(has) {
        true => writeln!(out, ", not shown"),
        false => writeln!(out, ": {}", part.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_shown_unless_it_may_hold_a_password() {
        let shown = |input: &[u8]| {
            let mut text = String::new();
            show(&mut text, input).unwrap();
            text
        };
        let short = b"*1\r\n$4\r\nPING\r\n";
        assert_eq!(
            shown(short),
            "input: 14 bytes: *1\\r\\n$4\\r\\nPING\\r\\n\n"
        );
        assert_eq!(shown(b"HELLO 3 Auth a b"), "input: 16 bytes, not shown\n");
        assert!(shown(&[b'x'; 10_000]).len() < 600);
    }
}
