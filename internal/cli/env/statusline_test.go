package env

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/columns"
)

// painted is what was written to a terminal.
type painted struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *painted) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

// take returns what was written since the last time.
func (s *painted) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.buf.String()
	s.buf.Reset()
	return text
}

// TestStatusLine: its clock runs while nothing happens, what is printed stands above it, and
// it never is wider than the terminal.
func TestStatusLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen painted
		s := newStatusLine(&screen, func() int { return 40 })
		const erase = "\r\x1b[K"
		step := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := screen.take(); got != want {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
		}
		s.Set("waiting for the model")
		step("set", erase+"  waiting for the model (0s)")
		time.Sleep(2*time.Second + time.Millisecond)
		step("two seconds", erase+"  waiting for the model (1s)"+erase+"  waiting for the model (2s)")
		s.Set("waiting for the model")
		step("the same again", "")
		time.Sleep(63 * time.Second)
		synctest.Wait()
		if got := screen.take(); !strings.HasSuffix(got, " (1m05s)") {
			t.Errorf("after 65 s: got %q", got)
		}
		s.Above(func() { screen.Write([]byte("a line\n")) })
		step("above", erase+"a line\n"+erase+"  waiting for the model (1m05s)")
		s.Set("a tool")
		step("another text", erase+"  a tool (0s)")
		s.Clear()
		step("clear", erase)
		time.Sleep(5 * time.Second)
		step("after clear", "")
		s.Above(func() { screen.Write([]byte("a line\n")) })
		step("above nothing", "a line\n")
		var names atomic.Value
		names.Store("one, two")
		s.Follow(func() string { return "starting " + names.Load().(string) })
		step("follow", erase+"  starting one, two (0s)")
		names.Store("two")
		time.Sleep(2 * time.Second)
		step("it has changed", erase+"  starting two (0s)"+erase+"  starting two (1s)")
		s.Set(strings.Repeat("x", 100))
		if got := strings.TrimPrefix(screen.take(), erase); len([]rune(got)) > 39 {
			t.Errorf("got %d columns of 40: %q", len([]rune(got)), got)
		}
		s.Set(strings.Repeat("世", 100))
		if got := strings.TrimPrefix(screen.take(), erase); columns.Width(got) > 39 {
			t.Errorf("got %d columns of 40: %q", columns.Width(got), got)
		}
		s.Close()
	})
}
