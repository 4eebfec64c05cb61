package modelservers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// toy is a program whose build only writes a file.
func toy(builds *atomic.Int64) *Program {
	return &Program{Name: "toy", Env: "TOY_BIN", Version: "1", recipe: "a", build: func(_ context.Context, w *workshop) error {
		builds.Add(1)
		return os.WriteFile(w.path("toy"), []byte("#!/bin/sh\n"), 0o700)
	}}
}

// withCache gives the test a cache of its own.
func withCache(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("it sets XDG_CACHE_HOME, which is Linux's")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// TestBuildOnce: many ask for it at once, one builds it, and it stays.
func TestBuildOnce(t *testing.T) {
	withCache(t)
	var builds atomic.Int64
	p := toy(&builds)
	if path, err := p.Path(); !errors.Is(err, ErrNotBuilt) {
		t.Fatalf("Path before: got %q, %v", path, err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := p.Build(t.Context(), t.Output()); err != nil {
				t.Errorf("Build: %v", err)
			}
		})
	}
	all.Wait()
	path, err := p.Path()
	if err != nil || builds.Load() != 1 {
		t.Fatalf("Path: got %q, %v, after %d builds, want one", path, err, builds.Load())
	}
	left, err := os.ReadDir(filepath.Dir(filepath.Dir(path)))
	if err != nil || len(left) != 2 { // the lock, too
		t.Errorf("the cache: got %v, %v, want the program's folder and the lock", left, err)
	}
	newer := toy(&builds)
	newer.recipe = "b"
	if _, err := newer.Path(); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Path with another recipe: got %v, want ErrNotBuilt", err)
	}
}

// TestBuildFails: nothing is left of a build that fails, and the next may work.
func TestBuildFails(t *testing.T) {
	withCache(t)
	var builds atomic.Int64
	p := toy(&builds)
	works := p.build
	p.build = func(context.Context, *workshop) error { return errors.New("no luck") }
	if path, err := p.Build(t.Context(), t.Output()); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("Build: got %q, %v", path, err)
	}
	p.build = func(context.Context, *workshop) error { return nil }
	if path, err := p.Build(t.Context(), t.Output()); err == nil {
		t.Errorf("Build that makes nothing: got %q", path)
	}
	if path, err := p.Path(); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Path: got %q, %v", path, err)
	}
	p.build = works
	if _, err := p.Build(t.Context(), t.Output()); err != nil {
		t.Errorf("Build: %v", err)
	}
}

// TestBuildWaits: a build that another holds up ends with its context.
func TestBuildWaits(t *testing.T) {
	withCache(t)
	var builds atomic.Int64
	p := toy(&builds)
	building := make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	slow := *p
	slow.build = func(context.Context, *workshop) error {
		close(building)
		<-ctx.Done()
		return errors.New("given up")
	}
	ended := make(chan error)
	go func() {
		_, err := slow.Build(t.Context(), t.Output())
		ended <- err
	}()
	<-building
	why := errors.New("no time")
	cancelled, stop := context.WithCancelCause(t.Context())
	stop(why)
	if _, err := p.Build(cancelled, t.Output()); !errors.Is(err, why) {
		t.Errorf("Build: got %v, want %v", err, why)
	}
	cancel(nil)
	if err := <-ended; err == nil {
		t.Error("the slow build: got no error")
	}
}

func TestPathOfAnother(t *testing.T) {
	withCache(t)
	p := toy(new(atomic.Int64))
	mine := filepath.Join(t.TempDir(), "mine")
	t.Setenv("TOY_BIN", mine)
	if path, err := p.Path(); err == nil || errors.Is(err, ErrNotBuilt) {
		t.Errorf("Path of what is not there: got %q, %v", path, err)
	}
	if err := os.WriteFile(mine, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if path, err := p.Build(t.Context(), t.Output()); err != nil || path != mine {
		t.Errorf("Build: got %q, %v, want %q", path, err, mine)
	}
}

func TestLacking(t *testing.T) {
	p := &Program{Name: "toy", tools: []string{"go", "no-such-tool"}, files: []string{"/no/such/header.h"}, apt: "toys"}
	if err := p.Lacking(); err == nil || !strings.Contains(err.Error(), "no-such-tool, /no/such/header.h missing (Debian: apt-get install toys)") {
		t.Errorf("Lacking: got %v", err)
	}
	p.tools, p.files = []string{"go"}, nil
	if err := p.Lacking(); err != nil {
		t.Errorf("Lacking: got %v, want nothing", err)
	}
}

// TestSameOllama: the server is of the version whose types package llm/ollama has.
func TestSameOllama(t *testing.T) {
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/ollama/ollama v" + ollamaVersion; !strings.Contains(string(mod), want+"\n") || !strings.Contains(string(sums), want+" "+ollamaSum) {
		t.Errorf("go.mod and go.sum lack %s %s", want, ollamaSum)
	}
}

func TestExtract(t *testing.T) {
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	entries := tar.NewWriter(zipped)
	for _, name := range []string{"package/a", "package/b"} {
		if err := entries.WriteHeader(&tar.Header{Name: name, Size: int64(len(name)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := entries.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(entries.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "archive")
	if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	hash := sha512.Sum512(archive.Bytes())
	sum := hex.EncodeToString(hash[:])
	to := filepath.Join(dir, "out")
	if err := extract(file, sum, "package/b", to); err != nil {
		t.Fatalf("extract: %v", err)
	}
	if data, err := os.ReadFile(to); err != nil || string(data) != "package/b" {
		t.Errorf("extract: got %q, %v", data, err)
	}
	if err := extract(file, strings.Repeat("0", len(sum)), "package/a", filepath.Join(dir, "x")); err == nil {
		t.Error("extract with another sum: got no error")
	}
	if err := extract(file, sum, "package/c", filepath.Join(dir, "y")); err == nil {
		t.Error("extract of what is not there: got no error")
	}
}

// TestBehaviour: the spec that most tests need is one, and calls in it read as they should.
func TestBehaviour(t *testing.T) {
	spec := Behaviour()
	if _, err := spec.Encode(); err != nil {
		t.Errorf("Encode: %v", err)
	}
	want := Calls(Call("get_weather", `{"city": "Oslo"}`), Call("get_time", `{"zone": "UTC"}`))
	if got := spec.Routes["#both"]; got != want {
		t.Errorf("#both: got %q, want %q", got, want)
	}
}
