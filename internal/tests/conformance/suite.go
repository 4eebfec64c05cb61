package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/tests/peers"
)

var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lock []byte
	//go:embed node20.mjs
	node20 []byte
)

// suite is the installed conformance suite.
type suite struct {
	node []string // the command line up to the suite's arguments
}

// openSuite installs the suite if need be. Its mock servers would listen on every
// interface: they get the loopback one.
func openSuite(ctx context.Context) (*suite, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, peers.ErrNoNode
	}
	out, err := exec.CommandContext(ctx, node, "-p", "process.versions.node").Output()
	if err != nil {
		return nil, fmt.Errorf("asking node for its version: %w", err)
	}
	major, err := strconv.Atoi(strings.SplitN(string(out), ".", 2)[0])
	if err != nil || major < 20 {
		return nil, fmt.Errorf("node is version %s: %w", bytes.TrimSpace(out), peers.ErrNoNode)
	}
	dir, err := peers.Install(ctx, peers.Bundle{
		Name: "conformance", Manifest: manifest, Lock: lock, Scripts: map[string][]byte{"node20.mjs": node20},
	})
	if err != nil {
		return nil, err
	}
	s := &suite{node: []string{node, "--import", peers.ImportURL(dir, peers.LoopbackHook)}}
	if major < 22 {
		s.node = append(s.node, "--import", peers.ImportURL(dir, "node20.mjs"))
	}
	s.node = append(s.node, filepath.Join(dir, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"))
	return s, nil
}

// command runs one command of the suite and returns what it prints.
func (s *suite) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.node[0], append(slices.Clone(s.node[1:]), args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("the suite's %s: %w\n%s%s", strings.Join(args, " "), err, out.Bytes(), errs.Bytes())
	}
	return out.String(), nil
}

const (
	clientTime = 30 * time.Second // that the suite gives to the client, as it does by itself
	playTime   = clientTime + 20*time.Second
)

// run runs one command of the suite that tests something and returns what it prints,
// and why it counts for nothing. The status of the suite is of no use: it lets clients
// pass that time out or fail.
func (s *suite) run(ctx context.Context, limit time.Duration, args ...string) (log, broken string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.node[0], append(slices.Clone(s.node[1:]), args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); ctx.Err() != nil {
		broken = "the suite did not end in time"
	} else if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		broken = err.Error()
	}
	return out.String(), broken
}

// play runs one scenario for clients. A failure to do so is a failure of the scenario.
func (s *suite) play(ctx context.Context, sc scenario, program, dir string) *verdict {
	begun := time.Now()
	args := []string{
		"client", "--command", program, "--scenario", sc.Name, "--spec-version", sc.Revision,
		"--timeout", strconv.FormatInt(clientTime.Milliseconds(), 10), "-o", dir,
	}
	if sc.Forced || sc.Alone {
		args = append(args, "--force")
	}
	log, broken := s.run(ctx, playTime, args...)
	v := &verdict{Scenario: sc, Log: log, Broken: broken, Took: time.Since(begun)}
	if v.Broken == "" && !mayFail[sc.Name] {
		v.Broken = clientEnd.FindString(v.Log)
	}
	v.read(dir)
	return v
}

// clientEnd is how the suite tells that the client did not end well.
var clientEnd = regexp.MustCompile(`CLIENT TIMED OUT|CLIENT EXITED WITH ERROR.*|Client exited with code [1-9].*|SKIPPED: scenario.*`)

// mayFail are the scenarios in which the suite allows the client to fail.
var mayFail = map[string]bool{
	"http-invalid-tool-headers":   true,
	"sep-2640-client-verify-size": true, "sep-2640-client-verify-digest": true, "sep-2640-client-verify-frontmatter": true,
}

// read fills in what the suite has found: a checks.json somewhere below dir.
func (v *verdict) read(dir string) {
	found := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "checks.json" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found = true
		return jsonx.Unmarshal(raw, &v.Checks)
	})
	switch {
	case v.Broken != "":
	case err != nil:
		v.Broken = fmt.Sprintf("reading the suite's checks: %v", err)
	case !found:
		v.Broken = "the suite left no checks"
	}
	v.count()
}
