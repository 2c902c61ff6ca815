//! `--tui` on a terminal of its own: what is drawn there, which keys it takes, and how it is left.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use tollgate_testkit::eventually;
use tollgate_testkit::process::{temp_dir, tollgate_binary};

use crate::fake::{Behaviour, FakeServer};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// The user's side of a terminal, and what has been written to it.
struct Terminal {
    keys: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// A terminal of 120 columns and 40 rows, and the program's side of it.
    fn open() -> (Terminal, File) {
        let size = libc::winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let (mut ours, mut its) = (-1, -1);
        // SAFETY: two numbers are written, the name and the settings are not asked for, and the size is read.
        let done = unsafe {
            libc::openpty(
                &raw mut ours,
                &raw mut its,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                (&raw const size).cast_mut(),
            )
        };
        assert_eq!(done, 0, "openpty");
        // SAFETY: both have just been opened and belong to nobody else.
        let (ours, its) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(its)) };
        let keys = File::from(ours);
        let mut screen = keys.try_clone().unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let seen = written.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // Ends with an error when the last program has closed its side.
            while let Ok(1..) = screen.read(&mut bytes).inspect(|read| {
                seen.lock().unwrap().extend_from_slice(&bytes[..*read]);
            }) {}
        });
        (Terminal { keys, written }, File::from(its))
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }
}

/// How keys reach a program on this terminal.
fn modes(terminal: &File) -> libc::tcflag_t {
    use std::os::fd::AsRawFd;
    let mut modes = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the call writes one `termios` or fails.
    unsafe {
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), modes.as_mut_ptr()), 0);
        modes.assume_init().c_lflag
    }
}

/// A bench on a terminal.
struct Bench {
    child: Child,
    folder: PathBuf,
}

impl Bench {
    fn start(its: &File, target: &str, args: &[&str]) -> Bench {
        let folder = temp_dir().unwrap();
        let mut command = Command::new(tollgate_binary().unwrap());
        command
            .args(["bench", "--tui", "--target", target])
            .args(["--no-calibrate", "--warmup", "0s", "--pin", "none"])
            .args(["--scenario", "single-key", "--out"])
            .arg(folder.join("results"))
            .args(args)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(its.try_clone().unwrap())
            .stdout(its.try_clone().unwrap())
            .stderr(its.try_clone().unwrap());
        // SAFETY: only async-signal-safe functions are called. The terminal becomes that of the child, whose Ctrl-C it sends.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        Bench {
            child: command.spawn().unwrap(),
            folder,
        }
    }

    /// The exit code, and what is on record.
    fn end(mut self) -> (Option<i32>, String) {
        let mut status = None;
        eventually("the end of the bench", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let record = fs::read_to_string(self.folder.join("results/latest/results.json"));
        (status.unwrap().code(), record.unwrap_or_default())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}

#[test]
fn results_are_printed_after_the_screen_and_the_terminal_is_as_before() {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let (terminal, its) = Terminal::open();
    let before = modes(&its);
    let bench = Bench::start(&its, &fake.url(), &["--ladder", "500,600", "--step", "2s"]);
    eventually("a drawn load", || {
        // A blank that was there before is not drawn again, so that only single words can be looked for.
        let shown = terminal.shown();
        shown.contains(ENTER) && shown.contains("goodput/s")
    });
    assert_eq!(modes(&its) & (libc::ICANON | libc::ECHO), 0);
    let (code, _) = bench.end();
    // The machine may be too busy for valid rows.
    assert!(matches!(code, Some(0 | 3)), "{}", terminal.shown());
    assert_eq!(modes(&its), before);
    eventually("the place of the report", || {
        terminal.shown().contains("report: ")
    });
    let shown = terminal.shown();
    let (drawn, printed) = shown.split_once(LEAVE).expect("the screen is left");
    assert!(
        drawn.contains("500") && drawn.contains("goodput"),
        "{shown}"
    );
    assert!(!printed.contains(ENTER), "{shown}");
    for row in ["500", "600"] {
        assert!(printed.contains(row), "{printed}");
    }
}

#[test]
fn keys_stop_the_run_and_keep_what_was_measured() {
    // Ctrl-C is a key of the terminal, which sends its signal.
    for key in [&b"q"[..], b"\x03"] {
        let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
        let (mut terminal, its) = Terminal::open();
        let before = modes(&its);
        let bench = Bench::start(&its, &fake.url(), &["--ladder", "500", "--step", "300s"]);
        eventually("a load under way", || {
            fake.decided() > 200 && terminal.shown().contains(ENTER)
        });
        // Keys without a meaning here, and those that scroll where nothing is.
        terminal.press(b"x\x1b[A\x1b[B\x1b[5~\x1b[6~");
        terminal.press(key);
        let (code, record) = bench.end();
        assert_eq!(code, Some(1), "{}", terminal.shown());
        assert!(record.contains("interrupted"), "{record}");
        assert_eq!(modes(&its), before);
        assert!(terminal.shown().contains(LEAVE));
    }
}

#[test]
fn without_a_terminal_it_says_what_it_needs() {
    let folder = temp_dir().unwrap();
    let bench = Command::new(tollgate_binary().unwrap())
        .args(["bench", "--tui", "--only", "tollgate", "--out"])
        .arg(&folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).ok();
    let said = String::from_utf8_lossy(&bench.stderr).into_owned();
    assert_eq!(bench.status.code(), Some(1), "{said}");
    let reason = "error: --tui: standard input and standard error must be a terminal";
    assert!(said.contains(reason), "{said}");
}
