//go:build unix

package frame

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// owner starts goroutines and waits for them.
type owner struct {
	wg sync.WaitGroup
	n  int // how many were started; read after wait
}

func (o *owner) Start(f func()) {
	o.n++ // the writer starts one at a time
	o.wg.Go(f)
}

func newWriter(t *testing.T, w io.Writer, opts WriterOptions) (*Writer, *owner) {
	t.Helper()
	o := new(owner)
	opts.Start = o.Start
	wr := NewWriter(w, &opts)
	if _, old := w.(oldPipe); old {
		wr.raw.(*rawWriter).kind = blockingPipe
	}
	t.Cleanup(o.wg.Wait)
	return wr, o
}

// oldPipe is a pipe of a kernel that always waits for room in a blocking one.
type oldPipe struct{ *os.File }

// osPipe is a pipe whose writing end blocks or not, as a process inherits it.
func osPipe(t testing.TB, blocking bool) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if blocking {
		fd, err := syscall.Dup(int(w.Fd())) // Fd makes it blocking
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		w = os.NewFile(uintptr(fd), "pipe")
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// pairs are all kinds of stream the writer treats differently.
var pairs = map[string]func(t testing.TB) (io.ReadCloser, io.WriteCloser){
	"pipe":          func(t testing.TB) (io.ReadCloser, io.WriteCloser) { return osPipe(t, false) },
	"blocking pipe": func(t testing.TB) (io.ReadCloser, io.WriteCloser) { return osPipe(t, true) },
	"old pipe": func(t testing.TB) (io.ReadCloser, io.WriteCloser) {
		r, w := osPipe(t, true)
		return r, oldPipe{w}
	},
	"net.Pipe": func(t testing.TB) (io.ReadCloser, io.WriteCloser) { return net.Pipe() },
	"unix socket": func(t testing.TB) (io.ReadCloser, io.WriteCloser) {
		l, err := net.Listen("unix", t.TempDir()+"/s")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		a, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	},
	"blocking socket": func(t testing.TB) (io.ReadCloser, io.WriteCloser) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		a, b := os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
		t.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	},
}

// STDIO-09: lines of 64 goroutines arrive whole, each goroutine's in order.
func TestWriterInterleaving(t *testing.T) {
	const writers, lines = 64, 100
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			r, dst := pair(t)
			w, _ := newWriter(t, dst, WriterOptions{MaxQueue: 64 << 20})
			var wg sync.WaitGroup
			for g := range writers {
				wg.Go(func() {
					for i := range lines {
						line := fmt.Appendf(nil, "%d %d: %s", g, i, strings.Repeat("x", i*i%5000))
						write := w.Write
						if i%3 == 0 {
							write = w.Append
						}
						if err := write(line); err != nil {
							t.Errorf("line %d of %d: %v", i, g, err)
						}
						clear(line) // Write has copied it
					}
					if err := w.Flush(); err != nil {
						t.Error(err)
					}
				})
			}
			done := make(chan error, 1)
			go func() {
				wg.Wait()
				done <- w.Close(t.Context())
			}()
			next := make([]int, writers)
			in := NewReader(r, 0)
			for range writers * lines {
				line, err := in.Next()
				if err != nil {
					t.Fatal(err)
				}
				head, rest, _ := strings.Cut(string(line), ": ")
				var g, i int
				_, _ = fmt.Sscan(head, &g, &i)
				if i != next[g] || rest != strings.Repeat("x", i*i%5000) {
					t.Fatalf("line of %d: got %d with %d bytes, want %d", g, i, len(rest), next[g])
				}
				next[g]++
			}
			if _, err := in.Next(); err != io.EOF {
				t.Errorf("behind the last line: got %v, want EOF", err)
			}
			if err := <-done; err != nil {
				t.Errorf("Close: got %v", err)
			}
		})
	}
}

// A peer that does not read never makes a caller wait; the queue is bounded.
func TestWriterSlowPeer(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			r, dst := pair(t)
			w, o := newWriter(t, dst, WriterOptions{MaxQueue: 1 << 20})
			line := bytes.Repeat([]byte("x"), 999)
			sent := 0
			for ; ; sent++ { // would hang here if a write waited
				if err := w.Write(line); err != nil {
					if err != ErrQueueFull {
						t.Fatalf("Write: got %v, want %v", err, ErrQueueFull)
					}
					break
				}
				if sent > 20_000 {
					t.Fatal("the queue has no bound")
				}
			}
			if o.n != 1 {
				t.Errorf("goroutines for a slow peer: got %d, want 1", o.n)
			}
			if err := w.Write(bytes.Repeat([]byte("x"), 2<<20)); err != ErrQueueFull {
				t.Errorf("a line beyond the queue: got %v, want %v", err, ErrQueueFull)
			}
			closed := make(chan error, 1)
			go func() { closed <- w.Close(t.Context()) }()
			got, err := readAll(NewReader(r, 0)) // now it reads: nothing is lost
			if err != io.EOF || len(got) != sent {
				t.Errorf("got %d lines and %v, want %d and EOF", len(got), err, sent)
			}
			if err := <-closed; err != nil {
				t.Errorf("Close: got %v", err)
			}
		})
	}
}

// Close ends a goroutine that is stuck in a write that is not read.
func TestWriterCloseUnread(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			_, dst := pair(t)
			told := 0
			w, o := newWriter(t, dst, WriterOptions{OnError: func(error) { told++ }})
			if err := w.Write(make([]byte, 4<<20)); err != nil {
				t.Fatal(err)
			}
			why := errors.New("no patience")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(why)
			if err := w.Close(ctx); !errors.Is(err, why) {
				t.Errorf("Close: got %v, want %v", err, why)
			}
			o.wg.Wait() // would hang
			if told != 0 {
				t.Error("closing was reported as a write error")
			}
			for i, err := range []error{w.Write(nil), w.Append(nil), w.Flush(), w.Close(t.Context())} {
				if err != ErrClosed {
					t.Errorf("call %d after Close: got %v, want %v", i, err, ErrClosed)
				}
			}
		})
	}
}

// The first error is told once and kept.
func TestWriterPeerGone(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			r, dst := pair(t)
			r.Close()
			told := make(chan error, 10)
			w, o := newWriter(t, dst, WriterOptions{OnError: func(err error) { told <- err }})
			_ = w.Write([]byte("a")) // may be the one that finds out
			first := <-told
			for i, err := range []error{w.Write([]byte("b")), w.Append(nil), w.Flush(), w.Close(t.Context())} {
				if err != first {
					t.Errorf("call %d: got %v, want %v", i, err, first)
				}
			}
			o.wg.Wait()
			if len(told) != 0 {
				t.Errorf("OnError was called again: %v", <-told)
			}
		})
	}
}

// countingWriter counts writes; each waits until it is released.
type countingWriter struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	calls int
	gate  chan struct{}
}

func (c *countingWriter) Write(p []byte) (int, error) {
	if c.gate != nil {
		<-c.gate
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	return c.buf.Write(p)
}

// While one write is under way lines gather, and go out together.
func TestWriterCombines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := &countingWriter{gate: make(chan struct{})}
		w, o := newWriter(t, dst, WriterOptions{})
		for i := range 100 {
			if err := w.Write(fmt.Appendf(nil, "%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(dst.gate)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if dst.calls > 2 || o.n != 1 {
			t.Errorf("100 lines: got %d writes by %d goroutines, want at most 2 by 1", dst.calls, o.n)
		}
		if got := strings.Count(dst.buf.String(), "\n"); got != 100 {
			t.Errorf("got %d lines, want 100", got)
		}
	})
}

func TestWriterCloseWaitsAsLongAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := &countingWriter{gate: make(chan struct{})}
		w, _ := newWriter(t, dst, WriterOptions{})
		if err := w.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := w.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("Close: got %v after %v, want the deadline after 3s", err, time.Since(start))
		}
		close(dst.gate)
	})
}

func TestWriterAppendWaitsForFlush(t *testing.T) {
	dst := new(countingWriter)
	w, o := newWriter(t, dst, WriterOptions{Direct: true})
	for range 10 {
		if err := w.Append([]byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	if dst.calls != 0 {
		t.Errorf("writes before Flush: got %d, want 0", dst.calls)
	}
	if err := w.Flush(); err != nil || dst.calls != 1 || dst.buf.String() != strings.Repeat("a\n", 10) {
		t.Errorf("Flush: got %v, %d writes, %q", err, dst.calls, dst.buf.String())
	}
	for range 2 * flushAt / 1000 {
		if err := w.Append(make([]byte, 999)); err != nil {
			t.Fatal(err)
		}
	}
	if dst.calls < 2 {
		t.Error("Append of 128 KiB wrote nothing by itself")
	}
	if o.n != 0 {
		t.Errorf("a direct writer started %d goroutines", o.n)
	}
}

// A short count without an error must not lose the rest in silence.
func TestWriterShortWrite(t *testing.T) {
	told := make(chan error, 1)
	w, _ := newWriter(t, shortWriter{}, WriterOptions{OnError: func(err error) { told <- err }})
	if err := w.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v, want %v", err, io.ErrShortWrite)
	}
}

type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) - 1, nil }

// Regular files have SyscallConn too, but no way to be written without waiting.
func TestWriterRegularFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	w, o := newWriter(t, f, WriterOptions{})
	for i := range 3 {
		if err := w.Write(fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Name())
	if err != nil || string(got) != "0\n1\n2\n" || o.n == 0 {
		t.Errorf("file: got %q, %v by %d goroutines", got, err, o.n)
	}
}

func TestNewWriterNeedsStart(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("NewWriter without Start did not panic")
		}
	}()
	NewWriter(io.Discard, nil)
}

func TestWriterDoesNotAllocate(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("measured where descriptors are written directly")
	}
	for _, name := range []string{"pipe", "blocking pipe", "unix socket"} {
		r, dst := pairs[name](t)
		w, _ := newWriter(t, dst, WriterOptions{})
		line, sink := bytes.Repeat([]byte("x"), 200), make([]byte, 4096)
		n := testing.AllocsPerRun(100, func() {
			if err := w.Write(line); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(r, sink[:201]); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("a line over %s: got %v allocations, want none", name, n)
		}
	}
}

// The floor is a mutex and a bufio.Writer flushed for each line; it waits for slow peers.
func BenchmarkWriter(b *testing.B) {
	line := bytes.Repeat([]byte("x"), 200)
	kinds := map[string]func(w *os.File) func([]byte) error{
		"floor": func(w *os.File) func([]byte) error {
			var mu sync.Mutex
			out := bufio.NewWriter(w)
			return func(p []byte) error {
				mu.Lock()
				defer mu.Unlock()
				_, _ = out.Write(p)
				_ = out.WriteByte('\n')
				return out.Flush()
			}
		},
		"combining": func(w *os.File) func([]byte) error {
			return NewWriter(w, &WriterOptions{Start: func(f func()) { go f() }}).Write
		},
	}
	for _, writers := range []int{1, 64} {
		for _, blocking := range []bool{false, true} {
			for _, kind := range []string{"floor", "combining"} {
				b.Run(fmt.Sprintf("writers=%d/blocking=%t/%s", writers, blocking, kind), func(b *testing.B) {
					r, w := osPipe(b, blocking)
					got := make(chan int64, 1)
					go func() { n, _ := io.Copy(io.Discard, onlyReader{r}); got <- n }()
					write := kinds[kind](w)
					b.ReportAllocs()
					b.SetParallelism(max(1, writers/runtime.GOMAXPROCS(0)))
					if writers == 1 {
						for b.Loop() {
							for write(line) == ErrQueueFull {
								runtime.Gosched()
							}
						}
						return
					}
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							for write(line) == ErrQueueFull {
								runtime.Gosched()
							}
						}
					})
				})
			}
		}
	}
}

type onlyReader struct{ io.Reader }

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{200, 64 << 10} {
		b.Run(fmt.Sprintf("line=%d", size), func(b *testing.B) {
			in := bytes.Repeat([]byte(strings.Repeat("x", size)+"\n"), 100)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			src := bytes.NewReader(in)
			r := NewReader(src, 0)
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					src.Reset(in)
					r.err = nil
				}
			}
		})
	}
}
