package mcpclient

import (
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxTail  = 64 << 10 // of stderr is kept
	maxWords = 2 << 10  // of it is shown with an error
)

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) >= maxTail {
		t.buf = append(t.buf[:0], p[len(p)-maxTail:]...)
		return len(p), nil
	}
	if over := len(t.buf) + len(p) - 2*maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-maxTail:]...)
	}
	t.buf = append(t.buf, p...)
	return len(p), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-maxTail):])
}

// words returns the last lines, fit to be shown: without control characters.
func (t *tail) words() string {
	text := t.String()
	if len(text) > maxWords {
		text = text[len(text)-maxWords:]
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
