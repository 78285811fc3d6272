// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking again: what may be retried, how often, and for how long.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Why one attempt gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The service may answer later: nobody there, 5xx, 404 on a young machine, a broken reply.
    Again(String),
    /// Asking again cannot help: access refused, an answer that no node can use.
    Never(String),
}

impl Failure {
    /// The message, whichever kind it is.
    pub fn message(&self) -> &str {
        match self {
            Self::Again(message) | Self::Never(message) => message,
        }
    }
}

/// The result of one attempt.
pub type Attempt<T> = Result<T, Failure>;

/// No usable answer.
#[derive(Debug)]
pub struct GaveUp {
    /// What was asked, how often, and the last reason.
    pub message: String,
    /// Asking again cannot help.
    pub for_good: bool,
}

impl GaveUp {
    /// The deadline is over.
    pub fn in_time(message: String) -> Self {
        Self { message, for_good: false }
    }

    /// The exit status: a unit restarts after 1 and does not after 3. Everything that is no `GaveUp` is 2.
    pub fn exit_status(&self) -> u8 {
        if self.for_good { 3 } else { 1 }
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for GaveUp {}

/// How long to go on asking. The pause doubles from `first_pause` up to `longest_pause`.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// After this long no further attempt is begun.
    pub deadline: Duration,
    /// Pause after the first attempt.
    pub first_pause: Duration,
    /// Upper bound of a pause.
    pub longest_pause: Duration,
    /// Upper bound of one HTTP request, from connecting to the last byte.
    pub request: Duration,
}

impl Patience {
    /// Calls `ask` until it answers, says [`Failure::Never`], or the deadline is over; `tell` gets a line for
    /// `systemctl status` before every pause.
    ///
    /// # Errors
    /// [`GaveUp`] with the last reason, the number of attempts and what was asked for.
    pub fn run<T>(&self, what: &str, tell: &dyn Fn(&str), mut ask: impl FnMut() -> Attempt<T>) -> Result<T, GaveUp> {
        let start = Instant::now();
        let mut pause = self.first_pause;
        let mut attempts = 0_u32;
        loop {
            attempts += 1;
            let reason = match ask() {
                Ok(answer) => return Ok(answer),
                Err(Failure::Never(reason)) => {
                    let message = format!("{what}: {reason}; not asking again (attempt {attempts})");
                    return Err(GaveUp { message, for_good: true });
                }
                Err(Failure::Again(reason)) => reason,
            };
            let elapsed = start.elapsed();
            if elapsed + pause > self.deadline {
                let seconds = self.deadline.as_secs_f32();
                return Err(GaveUp::in_time(format!(
                    "{what}: no answer after {attempts} attempts, deadline {seconds} s; last: {reason}"
                )));
            }
            log::warn!("{what}: attempt {attempts}: {reason}; next in {} ms", pause.as_millis());
            tell(&format!("Waiting for {what}, attempt {attempts}: {reason}"));
            sleep(pause);
            pause = (pause * 2).min(self.longest_pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn quick(deadline_ms: u64) -> Patience {
        Patience {
            deadline: Duration::from_millis(deadline_ms),
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(2),
            request: Duration::from_secs(1),
        }
    }

    #[test]
    fn asks_again_and_says_why() {
        let told = RefCell::new(Vec::new());
        let mut left = 2;
        let answer = quick(60_000).run("a name", &|line| told.borrow_mut().push(line.to_owned()), || {
            if left == 0 {
                return Ok("found");
            }
            left -= 1;
            Err(Failure::Again("503 from 169.254.169.254".to_owned()))
        });
        assert_eq!(answer.unwrap(), "found");
        assert_eq!(told.borrow().len(), 2);
        assert!(told.borrow()[1].contains("a name, attempt 2: 503 from"), "{told:?}");
    }

    #[test]
    fn never_ends_at_once() {
        let mut calls = 0;
        let error = quick(60_000)
            .run("a name", &|_| (), || -> Attempt<()> {
                calls += 1;
                Err(Failure::Never("403".to_owned()))
            })
            .unwrap_err();
        assert_eq!(calls, 1);
        assert!(error.to_string().contains("403"), "{error}");
    }

    #[test]
    fn a_zero_deadline_still_asks_once() {
        let mut calls = 0;
        let error = quick(0)
            .run("a name", &|_| (), || -> Attempt<()> {
                calls += 1;
                Err(Failure::Again("refused".to_owned()))
            })
            .unwrap_err();
        assert_eq!(calls, 1);
        assert_eq!(error.to_string(), "a name: no answer after 1 attempts, deadline 0 s; last: refused");
    }
}
