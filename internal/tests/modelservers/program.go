package modelservers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Program is a server that is built from source.
type Program struct {
	Name    string // of the program
	Env     string // the variable that names another program to take
	Version string

	recipe string   // everything that decides what comes out, beside the version
	tools  []string // programs that must be on the path
	files  []string // headers that must be there
	apt    string   // what has all of them, at Debian
	build  func(ctx context.Context, work *workshop) error
}

// Programs returns all of them.
func Programs() []*Program { return []*Program{Ollama, LlamaServer} }

// ErrNotBuilt says that a server is not here and how to get it.
var ErrNotBuilt = errors.New("it is not built: make models (it takes some minutes, once)")

// folder is where the built program is kept. Its name changes with the recipe.
func (p *Program) folder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	sum := sha256.Sum256([]byte(p.recipe))
	return filepath.Join(cache, "troupe", "models", p.Name+"-"+p.Version+"-"+hex.EncodeToString(sum[:4])), nil
}

// Path returns the program, or an error that wraps [ErrNotBuilt].
func (p *Program) Path() (string, error) {
	if path := os.Getenv(p.Env); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", p.Env, err)
		}
		return path, nil
	}
	folder, err := p.folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, p.Name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s %s: %w", p.Name, p.Version, ErrNotBuilt)
	}
	return path, nil
}

// Require is [Program.Path] for tests: without the program the test is skipped, or fails
// where REQUIRE_MODELS is set.
func (p *Program) Require(t testing.TB) string {
	t.Helper()
	path, err := p.Path()
	switch {
	case err == nil:
		return path
	case errors.Is(err, ErrNotBuilt) && os.Getenv("REQUIRE_MODELS") == "":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
	return ""
}

// Lacking says which tools and headers a build would lack; nil if it lacks nothing.
func (p *Program) Lacking() error {
	var lacking []string
	for _, tool := range p.tools {
		if _, err := exec.LookPath(tool); err != nil {
			lacking = append(lacking, tool)
		}
	}
	for _, file := range p.files {
		if _, err := os.Stat(file); err != nil {
			lacking = append(lacking, file)
		}
	}
	if lacking == nil {
		return nil
	}
	return fmt.Errorf("building %s: %s missing (Debian: apt-get install %s)", p.Name, strings.Join(lacking, ", "), p.apt)
}

// Build returns the program, building it first where that was not done yet; only that
// needs the network. The program is made under another name and then renamed, so that
// it is whole or not there, and one build waits for another. What the tools write goes to
// log.
func (p *Program) Build(ctx context.Context, log io.Writer) (string, error) {
	if path, err := p.Path(); !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	folder, err := p.folder()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(filepath.Dir(folder), p.Name+".lock"))
	if err != nil {
		return "", fmt.Errorf("waiting for another build of %s: %w", p.Name, err)
	}
	defer unlock()
	if path, err := p.Path(); !errors.Is(err, ErrNotBuilt) {
		return path, err // another process has built it
	}
	if err := p.Lacking(); err != nil {
		return "", err
	}
	return p.make(ctx, folder, log)
}

// make builds the program into the folder.
func (p *Program) make(ctx context.Context, folder string, log io.Writer) (path string, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	work := &workshop{dir: dir, log: log}
	if err := p.build(ctx, work); err != nil {
		return "", fmt.Errorf("building %s %s: %w", p.Name, p.Version, err)
	}
	whole := filepath.Join(dir, "whole")
	if err := os.Mkdir(whole, 0o700); err != nil {
		return "", err
	}
	if err := os.Rename(work.path(p.Name), filepath.Join(whole, p.Name)); err != nil {
		return "", fmt.Errorf("building %s: it made no program: %w", p.Name, err)
	}
	if err := os.Rename(whole, folder); err != nil {
		return "", fmt.Errorf("moving %s into the cache: %w", p.Name, err)
	}
	return filepath.Join(folder, p.Name), nil
}

// workshop is the folder of one build.
type workshop struct {
	dir string
	log io.Writer
}

func (w *workshop) path(name string) string { return filepath.Join(w.dir, name) }

// run runs a tool in the folder, with more variables.
func (w *workshop) run(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = w.log, w.log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return nil
}
