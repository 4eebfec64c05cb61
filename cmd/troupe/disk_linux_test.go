package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// smallDisk is a folder on a disk of so many bytes of its own. It needs root; without it
// what a full disk does to the store is tested in package sqlite alone, by a limit of pages.
func smallDisk(t *testing.T, bytes string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size="+bytes); err != nil {
		mcptest.Lacks(t, "the right to mount a small disk", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A full disk ends a run with a message that says so and how to go on, whether it was full
// before or becomes so (ROB-3).
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "600k")
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Say("Fine.")).Loop())
	db := filepath.Join(disk, "troupe.db")
	h.must("run", "--store", db, "How are you?")
	long := h.command("run", "--store", db, "-")
	long.Stdin = strings.NewReader(strings.Repeat("How are you? ", 60_000))
	text, _ := long.CombinedOutput() // the code says it
	if code := long.ProcessState.ExitCode(); code != env.ExitFailed || !strings.Contains(string(text), "no space left") || !strings.Contains(string(text), "make room on the disk") {
		t.Errorf("a run that does not fit: exited with %d\n%.2000s", code, text)
	}
	fill(t, disk)
	out := h.run("doctor", "--store", db)
	if out.code != env.ExitUsage || !strings.Contains(out.stdout, "FAIL  disk: ") || !strings.Contains(out.stdout, "make room there") {
		t.Errorf("doctor: exited with %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	out = h.run("run", "--store", filepath.Join(disk, "other.db"), "How are you?")
	if out.code != env.ExitUsage || !strings.Contains(out.stderr, "other.db") || !strings.Contains(out.stderr, "no space left") || !strings.Contains(out.stderr, "name another file with --store") {
		t.Errorf("a store that cannot be made: exited with %d\n%s", out.code, out.stderr)
	}
	// What was recorded before is there once there is room.
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	if out := h.run("runs", "ls", "--store", db); out.code != 0 || !strings.Contains(out.stdout, "finished") {
		t.Errorf("runs ls: exited with %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}

// TestWorkerStartsOnAFullDisk: a worker waits for room as one does that runs, says so once and at /readyz, and
// goes on by itself; until then it ends at SIGTERM.
func TestWorkerStartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "2m")
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Say("Fine.")).Loop())
	h.env = append(h.env, "TROUPE_WORKER_TOKEN=a-token-of-enough-bytes")
	db := filepath.Join(disk, "troupe.db")
	h.must("jobs", "add", "--store", db, "--id", "waits", "How are you?")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ready := func() string {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(out), err)
	}
	for _, name := range []string{"troupe.db", filepath.Join("new", "troupe.db")} {
		fill(t, disk)
		w := h.start("worker", "--store", filepath.Join(disk, name), "--http", address)
		waitFor(t, "the worker to wait", func() bool { return strings.Contains(ready(), "503") && strings.Contains(ready(), "which is full") })
		if err := w.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := w.end(); code != 0 || strings.Count(w.stderr.String(), "the worker waits for its store") != 1 {
			t.Errorf("%s, after SIGTERM: got %d, want 0 and one warning\n%s", name, code, w.stderr.String())
		}
	}
	w := h.start("worker", "--store", db, "--http", address)
	waitFor(t, "the worker to wait", func() bool { return strings.Contains(ready(), "which is full") })
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	w.job("job.ended")
	if got := ready(); !strings.HasPrefix(got, "200 ") {
		t.Errorf("readyz: got %s, want 200", got)
	}
	// One that runs says so as well, and that it is over.
	up := func(want string) func() bool {
		return func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer a-token-of-enough-bytes")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			out, err := io.ReadAll(resp.Body)
			return err == nil && strings.Contains(string(out), "\ntroupe_store_up "+want+"\n")
		}
	}
	waitFor(t, "metrics of a store that works", up("1"))
	fill(t, disk)
	waitFor(t, "the worker to say that its store is full", func() bool { return strings.Contains(ready(), "503") && strings.Contains(ready(), "it is full") })
	waitFor(t, "metrics of a store that is full", up("0"))
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the worker to be ready again", func() bool { return strings.HasPrefix(ready(), "200 ") })
	waitFor(t, "metrics of a store that works again", up("1"))
	if err := w.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := w.end(); code != 0 {
		t.Errorf("after SIGTERM: got %d, want 0\n%s", code, w.stderr.String())
	}
}

// fill takes all room of a disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		return // not even that
	}
	defer f.Close()
	for _, size := range []int{64 << 10, 4 << 10, 1} {
		for block := make([]byte, size); ; {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
	}
}

// stdout that takes nothing is an error, and not a success.
func TestStdoutThatIsFull(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		mcptest.Lacks(t, "/dev/full", err)
	}
	defer full.Close()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Say("Fine.")).Loop())
	for _, args := range [][]string{{"run", "Hi."}, {"run", "--output-format", "stream-json", "Hi."}, {"config", "show"}, {"config", "show", "--json"}, {"runs", "ls"}, {"version"}, {"doctor"}} {
		cmd := h.command(args...)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = full, &stderr
		_ = cmd.Run() // the code says it
		if code := cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("troupe %q: exited with %d\n%s", args, code, stderr.String())
		}
	}
}

// A folder that cannot be written is said to be so, with a way out.
func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "1m") // root writes anywhere but on what is mounted for reading
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		mcptest.Lacks(t, "the right to mount for reading", err)
	}
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Say("Fine.")).Loop())
	db := filepath.Join(disk, "sub", "troupe.db")
	out := h.run("run", "--store", db, "Hi.")
	if out.code != env.ExitUsage || !strings.Contains(out.stderr, "read-only file system") || !strings.Contains(out.stderr, "name another file with --store, or use --no-store") {
		t.Errorf("run: exited with %d\n%s", out.code, out.stderr)
	}
	out = h.run("doctor", "--store", db)
	if out.code != env.ExitUsage || !strings.Contains(out.stdout, "FAIL  store: "+db+" cannot be made") {
		t.Errorf("doctor: exited with %d\n%s", out.code, out.stdout)
	}
	if out := h.run("run", "--no-store", "Hi."); out.code != 0 {
		t.Errorf("run --no-store: exited with %d\n%s", out.code, out.stderr)
	}
	cmd := h.command("mcp", "add", "files", "effects", "x")
	cmd.Dir = disk
	text, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); err == nil || code != env.ExitUsage || !strings.Contains(string(text), "read-only file system") {
		t.Errorf("mcp add: exited with %d\n%s", code, text)
	}
}
