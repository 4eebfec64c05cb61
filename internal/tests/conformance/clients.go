package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// clientProgram is what the suite tests our client with.
const clientProgram = "github.com/troupe-dev/troupe/internal/tests/conformance/client"

// testClient plays every scenario for clients, each with a process of its own: two at
// a time would upset those that measure time.
func testClient(ctx context.Context, s *suite, o options) (total, error) {
	program := o.client
	if program == "" {
		program = filepath.Join(o.work, "client")
		build := exec.CommandContext(ctx, "go", "build", "-o", program, clientProgram)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return total{}, fmt.Errorf("building %s: %w", clientProgram, err)
		}
	}
	plan, left, err := s.plan(ctx, clients)
	if err != nil {
		return total{}, err
	}
	var t total
	begun := time.Now()
	for _, sc := range plan {
		if o.only.MatchString(sc.String()) {
			t.add(s.play(ctx, sc, program, filepath.Join(o.work, fmt.Sprint("client", t.ran))), o, "")
		}
	}
	for _, line := range left {
		fmt.Fprintln(o.out, line)
	}
	fmt.Fprint(o.out, t.lines("client", time.Since(begun)))
	return t, nil
}
