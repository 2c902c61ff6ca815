//! What the process calls itself in lists of processes.

/// Takes over the memory that lists of processes read, which is that of the program's words and environment; these are
/// no longer to be asked for by [`std::env::args`]. Does nothing where the system has no such memory. Before there is any
/// other thread, once; [`set`] does nothing otherwise.
pub fn claim() {
    system::claim();
}

/// Sets the title, of which lists show as much as there is room for.
pub fn set(title: &str) {
    system::set(title);
}

#[cfg(target_os = "linux")]
mod system {
    use std::sync::{Mutex, PoisonError};

    /// The memory, once it is claimed: its address and its bytes.
    #[derive(Clone, Copy)]
    struct Room {
        start: usize,
        len: usize,
    }

    static ROOM: Mutex<Option<Room>> = Mutex::new(None);

    pub(super) fn claim() {
        let mut room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let Some((start, len)) = place(&stat).filter(|_| room.is_none()) else {
            return;
        };
        // SAFETY: `environ` is the list of the environment, which ends with a null pointer, and whose texts end with a zero
        // byte; there is no other thread that could look at it. The copies are never freed.
        unsafe {
            let list = libc::dlsym(libc::RTLD_DEFAULT, c"environ".as_ptr());
            if list.is_null() {
                return;
            }
            let mut at = *list.cast::<*mut *mut libc::c_char>();
            while !at.is_null() && !(*at).is_null() {
                let copy = libc::strdup(*at);
                if copy.is_null() {
                    return;
                }
                *at = copy;
                at = at.add(1);
            }
        }
        *room = Some(Room { start, len });
    }

    pub(super) fn set(title: &str) {
        let room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Room { start, len }) = *room {
            let shown = title.len().min(len - 1);
            // SAFETY: the kernel has told of the memory, `len` bytes that can be written and that nobody else uses: the
            // environment was moved away, and the program's words are not asked for any more.
            unsafe {
                let start = std::ptr::with_exposed_provenance_mut::<u8>(start);
                std::ptr::copy_nonoverlapping(title.as_ptr(), start, shown);
                std::ptr::write_bytes(start.add(shown), 0, len - shown);
            }
        }
    }

    /// Where the words begin, and the bytes up to the end of the environment behind them, by `/proc/self/stat`.
    fn place(stat: &str) -> Option<(usize, usize)> {
        // The name of the program, in parentheses, may hold anything; the state behind it is field 3.
        let fields = stat.rsplit_once(')')?.1;
        let numbers: Vec<usize> = fields
            .split_ascii_whitespace()
            .skip(48 - 3)
            .map_while(|field| field.parse().ok())
            .collect();
        match numbers[..] {
            [start, words_end, environment, end, ..]
                if start > 0 && words_end == environment && end > start =>
            {
                Some((start, end - start))
            }
            [start, words_end, ..] if start > 0 && words_end > start => {
                Some((start, words_end - start))
            }
            _ => None,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_words_and_the_environment_behind_them_are_found() {
            let fields = |last: &str| format!("1 (a) b) S {}{last}", "7 ".repeat(44));
            assert_eq!(place(&fields("100 120 120 200 0")), Some((100, 100)));
            assert_eq!(place(&fields("100 120 130 200 0")), Some((100, 20)));
            assert_eq!(place(&fields("0 0 0 0 0")), None);
            assert_eq!(place(&fields("")), None);
            let own = std::fs::read_to_string("/proc/self/stat").unwrap();
            assert!(place(&own).is_some(), "{own}");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn claim() {}

    pub(super) fn set(_: &str) {}
}
