//! `tidy`: what a compiler does not check. Every finding says what to do instead.

mod floors;
mod lengths;
mod modules;
mod root;
mod source;
mod test_count;
mod words;

use std::path::PathBuf;
use std::process::Command;

use source::Source;

use crate::Failure;

/// The repository as the checks see it.
pub(crate) struct Tree {
    /// Root folder.
    pub(crate) root: PathBuf,
    /// Every file that is or would be committed, relative to the root, sorted.
    pub(crate) files: Vec<String>,
    /// The Rust files among them.
    pub(crate) sources: Vec<Source>,
}

impl Tree {
    pub(crate) fn read() -> Result<Tree, Failure> {
        let root = tollgate_testkit::repo_root();
        // Also where the files are another user's, as in containers: git only lists them.
        let output = Command::new("git")
            .args(["-c", "safe.directory=*"])
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(&root)
            .output()?;
        if !output.status.success() {
            return Err(format!(
                "git ls-files failed: {}",
                String::from_utf8_lossy(&output.stderr)
            )
            .into());
        }
        let mut files: Vec<String> = String::from_utf8(output.stdout)?
            .split_terminator('\0')
            .filter(|file| root.join(file).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        let sources = files
            .iter()
            .filter(|file| file.ends_with(".rs"))
            .map(|file| Ok(Source::new(file, std::fs::read_to_string(root.join(file))?)))
            .collect::<Result<_, std::io::Error>>()?;
        Ok(Tree {
            root,
            files,
            sources,
        })
    }
}

/// Findings of the checks that need no build.
fn quick(tree: &Tree) -> Result<Vec<String>, Failure> {
    let metadata = floors::metadata()?;
    let mut findings = floors::check(&metadata)?;
    findings.extend(modules::check(tree, &metadata));
    findings.extend(root::check(tree));
    findings.extend(lengths::check(tree)?);
    findings.extend(words::check(tree));
    Ok(findings)
}

/// Runs the task. `--quick` leaves out the test count, which builds every test.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let quick_only = match args {
        [] => false,
        [flag] if flag == "--quick" => true,
        _ => return Err("usage: cargo xtask tidy [--quick]".into()),
    };
    let tree = Tree::read()?;
    let mut findings = quick(&tree)?;
    if !quick_only {
        findings.extend(test_count::check(&tree)?);
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing found", tree.files.len());
        return Ok(());
    }
    findings.iter().for_each(|finding| println!("{finding}"));
    Err(format!("tidy: {} findings", findings.len()).into())
}

#[cfg(test)]
mod tests {
    use super::{Tree, quick};

    #[test]
    fn the_tree_is_tidy() {
        let tree = Tree::read().expect("the repository can be read");
        let findings = quick(&tree).expect("the checks can run");
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
