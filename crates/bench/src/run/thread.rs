//! The generator's own thread: pinned, with sharp timers, while the calling thread draws progress.

use std::time::Duration;

use super::console::Console;
use crate::load::live::Live;
use crate::os::cpu;

/// Time between two looks at the counters.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs `job` on a fresh thread on processor `core`; meanwhile shows `live` on `console` as progress of `length`.
pub(crate) fn generate<T: Send>(
    core: Option<usize>,
    live: &Live,
    length: Duration,
    console: &mut Console,
    job: impl FnOnce() -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let start = std::time::Instant::now();
        let look = |elapsed: Duration, console: &mut Console| {
            if let Some(second) = live.take_second() {
                console.pass(&second);
            }
            console.tick(live.glance(), elapsed, length);
        };
        console.begin_load();
        let waiting = std::thread::current();
        let thread = scope.spawn(move || {
            if let Some(core) = core {
                // A refused pin is noted in the manifest by `machine::pinning`, which tries it first.
                drop(cpu::pin(core));
            }
            cpu::sharpen_timers();
            let result = job();
            waiting.unpark();
            result
        });
        while !thread.is_finished() {
            look(start.elapsed(), console);
            std::thread::park_timeout(LOOK_INTERVAL);
        }
        look(start.elapsed(), console);
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
