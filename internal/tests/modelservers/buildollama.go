package modelservers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Ollama is built from its Go module, the same that package llm/ollama has its types
// from.
//
// A module never holds a folder called vendor, and so Ollama's lacks three C++ libraries
// that its sources include: nlohmann/json and stb come from Debian, miniaudio.h from a Go
// module that has it.
var Ollama = &Program{
	Name: "ollama", Env: "OLLAMA_BIN", Version: ollamaVersion,
	recipe: ollamaModule + ollamaSum + malgoModule + malgoSum + ollamaFlags,
	tools:  []string{"go", "gcc", "g++"},
	files:  []string{"/usr/include/nlohmann/json.hpp", "/usr/include/stb/stb_image.h"},
	apt:    "g++ nlohmann-json3-dev libstb-dev",
	build:  buildOllama,
}

const (
	ollamaVersion = "0.17.4"
	ollamaModule  = "github.com/ollama/ollama@v" + ollamaVersion
	ollamaSum     = "h1:X3KNm9x4BlHqk/AXMGtC7pBAFd46nmJmy8yDaBZLo9s="
	malgoModule   = "github.com/gen2brain/malgo@v0.11.24"
	malgoSum      = "h1:hHcIJVfzWcEDHFdPl5Dl/CUSOjzOleY0zzAV8Kx+imE="
	ollamaFlags   = "-O2 -g0"
)

func buildOllama(ctx context.Context, work *workshop) error {
	malgo, err := work.module(ctx, malgoModule, malgoSum)
	if err != nil {
		return err
	}
	if _, err := work.module(ctx, ollamaModule, ollamaSum); err != nil {
		return err
	}
	header, err := os.ReadFile(filepath.Join(malgo, "miniaudio.h"))
	if err != nil {
		return fmt.Errorf("reading miniaudio.h: %w", err)
	}
	include := work.path("include")
	if err := os.MkdirAll(filepath.Join(include, "miniaudio"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(include, "miniaudio", "miniaudio.h"), header, 0o600); err != nil {
		return err
	}
	env := append(outside(),
		"GOBIN="+work.dir, "CGO_ENABLED=1", "CGO_CFLAGS="+ollamaFlags, "CGO_CXXFLAGS="+ollamaFlags,
		// A variable of gcc's own: the cache of go build does not see the folder, whose
		// name is another each time.
		"CPLUS_INCLUDE_PATH="+strings.Trim(include+":"+os.Getenv("CPLUS_INCLUDE_PATH"), ":"),
	)
	version := "-X github.com/ollama/ollama/version.Version=" + ollamaVersion
	return work.run(ctx, env, "go", "install", "-trimpath", "-ldflags=-s -w "+version, ollamaModule)
}

// outside lets go work without the module that it is called in.
func outside() []string { return []string{"GOFLAGS=-mod=mod", "GOWORK=off", "GO111MODULE=on"} }

// module downloads a module, holds it to its sum, and returns its folder.
func (w *workshop) module(ctx context.Context, module, sum string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Env, cmd.Stderr = w.dir, append(os.Environ(), outside()...), w.log
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("downloading %s: %w\n%s", module, err, out.Bytes())
	}
	var got struct {
		Dir string `json:"Dir"`
		Sum string `json:"Sum"`
	}
	if err := jsonx.Unmarshal(out.Bytes(), &got); err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	if got.Sum != sum {
		return "", fmt.Errorf("downloading %s: its sum is %s, want %s", module, got.Sum, sum)
	}
	return got.Dir, nil
}
