//! Reads a file up to a number of bytes, and no further once the call is stopped.

use std::io::{self, Read};

use crate::work::Stop;

#[derive(Debug)]
pub(super) struct MeteredReader<'a, File> {
    file: File,
    most: u64,
    read: u64,
    stop: &'a Stop,
}

impl<'a, File> MeteredReader<'a, File> {
    pub(super) fn new(file: File, most: u64, stop: &'a Stop) -> Self {
        Self {
            file,
            most,
            read: 0,
            stop,
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.read
    }
}

impl<File: Read> Read for MeteredReader<'_, File> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let left = usize::try_from(self.most - self.read).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.read += read as u64;
        Ok(read)
    }
}
