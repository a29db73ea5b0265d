//! Where secrets come from: the environment, a folder of files, or a command.
//!
//! None of them keeps a value: each is asked again before each attempt, so that a rotated secret is used at once.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use surestep::{Secret, SecretError, SecretSource};

/// How the variables begin that the command line reads secrets from. Whatever runs below the guard does not inherit them.
pub const SECRET_PREFIX: &str = "SURESTEP_SECRET_";

/// The longest secret, in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;

fn absent(name: &str, place: String) -> SecretError {
    SecretError::Absent { name: name.to_owned(), place }
}

fn unusable(name: &str, why: impl Into<String>) -> SecretError {
    SecretError::Unusable { name: name.to_owned(), why: why.into() }
}

/// A name is a plain word, so that it is no path and no option.
fn check(name: &str) -> Result<(), SecretError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if starts && name.len() <= 100 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(unusable(name, "its name is not a letter followed by letters, digits, `_`, `.` and `-`"))
}

/// Variables of this process: the secret `NAME` is the variable `<prefix>NAME`. Commands inherit the environment: under
/// another prefix than [`SECRET_PREFIX`], [`Guard::hiding`](crate::guard::Guard::hiding) keeps these from them.
#[derive(Debug, Clone)]
pub struct EnvSecrets {
    prefix: String,
}

impl EnvSecrets {
    /// Variables with this prefix; it may be empty.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }
}

#[async_trait]
impl SecretSource for EnvSecrets {
    async fn secret(&self, name: &str) -> Result<Secret, SecretError> {
        check(name)?;
        let variable = format!("{}{name}", self.prefix);
        match std::env::var(&variable) {
            Ok(value) => Ok(Secret::new(value)),
            Err(std::env::VarError::NotPresent) => {
                Err(absent(name, format!("the variable {variable} is not set")))
            }
            Err(std::env::VarError::NotUnicode(_)) => Err(unusable(name, "it is not UTF-8")),
        }
    }
}

/// Files in a folder: the secret `NAME` is the content of the file `NAME`, without one line end at its end. A file that
/// others than its owner can read is refused.
#[derive(Debug, Clone)]
pub struct FileSecrets {
    dir: PathBuf,
}

impl FileSecrets {
    /// Files in this folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn read(&self, name: &str) -> Result<Secret, SecretError> {
        check(name)?;
        let path = self.dir.join(name);
        let meta =
            fs::metadata(&path).map_err(|_| absent(name, format!("there is no file {}", path.display())))?;
        if !meta.is_file() {
            return Err(unusable(name, format!("{} is no file", path.display())));
        }
        if meta.mode() & 0o077 != 0 {
            let mode = meta.mode() & 0o777;
            return Err(unusable(
                name,
                format!("others can use {} (mode {mode:03o}): make it 600", path.display()),
            ));
        }
        if meta.len() > SECRET_BYTES_MAX {
            return Err(unusable(name, format!("it is longer than {SECRET_BYTES_MAX} bytes")));
        }
        let text = fs::read_to_string(&path)
            .map_err(|error| unusable(name, format!("{} cannot be read: {error}", path.display())))?;
        Ok(Secret::new(without_line_end(&text)))
    }
}

#[async_trait]
impl SecretSource for FileSecrets {
    async fn secret(&self, name: &str) -> Result<Secret, SecretError> {
        let (this, name) = (self.clone(), name.to_owned());
        let asked = name.clone();
        crate::command::blocking(move || this.read(&asked))
            .await
            .unwrap_or_else(|fault| Err(unusable(&name, fault.message)))
    }
}

/// A command, such as a password manager's: it gets the secret's name as its last argument, and prints the value.
#[derive(Debug, Clone)]
pub struct CommandSecrets {
    run: Vec<String>,
    limit: Duration,
}

impl CommandSecrets {
    /// Runs this program with these arguments, for 10 s at most.
    #[must_use]
    pub fn new(run: impl IntoIterator<Item = String>) -> Self {
        Self { run: run.into_iter().collect(), limit: Duration::from_secs(10) }
    }

    /// Runs it for so long at most.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn ask(&self, name: &str) -> Result<Secret, SecretError> {
        check(name)?;
        let (program, args) = self.run.split_first().ok_or_else(|| unusable(name, "no command is set"))?;
        let failed = |why: String| unusable(name, format!("`{program}` {why}"));
        let child = Command::new(program)
            .args(args)
            .arg(name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(format!("cannot be started: {error}")))?;
        self.answer(child, &failed)
    }

    fn answer(
        &self,
        mut child: Child,
        failed: &dyn Fn(String) -> SecretError,
    ) -> Result<Secret, SecretError> {
        let until = Instant::now() + self.limit;
        let stdout = child.stdout.take();
        let (tell, told) = mpsc::channel();
        // Read beside the wait: a long answer must not block its writer. What it started may hold its output open for
        // ever: then the reader is left behind.
        std::thread::spawn(move || {
            use std::io::Read as _;
            let mut text = String::new();
            let read = stdout.map(|out| out.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text));
            let _ = tell.send(read.is_some_and(|read| read.is_ok()).then_some(text));
        });
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed(format!("did not answer within {:?}", self.limit)));
                }
                Err(error) => return Err(failed(format!("cannot be waited for: {error}"))),
            }
        };
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(50));
        match told.recv_timeout(left) {
            // First: whoever prints on is ended by that.
            Ok(Some(text)) if text.len() as u64 > SECRET_BYTES_MAX => {
                Err(failed(format!("printed more than {SECRET_BYTES_MAX} bytes")))
            }
            Ok(_) | Err(_) if !status.success() => Err(failed(format!("said no ({status})"))),
            Ok(Some(text)) => Ok(Secret::new(without_line_end(&text))),
            Ok(None) => Err(failed("printed what is not UTF-8".to_owned())),
            Err(_) => Err(failed("ended, and what it started holds its output open".to_owned())),
        }
    }
}

#[async_trait]
impl SecretSource for CommandSecrets {
    async fn secret(&self, name: &str) -> Result<Secret, SecretError> {
        let (this, name) = (self.clone(), name.to_owned());
        let asked = name.clone();
        crate::command::blocking(move || this.ask(&asked))
            .await
            .unwrap_or_else(|fault| Err(unusable(&name, fault.message)))
    }
}

fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn ask(source: &impl SecretSource, name: &str) -> Result<Secret, SecretError> {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(source.secret(name))
    }

    #[test]
    fn the_environment_is_asked_with_its_prefix() {
        // Every process has a PATH.
        assert_eq!(ask(&EnvSecrets::new("PA"), "TH").unwrap().expose(), std::env::var("PATH").unwrap());
        let error = ask(&EnvSecrets::new("SURESTEP_SECRET_"), "NOT_THERE").unwrap_err();
        assert!(error.to_string().contains("SURESTEP_SECRET_NOT_THERE is not set"), "{error}");
    }

    #[test]
    fn a_file_must_be_its_owners_alone_and_a_name_is_no_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("TOKEN");
        fs::write(&path, "s3cret value\n").unwrap();
        let source = FileSecrets::new(dir.path());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(ask(&source, "TOKEN").unwrap_err().to_string().contains("make it 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(ask(&source, "TOKEN").unwrap().expose(), "s3cret value");
        assert!(matches!(ask(&source, "OTHER"), Err(SecretError::Absent { .. })));
        for name in ["../TOKEN", "a/b", "", "-x", ".hidden", &"x".repeat(101)] {
            assert!(matches!(ask(&source, name), Err(SecretError::Unusable { .. })), "{name}");
        }
    }

    #[test]
    fn a_command_prints_the_value_and_its_troubles_say_nothing_of_it() {
        let run = |script: &str| {
            CommandSecrets::new(["sh", "-c", script, "sh"].map(str::to_owned))
                .within(Duration::from_millis(500))
        };
        assert_eq!(ask(&run("echo \"value of $1\""), "A_B").unwrap().expose(), "value of A_B");
        let error = ask(&run("echo hunter22; exit 3"), "A").unwrap_err().to_string();
        assert!(error.contains("said no") && !error.contains("hunter22"), "{error}");
        assert!(ask(&run("exec sleep 30"), "A").unwrap_err().to_string().contains("did not answer"));
        let left = Instant::now();
        let error = ask(&run("sleep 30 & echo hunter22"), "A").unwrap_err().to_string();
        assert!(
            error.contains("holds its output open") && left.elapsed() < Duration::from_secs(10),
            "{error}"
        );
        assert!(ask(&run("head -c 70000 /dev/zero"), "A").unwrap_err().to_string().contains("more than"));
        assert!(ask(&CommandSecrets::new(["/nope".to_owned()]), "A").is_err());
    }
}
