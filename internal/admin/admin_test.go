package admin_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// folder is a place for sockets whose path is short enough on every system.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "adm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func newSystem(t *testing.T) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return sys
}

func listen(t *testing.T, dir string, o admin.Options) *admin.Client {
	t.Helper()
	s, err := admin.Listen(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	all, err := admin.Find(dir)
	if err != nil || len(all) != 1 || all[0].PID() != os.Getpid() {
		t.Fatalf("Find: got %v, %v, want this process", all, err)
	}
	return all[0]
}

func spawn(t *testing.T, sys *actors.System, kind actors.Kind, name string, inline bool) {
	t.Helper()
	_, err := sys.Spawn(actors.Spec{Kind: kind, Name: name, Inline: inline, New: func() actors.Actor {
		return actors.ReceiveFunc(func(*actors.Context, any) {})
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSocket(t *testing.T) {
	sys, s := newSystem(t), memstore.New(nil)
	if _, err := s.Create(t.Context(), store.Run{ID: "r1", Title: "Count the files.", State: store.Waiting}, "me", time.Minute); err != nil {
		t.Fatal(err)
	}
	spawn(t, sys, actors.KindRun, "run-r1", false)
	spawn(t, sys, actors.KindHost, "host", false)
	for range 3 {
		spawn(t, sys, actors.KindCall, "", true)
	}
	var woken atomic.Int32
	dir := folder(t)
	c := listen(t, dir, admin.Options{System: sys, Command: "worker", Store: s,
		Wake: func() { woken.Add(1) }, Status: func() any { return map[string]int{"running": 2} },
		Labels: func(i actors.Info) admin.Label {
			if i.Kind == actors.KindHost {
				return admin.Label{State: "ready"}
			}
			return admin.Label{}
		}})

	tree, err := c.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]admin.Actor)
	for _, a := range tree.Actors {
		got[a.Kind] = a
	}
	if a := got["run"]; a.State != "waiting" || a.Title != "Count the files." || a.Started.IsZero() {
		t.Errorf("the run: got %+v, want its state and title", a)
	}
	if a := got["host"]; a.State != "ready" {
		t.Errorf("the host: got %+v, want the state of its label", a)
	}
	if a := got["runtime"]; a.State != "live" {
		t.Errorf("the runtime: got %+v, want a live one", a)
	}
	for _, k := range tree.Kinds {
		if k.Kind == "call" && (k.Live != 3 || k.Inline != 3) {
			t.Errorf("calls: got %+v, want 3 inline", k)
		}
	}
	if tree.Process.PID != os.Getpid() || tree.Process.Command != "worker" {
		t.Errorf("the process: got %+v", tree.Process)
	}
	if raw, err := c.Status(t.Context()); err != nil || string(raw) != `{"running":2}` {
		t.Errorf("Status: got %s, %v", raw, err)
	}
	if p, err := c.Health(t.Context()); err != nil || p.Command != "worker" {
		t.Errorf("Health: got %+v, %v", p, err)
	}
	if n := admin.WakeAll(t.Context(), dir); n != 1 || woken.Load() != 1 {
		t.Errorf("WakeAll: got %d, and %d wakes, want 1 and 1", n, woken.Load())
	}
}

// The socket is for its user alone, and gone with its process (SECA-49).
func TestWhoGetsIn(t *testing.T) {
	dir := folder(t)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := admin.Listen(dir, admin.Options{System: newSystem(t)})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock")
	for path, want := range map[string]fs.FileMode{dir: 0o700, socket: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := admin.Dial(socket).Health(t.Context()); !errors.Is(err, admin.ErrGone) {
		t.Errorf("after Close: got %v, want %v", err, admin.ErrGone)
	}
	if found, err := admin.Find(dir); err != nil || len(found) != 0 {
		t.Errorf("Find after Close: got %v, %v, want none", found, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Find(dir); err == nil {
		t.Error("Find in a folder that everybody may write: got no error")
	}
}

func TestLinkIsRefused(t *testing.T) {
	dir := folder(t)
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		mcptest.Lacks(t, "symbolic links", err)
	}
	if _, err := admin.Listen(dir, admin.Options{System: newSystem(t)}); err == nil {
		t.Error("Listen behind a link: got no error")
	}
	if _, err := admin.Find(dir); err == nil {
		t.Error("Find behind a link: got no error")
	}
}

// The socket of a process that has died is removed; what only looks like one is not.
func TestStale(t *testing.T) {
	dir := folder(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "2147483647.sock") // above the highest id there is
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes.sock", "x.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := admin.Find(dir); err != nil || len(found) != 0 {
		t.Errorf("Find: got %v, %v, want none", found, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("left: got %q, want the two files that are no sockets", left)
	}
	if found, err := admin.Find(filepath.Join(dir, "none")); err != nil || found != nil {
		t.Errorf("Find in no folder: got %v, %v, want none", found, err)
	}
}

// A process that answers too much, or rubbish, is an error and nothing else (ROB-9).
func TestHostileProcess(t *testing.T) {
	dir := folder(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "1.sock"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tree":
			chunk := []byte(strings.Repeat("x", 1<<20))
			for range 64 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/health":
			_, _ = w.Write([]byte(`{"pid":`))
		default:
			http.Error(w, "no", http.StatusTeapot)
		}
	})}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	c := admin.Dial(filepath.Join(dir, "1.sock"))
	if _, err := c.Tree(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("Tree: got %v, want that it is too long", err)
	}
	if _, err := c.Health(t.Context()); err == nil {
		t.Error("Health: got no error for half an object")
	}
	if err := c.Wake(t.Context()); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("Wake: got %v, want the status", err)
	}
}

func TestDir(t *testing.T) {
	if got, want := admin.Dir("/home/a/.local/state/troupe", "/a.db"), "/home/a/.local/state/troupe/sockets"; filepath.Dir(got) != want {
		t.Errorf("Dir: got %q, want a folder in %q", got, want)
	}
	long := "/" + strings.Repeat("long/", 40)
	if got := admin.Dir(long, "/a.db"); len(got) > 80 || got != admin.Dir(long, "/a.db") || got == admin.Dir(long+"x", "/a.db") {
		t.Errorf("Dir(%d bytes): got %q, want a short name of its own", len(long), got)
	}
}

// TestDirOfStores: a store has one folder by whatever name it is told, before and after it is made, and no other store has it.
func TestDirOfStores(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("real", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", "link"); err != nil {
		mcptest.Lacks(t, "symbolic links", err)
	}
	file := filepath.Join(dir, "real", "a.db")
	names := []string{file, "real/a.db", "./real/../real/a.db", "link/a.db", filepath.Join(dir, "link", "a.db")}
	want := admin.Dir("/state", file)
	for made := range 2 {
		for _, name := range names {
			if got := admin.Dir("/state", name); got != want {
				t.Errorf("made %d: Dir of %s: got %s, want %s", made, name, got, want)
			}
		}
		for _, other := range []string{"real/b.db", "a.db", "real/a.db2", "\x00process 1"} {
			if admin.Dir("/state", other) == want {
				t.Errorf("made %d: Dir of %q is the one of %s", made, other, file)
			}
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if made == 0 {
			if err := os.Symlink(file, "name.db"); err != nil {
				t.Fatal(err)
			}
			names = append(names, "name.db")
		}
	}
}

// oneRun works on the run "r".
type oneRun struct{ did []string }

func (o *oneRun) note(run, what string) error {
	if run != "r" {
		return store.ErrNotFound
	}
	o.did = append(o.did, what)
	return nil
}

func (o *oneRun) Cancel(_ context.Context, run, cause string) error {
	return o.note(run, "cancel: "+cause)
}
func (o *oneRun) Park(_ context.Context, run string) error { return o.note(run, "park") }
func (o *oneRun) Saying(_ context.Context, run string) (int, string, error) {
	return 2, "It is …", o.note(run, "text")
}

// Another process cancels and parks a run, and reads what its model says; a run of no concern is not found.
func TestRuns(t *testing.T) {
	runs := new(oneRun)
	c := listen(t, folder(t), admin.Options{System: newSystem(t), Runs: runs})
	if err := c.Cancel(t.Context(), "r", "by a & b"); err != nil {
		t.Error(err)
	}
	if err := c.Park(t.Context(), "r"); err != nil {
		t.Error(err)
	}
	if turn, text, err := c.Saying(t.Context(), "r"); turn != 2 || text != "It is …" || err != nil {
		t.Errorf("Saying: got %d, %q, %v", turn, text, err)
	}
	if got := strings.Join(runs.did, ", "); got != "cancel: by a & b, park, text" {
		t.Errorf("done: %s", got)
	}
	if err := c.Cancel(t.Context(), "other/../r", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another run: got %v, want %v", err, store.ErrNotFound)
	}
	none := listen(t, folder(t), admin.Options{System: newSystem(t)})
	if err := none.Park(t.Context(), "r"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a process without runs: got %v, want %v", err, store.ErrNotFound)
	}
}
