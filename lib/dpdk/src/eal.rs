// SPDX-License-Identifier: MIT
//! Starting DPDK's environment (EAL): once per process, with or without hugepages, quietly.

mod folder;
mod refusal;

use folder::{Held, remove_left_behind, remove_runtime_dir, runtime_dir, telemetry_socket};
pub use folder::{fallback_runtime_dir, set_runtime_dir};
use refusal::Quiet;

use crate::error::{Error, Result, c_string, errno_text, last_errno, text};
use crate::{ffi, log};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::{CString, c_char, c_int};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Where packet memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hugepages {
    /// Hugepages if enough are free, ordinary memory if not.
    #[default]
    Auto,
    /// Hugepages or nothing.
    Yes,
    /// Ordinary memory: needs no privilege and no preparation, and costs speed.
    No,
}

/// How much DPDK logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// Failures only.
    Error,
    /// Warnings too. They are kept for error messages and not printed.
    #[default]
    Warning,
    /// Also the course of events; printed to standard error as well.
    Info,
    /// Everything, printed to standard error as well.
    Debug,
}

/// How to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EalConfig {
    /// Where packet memory comes from.
    pub hugepages: Hugepages,
    /// MB of memory: with hugepages, what has to be free for `Auto` to take them; without, how much is reserved.
    pub memory_mb: u32,
    /// Keeps DPDK processes on one machine apart.
    pub file_prefix: String,
    /// Core of EAL's main thread; `None`, or one whose number is too high for DPDK: the first that this process may
    /// use. The calling thread is not pinned to it.
    pub main_core: Option<usize>,
    /// Addresses of the PCI devices to use; with none, the PCI bus is left alone.
    pub pci: Vec<String>,
    /// More arguments for EAL; they take precedence.
    pub extra: Vec<String>,
    /// How much is logged.
    pub log_level: LogLevel,
    /// Folder for DPDK's run-time files, its telemetry socket among them; `None`: EAL's choice (`$RUNTIME_DIRECTORY`;
    /// `/var/run` for root; `$XDG_RUNTIME_DIR`; `/tmp`).
    pub runtime_dir: Option<PathBuf>,
}

impl Default for EalConfig {
    fn default() -> EalConfig {
        EalConfig {
            hugepages: Hugepages::Auto,
            memory_mb: 512,
            file_prefix: format!("perigee-{}", std::process::id()),
            main_core: None,
            pci: Vec::new(),
            extra: Vec::new(),
            log_level: LogLevel::default(),
            runtime_dir: None,
        }
    }
}

/// The EAL that runs, for objects that are made where no [`Eal`] is at hand.
static RUNNING: Mutex<Weak<Started>> = Mutex::new(Weak::new());

/// The running EAL, if it has been started and not cleaned up.
pub(crate) fn running() -> Option<Arc<Started>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
}

/// EAL, started; cleaned up when the last [`Eal`], port, pool, ring and filter is gone.
#[derive(Debug)]
pub(crate) struct Started {
    hugepages: bool,
    note: Option<String>,
    /// DPDK's own socket.
    telemetry: Option<PathBuf>,
    folder: Option<Held>,
}

impl Drop for Started {
    fn drop(&mut self) {
        let folder = runtime_dir();
        // SAFETY: everything that uses EAL holds a reference to self, and is gone.
        unsafe { ffi::rte_eal_cleanup() };
        remove_runtime_dir(&folder, self.telemetry.as_deref(), self.folder.take());
    }
}

/// The running environment. Everything else of this crate is made from it; clones share it.
#[derive(Debug, Clone)]
pub struct Eal(Arc<Started>);

impl Eal {
    /// Starts DPDK. Possible once per process, even if it fails.
    pub fn start(config: &EalConfig) -> Result<Eal> {
        static TRIED: AtomicBool = AtomicBool::new(false);
        let hugepages = use_hugepages(config)?;
        let folders = match hugepages {
            true => hugepage_folders(&std::fs::read_to_string("/proc/mounts").unwrap_or_default(), is_hugetlbfs),
            false => HugepageFolders::Any,
        };
        let (hugepages, folder, note) = match folders {
            HugepageFolders::Any => (hugepages, None, None),
            HugepageFolders::Only(folder) => (true, Some(folder), None),
            HugepageFolders::Hidden(folder) if config.hugepages == Hugepages::Auto => {
                (false, None, Some(format!("packet memory is not in hugepages: {}", hidden(&folder))))
            }
            HugepageFolders::Hidden(folder) => return Err(Error::new(hidden(&folder))),
        };
        let affinity = sched_getaffinity(None)
            .map_err(|e| Error::new(format!("the cores this process may use could not be read: {e}")))?;
        let mut arguments = arguments(config, hugepages, &affinity, max_threads())?;
        if let Some(folder) = folder.filter(|_| !config.extra.iter().any(|argument| argument.starts_with("--huge-dir")))
        {
            arguments.push(format!("--huge-dir={}", folder.display()));
        }
        refusal::check(config, hugepages)?;
        if TRIED.swap(true, Ordering::SeqCst) {
            return Err(Error::new("DPDK starts only once per process: end this process and start a new one"));
        }
        // SAFETY: it changes how the allocator deals with free memory, no more.
        unsafe { ffi::perigee_give_memory_back() };
        set_runtime_dir(config.runtime_dir.as_deref())?;
        log::capture(config.log_level >= LogLevel::Info);
        let folder = Held::new(&file_prefix(config))?;

        // EAL permutes the vector and keeps pointers to the texts, so they stay for the rest of the process.
        let texts: Vec<CString> = arguments.iter().map(|a| c_string(a)).collect::<Result<_>>()?;
        let argv: Vec<*mut c_char> = texts.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]).collect();
        let argv = argv.leak();
        let quiet = Quiet::begin();
        // SAFETY: argc texts followed by a null pointer, all writable and never freed.
        let started = unsafe { ffi::rte_eal_init(argv.len() as c_int - 1, argv.as_mut_ptr()) };
        // EAL pins the thread that calls it; this thread and those that it starts later may run on any core.
        let restored = sched_setaffinity(None, &affinity);
        drop(quiet);
        if started < 0 {
            remove_runtime_dir(&runtime_dir(), telemetry_socket(&runtime_dir()).as_deref(), folder);
            let cause = log::cause(0, last_errno());
            return Err(Error::new(refusal::sentence(config, &arguments[1..], &cause)));
        }
        if let Some(parent) = runtime_dir().parent() {
            remove_left_behind(parent, std::time::SystemTime::now());
        }
        restored.map_err(|e| Error::new(format!("the main thread could not be given its cores back: {e}")))?;
        // With other arguments it may be another one.
        let (folder, other) = match folder {
            Some(held) if held.is(&runtime_dir()) => (Some(held), None),
            other => (None, other),
        };
        other.into_iter().for_each(Held::remove);
        let started = Arc::new(Started { hugepages, note, telemetry: telemetry_socket(&runtime_dir()), folder });
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&started);
        Ok(Eal(started))
    }

    /// Makes the folder that [`Eal::start`] will put its run-time files into, so that somebody can be told of it
    /// before.
    ///
    /// # Errors
    /// It cannot be made, as a link above it leads nowhere.
    pub fn make_runtime_dir(config: &EalConfig) -> Result<Option<PathBuf>> {
        Ok(Held::new(&file_prefix(config))?.map(Held::leave))
    }

    /// Is packet memory in hugepages?
    pub fn hugepages(&self) -> bool {
        self.0.hugepages
    }

    /// What is otherwise than one would expect, if anything is: a sentence for the log.
    pub fn note(&self) -> Option<&str> {
        self.0.note.as_deref()
    }

    /// DPDK's own telemetry socket (for `dpdk-telemetry.py`), where there is one.
    pub fn telemetry_socket(&self) -> Option<PathBuf> {
        self.0.telemetry.clone()
    }

    /// Makes the calling thread known to DPDK, so that it has its own cache of every pool; `None` if it already is.
    pub fn register_thread(&self) -> Result<Option<RegisteredThread>> {
        // SAFETY: EAL is started.
        unsafe {
            if ffi::perigee_lcore() != ffi::LCORE_ANY {
                return Ok(None);
            }
            if ffi::rte_thread_register() != 0 {
                return Err(Error::new(format!(
                    "a thread could not be registered with DPDK, which knows at most {} at once: {}",
                    max_threads(),
                    errno_text(last_errno())
                )));
            }
        }
        Ok(Some(RegisteredThread { _eal: self.started(), not_send: PhantomData }))
    }

    pub(crate) fn started(&self) -> Arc<Started> {
        self.0.clone()
    }
}

impl Eal {
    /// The files that are left when it ends, and the folder they are in, where another user may have to remove them.
    pub fn files(&self) -> Vec<PathBuf> {
        let folder = Some(runtime_dir()).filter(|folder| folder.is_absolute());
        self.telemetry_socket().into_iter().chain(folder).collect()
    }
}

/// A thread known to DPDK until this is dropped, in the same thread.
#[derive(Debug)]
pub struct RegisteredThread {
    _eal: Arc<Started>,
    not_send: PhantomData<*const ()>,
}

impl Drop for RegisteredThread {
    fn drop(&mut self) {
        // SAFETY: this thread was registered, and EAL still runs.
        unsafe { ffi::rte_thread_unregister() };
    }
}

/// Binds the calling thread to a core.
pub fn pin_current_thread(core: usize) -> Result<()> {
    bind_current_thread(&[core])
}

/// Binds the calling thread to some cores.
pub fn bind_current_thread(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    if let Some(core) = cores.iter().find(|core| **core >= CpuSet::MAX_CPU) {
        return Err(Error::new(format!("there is no core {core}: at most {} are supported", CpuSet::MAX_CPU)));
    }
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).map_err(|e| {
        let list: Vec<String> = cores.iter().map(usize::to_string).collect();
        Error::new(format!(
            "a thread could not be bound to core {}: {e}; choose a core that this process may use",
            list.join(",")
        ))
    })
}

/// The cores this process may use.
pub fn usable_cores() -> Vec<usize> {
    sched_getaffinity(None).map(|set| cores(&set)).unwrap_or_default()
}

fn cores(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

fn use_hugepages(config: &EalConfig) -> Result<bool> {
    let given = |argument| config.extra.iter().any(|a| a == argument);
    if given("--no-huge") {
        return Ok(false);
    }
    let free = free_hugepage_mb(Path::new("/sys/kernel/mm/hugepages"));
    let enough = free >= u64::from(config.memory_mb);
    match config.hugepages {
        Hugepages::No => Ok(false),
        Hugepages::Auto => Ok(enough),
        Hugepages::Yes if enough => Ok(true),
        Hugepages::Yes => Err(Error::new(format!(
            "{} MB of free hugepages are needed and {free} MB are there: reserve some (as root: sysctl \
             vm.nr_hugepages={}), or set hugepages to auto",
            config.memory_mb,
            config.memory_mb.div_ceil(2)
        ))),
    }
}

/// Which mounts of hugetlbfs EAL can use. It tries every one in the list of mounts, and gives up at one that it cannot
/// reach.
#[derive(Debug, PartialEq, Eq)]
enum HugepageFolders {
    /// Whatever it finds; without any it needs none.
    Any,
    /// This one, as others are hidden by later mounts over the folders that they are in.
    Only(PathBuf),
    /// None, as this one is hidden.
    Hidden(PathBuf),
}

/// Looks through the text of /proc/mounts.
fn hugepage_folders(mounts: &str, reachable: impl Fn(&Path) -> bool) -> HugepageFolders {
    let folders = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (folder, kind) = (fields.next()?, fields.next()?);
        // Blanks in a path are written so.
        (kind == "hugetlbfs").then(|| PathBuf::from(folder.replace("\\040", " ")))
    });
    let (mut there, mut hidden): (Vec<PathBuf>, Vec<PathBuf>) = folders.partition(|folder| reachable(folder));
    match (hidden.pop(), there.is_empty()) {
        (None, _) => HugepageFolders::Any,
        (Some(_), false) => HugepageFolders::Only(there.remove(0)),
        (Some(folder), true) => HugepageFolders::Hidden(folder),
    }
}

fn hidden(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "the hugetlbfs at {folder} is hidden by a later mount, which DPDK does not get over: unmount the later one, or mount a hugetlbfs \
         that can be reached, such as: mount -t hugetlbfs none /dev/hugepages"
    )
}

/// Whether a path leads to a hugetlbfs.
fn is_hugetlbfs(path: &Path) -> bool {
    /// `HUGETLBFS_MAGIC` of linux/magic.h.
    const MAGIC: u64 = 0x9584_58f6;
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 & 0xffff_ffff == MAGIC)
}

fn free_hugepage_mb(folder: &Path) -> u64 {
    let sizes = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let free_kb = sizes.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let kb: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages: u64 = std::fs::read_to_string(entry.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
        Some(kb * pages)
    });
    free_kb.sum::<u64>() / 1024
}

/// The file prefix that EAL takes: the last one of its arguments.
fn file_prefix(config: &EalConfig) -> String {
    const NAME: &str = "--file-prefix";
    let mut given = config.extra.iter().enumerate().filter_map(|(at, argument)| match argument.strip_prefix(NAME)? {
        "" => config.extra.get(at + 1).cloned(),
        value => value.strip_prefix('=').map(str::to_owned),
    });
    given.next_back().unwrap_or_else(|| config.file_prefix.clone())
}

/// `named`: DPDK can name cores below this one.
fn arguments(config: &EalConfig, hugepages: bool, affinity: &CpuSet, named: usize) -> Result<Vec<String>> {
    let given = |names: &[&str]| config.extra.iter().any(|a| names.iter().any(|n| a.starts_with(n)));
    let mut to: Vec<String> = ["perigee", "--iova-mode=va"].map(String::from).into();
    let mut add = |argument: String| to.push(argument);

    if !given(&["--file-prefix"]) {
        add(format!("--file-prefix={}", config.file_prefix));
    }
    if !given(&["-l", "-c", "--lcores", "-s", "-S"]) {
        add(format!("--lcores=0@{}", main_core(config.main_core, &cores(affinity), named)?));
    }
    if hugepages {
        // No files in hugetlbfs, so none stay behind; single files per segment list are what vhost-user wants.
        if !given(&["--in-memory", "--huge-dir", "--socket-mem", "--legacy-mem"]) {
            add("--in-memory".into());
            add("--single-file-segments".into());
        }
    } else {
        if !given(&["--no-huge"]) {
            add("--no-huge".into());
        }
        // No files for secondary processes: there are none, and files that a killed process leaves behind are in the
        // way.
        if !given(&["--no-shconf"]) {
            add("--no-shconf".into());
        }
        if !given(&["-m"]) {
            add(format!("-m{}", config.memory_mb));
        }
    }
    if !given(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        if config.pci.is_empty() {
            add("--no-pci".into());
        }
        config.pci.iter().for_each(|address| add(format!("--allow={address}")));
    }
    if !given(&["--log-level"]) {
        let level = match config.log_level {
            LogLevel::Error => "error",
            LogLevel::Warning => "warning",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        };
        add(format!("--log-level={level}"));
    }
    to.extend(config.extra.iter().cloned());
    Ok(to)
}

/// The core of EAL's main thread. EAL would print its whole usage for one that it does not know.
fn main_core(wanted: Option<usize>, usable: &[usize], named: usize) -> Result<usize> {
    if let Some(core) = wanted.filter(|core| !usable.contains(core)) {
        return Err(Error::new(format!(
            "the main core is to be {core}, and this process may use only the cores {usable:?}: choose one of these"
        )));
    }
    let core = wanted.into_iter().chain(usable.iter().copied()).find(|core| *core < named);
    core.ok_or_else(|| {
        Error::new(format!(
            "DPDK starts on a core from 0 to {}, and this process may use only the cores {usable:?}: let it use one of those, too",
            named - 1
        ))
    })
}

/// Ports that can be open at once: a limit that DPDK is built with.
pub fn max_ports() -> usize {
    // SAFETY: a constant.
    unsafe { ffi::perigee_max_ports() as usize }
}

/// Threads that DPDK can know at once, EAL's main thread among them.
pub fn max_threads() -> usize {
    // SAFETY: a constant.
    unsafe { ffi::perigee_max_lcores() as usize }
}

/// DPDK's version, such as "DPDK 22.11.11".
pub fn version() -> String {
    // SAFETY: a static text.
    unsafe { text(ffi::rte_version()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(config: &EalConfig, hugepages: bool) -> String {
        let mut set = CpuSet::new();
        set.set(3);
        set.set(5);
        arguments(config, hugepages, &set, 128).unwrap().join(" ")
    }

    #[test]
    fn arguments_follow_the_configuration() {
        let mut config = EalConfig { file_prefix: "x".into(), memory_mb: 64, ..EalConfig::default() };
        assert_eq!(
            args(&config, false),
            "perigee --iova-mode=va --file-prefix=x --lcores=0@3 --no-huge --no-shconf -m64 --no-pci --log-level=warning"
        );
        config.main_core = Some(5);
        config.pci = vec!["0000:01:00.0".into()];
        config.extra = vec!["--log-level=pmd:debug".into(), "--vdev=net_null7".into()];
        assert_eq!(
            args(&config, true),
            "perigee --iova-mode=va --file-prefix=x --lcores=0@5 --in-memory --single-file-segments \
             --allow=0000:01:00.0 --log-level=pmd:debug --vdev=net_null7"
        );
    }

    #[test]
    fn the_last_file_prefix_holds() {
        let of = |extra: &[&str]| {
            let extra = extra.iter().map(|argument| (*argument).to_owned()).collect();
            file_prefix(&EalConfig { file_prefix: "x".into(), extra, ..EalConfig::default() })
        };
        assert_eq!(of(&["-m64"]), "x");
        assert_eq!(of(&["--file-prefix=y", "--file-prefix", "z", "-m64"]), "z");
    }

    #[test]
    fn dpdk_starts_on_a_core_that_it_can_name() {
        assert_eq!(main_core(None, &[3, 130], 128).unwrap(), 3);
        assert_eq!(main_core(Some(130), &[3, 130], 128).unwrap(), 3, "its threads may use the others all the same");
        assert_eq!(main_core(Some(5), &[3, 5], 128).unwrap(), 5);
        let error = |wanted, usable: &[usize]| main_core(wanted, usable, 128).unwrap_err().to_string();
        assert!(error(None, &[130, 131]).contains("from 0 to 127, and this process may use only the cores [130, 131]"));
        assert!(error(Some(7), &[3, 5]).contains("the main core is to be 7"));
        assert!(max_ports() > 0 && max_threads() > 1);
    }

    #[test]
    fn free_hugepages_are_counted_over_all_sizes() {
        let folder = tempfile::tempdir().unwrap();
        for (name, pages) in [("hugepages-2048kB", "100\n"), ("hugepages-1048576kB", "2\n"), ("other", "9\n")] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("free_hugepages"), pages).unwrap();
        }
        assert_eq!(free_hugepage_mb(folder.path()), 200 + 2048);
        assert_eq!(free_hugepage_mb(Path::new("/does/not/exist")), 0);
    }

    #[test]
    fn a_hugetlbfs_hidden_by_a_later_mount_is_left_alone() {
        let folders = |mounts: &str, there: &[&str]| {
            hugepage_folders(mounts, |folder| there.iter().any(|there| Path::new(there) == folder))
        };
        let one = "tmpfs /run tmpfs rw 0 0\nh /run/snabb/huge\\040tlbfs hugetlbfs rw 0 0\ntmpfs /run tmpfs rw 0 0\n";
        let two = format!("{one}h /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n");
        assert_eq!(folders("tmpfs /run tmpfs rw 0 0\n", &[]), HugepageFolders::Any);
        assert_eq!(folders(one, &["/run/snabb/huge tlbfs"]), HugepageFolders::Any);
        assert_eq!(folders(one, &[]), HugepageFolders::Hidden("/run/snabb/huge tlbfs".into()));
        assert_eq!(folders(&two, &["/dev/hugepages"]), HugepageFolders::Only("/dev/hugepages".into()));
        assert!(!is_hugetlbfs(Path::new("/proc")) && !is_hugetlbfs(Path::new("/does/not/exist")));
    }

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        let error = pin_current_thread(1_000_000).unwrap_err().to_string();
        assert!(error.contains("core 1000000"), "{error}");
    }
}
