package env

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// StatusLine is one line at the bottom of a terminal that says what goes on and for how
// long. Its clock runs while it is shown. It may be used by any number of goroutines; a
// nil one shows nothing.
type StatusLine struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int // columns of the terminal
	text  func() string
	last  string // what text returned last
	since time.Time
	shown bool // text is wanted on the screen
	drawn bool // it is there
	tick  *time.Ticker
	done  chan struct{}
}

// statusTime is how often the line is drawn again.
const statusTime = time.Second

// NewStatus returns the status line of the program; nil where there is no terminal for it.
func (e *Env) NewStatus() *StatusLine {
	f := e.Progress()
	if f == nil {
		return nil
	}
	return newStatusLine(f, func() int { return WidthOf(f) })
}

// Progress is the terminal that may show what goes on; nil where there is none, or the
// user wants no such lines.
func (e *Env) Progress() *os.File {
	if e.Quiet || e.LogFormat == "json" {
		return nil
	}
	return e.screen()
}

// WidthOf is how many columns a terminal has, 80 where that is unknown.
func WidthOf(f *os.File) int { return widthOf(f, 80) }

// screen is the terminal that stderr is; nil where it is none, or one that only writes on.
func (e *Env) screen() *os.File {
	f, ok := e.Errors.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return f
}

func newStatusLine(w io.Writer, width func() int) *StatusLine {
	s := &StatusLine{w: w, width: width, tick: time.NewTicker(statusTime), done: make(chan struct{})}
	go s.run() // ends with close
	return s
}

func (s *StatusLine) run() {
	for {
		select {
		case <-s.tick.C:
			s.mu.Lock()
			if s.shown {
				s.draw()
			}
			s.mu.Unlock()
		case <-s.done:
			return
		}
	}
}

// Set shows a text. The clock starts again unless it is the same text.
func (s *StatusLine) Set(text string) { s.Follow(func() string { return text }) }

// Follow shows what text returns now and whenever the line is drawn again.
func (s *StatusLine) Follow(text func() string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := text()
	if s.text = text; now != s.last || s.since.IsZero() {
		s.last, s.since = now, time.Now()
	} else if s.drawn {
		return
	}
	s.shown = true
	s.draw()
}

func (s *StatusLine) draw() {
	s.last = s.text()
	clock := Elapsed(time.Since(s.since))
	text := Shorten(s.last, max(s.width()-len(clock)-6, 10)) // never two rows: the second would stay
	fmt.Fprintf(s.w, "\r\x1b[K  %s (%s)", text, clock)
	s.drawn = true
}

// Columns is how wide the terminal is.
func (s *StatusLine) Columns() int {
	if s == nil {
		return 80
	}
	return max(s.width(), 20)
}

// Elapsed is a time that passes, such as 12s or 3m05s.
func Elapsed(d time.Duration) string {
	n := int(d.Seconds())
	if n < 60 {
		return fmt.Sprintf("%ds", n)
	}
	return fmt.Sprintf("%dm%02ds", n/60, n%60)
}

// Above prints something where the line is, and shows the line again below it.
func (s *StatusLine) Above(write func()) {
	if s == nil {
		write()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	write()
	if s.shown {
		s.draw()
	}
}

// Clear takes the line away until the next set.
func (s *StatusLine) Clear() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.shown = false
}

func (s *StatusLine) erase() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

// Close ends the line for good.
func (s *StatusLine) Close() {
	if s == nil {
		return
	}
	s.Clear()
	s.tick.Stop()
	close(s.done)
}
