//! `cargo xtask packages`: checks, without publishing anything, that each crate could be published as it is: its
//! manifest has what a registry requires, and its package contains what users need.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use cargo_metadata::{MetadataCommand, Package};

use crate::cargo::{cargo, workspace_root};

/// The maximum number of keywords and of categories that a registry accepts, and the maximum length of a keyword.
const MOST: usize = 5;
const KEYWORD_CHARS: usize = 20;

/// The files that every package must contain.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Macros that read a file at compile time.
const INCLUDES: [&str; 3] = ["include!(", "include_bytes!(", "include_str!("];

/// Checks all crates except this one.
pub(crate) fn check() -> anyhow::Result<()> {
    let packages = packages()?;
    let faults = packages.iter().filter_map(|package| {
        let fault = publishable(package).err()?;
        println!("{}: {fault:#}", package.name);
        Some(fault)
    });
    match faults.count() {
        0 => Ok(()),
        some => bail!("{some} of {} crates cannot be published", packages.len()),
    }
}

/// Returns the crates of the workspace that are meant for others.
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
        .context("cannot start cargo package")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let files =
        String::from_utf8(output.stdout).context("the output of cargo package is not UTF-8")?;
    for file in FILES {
        ensure!(
            files.lines().any(|it| it == file),
            "{file} is missing from its package"
        );
    }
    let root = package.manifest_path.with_file_name("");
    let is_source = |file: &&str| file.starts_with("src/") && file.ends_with(".rs");
    for file in files.lines().filter(is_source) {
        let text = fs::read_to_string(root.join(file)).with_context(|| file.to_owned())?;
        holds_what_it_includes(file, &text, &files)?;
    }
    Ok(())
}

/// Checks that files which a source file includes from other folders are in its package, because users compile it
/// there. Files included by tests do not matter.
fn holds_what_it_includes(file: &str, text: &str, files: &str) -> anyhow::Result<()> {
    let text = without_tests(text);
    let included = INCLUDES
        .into_iter()
        .flat_map(|name| text.split(name).skip(1));
    // The first literal gives the folder; the rest may be a macro parameter.
    let paths = included.filter_map(|behind| behind.split('"').nth(1));
    for path in paths.filter(|path| path.starts_with("..")) {
        let is_there = resolved(file, path).is_some_and(|place| {
            let mut files = files.lines();
            files.any(|it| Path::new(it).starts_with(&place))
        });
        ensure!(
            is_there,
            "{file} includes {path}, which is not in its package; link it into the crate's folder"
        );
    }
    Ok(())
}

/// Returns the lines of a source file, without test-only modules.
fn without_tests(text: &str) -> String {
    let mut lines = Vec::new();
    let (mut is_announced, mut is_of_tests) = (false, false);
    for line in text.lines() {
        is_of_tests |= is_announced && begins_module(line);
        if !is_of_tests {
            lines.push(line);
        }
        // Other attributes may come in between.
        is_announced = announces_tests(line) || (is_announced && line.starts_with("#["));
        is_of_tests &= line != "}";
    }
    lines.join("\n")
}

/// Returns whether what follows an attribute is compiled only for tests.
fn announces_tests(line: &str) -> bool {
    ["#[cfg(test)]", "#[cfg(doctest)]"].contains(&line) || line.starts_with("#[cfg(all(test, ")
}

fn begins_module(line: &str) -> bool {
    line.ends_with('{') && line.split(' ').any(|word| word == "mod")
}

/// Returns the target of a path in a file of the package, relative to the package's folder, or `None` if it is outside.
fn resolved(file: &str, path: &str) -> Option<PathBuf> {
    let mut place = Path::new(file).parent()?.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir if !place.pop() => return None,
            Component::Normal(part) => place.push(part),
            _ => {}
        }
    }
    Some(place)
}

fn described(package: &Package) -> anyhow::Result<()> {
    let said = package.description.as_deref().unwrap_or_default();
    ensure!(!said.is_empty(), "no description");
    ensure!(package.license.is_some(), "no license");
    let (keywords, categories) = (&package.keywords, &package.categories);
    ensure!(
        (1..=MOST).contains(&keywords.len()),
        "expected 1 to {MOST} keywords"
    );
    ensure!(
        (1..=MOST).contains(&categories.len()),
        "expected 1 to {MOST} categories"
    );
    let is_plain = |keyword: &String| {
        keyword.len() <= KEYWORD_CHARS
            && keyword.starts_with(|first: char| first.is_ascii_alphanumeric())
            && keyword
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "_-+".contains(it))
    };
    if let Some(other) = keywords.iter().find(|keyword| !is_plain(keyword)) {
        bail!("{other:?} is not a valid keyword");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_can_be_published_unchanged() {
        check().unwrap();
    }

    #[test]
    fn a_crate_that_includes_files_outside_its_package_cannot_be_published() {
        let files = "docs/chat.md\nsrc/help/topics.rs";
        let check = |text: &str| holds_what_it_includes("src/help/topics.rs", text, files);
        let including = |path: &str| {
            format!("macro_rules! topic {{\n    include_str!(concat!(\"{path}\", $file))\n}}\n")
        };
        check(&including("../../docs/")).unwrap();
        let fault = check(&including("../../../docs/")).unwrap_err().to_string();
        let expected = "src/help/topics.rs includes ../../../docs/, which is not in its package";
        assert!(fault.starts_with(expected), "{fault}");
        check(&including("../../page/")).unwrap_err();
        let module = "mod it {\n    include_str!(\"../../../docs/chat.md\");\n}\n";
        for attributes in [
            "#[cfg(test)]\n",
            "#[cfg(test)]\n#[cfg(unix)]\npub(super) ",
            "#[cfg(all(test, unix))]\n",
            "#[cfg(doctest)]\n",
        ] {
            let tests = format!("{attributes}{module}");
            check(&tests).unwrap();
            check(&(tests + &including("../../../docs/"))).unwrap_err();
        }
        for before in [
            "#[cfg(test)]\nuse it;\n",
            "#[cfg(test)]\nmod tests;\n",
            "#[cfg(not(test))]\n",
            "#[cfg(any(test, unix))]\n",
            "#[cfg(feature = \"testkit\")]\n",
        ] {
            check(&format!("{before}{module}")).unwrap_err();
        }
    }

    #[test]
    fn incomplete_package_metadata_is_refused_with_what_is_missing() {
        let mut package = packages().unwrap().remove(0);
        package.keywords = vec!["large language model".to_owned()];
        let fault = described(&package).unwrap_err().to_string();
        assert_eq!(fault, "\"large language model\" is not a valid keyword");
        package.keywords.clear();
        assert_eq!(
            described(&package).unwrap_err().to_string(),
            "expected 1 to 5 keywords"
        );
    }
}
