//! A blocking RESP client for the questions around a measurement.

use std::io::{Read, Write};
use std::time::Duration;

use tollgate_wire::resp::{self, Value};

use crate::load::address::{Endpoint, Socket};

/// Longest wait for one answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer read. INFO and COMMAND INFO stay far below.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// Why a question got no answer: a socket says of a time that is over only that it is not ready.
pub(super) fn unanswered(error: &std::io::Error) -> String {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    match error.kind() {
        TimedOut | WouldBlock => format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()),
        _ => error.to_string(),
    }
}

/// One connection, one question at a time.
///
/// After a question without an answer nothing more is asked: what comes then may be that answer, and who asks a server
/// that hangs ten things would wait ten times.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
    input: Vec<u8>,
    /// Why a question got no answer.
    lost: Option<String>,
}

impl Client {
    /// Connects and greets.
    pub fn connect(endpoint: &Endpoint) -> Result<Client, String> {
        Client::patient(endpoint, ANSWER_TIMEOUT)
    }

    /// The same with another wait for each answer.
    fn patient(endpoint: &Endpoint, wait: Duration) -> Result<Client, String> {
        let socket = endpoint.reach()?;
        socket
            .set_timeout(Some(wait))
            .map_err(|error| error.to_string())?;
        Ok(Client {
            socket,
            input: Vec::new(),
            lost: None,
        })
    }

    /// Sends one command and waits for its answer; an error reply is an answer.
    pub(crate) fn call(&mut self, args: &[&[u8]]) -> Result<Value, String> {
        let mut request = Vec::new();
        resp::write_command(&mut request, args);
        let frame = self.exchange(&request, args)?;
        match resp::read_value(&frame) {
            Ok(Some((value, _))) => Ok(value),
            _ => Err(self.failed(args, "the answer is not valid RESP")),
        }
    }

    /// Sends one rendered request and returns the bytes of its answer.
    pub fn ask_rendered(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        self.exchange(request, &[])
    }

    /// `args` name the request in errors.
    fn exchange(&mut self, request: &[u8], args: &[&[u8]]) -> Result<Vec<u8>, String> {
        if let Some(why) = &self.lost {
            return Err(why.clone());
        }
        self.answer(request).map_err(|why| {
            let why = self.failed(args, &why);
            self.lost = Some(why.clone());
            why
        })
    }

    fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        self.socket
            .write_all(request)
            .map_err(|error| unanswered(&error))?;
        loop {
            match resp::frame_len(&self.input) {
                Ok(Some(length)) => return Ok(self.input.drain(..length).collect()),
                Ok(None) if self.input.len() > ANSWER_MAX => {
                    return Err("the answer is too long".into());
                }
                Ok(None) => {}
                Err(error) => return Err(format!("the answer is not valid RESP: {error}")),
            }
            let mut bytes = [0; 16 * 1024];
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unanswered(&error)),
            }
        }
    }

    /// Like [`Client::call`], with an error reply as an `Err`.
    pub fn ask(&mut self, args: &[&[u8]]) -> Result<Value, String> {
        let value = self.call(args)?;
        match value.as_error() {
            Some(text) => Err(self.failed(args, &String::from_utf8_lossy(text))),
            None => Ok(value),
        }
    }

    fn failed(&self, args: &[&[u8]], why: &str) -> String {
        match args.first() {
            Some(name) => format!("{}: {why}", String::from_utf8_lossy(name)),
            None => why.into(),
        }
    }

    /// `INFO section` as name and value pairs.
    pub(crate) fn info(&mut self, section: &str) -> Result<Vec<(String, String)>, String> {
        let value = self.ask(&[b"INFO", section.as_bytes()])?;
        let text = String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned();
        Ok(text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(k, v)| (k.into(), v.trim().into()))
            .collect())
    }

    /// Whether the server has the command `name`, by COMMAND INFO.
    pub(crate) fn has_command(&mut self, name: &str) -> bool {
        match self.ask(&[b"COMMAND", b"INFO", name.as_bytes()]) {
            Ok(value) => value
                .as_array()
                .and_then(|rows| rows.first())
                .is_some_and(|row| row.as_array().is_some_and(|r| !r.is_empty())),
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::load::address::Address;

    #[test]
    fn an_answer_that_came_too_late_is_not_taken_for_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::plain(Address::Tcp(listener.local_addr().unwrap()));
        let mut client = Client::patient(&endpoint, Duration::from_millis(20)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let first = client.ask(&[b"PING"]).unwrap_err();
        assert!(first.starts_with("PING: no answer"), "{first}");
        server.write_all(b"+PONG\r\n").unwrap();
        // Nothing more is asked, and the reason stays that of the question that was not answered.
        assert_eq!(client.ask(&[b"INFO"]).unwrap_err(), first);
        assert_eq!(client.call(&[b"DBSIZE"]).unwrap_err(), first);
        assert_eq!(client.ask_rendered(b"GET x\r\n").unwrap_err(), first);
    }
}
