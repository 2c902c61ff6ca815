//! The sockets that a server listens on, from its settings.

use crate::config::{Config, Key};
use crate::server::StartError;
use crate::tls;
use std::path::Path;
use std::sync::Arc;
use tollgate_net::tls::TlsAcceptor;
use tollgate_net::{ListenError, Listener, PeerAddress, SocketOptions};

/// What was opened.
pub(crate) struct Listening {
    pub(crate) listeners: Vec<Listener>,
    /// The port of TLS and its certificates, if there is one.
    pub(crate) tls: Option<(u16, Arc<TlsAcceptor>)>,
    /// Addresses that this machine does not have and that may be absent.
    pub(crate) absent: Vec<ListenError>,
}

/// Opens every socket that the settings name. An error when one cannot be opened that has to be, or none could.
pub(crate) fn listen(config: &Config) -> Result<Listening, StartError> {
    let tls = match config.number(Key::TlsPort) as u16 {
        0 => None,
        port => {
            let acceptor = tls::acceptor(|key| config.get(key)).map_err(StartError::Config)?;
            Some((port, acceptor))
        }
    };
    let mut opened = Opened {
        config,
        options: SocketOptions {
            backlog: config.number(Key::TcpBacklog) as i32,
        },
        listeners: Vec::new(),
        absent: Vec::new(),
    };
    if let Some((port, _)) = &tls {
        opened.tcp(*port)?;
    }
    let port = config.number(Key::Port) as u16;
    // Beside TLS port 0 means that plain connections are not wanted.
    if port != 0 || tls.is_none() {
        opened.tcp(port)?;
    }
    let memcached = config.number(Key::MemcachedPort) as u16;
    if memcached != 0 {
        opened.tcp(memcached)?;
    }
    opened.unix()?;
    let Opened {
        listeners, absent, ..
    } = opened;
    Ok(Listening {
        listeners,
        tls,
        absent,
    })
}

struct Opened<'c> {
    config: &'c Config,
    options: SocketOptions,
    listeners: Vec<Listener>,
    absent: Vec<ListenError>,
}

impl Opened<'_> {
    /// Listens on a port of each address of `bind`; port 0 chooses once for all of them.
    fn tcp(&mut self, mut port: u16) -> Result<(), StartError> {
        let before = self.listeners.len();
        let mut absent = Vec::new();
        for wanted in self.config.bind() {
            let listener = match Listener::tcp(wanted.ip, port, self.options) {
                Ok(listener) => listener,
                Err(error) if wanted.may_be_absent && error.is_absence() => {
                    absent.push(error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if let PeerAddress::Tcp(address) = listener.address() {
                port = address.port();
            }
            self.listeners.push(listener);
        }
        match absent.pop() {
            Some(last) if self.listeners.len() == before => Err(last.into()),
            last => {
                self.absent.extend(absent);
                self.absent.extend(last);
                Ok(())
            }
        }
    }

    fn unix(&mut self) -> Result<(), StartError> {
        let path = self.config.get(Key::UnixSocket);
        if !path.is_empty() {
            let mode = u32::from_str_radix(self.config.get(Key::UnixSocketPerm), 8)
                .ok()
                .filter(|&mode| mode != 0);
            let listener = Listener::unix(Path::new(path), mode, self.options)?;
            self.listeners.push(listener);
        }
        Ok(())
    }
}
