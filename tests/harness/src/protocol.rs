// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the runner in the guest says over virtio-serial. `guest/runner` is the other side.
//!
//! Lines that begin with `@` are the runner's; all others are the output of the test that runs.

/// The reports of one boot.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Tests that ran, in order.
    pub tests: Vec<TestReport>,
    /// The test asked for a reboot and for this mark afterwards.
    pub reboot: Option<String>,
    /// Units that were in a failed state at the end.
    pub failed_units: Vec<String>,
    /// The runner came to its end.
    pub complete: bool,
    /// What systemd-analyze said about this boot.
    pub boot_time: Option<String>,
}

/// One test's part.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestReport {
    /// kola's name of it.
    pub name: String,
    /// Exit status; nothing when the boot ended while it ran.
    pub exit: Option<i32>,
    /// Standard output and error.
    pub output: String,
}

impl Reports {
    /// Reads everything that arrived.
    pub fn parse(text: &str) -> Self {
        let mut reports = Self::default();
        for line in text.lines() {
            let words = line.strip_prefix('@').map(|rest| rest.split_once(' ').unwrap_or((rest, "")));
            match words {
                Some(("test", name)) => {
                    reports.tests.push(TestReport { name: name.to_owned(), ..TestReport::default() });
                }
                Some(("exit", status)) => {
                    if let Some(test) = reports.tests.last_mut() {
                        test.exit = status.parse().ok();
                    }
                }
                Some(("reboot", mark)) => reports.reboot = Some(mark.to_owned()),
                Some(("failed", unit)) => reports.failed_units.push(unit.to_owned()),
                Some(("time", line)) => reports.boot_time = Some(line.to_owned()),
                Some(("end", _)) => reports.complete = true,
                _ => {
                    if let Some(test) = reports.tests.last_mut() {
                        test.output.push_str(line);
                        test.output.push('\n');
                    }
                }
            }
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tests_and_a_unit() {
        let reports = Reports::parse(
            "@test ext.a\n+ true\n@home is not ours\n@exit 0\n@test ext.b\nbad\n@exit 3\n@failed x.service\n@time Startup\n@end\n",
        );
        assert_eq!(reports.tests.len(), 2);
        assert_eq!((reports.tests[0].exit, reports.tests[0].output.as_str()), (Some(0), "+ true\n@home is not ours\n"));
        assert_eq!(reports.tests[1].exit, Some(3));
        assert_eq!(reports.failed_units, ["x.service"]);
        assert!(reports.complete && reports.reboot.is_none());
    }

    #[test]
    fn a_reboot_and_a_boot_that_ended_early() {
        let reports = Reports::parse("@test ext.a\nworking\n@reboot upgraded to B\n@end\n");
        assert_eq!(reports.reboot.as_deref(), Some("upgraded to B"));
        let cut = Reports::parse("@test ext.a\nworking");
        assert_eq!(cut.tests[0].exit, None);
        assert!(!cut.complete);
    }
}
