//go:build unix

package frame

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A reader that waits for a pipe holds no buffer, and loses nothing by that.
func TestReaderWaitsWithoutBuffer(t *testing.T) {
	from, to := osPipe(t, false)
	defer from.Close()
	r := NewReader(from, 0)
	if r.raw == nil {
		t.Fatal("the pipe is read as any other source")
	}
	raw, waits := r.raw, make(chan struct{})
	r.raw = func() (int, error) {
		if r.start == r.end {
			waits <- struct{}{} // nothing is written before
		}
		return raw()
	}
	lines := []string{"a", strings.Repeat("b", 100<<10), "c", strings.Repeat("d", 300<<10), "e"}
	go func() {
		defer to.Close()
		for _, line := range lines {
			<-waits
			if _, err := io.WriteString(to, line+"\n"); err != nil {
				t.Error(err)
			}
		}
		<-waits
	}()
	for _, want := range lines {
		got, err := r.Next()
		if err != nil || string(got) != want {
			t.Fatalf("got %d bytes %.10q, %v; want %d bytes", len(got), got, err, len(want))
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
}

// What an idle reader has given back is no part of it while it waits.
func TestReaderGivesBufferBack(t *testing.T) {
	from, to := osPipe(t, false)
	defer to.Close()
	r := NewReader(from, 0)
	r.borrow()
	r.giveBack()
	if r.buf != nil || r.box != nil {
		t.Error("the empty buffer is kept")
	}
	if _, err := io.WriteString(to, "whole\npart"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.Next(); err != nil || string(line) != "whole" {
		t.Fatalf("got %q, %v", line, err)
	}
	if r.giveBack(); r.buf == nil {
		t.Error("the buffer is given away with a part of a line in it")
	}
	from.Close()
	if _, err := r.Next(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the pipe was closed: got %v", err)
	}
}

// A deadline of the source loses nothing, and an idle reader holds no buffer after it.
func TestReaderDeadline(t *testing.T) {
	from, to := osPipe(t, false)
	defer from.Close()
	defer to.Close()
	r := NewReader(from, 0)
	late := func(held bool) {
		t.Helper()
		if err := from.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if line, err := r.Next(); line != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("after the deadline: got %q, %v", line, err)
			}
		}
		if got := r.buf != nil; got != held {
			t.Errorf("after the deadline: the buffer is held: %v, want %v", got, held)
		}
		if err := from.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string) {
		t.Helper()
		if _, err := io.WriteString(to, text); err != nil {
			t.Fatal(err)
		}
	}
	late(false)
	write("whole\npart")
	if line, err := r.Next(); string(line) != "whole" {
		t.Fatalf("got %q, %v", line, err)
	}
	late(true)
	write("ed\n")
	if line, err := r.Next(); string(line) != "parted" {
		t.Fatalf("got %q, %v", line, err)
	}
	late(false)
	to.Close()
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
}

func TestRawReadDoesNotAllocate(t *testing.T) {
	from, to := osPipe(t, false)
	defer from.Close()
	defer to.Close()
	r := NewReader(from, 0)
	line := []byte(strings.Repeat("x", 200) + "\n")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := to.Write(line); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a line: got %v allocations, want none", n)
	}
}
