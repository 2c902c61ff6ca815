//! A server inside the test process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tollgate_net::PeerAddress;
use tollgate_net::signal::Signals;
use tollgate_server::config::{Config, find};
use tollgate_server::{Log, Server};
use tollgate_testkit::Client;
pub(crate) use tollgate_testkit::eventually;
use tollgate_testkit::process::temp_dir;

/// Names the backend of the servers, in the words of the setting `io-backend`, of which it is the environment variable.
pub(crate) const BACKEND_VARIABLE: &str = "TOLLGATE_IO_BACKEND";

/// Ends the server when dropped.
pub(crate) struct Local {
    pub(crate) addr: SocketAddr,
    server: Option<Server>,
    /// Where it writes files if it was not told where.
    folder: PathBuf,
}

impl Local {
    /// A server on a free port with these settings and two threads.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Local {
        let mut config = Config::default();
        let backend = std::env::var(BACKEND_VARIABLE).unwrap_or_else(|_| "auto".to_owned());
        let folder = temp_dir().unwrap();
        let own = [
            ("port", "0"),
            ("threads", "2"),
            ("connections-together", "1"),
            ("io-backend", &backend),
            ("dir", folder.to_str().unwrap()),
        ];
        for (name, value) in own.iter().chain(settings) {
            config.set(find(name).unwrap().key, value).unwrap();
        }
        let server =
            Server::start(config, Signals::pipe().unwrap(), Arc::new(Log::silent())).unwrap();
        let PeerAddress::Tcp(addr) = server.addresses()[0] else {
            panic!("the first listener is TCP")
        };
        Local {
            addr,
            server: Some(server),
            folder,
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.addr).unwrap()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let server = self.server.take().unwrap();
        server.shutdown().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// The reply of a command given as words separated by spaces, as raw bytes.
pub(crate) fn raw(client: &mut Client, command: &str) -> String {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let mut bytes = Vec::new();
    tollgate_wire::resp::write_command(&mut bytes, &words);
    client.send(&bytes).unwrap();
    String::from_utf8_lossy(&client.frame().unwrap()).into_owned()
}

/// A bulk or verbatim reply as text.
pub(crate) fn text(client: &mut Client, command: &str) -> String {
    let value = client.line(command).unwrap();
    String::from_utf8_lossy(
        value
            .as_bytes()
            .unwrap_or_else(|| panic!("{command}: {value:?}")),
    )
    .into_owned()
}

/// The value of a line of INFO.
pub(crate) fn info(client: &mut Client, name: &str) -> String {
    let all = text(client, "INFO all");
    let value = all
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value
        .unwrap_or_else(|| panic!("INFO has no {name}"))
        .to_owned()
}
