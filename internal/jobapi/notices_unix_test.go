//go:build unix

package jobapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/internal/jobapi"
)

// A command gets its own arguments without a shell, and the notice on its stdin; what it does not read does not matter.
func TestRunCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	body := []byte(`{"title":"$(reboot) '\"; reboot"}`)
	if err := jobapi.RunCommand(t.Context(), []string{"/bin/sh", "-c", `printf '%s\n' "$#" "$@" >"$0"; cat >>"$0"`, out, "$HOME", "a b;"}, body); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if want := "2\n$HOME\na b;\n" + string(body); err != nil || string(got) != want {
		t.Errorf("the command got %q, %v, want %q", got, err, want)
	}
	large := bytes.Repeat([]byte("x"), 1<<20)
	if err := jobapi.RunCommand(t.Context(), []string{"/bin/sh", "-c", "exit 0"}, large); err != nil {
		t.Errorf("a command that does not read: %v", err)
	}
	if err := jobapi.RunCommand(t.Context(), []string{"/bin/sh", "-c", "exit 3"}, nil); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a command that fails: got %v", err)
	}
	if err := jobapi.RunCommand(t.Context(), []string{filepath.Join(t.TempDir(), "missing")}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command that is missing: got %v", err)
	}
}

// A command that hangs ends when its time is over, with what it has started, also while it does not read.
func TestRunCommandHangs(t *testing.T) {
	for name, size := range map[string]int{"small": 1, "large": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- jobapi.RunCommand(ctx, []string{"/bin/sh", "-c", `exec 3>"$0"; sleep 1000 & echo >&3; wait`, fifo}, bytes.Repeat([]byte("x"), size))
			}()
			r, err := os.Open(fifo)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			cancel()
			if _, err := io.ReadAll(r); err != nil { // ends with the last process that has the other end
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want that its time is over", err)
			}
		})
	}
}
