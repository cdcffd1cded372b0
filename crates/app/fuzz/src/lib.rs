//! Properties that must hold for any input: one function for each fuzz target, which panics if the property does not
//! hold.

mod archive;
mod citations;
mod command;
mod config;
mod eval;
mod frames;
mod patch;
mod record;
mod url;

pub use self::archive::archive;
pub use self::citations::citations;
pub use self::command::command;
pub use self::config::config;
pub use self::eval::eval;
pub use self::frames::frames;
pub use self::patch::patch;
pub use self::record::record;
pub use self::url::url;
