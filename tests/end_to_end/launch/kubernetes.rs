//! The example of a Kubernetes Job, checked against the schemas of Kubernetes.

use crate::bounded::Bounded;
use crate::common::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;

const VALIDATE: &str = "
import sys, yaml, kubernetes_validate
kinds = [document['kind'] for document in yaml.safe_load_all(open(sys.argv[1]))]
for document in yaml.safe_load_all(open(sys.argv[1])):
    kubernetes_validate.validate(document, '1.33', strict=True)
print(*kinds)
";

/// Returns a Python with the schemas, under the build directory, or why there is none.
fn python() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-venv");
    let python = target.join("bin/python");
    let run = |command: &mut Command| match command.output_in_time() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it failed").to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let import = |python: &Path| run(Command::new(python).args(["-c", "import kubernetes_validate, yaml"]));
    if import(&python).is_err() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&target)).map_err(|e| format!("no virtual environment: {e}"))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "kubernetes-validate==1.37.0"];
        run(Command::new(&python).args(pip)).map_err(|e| format!("the package kubernetes-validate cannot be installed: {e}"))?;
        import(&python)?;
    }
    Ok(python)
}

#[test]
fn the_examples_kubernetes_job_is_what_its_schema_wants() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skipped(&why),
    };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/launch/kubernetes-job.yaml");
    let validate = |path: &Path| Command::new(&python).args(["-c", VALIDATE]).arg(path).output_in_time().unwrap();
    let good = validate(&example);
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    assert_eq!(String::from_utf8_lossy(&good.stdout).trim(), "Service Job");
    // The check detects errors.
    let here = crate::common::scratch();
    let text = std::fs::read_to_string(&example).unwrap();
    for (right, wrong) in [("completions: 4", "completions: four"), ("successPolicy:", "sucessPolicy:"), ("volumeMounts:", "mounts:")] {
        let path = crate::common::file(here.path(), "wrong.yaml", text.replacen(right, wrong, 1).as_bytes());
        assert!(!validate(&path).status.success(), "{wrong} is accepted");
    }
}
