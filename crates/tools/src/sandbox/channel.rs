//! Messages between the program, the supervisor and the process inside: one line of JSON each, over a socket.
//!
//! Each side also learns from the socket that the other has ended.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

#[derive(Debug)]
pub(super) struct Channel(BufReader<UnixStream>);

impl Channel {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self(BufReader::new(stream))
    }

    /// Returns the channel to the process that started this one: its standard input.
    pub(super) fn of_this_process() -> io::Result<Self> {
        let stream = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self::new(UnixStream::from(stream)))
    }

    /// Waits for the next message. Returns `None` when the other side has closed.
    pub(super) fn read<Message: DeserializeOwned>(&mut self) -> io::Result<Option<Message>> {
        let mut line = Vec::new();
        if self.0.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&line)?))
    }

    pub(super) fn write(&self, message: &impl Serialize) -> io::Result<()> {
        self.0.get_ref().write_all(&line(message)?)
    }

    /// Returns the socket itself, if nothing was read yet.
    pub(super) fn into_async(self) -> io::Result<tokio::net::UnixStream> {
        let stream = self.0.into_inner();
        stream.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(stream)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}
