package pipe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/troupe-dev/troupe/actors/conn"
	processes "github.com/troupe-dev/troupe/internal/process"
)

// Process is a running server.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.ReadCloser
	Stderr() io.ReadCloser
	// Wait waits for the end, and reaps. It returns how the process ended, for
	// people. It is called once.
	Wait() string
	// Terminate asks the process and its descendants to end, Kill ends them. Both
	// may be called at any time.
	Terminate()
	Kill()
}

// Command says how to start a process.
type Command struct {
	Path string // looked up in PATH
	Args []string
	Env  map[string]*string // added to a minimal environment; nil takes a variable away
	Dir  string
}

// child is a real process.
type child struct {
	*processes.Process
	stdin, stdout, stderr *os.File
}

// Start starts a server's command, without a shell. Its descendants end with it, and all of
// them with this program, as far as package process can ensure that.
func Start(s *Command) (Process, error) {
	path, err := lookUp(s)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Path, err)
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{s.Path}, s.Args...), Env: environment(os.Environ(), s.Env), Dir: s.Dir}
	c := new(child)
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	stdin, w := pipe()
	c.stdin = w
	r, stdout := pipe()
	c.stdout = r
	r, stderr := pipe()
	c.stderr = r
	theirs = append(theirs, stdin, stdout, stderr)
	if err == nil {
		// As *os.File they are inherited as they are: no goroutine copies.
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		c.Process, err = processes.Start(cmd)
	}
	if err != nil {
		c.stdin.Close()
		c.stdout.Close()
		c.stderr.Close()
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			err = conn.Permanent(err)
		}
		return nil, fmt.Errorf("starting %s: %w", s.Path, err)
	}
	return c, nil
}

func (c *child) Stdin() io.WriteCloser { return c.stdin }
func (c *child) Stdout() io.ReadCloser { return c.stdout }
func (c *child) Stderr() io.ReadCloser { return c.stderr }

// Wait implements [Process].
func (c *child) Wait() string { return c.Process.Wait().String() }
