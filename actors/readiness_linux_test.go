package actors_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors"
)

// startReal is start, outside of a bubble: files are not of one.
func startReal(t *testing.T) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sys
}

// osPipe is closed in the end.
func osPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// waitFor waits for conn; the channel is closed by ready.
func waitFor(t *testing.T, sys *actors.System, conn syscall.Conn) (*actors.ReadWait, chan struct{}) {
	t.Helper()
	ran := make(chan struct{})
	w, ok := sys.WhenReadable("test", conn, func() { close(ran) })
	if !ok {
		t.Fatal("WhenReadable: got false")
	}
	return w, ran
}

func noTask(t *testing.T, sys *actors.System) {
	t.Helper()
	for sys.Census().Tasks["test"] != 0 { // what has just run ends
		runtime.Gosched()
	}
}

var threadCount = regexp.MustCompile(`(?m)^Threads:\s+(\d+)$`)

func threads(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(threadCount.FindSubmatch(status)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestManyReadWaits: one goroutine waits for all, and no thread; each counts as a task.
func TestManyReadWaits(t *testing.T) {
	const waits = 1000
	sys := startReal(t)
	var writers []*os.File
	var ran sync.WaitGroup
	goroutines, before := runtime.NumGoroutine(), threads(t)
	for range waits {
		r, w := osPipe(t)
		writers = append(writers, w)
		ran.Add(1)
		if _, ok := sys.WhenReadable("test", r, ran.Done); !ok {
			t.Fatal("WhenReadable: got false")
		}
	}
	if n := runtime.NumGoroutine() - goroutines; n > 1 {
		t.Errorf("%d waits: got %d goroutines, want 1", waits, n)
	}
	if n := threads(t) - before; n > 4 { // of the runtime, if any
		t.Errorf("%d waits: got %d threads", waits, n)
	}
	if n := sys.Census().Tasks["test"]; n != waits {
		t.Errorf("census: got %d tasks, want %d", n, waits)
	}
	for _, w := range writers {
		if _, err := w.WriteString("x"); err != nil {
			t.Fatal(err)
		}
	}
	ran.Wait()
	noTask(t, sys)
}

// TestReadWaitKinds: of what can be waited for, each by what it is ready for.
func TestReadWaitKinds(t *testing.T) {
	sys := startReal(t)
	t.Run("pipe that ends", func(t *testing.T) {
		r, w := osPipe(t)
		_, ran := waitFor(t, sys, r)
		w.Close()
		<-ran
	})
	t.Run("pipe that is ready before", func(t *testing.T) {
		r, w := osPipe(t)
		w.WriteString("x")
		for range 3 { // it may be waited for again, and is not read
			_, ran := waitFor(t, sys, r)
			<-ran
		}
	})
	t.Run("socket", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		in, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, ran := waitFor(t, sys, out.(*net.TCPConn))
		select {
		case <-ran:
			t.Error("a socket without data is ready")
		default:
		}
		in.Close()
		<-ran
	})
	t.Run("pidfd", func(t *testing.T) {
		r, w := osPipe(t)
		var pidfd int
		p, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{Files: []*os.File{r}, Sys: &syscall.SysProcAttr{PidFD: &pidfd}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = p.Wait() }()
		if pidfd < 0 {
			t.Skip("this kernel has no pidfd")
		}
		f := os.NewFile(uintptr(pidfd), "pidfd")
		defer f.Close()
		_, ran := waitFor(t, sys, f)
		r.Close()
		w.Close()
		<-ran
	})
	noTask(t, sys)
}

// TestReadWaitRefused: what only a goroutine can wait for is left to one.
func TestReadWaitRefused(t *testing.T) {
	sys := startReal(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	closed, _ := osPipe(t)
	closed.Close()
	twice, _ := osPipe(t)
	w, _ := waitFor(t, sys, twice)
	for name, conn := range map[string]syscall.Conn{"regular file": file, "closed": closed, "waited for": twice} {
		if _, ok := sys.WhenReadable("test", conn, func() { t.Errorf("%s: ready ran", name) }); ok {
			t.Errorf("%s: got true", name)
		}
	}
	if n := sys.Census().Tasks["test"]; n != 1 {
		t.Errorf("census: got %d tasks, want 1", n)
	}
	if !w.Cancel() {
		t.Error("Cancel: got false")
	}
}

// TestReadWaitPanics: in a task of the kit, as any other.
func TestReadWaitPanics(t *testing.T) {
	var logs syncBuffer
	sys, err := actors.NewSystem(&actors.Options{Logger: logTo(&logs)})
	if err != nil {
		t.Fatal(err)
	}
	r, w := osPipe(t)
	if _, ok := sys.WhenReadable("test", r, func() { panic("in ready") }); !ok {
		t.Fatal("WhenReadable: got false")
	}
	w.Close()
	if err := sys.Shutdown(t.Context()); err != nil { // waits for it
		t.Error(err)
	}
	if logs.Count("panic: in ready") != 1 {
		t.Errorf("the log lacks the panic: %s", &logs)
	}
}

// TestCancelReadWait: Cancel says whether ready runs, however close they are, and so do Wake and Cancel.
func TestCancelReadWait(t *testing.T) {
	sys := startReal(t)
	r, w := osPipe(t)
	var cancelled, run int
	for i := range 2000 {
		var ran atomic.Int32
		wait, ok := sys.WhenReadable("test", r, func() { ran.Add(1) })
		if !ok {
			t.Fatal("WhenReadable: got false: the last wait is not forgotten")
		}
		var others sync.WaitGroup
		others.Go(func() {
			if _, err := w.WriteString("x"); err != nil {
				t.Error(err)
			}
		})
		if i%2 == 0 {
			others.Go(wait.Wake)
		}
		if i%3 == 0 {
			runtime.Gosched()
		}
		never := wait.Cancel()
		others.Wait()
		if wait.Cancel() {
			t.Error("a second Cancel: got true")
		}
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		noTask(t, sys)
		want := int32(1)
		if never {
			want = 0
			cancelled++
		} else {
			run++
		}
		if got := ran.Load(); got != want {
			t.Fatalf("Cancel returned %v, and ready ran %d times", never, got)
		}
	}
	t.Logf("cancelled %d, run %d", cancelled, run)
}

// TestReadWaitAgain: one wait serves all pauses of its input, and ready may begin the next.
func TestReadWaitAgain(t *testing.T) {
	const rounds = 100
	sys := startReal(t)
	r, w := osPipe(t)
	var got int
	ended := make(chan error)
	var wait *actors.ReadWait
	wait = sys.NewReadWait("test", r, func() {
		_, err := r.Read(make([]byte, 1))
		if got++; err != nil || !wait.Begin() {
			ended <- err
		}
	})
	if wait.Cancel() {
		t.Error("Cancel of a wait that has not begun: got true")
	}
	wait.Wake() // and this runs nothing
	if !wait.Begin() {
		t.Fatal("Begin: got false")
	}
	for range rounds {
		if _, err := w.WriteString("x"); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if err := <-ended; err != io.EOF || got != rounds+1 {
		t.Errorf("ready ran %d times, want %d, and the last got %v", got, rounds+1, err)
	}
	noTask(t, sys)
}

// TestReadWaitWithin: a wait with a limit ends with it at the latest, and its function can tell; it may wait
// again, with a limit or without one.
func TestReadWaitWithin(t *testing.T) {
	sys := startReal(t)
	r, w := osPipe(t)
	ran := make(chan bool)
	var wait *actors.ReadWait
	wait = sys.NewReadWait("test", r, func() { ran <- wait.Late() })
	short := func() bool { return wait.BeginWithin(time.Millisecond) }
	long := func() bool { return wait.BeginWithin(time.Hour) }
	for i, round := range []struct {
		begin func() bool
		act   func()
		late  bool
	}{
		{long, wait.Wake, false},
		{short, func() {}, true},
		{wait.Begin, wait.Wake, false},
		{short, func() {}, true},
		{long, func() { w.Close() }, false},
	} {
		if !round.begin() {
			t.Fatalf("round %d: the wait did not begin", i)
		}
		round.act()
		if late := <-ran; late != round.late {
			t.Errorf("round %d: Late returned %v", i, late)
		}
		if wait.Cancel() {
			t.Errorf("round %d: the wait is open after its function ran", i)
		}
	}
	noTask(t, sys)
}

// TestClosedWhileWaiting: Wake ends the wait, and no later file that gets the same descriptor
// is taken for the closed one.
func TestClosedWhileWaiting(t *testing.T) {
	sys := startReal(t)
	for _, how := range []string{"wake", "cancel"} {
		first, _ := osPipe(t)
		wait, ran := waitFor(t, sys, first)
		fd := descriptor(t, first)
		first.Close()
		second, w := osPipe(t)
		if descriptor(t, second) != fd {
			t.Fatal("the descriptor is not used again") // the lowest that is free is
		}
		_, ranToo := waitFor(t, sys, second)
		if how == "wake" {
			wait.Wake()
			<-ran
		} else if !wait.Cancel() {
			t.Error("Cancel: got false")
		}
		select {
		case <-ranToo:
			t.Error("the second wait ended with the first")
		default:
		}
		w.Close()
		<-ranToo
	}
	noTask(t, sys)
}

func descriptor(t *testing.T, f *os.File) (fd uintptr) {
	t.Helper()
	raw, err := f.SyscallConn() // Fd would make it one that blocks
	if err == nil {
		err = raw.Control(func(n uintptr) { fd = n })
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestShutdownWithReadWaits: those that are open when its context has ended run, and are tasks that are
// left until they have. The goroutine that waited ends, and no wait begins any more.
func TestShutdownWithReadWaits(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := osPipe(t)
	_, ran := waitFor(t, sys, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left, ok := errors.AsType[*actors.ShutdownError](sys.Shutdown(ctx))
	<-ran
	if !ok || len(left.Tasks) > 0 && !slices.Equal(left.Tasks, []string{"test"}) {
		t.Errorf("Shutdown: got %v", left)
	}
	noTask(t, sys)
	if _, ok := sys.WhenReadable("test", r, func() { t.Error("ready ran") }); ok {
		t.Error("WhenReadable after Shutdown: got true")
	}
	noTask(t, sys)
	for runtime.NumGoroutine() > goroutines { // the workers end
		runtime.Gosched()
	}
}

// TestReadWaitHoldsNoDescriptor: the waits of a system have one list, which ends with it.
func TestReadWaitHoldsNoDescriptor(t *testing.T) {
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := osPipe(t)
	second, _ := osPipe(t)
	before := nextDescriptor(t)
	w, _ := waitFor(t, sys, first)
	with := nextDescriptor(t)
	also, _ := waitFor(t, sys, second)
	if next := nextDescriptor(t); next != with {
		t.Errorf("with a second wait: the next descriptor is %d, want %d", next, with)
	}
	w.Cancel()
	also.Cancel()
	if err := sys.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if next := nextDescriptor(t); next != before {
		t.Errorf("after Shutdown: the next descriptor is %d, want %d", next, before)
	}
}

func nextDescriptor(t *testing.T) int {
	t.Helper()
	fd, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	return fd
}
