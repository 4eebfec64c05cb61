package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/store"
)

// control changes runs by the admin sockets of the processes that work on them, and by commands of this program.
type control struct {
	env   *env.Env
	store store.Store
}

// each asks the processes of this user in turn, until one of them has the run.
func (c *control) each(ctx context.Context, ask func(context.Context, *admin.Client) error) error {
	clients, err := c.env.Processes()
	if err != nil {
		return err
	}
	failed := store.ErrNotFound
	for _, client := range clients {
		if err = ask(ctx, client); err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, admin.ErrGone) {
			failed = err
		}
	}
	return failed
}

func (c *control) Cancel(ctx context.Context, run, cause string) error {
	return c.each(ctx, func(ctx context.Context, p *admin.Client) error { return p.Cancel(ctx, run, cause) })
}

func (c *control) Park(ctx context.Context, run string) error {
	return c.each(ctx, func(ctx context.Context, p *admin.Client) error { return p.Park(ctx, run) })
}

func (c *control) Saying(ctx context.Context, run string) (turn int, text string, err error) {
	err = c.each(ctx, func(ctx context.Context, p *admin.Client) (err error) {
		turn, text, err = p.Saying(ctx, run)
		return err
	})
	return turn, text, err
}

func (c *control) Resume(ctx context.Context, run string) error {
	return c.start(ctx, run, "runs", "resume", run)
}

func (c *control) Fork(ctx context.Context, run string, f console.Fork) error {
	args := []string{"runs", "fork", run, "--run-id=" + f.ID, "--at=" + strconv.FormatInt(f.At, 10)}
	if f.Prompt != "" {
		args = append(args, "--prompt="+f.Prompt)
	}
	if f.Say != "" {
		args = append(args, "--say="+f.Say)
	}
	return c.start(ctx, f.ID, args...)
}

// How long a command has to take up its run, and how much of what it says is kept.
const (
	takeUpTime = 20 * time.Second
	maxSaid    = 4 << 10
)

// start starts a command of this program and waits until it has the run, or has ended. The command goes on
// when the console ends: it has a session of its own, so that what it asks goes to the inbox.
func (c *control) start(ctx context.Context, run string, args ...string) error {
	file, err := c.env.StoreFile()
	if err != nil {
		return err
	}
	if c.env.NoStore {
		return &console.RefusedError{Why: "Without a store in a file no other process can go on with a run."}
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	before, err := c.store.Run(ctx, run)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	args = append(args, "--store="+file)
	said := new(tail)
	cmd := exec.Command(program, args...)
	if c.env.ConfigPath != "" { // not as a flag: the configuration that the run was started with comes first
		cmd.Env = append(os.Environ(), "TROUPE_CONFIG="+c.env.ConfigPath)
	}
	cmd.Stderr, cmd.SysProcAttr = said, ownSession()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting this program again: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the command, which is its run's
	look, late := time.NewTicker(100*time.Millisecond), time.NewTimer(takeUpTime)
	defer look.Stop()
	defer late.Stop()
	for {
		select {
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() != env.ExitWaiting {
				// Its flags are for a terminal, where a person can complete them.
				return &console.RefusedError{Why: "The command failed: " + cmp.Or(strings.TrimSpace(said.String()), err.Error()), Command: "troupe " + strings.Join(args[:3], " ")}
			}
			return nil
		case <-look.C:
			now, err := c.store.Run(ctx, run)
			if err == nil && (now.Epoch != before.Epoch || now.State.Ended()) {
				return nil
			}
		case <-late.C:
			return nil // it is slow, and says in the run what comes of it
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tail keeps the end of what a command says.
type tail struct {
	mu   sync.Mutex // guards text: the command's output comes from a goroutine of its own, in os/exec
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text = append(t.text, p...); len(t.text) > maxSaid {
		t.text = bytes.Clone(t.text[len(t.text)-maxSaid:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return clip.Valid(string(t.text))
}
