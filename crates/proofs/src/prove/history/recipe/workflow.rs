//! The workflow as `docs/ci.md` has it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use yaml_rust2::{Yaml, YamlLoader};

const TEXT: &str = include_str!("../../../../../../docs/ci.md");

/// A workflow for GitHub Actions.
pub(super) struct Workflow {
    /// The variables of all jobs.
    pub(super) env: BTreeMap<String, String>,
    jobs: BTreeMap<String, Vec<Step>>,
}

/// A step of a job.
#[derive(Debug)]
pub(super) struct Step {
    /// Its name; empty if it has none.
    pub(super) name: String,
    /// The text for bash; `None` if it uses an action.
    pub(super) run: Option<String>,
    /// The folder that it checks a commit out into, if it does.
    pub(super) checks_out: Option<String>,
    /// When it runs; `None` if all steps before it must succeed.
    pub(super) condition: Option<String>,
}

impl Workflow {
    /// The one workflow of `docs/ci.md`.
    pub(super) fn documented() -> Result<Self> {
        let blocks: Vec<&str> =
            TEXT.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```\n").next()).collect();
        let [block] = blocks[..] else { anyhow::bail!("docs/ci.md has {} workflows", blocks.len()) };
        Self::read(block)
    }

    fn read(text: &str) -> Result<Self> {
        let documents = YamlLoader::load_from_str(text).context("the workflow is no YAML")?;
        let [workflow] = &documents[..] else { anyhow::bail!("expected one document") };
        let env =
            pairs(&workflow["env"]).map(|(name, value)| (name, word(value).unwrap_or_default())).collect();
        let jobs = pairs(&workflow["jobs"])
            .map(|(name, job)| {
                let steps = job["steps"].as_vec().with_context(|| format!("the job {name} has no steps"))?;
                Ok((name, steps.iter().map(Step::read).collect()))
            })
            .collect::<Result<_>>()?;
        Ok(Self { env, jobs })
    }

    /// The steps of a job, in their order.
    pub(super) fn steps(&self, job: &str) -> Result<&[Step]> {
        let steps = self.jobs.get(job).with_context(|| format!("the workflow has no job {job}"))?;
        ensure!(steps.iter().any(|step| step.run.is_some()), "the job {job} runs nothing");
        Ok(steps)
    }
}

impl Step {
    fn read(step: &Yaml) -> Self {
        let uses = word(&step["uses"]).unwrap_or_default();
        let path = word(&step["with"]["path"]);
        Self {
            name: word(&step["name"]).unwrap_or_default(),
            run: word(&step["run"]),
            checks_out: path.filter(|_| uses.starts_with("actions/checkout@")),
            condition: word(&step["if"]),
        }
    }
}

fn pairs(map: &Yaml) -> impl Iterator<Item = (String, &Yaml)> {
    map.as_hash().into_iter().flatten().filter_map(|(name, value)| Some((name.as_str()?.to_owned(), value)))
}

fn word(value: &Yaml) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn both_jobs_are_read_with_all_their_steps() {
        let workflow = Workflow::documented().unwrap();
        assert_eq!(workflow.env["SERVE"], "my-server -p {port} -z {zone}");
        let names = |job: &str| -> Vec<String> {
            workflow
                .steps(job)
                .unwrap()
                .iter()
                .map(|step| step.name.clone())
                .filter(|name| !name.is_empty())
                .collect()
        };
        assert_eq!(names("merge-request"), ["Compare both builds", "Comment"]);
        assert_eq!(
            names("history"),
            [
                "Build the reference once",
                "Build and keep the build",
                "Measure and remember",
                "Ask the history",
                "Mark the commits with which it became worse",
                "Compare with the commit before"
            ]
        );
        let checked_out: Vec<&str> =
            workflow.steps("history").unwrap().iter().filter_map(|step| step.checks_out.as_deref()).collect();
        assert_eq!(checked_out, ["new", "reference"]);
    }

    #[test]
    fn bash_reads_every_step() {
        let workflow = Workflow::documented().unwrap();
        for text in ["merge-request", "history"]
            .iter()
            .flat_map(|job| workflow.steps(job).unwrap())
            .filter_map(|step| step.run.as_ref())
        {
            let read = Command::new("bash").args(["-n", "-c", text]).status().unwrap();
            assert!(read.success(), "{text}");
        }
    }
}
