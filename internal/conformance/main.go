// Command conformance runs the official conformance suite of MCP against the
// client: a program of ours (folder client) plays each scenario against a server of
// the suite. It prints one line for each scenario and a verdict last, and exits with
// 1 if one has failed.
//
//	go run ./internal/conformance [-run REGEXP] [-v] [-client PROGRAM]
//
// The suite is pinned by package-lock.json and installed into the user's cache; only
// that needs the network. Without Node nothing is run, which fails if REQUIRE_PEERS
// is set.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/troupe-dev/troupe/internal/peers"
)

// clientProgram is what the suite starts, relative to the root of the module.
const clientProgram = "./internal/conformance/client"

func main() {
	only := flag.String("run", "", "run only the scenarios whose REVISION/NAME matches")
	verbose := flag.Bool("v", false, "show what the suite says of a scenario that fails or warns")
	program := flag.String("client", "", "the program to test; ours is built if there is none")
	limit := flag.Duration("timeout", 5*time.Minute, "bound on the whole run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

	ok, err := conformance(ctx, *program, *only, *verbose)
	switch {
	case errors.Is(err, peers.ErrNoNode) && os.Getenv("REQUIRE_PEERS") == "":
		fmt.Printf("conformance: skipped: %v\n", err)
	case err != nil:
		fmt.Printf("conformance: could not run: %v\n", err)
		os.Exit(1)
	case !ok:
		os.Exit(1)
	}
}

// conformance runs all scenarios, or those that match, and reports whether all of
// them passed.
func conformance(ctx context.Context, program, only string, verbose bool) (bool, error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return false, err
	}
	s, err := openSuite(ctx)
	if err != nil {
		return false, err
	}
	work, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	if program == "" {
		program = filepath.Join(work, "client")
		build := exec.CommandContext(ctx, "go", "build", "-o", program, clientProgram)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return false, fmt.Errorf("building the client: %w", err)
		}
	}
	plan, left, err := s.plan(ctx)
	if err != nil {
		return false, err
	}

	begun, passed, ran, warned := time.Now(), 0, 0, 0
	for _, sc := range plan {
		if !match.MatchString(sc.String()) {
			continue
		}
		ran++
		v := s.play(ctx, sc, program, filepath.Join(work, fmt.Sprint(ran)))
		if v.passed() {
			passed++
		}
		if v.Warned > 0 {
			warned++
		}
		fmt.Println(v.line())
		if verbose && (!v.passed() || v.Warned > 0) {
			fmt.Print(v.details())
		}
	}
	for _, line := range left {
		fmt.Println(line)
	}
	fmt.Printf("conformance: client: %d of %d scenarios pass, %d with warnings, %.1fs\n", passed, ran, warned, time.Since(begun).Seconds())
	if ran == 0 {
		return false, errors.New("no scenario matches")
	}
	return passed == ran, nil
}
