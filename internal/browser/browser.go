// Package browser opens web pages in the browser of the user's desktop.
//
// No shell is involved anywhere: the program is started with the address as one
// argument (URL-16). Nothing but what [weburl.Check] returns is ever opened, so an
// address can be no option of the program and has nothing in it that quoting could
// be needed for. The program gets no terminal: it can neither write over what is
// shown there nor read what is typed.
//
// The package opens; it does not ask. Consent comes before (URL-11).
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/weburl"
)

var (
	// ErrRefused is the error for an address that is not exactly one that
	// [weburl.Check] returns.
	ErrRefused = errors.New("the URL is not one that is opened")
	// ErrNoBrowser is the error where there is no program that opens addresses, or where
	// the one that there is fails, as xdg-open does without a desktop.
	ErrNoBrowser = errors.New("no program opens it: set BROWSER to one, or open the URL yourself")
)

// settle is how long a program is given to fail before it is taken for running.
const settle = 3 * time.Second

// Open has the desktop open url. The environment's BROWSER names other programs: one
// or, with the list separator between, several of which the first that is there is
// used; they are names or paths, no command lines. Open returns once the program has
// ended or runs for 3 seconds; it goes on when ctx ends or this process does. An
// error means that the page was not opened.
func Open(ctx context.Context, url string) error {
	v, err := weburl.Check(url)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if v.URL != url {
		return fmt.Errorf("%w: it would be opened as %s", ErrRefused, v.URL)
	}
	argv, err := command(runtime.GOOS, os.Getenv, exec.LookPath, url)
	if err != nil {
		return err
	}
	return start(ctx, argv, settle)
}

// command returns the program and its arguments.
func command(goos string, getenv func(string) string, look func(string) (string, error), url string) ([]string, error) {
	for _, name := range filepath.SplitList(getenv("BROWSER")) {
		if path, err := look(name); err == nil {
			return []string{path, url}, nil
		}
	}
	var argv []string
	switch goos {
	case "darwin":
		argv = []string{"/usr/bin/open", url}
	case "windows":
		// Not "cmd /c start": that would be a shell.
		argv = []string{getenv("SystemRoot") + `\System32\rundll32.exe`, "url.dll,FileProtocolHandler", url}
	default:
		argv = []string{"xdg-open", url}
	}
	path, err := look(argv[0])
	if err != nil {
		return nil, ErrNoBrowser
	}
	argv[0] = path
	return argv, nil
}

// start runs a program apart from this one and sees whether it fails at once.
func start(ctx context.Context, argv []string, settle time.Duration) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	cmd := exec.Command(argv[0], argv[1:]...) // no files: they are the null device
	cmd.Env = environment(os.Environ())
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w: %w", argv[0], err, ErrNoBrowser)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the program, and is its only owner
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("opening with %s: %w: %w", argv[0], err, ErrNoBrowser)
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// environment leaves out BROWSER: xdg-open would take it for a command line.
func environment(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, e := range env {
		if !strings.HasPrefix(e, "BROWSER=") {
			kept = append(kept, e)
		}
	}
	return kept
}
