//! The screen of `--tui`: what a run does just now, over the whole terminal.
//!
//! The console hands over what it knows; a thread of its own draws it and reads keys, so that neither the run nor the
//! generator ever waits for the terminal.

mod state;
mod view;

use std::io::{self, IsTerminal, Stderr};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};

use crate::os::{interrupt, terminal};
use crate::report::TextStyle;
pub(super) use state::State;

/// Between two drawings, and the longest that a key waits.
const FRAME: Duration = Duration::from_millis(250);
/// Lines that Page Up and Page Down scroll.
const PAGE: usize = 10;

/// Draws until it is dropped, which leaves the terminal as it was.
pub(super) struct Screen {
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// If standard input or standard error is no terminal, or it cannot show the screen's signs.
    pub(super) fn open(style: TextStyle) -> io::Result<Screen> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            let text = "standard input and standard error must be a terminal";
            return Err(io::Error::other(text));
        }
        if !style.unicode {
            let text = "the terminal must show Unicode; set LC_ALL=C.UTF-8 if it does";
            return Err(io::Error::other(text));
        }
        let drawn = Terminal::new(CrosstermBackend::new(io::stderr()))?;
        terminal::take_over()?;
        give_back_before_a_panic_is_told();
        let state = Arc::new(Mutex::new(State::new(style)));
        let stop = Arc::new(AtomicBool::new(false));
        let (shown, stopped) = (state.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("screen".into())
            .spawn(move || {
                // A terminal that went away is no reason to lose the run.
                if draw(drawn, &shown, &stopped).is_err() {
                    terminal::give_back();
                }
            });
        let thread = thread.inspect_err(|_| terminal::give_back())?;
        Ok(Screen {
            state,
            stop,
            thread: Some(thread),
        })
    }

    /// What is shown, to be changed.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has no result, and a panic in it ends the process.
            drop(thread.join());
        }
        terminal::give_back();
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws and reads keys until it is stopped.
fn draw(
    mut terminal: Terminal<CrosstermBackend<Stderr>>,
    state: &Mutex<State>,
    stop: &AtomicBool,
) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        locked(state).is_stopping = interrupt::asked();
        terminal.draw(|frame| view::draw(frame, &mut locked(state)))?;
        let mut wait = FRAME;
        while event::poll(wait)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                press(key.code, state);
            }
            wait = Duration::ZERO;
        }
    }
    Ok(())
}

fn press(key: KeyCode, state: &Mutex<State>) {
    let mut state = locked(state);
    match key {
        KeyCode::Char('q' | 'Q') => interrupt::ask(),
        KeyCode::Up => state.scroll_back(1),
        KeyCode::Down => state.scroll_on(1),
        KeyCode::PageUp => state.scroll_back(PAGE),
        KeyCode::PageDown => state.scroll_on(PAGE),
        KeyCode::Home => state.scroll_back(usize::MAX),
        KeyCode::End => state.scroll_on(usize::MAX),
        _ => {}
    }
}

/// The message of a panic would be lost on a screen that goes away with the process.
fn give_back_before_a_panic_is_told() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            terminal::give_back();
            tell(what);
        }));
    });
}
