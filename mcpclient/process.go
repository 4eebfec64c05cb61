package mcpclient

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/troupe-dev/troupe/actors/conn"
	processes "github.com/troupe-dev/troupe/internal/process"
)

// process is a running server.
type process interface {
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

// starter starts the process of a server.
type starter func(*Server) (process, error)

// child is a real process.
type child struct {
	*processes.Process
	stdin, stdout, stderr *os.File
}

// startProcess starts a server's command, without a shell. Its descendants end with it,
// and all of them with us, as far as package process can have it.
func startProcess(s *Server) (process, error) {
	path, err := lookUp(s)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Command, err)
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{s.Command}, s.Args...), Env: environment(ourEnvironment(), s.Env), Dir: s.Dir}
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
		return nil, fmt.Errorf("starting %s: %w", s.Command, err)
	}
	return c, nil
}

func (c *child) Stdin() io.WriteCloser { return c.stdin }
func (c *child) Stdout() io.ReadCloser { return c.stdout }
func (c *child) Stderr() io.ReadCloser { return c.stderr }

// Wait implements [process].
func (c *child) Wait() string { return c.Process.Wait().String() }
