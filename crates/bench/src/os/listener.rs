//! Which processes listen on a port of this machine, from `/proc`. Other systems give none.

use std::fs;

/// The state "listening" in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Most processes that are taken for one server.
const PROCESSES_MAX: usize = 64;

/// The processes that listen on TCP port `port`, in rising order: a server with workers has several that share one socket or
/// one port. Empty where they cannot be seen: another machine's or user's, or those in a container.
#[must_use]
pub(crate) fn pids_of_port(port: u16) -> Vec<u32> {
    let inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    if inodes.is_empty() {
        return Vec::new();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holders = pids.filter(|pid| holds(*pid, &inodes));
    let mut found: Vec<u32> = holders.take(PROCESSES_MAX).collect();
    found.sort_unstable();
    found
}

/// Name of a process as the system shortens it, to 15 bytes.
#[must_use]
pub(crate) fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Name of a server with these processes, which may have taken names of their own; empty where none is known.
#[must_use]
pub(crate) fn name_of_all(pids: &[u32]) -> String {
    pids.iter()
        .find_map(|pid| name_of(*pid))
        .unwrap_or_default()
}

fn holds(pid: u32, inodes: &[u64]) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        // Another user's, or gone by now.
        return false;
    };
    open.flatten().any(|file| {
        let target = fs::read_link(file.path()).ok();
        let inode = target.as_ref().and_then(|target| {
            let text = target.to_str()?.strip_prefix("socket:[")?;
            text.strip_suffix(']')?.parse().ok()
        });
        inode.is_some_and(|inode| inodes.contains(&inode))
    })
}

/// Inodes of the sockets that listen on `port` in a table as `/proc/net/tcp` has it.
fn listening(table: &str, port: u16) -> Vec<u64> {
    let inode = |line: &str| {
        // Number, local address, remote address, state, queues, timer, retransmissions, user, timeout, inode.
        let mut fields = line.split_ascii_whitespace();
        let local = fields.nth(1)?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?;
        let (_, found) = local.rsplit_once(':')?;
        let found = u16::from_str_radix(found, 16).ok()?;
        (found == port && state == LISTEN)
            .then(|| inode.parse().ok())
            .flatten()
    };
    table.lines().skip(1).filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0\n\
            1: 0100007F:1F91 0100007F:E0B2 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 20 4 30 10 -1\n\
            2: 00000000000000000000000000000000:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4713 1 0\n\
            broken line\n";
        assert_eq!(listening(table, 8081), [4711, 4713]);
        assert!(listening(table, 57_522).is_empty());
        assert!(listening("", 1).is_empty());
    }

    #[test]
    fn a_port_of_our_own_is_found() {
        if !std::path::Path::new("/proc/net/tcp").exists() {
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(pids_of_port(port).contains(&std::process::id()));
        assert!(!name_of_all(&[u32::MAX, std::process::id()]).is_empty());
    }

    #[test]
    fn workers_that_share_the_socket_are_found_as_well() {
        use std::os::fd::AsRawFd as _;
        if !std::path::Path::new("/proc/net/tcp").exists() {
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // SAFETY: the descriptor is open, and its flags are replaced by none: a child inherits it.
        unsafe { libc::fcntl(listener.as_raw_fd(), libc::F_SETFD, 0) };
        let mut worker = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = pids_of_port(port);
        worker.kill().unwrap();
        worker.wait().unwrap();
        assert!(found.contains(&std::process::id()), "{found:?}");
        assert!(found.contains(&worker.id()), "{found:?}");
    }
}
