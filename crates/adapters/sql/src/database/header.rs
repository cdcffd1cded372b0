//! What the first bytes of a file tell, before anything opens it in earnest: SQLite would change some of them when it
//! turns a file into one with a write-ahead log.
//!
//! Not a check: what a log beside the file holds is not seen here, and is looked at again once the file is open.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How a file of SQLite begins (<https://www.sqlite.org/fileformat2.html#the_database_header>).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The bytes of the header.
const BYTES: u64 = 100;

/// What stands in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Whose it is; 0 if nobody said so.
    pub(crate) application: i64,
    /// Which version of a schema it has; 0 if nobody said so.
    pub(crate) version: i64,
    /// Whether anything was ever made in it.
    pub(crate) was_used: bool,
}

/// Reads the header of a file; `None` for a new one, and for what is no file of SQLite or cannot be read, which opening it
/// tells better.
pub(crate) fn of_file(path: &Path) -> Option<Header> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(BYTES).read_to_end(&mut bytes).ok()?;
    let number = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk::<4>()?;
        Some(i64::from(u32::from_be_bytes(*bytes)))
    };
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    Some(Header {
        application: number(68)?,
        version: number(60)?,
        was_used: number(40)? != 0,
    })
}
