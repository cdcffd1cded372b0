//! The tools for a project: `list_files`, `read_file` and `search_files`, which only read, and `write_file`,
//! `apply_patch` and `run_command`.
//!
//! The file tools see one folder and nothing else, except the ignore files above it ([`ignored`]). Every file is opened
//! through a handle of that folder ([`root`]), so that no symlink, `..`, absolute path or folder swapped at the wrong
//! moment leads out of it. Commands run in that folder; [`crate::sandbox`] keeps them there.

#[cfg(feature = "commands")]
mod command;
mod content;
mod difference;
mod failure;
mod git;
mod glob;
mod ignored;
mod list;
mod patch;
mod program_files;
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
pub(crate) use git::{NamedByGit, named_by_git};
pub use neuraxis_core::SECRET_FILES;
pub use program_files::ProgramFiles;
#[cfg(all(feature = "commands", target_os = "linux"))]
pub(crate) use secret::is_protected_name;
pub use secret::{PROTECTED_NAMES, is_protected, is_secret};
pub use write::content_as_written;

/// How long fitting a patch to files may take when it is only displayed: the same limit that a tool has for checking a
/// call before the user is asked about it.
const MAX_FITTING: Duration = Duration::from_secs(5);

/// Creates the tools that read and write the files of the project in the folder `root`.
///
/// The tools stay inside that folder even if it is moved while they are in use. Lists and searches leave out what
/// `.gitignore` files name, including those above the folder in its repository. Files that match [`SECRET_FILES`] are
/// listed, but neither read, searched nor written, and nothing is written to the files and folders named in
/// [`PROTECTED_NAMES`].
///
/// On Linux there is also `run_command`, which runs command lines in that folder. Commands can read what the user can
/// read, but cannot write elsewhere or reach anything else unless a call requests it. The tool requires a program whose
/// `main` calls [`run_sandbox_helper`](crate::run_sandbox_helper), and a kernel with Landlock; otherwise it is missing.
///
/// # Errors
///
/// An error if the folder cannot be opened, or is one of [`PROTECTED_NAMES`] or inside one.
pub fn project_files(root: impl AsRef<Path>) -> Result<Vec<Arc<dyn Tool>>, ProjectError> {
    project_files_without(root, &ProgramFiles::default(), Commands::default(), &[])
}

/// Like [`project_files`], but the program's own files are out of reach, whatever the policy says.
///
/// The file tools neither read nor write secrets and the store, and do not write configuration. Commands cannot read
/// secrets. In the project, they cannot change secrets or the store, and to ensure that, they cannot create, rename or
/// remove anything in the folders above those, including the project root. Nor can they change an existing
/// configuration. Outside the project, they cannot write anyway. None of this applies to commands that run
/// [unconfined](Commands::Unconfined).
///
/// Of this program's environment variables, commands get [`COMMAND_ENVIRONMENT`] and those named in `variables`, such
/// as `HTTPS_PROXY`: name none that holds a secret.
///
/// # Errors
///
/// An error if the folder cannot be opened, or is one of [`PROTECTED_NAMES`] or inside one.
pub fn project_files_without(
    root: impl AsRef<Path>,
    program_files: &ProgramFiles,
    commands: Commands,
    variables: &[String],
) -> Result<Vec<Arc<dyn Tool>>, ProjectError> {
    let root = Arc::new(ProjectRoot::open(root.as_ref(), program_files)?);
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

/// Returns a patch as `apply_patch` would apply it to the files in the folder `root`: without the lines that are
/// ignored, and with the actual line numbers of its hunks, whatever the patch says. Returns `None` if the patch cannot
/// be applied, or if determining that takes more than five seconds. Changes nothing. It reads files, so call it where
/// it may block.
#[must_use]
pub fn patch_as_applied(root: impl AsRef<Path>, patch: &str) -> Option<String> {
    let root = ProjectRoot::open(root.as_ref(), &ProgramFiles::default()).ok()?;
    patch::numbered(&root, patch, &Stop::within(MAX_FITTING)).ok()
}

/// Creates a tool whose work on the project's files runs where it may block.
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
        /// The given path.
        path: PathBuf,
        /// The file system's error.
        source: io::Error,
    },
    /// The folder is one to which nothing may be written, or is inside one.
    #[error(
        "the project folder {} is, or is inside, something that must not be written to ({}); name the project's own folder",
        path.display(),
        PROTECTED_NAMES.join(", ")
    )]
    Protected {
        /// The given path.
        path: PathBuf,
    },
    /// A tool's definition is invalid.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}
