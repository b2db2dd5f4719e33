// The program itself, where a process matters: working folders, streams, a full disk, kill -9.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <functional>

#include "cli_fixture.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;

// Ends the child when something before exec fails.
void require(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  ::_exit(99);
}

/// Starts `program args...` with its streams in files; `before` runs in the child.
pid_t start(const std::string& program, std::vector<std::string> args, const std::string& out, const std::string& err,
            const std::function<void()>& before = {}) {
  args.insert(args.begin(), program);
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  require(::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO) >= 0, out.c_str());
  require(::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO) >= 0, err.c_str());
  if (before) before();
  ::execv(argv[0], argv.data());
  require(false, program.c_str());
  return -1;
}

int wait_for(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class CliProcess : public CliTest {
 protected:
  cli::Outcome run(const std::string& program, const std::vector<std::string>& args,
                   const std::function<void()>& before = {}) const {
    const pid_t pid = start(program, args, streams_ / "out", streams_ / "err", before);
    cli::Outcome outcome;
    outcome.code = wait_for(pid);
    outcome.out = streams_.read("out");
    outcome.err = streams_.read("err");
    return outcome;
  }
  cli::Outcome run_in(const std::string& folder, const std::vector<std::string>& args) const {
    return run(EBB_BINARY, args, [&] { require(::chdir(folder.c_str()) == 0, "chdir"); });
  }
  // $0 is the program, $1 and up are the arguments.
  cli::Outcome shell(const std::string& script, std::vector<std::string> args) const {
    args.insert(args.begin(), {"-c", script, EBB_BINARY});
    return run("/bin/sh", args);
  }

  cli::TestFolder streams_;
};

TEST_F(CliProcess, TwoRunsInDifferentFoldersGiveTheSameBytes) {
  for (const char* folder : {"one", "two"}) {
    fs::create_directory(folder_ / folder);
    folder_.write(std::string(folder) + "/s.yaml",
                  "version: 1\ntrace: ../jobs.csv\ncluster: 2x2\npolicy: tiresias\noptions: {limits: 60}\n"
                  "faults: {mtbf: 2m, mttr: 10s}\n");
    const cli::Outcome outcome = run_in(folder_ / folder, {"sim", "run", "s.yaml", "--out", "out"});
    ASSERT_EQ(outcome.code, cli::kExitOk) << outcome.err;
  }
  const auto files = folder_.entries("one/out");
  ASSERT_EQ(files, folder_.entries("two/out"));
  for (const std::string& file : files) {
    if (file == "run.json") continue;
    EXPECT_EQ(folder_.read("one/out/" + file), folder_.read("two/out/" + file)) << file;
  }
  // The report shows its command line: another --out is the only difference.
  ASSERT_EQ(run_in(folder_ / "two", {"sim", "run", "s.yaml", "--out", "OUT"}).code, cli::kExitOk);
  std::string other = folder_.read("two/OUT/report.html");
  EXPECT_NE(other, folder_.read("two/out/report.html"));
  const auto at = other.find("--out OUT");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(other.replace(at, 9, "--out out"), folder_.read("two/out/report.html"));
  EXPECT_EQ(folder_.read("two/OUT/events.jsonl"), folder_.read("two/out/events.jsonl"));
}

TEST_F(CliProcess, PresetsAreFoundFromAnyFolderAndWithTheProgramElsewhere) {
  fs::create_directories(folder_ / "far/away");
  fs::copy_file(EBB_BINARY, folder_ / "far/ebb");
  const cli::Outcome outcome = run(
      folder_ / "far/ebb", {"sim", "run", "--preset", "tiresias-las", "--trace", "../../jobs.csv", "--cluster", "1x4"},
      [&] { require(::chdir((folder_ / "far/away").c_str()) == 0, "chdir"); });
  EXPECT_EQ(outcome.code, cli::kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("tiresias on 1x4 (4 GPUs): 3 of 3 jobs completed"));
}

TEST_F(CliProcess, AStdoutThatCannotBeWrittenIsAnError) {
  const std::vector<std::vector<std::string>> commands = {
      {"--version"},
      {"policies"},
      {"policies", "--json"},
      {"sim", "run", "--trace", trace_, "--cluster", "1x4"},
      {"sim", "compare", "--trace", trace_, "--cluster", "1x4", "--json"},
      {"trace", "info", trace_}};
  for (const auto& command : commands) {
    for (const char* script : {"exec \"$0\" \"$@\" >&-", "exec \"$0\" \"$@\" >/dev/full"}) {
      const cli::Outcome outcome = shell(script, command);
      EXPECT_EQ(outcome.code, cli::kExitBadInput) << script << ": " << command.front();
      EXPECT_THAT(outcome.err, HasSubstr("ebb: cannot write to standard output")) << script << ": " << command.front();
    }
  }
}

// Trace and report are larger than the space left; the journal is not.
std::string large_trace() {
  std::string text = "job,submit_s,run_s,gpus\n";
  for (int i = 0; i < 5'000; ++i) text += fmt::format("job-{},{},{},{}\n", i, i * 3, 100 + i % 77, 1 + i % 4);
  return text;
}

TEST_F(CliProcess, AFileThatCannotGrowLeavesNoOutputs) {
  const std::string trace = folder_.write("large.csv", large_trace());
  const auto before = folder_.entries();
  const cli::Outcome outcome =
      run(EBB_BINARY, {"sim", "run", "--trace", trace, "--cluster", "1x4", "--out", folder_ / "out"}, [] {
        const rlimit limit{64 << 10, 64 << 10};
        require(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
        ::signal(SIGXFSZ, SIG_IGN);
      });
  EXPECT_EQ(outcome.code, cli::kExitBadInput);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("events.jsonl"));
  EXPECT_THAT(outcome.err, HasSubstr("File too large"));
  EXPECT_EQ(folder_.entries(), before);
}

TEST_F(CliProcess, AFullDiskLeavesNoOutputs) {
  // In a mount namespace of its own, which ends with it.
  const std::string mount = "mkdir -p \"$MOUNT\" && mount -t tmpfs -o size=64k none \"$MOUNT\" || exit 77; ";
  const auto run_on_small_disk = [&](const std::string& script, const std::vector<std::string>& args) {
    std::vector<std::string> all = {"--mount", "/bin/sh", "-c", mount + script, EBB_BINARY};
    all.insert(all.end(), args.begin(), args.end());
    return run("/usr/bin/unshare", all, [&] { ::setenv("MOUNT", (folder_ / "disk").c_str(), 1); });
  };
  if (const cli::Outcome probe = run_on_small_disk("exit 0", {}); probe.code != 0) {
    GTEST_SKIP() << "needs the right to mount a small disk (root, unshare): " << probe.err;
  }
  const std::string trace = folder_.write("large.csv", large_trace());
  const std::string then_list = "\"$0\" \"$@\"; code=$?; ls -A \"$MOUNT\"; exit $code";
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"sim", "run", "--trace", trace, "--cluster", "1x4", "--out", folder_ / "disk/out"},
        {"sim", "compare", "--trace", trace, "--cluster", "1x4", "--policies", "fifo", "--out", folder_ / "disk/out"},
        {"trace", "convert", trace, folder_ / "disk/out.jsonl"}}) {
    const cli::Outcome outcome = run_on_small_disk(then_list, args);
    EXPECT_EQ(outcome.code, cli::kExitBadInput) << args[1];
    EXPECT_THAT(outcome.err, HasSubstr("No space left on device")) << args[1];
    EXPECT_EQ(outcome.out, "") << args[1] << " left something behind";
  }
}

TEST_F(CliProcess, Kill9LeavesNoFolderOfThatName) {
  // The child's staging folder is made for it with a pipe in the place of the journal: once we have read from it, the
  // run is in the middle of writing, and stays there until it is killed.
  const std::string trace = folder_.write("large.csv", large_trace());
  const std::string out = folder_ / "out";
  const std::vector<std::string> args = {"sim", "run", "--trace", trace, "--cluster", "1x4", "--out", out};
  const auto journal_of = [&](pid_t pid) { return fmt::format("{}.partial-{}/events.jsonl", out, pid); };
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t pid = start(EBB_BINARY, args, streams_ / "out", streams_ / "err", [&] {
    const std::string journal = journal_of(::getpid());
    fs::create_directories(fs::path(journal).parent_path());
    require(::mkfifo(journal.c_str(), 0600) == 0, "mkfifo");
    require(::write(ready[1], "x", 1) == 1, "write");
    ::close(ready[1]);
  });
  ::close(ready[1]);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  const int journal = ::open(journal_of(pid).c_str(), O_RDONLY);
  ASSERT_GE(journal, 0);
  std::string begin(100, '\0');
  ASSERT_GT(::read(journal, begin.data(), begin.size()), 0);
  EXPECT_THAT(begin, StartsWith(R"({"type":"journal")"));
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_EQ(wait_for(pid), -SIGKILL);
  ::close(journal);

  EXPECT_FALSE(fs::exists(out));
  EXPECT_TRUE(fs::exists(fmt::format("{}.partial-{}", out, pid)));
  const cli::Outcome again = run(EBB_BINARY, args);
  EXPECT_EQ(again.code, cli::kExitOk) << again.err;
  EXPECT_THAT(folder_.entries("out"),
              ElementsAre("events.jsonl", "jobs.csv", "report.html", "run.json", "summary.json"));
}

TEST_F(CliProcess, ProgressIsOnTheTerminalOnlyAndNeverOnStdout) {
  const std::string trace = folder_.write("large.csv", large_trace());
  const std::vector<std::string> args = {"sim", "run",      "--trace", trace,   "--cluster",
                                         "1x4", "--policy", "drf",     "--json"};
  const cli::Outcome plain = run(EBB_BINARY, args);
  ASSERT_EQ(plain.code, cli::kExitOk);
  EXPECT_EQ(plain.err, "") << "stderr is no terminal";

  const auto on_terminal = [&](const std::string& mode, std::string& shown) {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_GE(terminal, 0);
    EXPECT_EQ(::grantpt(terminal), 0);
    EXPECT_EQ(::unlockpt(terminal), 0);
    char name[64];
    EXPECT_EQ(::ptsname_r(terminal, name, sizeof name), 0);
    const int side = ::open(name, O_RDWR | O_NOCTTY);
    std::vector<std::string> all = args;
    all.insert(all.end(), {"--progress", mode});
    cli::Outcome outcome = run(EBB_BINARY, all, [&] { require(::dup2(side, STDERR_FILENO) >= 0, "dup2"); });
    ::close(side);
    char chunk[4096];
    for (ssize_t n = 0; (n = ::read(terminal, chunk, sizeof chunk)) > 0;)
      shown.append(chunk, static_cast<std::size_t>(n));
    ::close(terminal);
    return outcome;
  };
  std::string shown;
  EXPECT_EQ(on_terminal("auto", shown).out, plain.out);
  EXPECT_THAT(shown, HasSubstr("simulating ["));
  std::string silent;
  EXPECT_EQ(on_terminal("never", silent).out, plain.out);
  EXPECT_EQ(silent, "");
}

}  // namespace
}  // namespace ebb
