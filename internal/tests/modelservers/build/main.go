// Command build builds the real model servers that tests run, into the user's cache, and
// says where they are; those that are there already take no time. Arguments name the ones
// to build, none all of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/modelservers"
)

func main() {
	soft := flag.Bool("soft", false, "where tools for a build are missing, say so and exit with 0")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := false
	for _, p := range modelservers.Programs() {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), p.Name) {
			continue
		}
		if err := build(ctx, p, *soft); err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// buildTime bounds one build, and the wait for another's.
const buildTime = 40 * time.Minute

func build(ctx context.Context, p *modelservers.Program, soft bool) error {
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	if _, err := p.Path(); soft && errors.Is(err, modelservers.ErrNotBuilt) && p.Lacking() != nil {
		fmt.Println("tests on it are skipped:", p.Lacking())
		return nil
	}
	start := time.Now()
	path, err := p.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s: %s (%v)\n", p.Name, p.Version, path, time.Since(start).Round(time.Second))
	return nil
}
