//! The tools for a project: `list_files`, `read_file`, `search_files`, which only read, `write_file`, `apply_patch`, and
//! `run_command`.
//!
//! The file tools see one folder and nothing else, but for the ignore files above it ([`ignored`]). Every file is opened
//! through a handle of that folder ([`root`]), so that no symlink, `..`, absolute path or folder swapped at the wrong moment
//! leads out of it. Commands run in that folder; what keeps them there is [`crate::sandbox`].

#[cfg(feature = "commands")]
mod command;
mod content;
mod difference;
mod failure;
mod git;
mod glob;
mod ignored;
mod list;
mod own;
mod patch;
mod read;
mod root;
mod search;
mod secret;
mod target;
mod walk;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use neuraxis_ports::Tool;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blocking::{self, Stop};
use crate::commands::Commands;
use crate::function::{DefinitionError, FunctionTool};
use failure::FileError;
use root::ProjectRoot;

#[cfg(feature = "commands")]
pub use command::COMMAND_ENVIRONMENT;
#[cfg(all(feature = "commands", target_os = "linux"))]
pub(crate) use git::{Named, named_by};
pub use neuraxis_core::SECRET_FILES;
pub use own::OwnFiles;
#[cfg(all(feature = "commands", target_os = "linux"))]
pub(crate) use secret::is_protected_name;
pub use secret::{PROTECTED_NAMES, is_protected, is_secret};
pub use write::content_as_written;

/// How long a patch may take to be fitted to files for showing alone: as long as a tool may look at a call before somebody is
/// asked about it.
const MAX_FITTING: Duration = Duration::from_secs(5);

/// Makes the tools that read and write the files of the project in the folder `root`.
///
/// They stay inside that folder even if it is moved while they are in use. What `.gitignore` files name, those above the
/// folder in its repository included, is left out of lists and searches. Files that match [`SECRET_FILES`] are listed, but neither read, searched nor written, and nothing is
/// written to what [`PROTECTED_NAMES`] names.
///
/// On Linux there also is `run_command`, which runs command lines in that folder. It reads what the user may read, and
/// neither writes elsewhere nor reaches anything else unless a call asks for it. That takes a program whose `main` calls
/// [`run_sandbox_helper`](crate::run_sandbox_helper), and a kernel with Landlock; without, there is no such tool.
///
/// # Errors
///
/// When the folder cannot be opened, is one of [`PROTECTED_NAMES`] or lies in one.
pub fn project_files(root: impl AsRef<Path>) -> Result<Vec<Arc<dyn Tool>>, ProjectError> {
    project_files_without(root, &OwnFiles::default(), Commands::default(), &[])
}

/// As [`project_files`], but the files of the program itself are out of reach, whatever the policy says.
///
/// The file tools neither read nor write secrets and the store, and write no configuration. Commands read no secrets. In
/// the project they change neither secrets nor the store, and for that make, rename and remove nothing in the folders
/// above those, the top of the project included; nor do they change a configuration that is there. Outside the project
/// they write nothing anyway. None of this holds for commands that run [unconfined](Commands::Unconfined).
///
/// Of the variables of this program commands get those that go by a name of `variables`, such as `HTTPS_PROXY`, besides
/// [`COMMAND_ENVIRONMENT`]: name none that holds a secret.
///
/// # Errors
///
/// When the folder cannot be opened, is one of [`PROTECTED_NAMES`] or lies in one.
pub fn project_files_without(
    root: impl AsRef<Path>,
    own: &OwnFiles,
    commands: Commands,
    variables: &[String],
) -> Result<Vec<Arc<dyn Tool>>, ProjectError> {
    let root = Arc::new(ProjectRoot::open(root.as_ref(), own)?);
    let tools = vec![
        list::tool(Arc::clone(&root))?,
        read::tool(Arc::clone(&root))?,
        search::tool(Arc::clone(&root))?,
        write::tool(Arc::clone(&root))?,
        patch::tool(Arc::clone(&root))?,
    ];
    let command = command(root, commands, variables)?;
    Ok(tools.into_iter().chain(command).collect())
}

/// Returns a patch as `apply_patch` would apply it to the files in the folder `root`: without what is passed over, and with the
/// numbers that its hunks have where they fit, whatever it says of them. None where it cannot be applied, or where that takes
/// more than five seconds to find out. Nothing is changed. It reads files, so that it has to be called where it may block.
#[must_use]
pub fn patch_as_applied(root: impl AsRef<Path>, patch: &str) -> Option<String> {
    let root = ProjectRoot::open(root.as_ref(), &OwnFiles::default()).ok()?;
    patch::numbered(&root, patch, &Stop::within(MAX_FITTING)).ok()
}

/// Makes a tool of work on the files of a project, which runs where it may block.
fn file_tool<Arguments, Value>(
    name: &str,
    description: &str,
    root: Arc<ProjectRoot>,
    work: fn(&ProjectRoot, &Arguments, &Stop) -> Result<Value, FileError>,
) -> Result<FunctionTool, DefinitionError>
where
    Arguments: DeserializeOwned + JsonSchema + Send + 'static,
    Value: Serialize + Send + 'static,
{
    FunctionTool::new(name, description, move |arguments: Arguments, ctx| {
        let root = Arc::clone(&root);
        async move { blocking::run(&ctx, move |stop| work(&root, &arguments, stop)).await }
    })
}

#[cfg(feature = "commands")]
use command::tool as command;

#[cfg(not(feature = "commands"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
fn command(
    _: Arc<ProjectRoot>,
    _: Commands,
    _: &[String],
) -> Result<Option<Arc<dyn Tool>>, DefinitionError> {
    Ok(None)
}

/// Why there are no tools for a project's files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// The folder cannot be opened.
    #[error("cannot open the project folder {}", path.display())]
    Root {
        /// The path that was given.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The folder is one to which nothing may be written, or lies in one.
    #[error(
        "the project folder {} is or lies in what nothing may be written to ({}); name the folder of the project itself",
        path.display(),
        PROTECTED_NAMES.join(", ")
    )]
    Protected {
        /// The path that was given.
        path: PathBuf,
    },
    /// A tool is not defined as it should be.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}
