//! `cargo xtask packages`: checks that each crate could be published as it is, without publishing anything: what a registry
//! asks for is said, and what a user has to find in a package is in it.

use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use cargo_metadata::{MetadataCommand, Package};

use crate::cargo::{cargo, workspace_root};

/// The most keywords and categories that a registry takes, and the most characters of a keyword.
const MOST: usize = 5;
const KEYWORD_CHARS: usize = 20;

/// What every package holds.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Runs the subcommand.
pub(crate) fn run() -> ExitCode {
    match check() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks all crates but this one.
pub(crate) fn check() -> anyhow::Result<()> {
    let packages = packages()?;
    let faults = packages.iter().filter_map(|package| {
        let fault = publishable(package).err()?;
        println!("{}: {fault:#}", package.name);
        Some(fault)
    });
    match faults.count() {
        0 => Ok(()),
        some => bail!("{some} of {} crates could not be published", packages.len()),
    }
}

/// Returns the crates of the workspace that are for others.
pub(crate) fn packages() -> anyhow::Result<Vec<Package>> {
    let metadata = MetadataCommand::new()
        .current_dir(workspace_root())
        .no_deps()
        .exec()
        .context("cargo metadata")?;
    let packages = metadata.packages.into_iter();
    Ok(packages.filter(|it| it.name.as_str() != "xtask").collect())
}

fn publishable(package: &Package) -> anyhow::Result<()> {
    described(package)?;
    let mut listing = cargo("package --list --allow-dirty --package");
    let output = listing
        .arg(package.name.as_str())
        .output()
        .context("cargo package cannot be started")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let files = String::from_utf8(output.stdout).context("cargo package writes UTF-8")?;
    for file in FILES {
        ensure!(
            files.lines().any(|it| it == file),
            "no {file} in its package"
        );
    }
    Ok(())
}

fn described(package: &Package) -> anyhow::Result<()> {
    let said = package.description.as_deref().unwrap_or_default();
    ensure!(!said.is_empty(), "no description");
    ensure!(package.license.is_some(), "no license");
    let (keywords, categories) = (&package.keywords, &package.categories);
    ensure!((1..=MOST).contains(&keywords.len()), "1 to {MOST} keywords");
    ensure!(
        (1..=MOST).contains(&categories.len()),
        "1 to {MOST} categories"
    );
    let is_plain = |keyword: &String| {
        keyword.len() <= KEYWORD_CHARS
            && keyword.starts_with(|first: char| first.is_ascii_alphanumeric())
            && keyword
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "_-+".contains(it))
    };
    if let Some(other) = keywords.iter().find(|keyword| !is_plain(keyword)) {
        bail!("{other:?} is no keyword");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_could_be_published_as_it_is() {
        check().unwrap();
    }

    #[test]
    fn a_crate_that_says_too_little_is_told_what_is_missing() {
        let mut package = packages().unwrap().remove(0);
        package.keywords = vec!["large language model".to_owned()];
        let fault = described(&package).unwrap_err().to_string();
        assert_eq!(fault, "\"large language model\" is no keyword");
        package.keywords.clear();
        assert_eq!(
            described(&package).unwrap_err().to_string(),
            "1 to 5 keywords"
        );
    }
}
