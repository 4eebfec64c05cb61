package pipe

import (
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxKept  = 64 << 10 // of stderr is kept
	maxShown = 2 << 10  // of it is shown with an error
)

// lastOutput keeps the end of what is written to it.
type lastOutput struct {
	mu  sync.Mutex // guards buf: the goroutine that drains stderr writes it, Status reads it, and neither may wait for an actor
	buf []byte
}

// Write never fails.
func (t *lastOutput) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) >= maxKept {
		t.buf = append(t.buf[:0], p[len(p)-maxKept:]...)
		return len(p), nil
	}
	if over := len(t.buf) + len(p) - 2*maxKept; over > 0 {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-maxKept:]...)
	}
	t.buf = append(t.buf, p...)
	return len(p), nil
}

// String returns what is kept.
func (t *lastOutput) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-maxKept):])
}

// lastLines returns the last lines, fit to be shown: without control characters.
func (t *lastOutput) lastLines() string {
	text := t.String()
	if len(text) > maxShown {
		text = text[len(text)-maxShown:]
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}
