//! The environment in which a service was started, kept for its jobs: a job may start when the
//! server has long ended, or under another one.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::Xxh3;

/// An environment by names of variables.
pub type Variables = BTreeMap<String, String>;

/// An environment that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// `module load` failed.
    #[error("cannot load the modules {}: {reason}", modules.join(", "))]
    Modules {
        /// Which.
        modules: Vec<String>,
        /// What the shell said.
        reason: String,
    },
    /// The login shell for modules cannot be started.
    #[error("cannot start a login shell (bash) to load modules")]
    Shell(#[source] io::Error),
    /// The file cannot be written.
    #[error("cannot keep the environment in {}", path.display())]
    Keep {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The longest that loading modules may take.
const MODULES_TIMEOUT: Duration = Duration::from_secs(120);

/// Stands between what a login shell's start-up files print and the environment.
const MARK: &[u8] = b"\0fishplate environment\0";

/// The environment of this process, as far as it is the owner's and goes for its jobs too.
/// Variables that are not UTF-8 are left out.
pub fn own() -> Variables {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    handed_on(variables.collect())
}

/// Variables about the directory and the shell in which a process was started.
const OF_THE_PLACE: [&str; 4] = ["_", "SHLVL", "PWD", "OLDPWD"];

/// What a web server tells a CGI script about a request (RFC 3875, section 4.1, and Apache's own):
/// these or what begins with these.
const OF_THE_REQUEST: [&str; 21] = [
    "AUTH_TYPE",
    "CONTENT_",
    "CONTEXT_",
    "DOCUMENT_",
    "GATEWAY_INTERFACE",
    "H2PUSH",
    "H2_",
    "HTTP2",
    "HTTPS",
    "HTTP_",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_",
    "REMOTE_",
    "REQUEST_",
    "SCRIPT_",
    "SERVER_",
    "SSL_",
    "UNIQUE_ID",
    "proxy-",
];

/// Leaves out our own variables (a server that was itself started by a job must not hand on that
/// job's name), those of the place, and in a CGI script those of the request: they come from
/// callers, and no caller may reach a program's environment.
fn handed_on(mut variables: Variables) -> Variables {
    let is_cgi = variables.contains_key("GATEWAY_INTERFACE");
    variables.retain(|name, _| {
        !name.starts_with("FISHPLATE_") && !OF_THE_PLACE.contains(&name.as_str())
    });
    if is_cgi {
        variables.retain(|name, _| !OF_THE_REQUEST.iter().any(|known| name.starts_with(known)));
    }
    variables
}

/// An environment with these modules loaded by a login shell. The names come from the service's
/// owner, and are arguments of a fixed script.
///
/// # Errors
/// If there is no bash or no `module`, or a module cannot be loaded.
pub fn with_modules(modules: &[String], start: &Variables) -> Result<Variables, EnvironmentError> {
    const SCRIPT: &str =
        r#"module load "$@" >&2 && printf '\0fishplate environment\0' && exec env -0"#;
    let mut child = Command::new("bash")
        .args(["-lc", SCRIPT, "bash"])
        .args(modules)
        .env_clear()
        .envs(start)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(EnvironmentError::Shell)?;
    let failed = |reason: String| EnvironmentError::Modules { modules: modules.to_owned(), reason };
    let output = reader(child.stdout.take());
    let errors = reader(child.stderr.take());
    let success = wait(&mut child).map_err(|error| failed(error.to_string()))?;
    let output = output.join().unwrap_or_default();
    let errors = errors.join().unwrap_or_default();
    if !success {
        let text = String::from_utf8_lossy(&errors);
        let reason = text.trim();
        return Err(failed(if reason.is_empty() { "module failed" } else { reason }.to_owned()));
    }
    let start =
        after_mark(&output).ok_or_else(|| failed("the shell told no environment".to_owned()))?;
    Ok(parse(&output[start..]))
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is all there is.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Whether the shell ended well; one that takes too long is killed.
fn wait(child: &mut Child) -> io::Result<bool> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if started.elapsed() > MODULES_TIMEOUT {
            child.kill()?;
            child.wait()?;
            let seconds = MODULES_TIMEOUT.as_secs();
            return Err(io::Error::other(format!("not done after {seconds} s")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the environment begins.
fn after_mark(output: &[u8]) -> Option<usize> {
    output.windows(MARK.len()).position(|window| window == MARK).map(|start| start + MARK.len())
}

/// The output of `env -0`, without what is the shell's own.
fn parse(output: &[u8]) -> Variables {
    output
        .split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .filter(|(name, _)| !name.is_empty() && !OF_THE_PLACE.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Keeps an environment in a file below `directory` that only its owner may read, and gives the
/// file's absolute path. The same environment is kept once.
///
/// # Errors
/// If it cannot be written.
pub fn keep(variables: &Variables, directory: &Path) -> Result<PathBuf, EnvironmentError> {
    let failed = |source| EnvironmentError::Keep { path: directory.to_owned(), source };
    let directory = std::path::absolute(directory).map_err(failed)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
    let json = serde_json::to_vec(variables).map_err(|error| failed(error.into()))?;
    let mut hasher = Xxh3::new();
    hasher.write(&json);
    let mut hash = hasher.finish();
    loop {
        let path = directory.join(format!("{hash:016x}.json"));
        match std::fs::read(&path) {
            Ok(kept) if kept == json => return Ok(path),
            // Another environment of the same hash: the next name, deterministically.
            Ok(_) => hash = hash.wrapping_add(1),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write(&path, &json).map_err(failed)?;
                return Ok(path);
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Writes a file at once: it is there whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn callers_do_not_reach_the_environment_through_cgi() {
        let names = |variables: &[&str]| {
            let all = variables.iter().map(|name| ((*name).to_owned(), String::new()));
            handed_on(all.collect()).into_keys().collect::<Vec<_>>()
        };
        let variables = ["PATH", "HTTP_PROXY", "QUERY_STRING", "REMOTE_PORT", "SSL_CERT_FILE"];
        assert_eq!(
            names(&variables),
            ["HTTP_PROXY", "PATH", "QUERY_STRING", "REMOTE_PORT", "SSL_CERT_FILE"]
        );
        assert_eq!(names(&[&variables[..], &["GATEWAY_INTERFACE"]].concat()), ["PATH"]);
        assert_eq!(names(&["PWD", "_", "FISHPLATE_JOB", "HOME"]), ["HOME"]);
    }

    #[test]
    fn the_same_environment_is_kept_once_and_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let environments = directory.path().join("environments");
        let variables = Variables::from([("A".to_owned(), "1\n2".to_owned())]);
        let path = keep(&variables, &environments).unwrap();
        assert_eq!(keep(&variables, &environments).unwrap(), path);
        assert_eq!(std::fs::read_dir(&environments).unwrap().count(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&environments).unwrap().permissions().mode() & 0o777, 0o700);
        let kept: Variables = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(kept, variables);
    }

    #[test]
    fn a_file_of_the_same_hash_with_another_content_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let variables = Variables::from([("A".to_owned(), "1".to_owned())]);
        let path = keep(&variables, directory.path()).unwrap();
        std::fs::write(&path, "{}").unwrap();
        let other = keep(&variables, directory.path()).unwrap();
        assert_ne!(other, path);
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        assert_eq!(keep(&variables, directory.path()).unwrap(), other);
    }

    #[test]
    fn what_start_up_files_print_is_no_part_of_the_environment() {
        let output = b"Welcome!\nA=0\0\0fishplate environment\0A=1\nx\0_=/usr/bin/env\0B=\0";
        let variables = parse(&output[after_mark(output).unwrap()..]);
        let expected = [("A", "1\nx"), ("B", "")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(variables, Variables::from(expected));
    }

    #[test]
    fn a_module_changes_the_environment_and_its_name_is_never_read_by_the_shell() {
        let directory = tempfile::tempdir().unwrap();
        let name = "demo/$(touch breached);1.2";
        std::fs::create_dir(directory.path().join("demo")).unwrap();
        let file = "#%Module1.0\nsetenv DEMO_ROOT /opt/demo\nprepend-path PATH /opt/demo/bin\n";
        std::fs::write(directory.path().join("demo/1.2"), file).unwrap();
        let mut start = own();
        start.insert("MODULEPATH".to_owned(), directory.path().to_str().unwrap().to_owned());
        start.insert("HOME".to_owned(), directory.path().to_str().unwrap().to_owned());
        assert!(with_modules(&[name.to_owned()], &start).is_err());
        assert!(!Path::new("breached").exists());
        match with_modules(&["demo/1.2".to_owned()], &start) {
            Ok(variables) => {
                assert_eq!(variables["DEMO_ROOT"], "/opt/demo");
                assert!(variables["PATH"].starts_with("/opt/demo/bin:"), "{}", variables["PATH"]);
            }
            // A machine without environment modules: then that is what the error says.
            Err(error) => assert!(error.to_string().contains("not found"), "{error}"),
        }
    }

    #[test]
    fn a_module_that_does_not_exist_is_an_error_that_names_it() {
        let error = with_modules(&["fishplate-no-such-module/0".to_owned()], &own()).unwrap_err();
        let EnvironmentError::Modules { reason, .. } = &error else { panic!("{error}") };
        assert!(!reason.is_empty());
        assert!(error.to_string().contains("fishplate-no-such-module/0"), "{error}");
    }
}
