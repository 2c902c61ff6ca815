//! Which process listens on a port of this machine, from `/proc`. Other systems give `None`.

use std::fs;

/// The state "listening" in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The process that listens on TCP port `port`; the first one found where several do. `None` where it cannot be seen: another
/// machine's or user's, or one in a container.
#[must_use]
pub fn pid_of_port(port: u16) -> Option<u32> {
    let inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| holds(*pid, &inodes))
}

/// Name of a process as the system shortens it, to 15 bytes.
#[must_use]
pub fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
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
        assert_eq!(pid_of_port(port), Some(std::process::id()));
        assert!(name_of(std::process::id()).is_some_and(|name| !name.is_empty()));
    }
}
