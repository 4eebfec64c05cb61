package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
)

// openPTY returns both ends of a terminal of 80 columns and 24 rows.
func openPTY(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		mcptest.Lacks(t, "terminals", err)
	}
	t.Cleanup(func() { person.Close() })
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		mcptest.Lacks(t, "terminals", err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// On a real terminal: its size is used, what was typed before is dropped, Ctrl-D ends
// one question and not the next.
func TestPTY(t *testing.T) {
	person, program := openPTY(t)
	c := &console{t: t, ends: make(chan ended, 1), more: make(chan struct{}, 1)}
	go func() { _, _ = io.Copy(c, person) }() // ends with the terminal
	c.p = New(Options{In: program, Out: program})
	if !c.p.Terminal() {
		t.Fatal("a terminal is not taken for one")
	}
	types := func(expect, keys string) {
		t.Helper()
		c.expect(expect)
		if _, err := io.WriteString(person, keys); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(person, "a\na\na\n"); err != nil { // before there is a question
		t.Fatal(err)
	}
	c.expect("a\r\na\r\na\r\n") // the echo: it has arrived
	long := formAsk(`"a":{"type":"string"}`)
	long.Message = strings.Repeat("x", 80*20)
	c.asks(t.Context(), long)
	types("-- Enter for more", "\n")
	c.expect("text (optional)")
	types("> ", "größe\n")
	c.expect("größe\r\n")
	types("decide nothing\r\n> ", "a\n")
	if got := string(c.decided(mcp.ActionAccept).Content["a"]); got != `"größe"` {
		t.Errorf("got %s", got)
	}

	c.asks(t.Context(), urlAsk("https://example.com/"))
	types("decide nothing\r\n> ", "\x04")
	c.decided(mcp.ActionCancel)

	c.asks(t.Context(), urlAsk("https://example.com/"))
	types("decide nothing\r\n> ", "d\n")
	c.decided(mcp.ActionDecline)

	other := New(Options{In: program, Out: io.Discard}) // what is shown goes elsewhere
	if d, err := other.Decide(t.Context(), urlAsk("https://example.com/")); !errors.Is(err, ErrNoTerminal) || d != nil {
		t.Errorf("got %+v, %v, want %v", d, err, ErrNoTerminal)
	}
}
