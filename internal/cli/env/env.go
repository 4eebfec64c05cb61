// Package env has what all commands of the program share: streams, flags, settings, the
// store, exit codes, and how text, tables and JSON are printed.
//
// Main makes one [Env]; the package of a command group embeds it.
package env

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/modelconfig"
	"github.com/troupe-dev/troupe/internal/shellwords"
)

// Env is what the commands have in common.
type Env struct {
	Stdin          *os.File
	Stdout, Stderr io.Writer
	Errors         io.Writer // what stderr was before lines of JSON were made of it
	tty            *os.File  // the terminal of the process, once it was needed; see keyboard
	noTTY          bool      // there is none

	ConfigPath string
	FromEnv    map[string]bool // flags that a variable of the environment has set
	settings   *Settings       // what the configuration says; nil until it has been read

	StorePath string
	NoStore   bool
	LogLevel  string
	LogFormat string
	Quiet     bool

	// DryRun has a command that would serve check all that its start checks, and then end: no server or model is
	// started or asked, nothing is listened at, and nothing is written. "config check" is such starts.
	DryRun bool
}

// ForDryRun is an Env for dry runs with a configuration file; empty is the configuration that counts. It says nothing.
func (e *Env) ForDryRun(file string) *Env {
	return &Env{Stdin: e.Stdin, Stdout: io.Discard, Stderr: io.Discard, Errors: io.Discard, noTTY: true, ConfigPath: file,
		StorePath: e.StorePath, LogLevel: "error", LogFormat: "text", Quiet: true, DryRun: true}
}

// Logger returns the logger of the flags.
func (e *Env) Logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(e.LogLevel)); err != nil {
		return nil, Usagef("--log-level %q: want debug, info, warn or error", e.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch e.LogFormat {
	case "text":
		return slog.New(slog.NewTextHandler(e.Stderr, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(e.Stderr, opts)), nil
	}
	return nil, Usagef("--log-format %q: want text or json", e.LogFormat)
}

// LogFrom logs from a level where neither the command line nor the environment names one.
func (e *Env) LogFrom(level string, cmd *cobra.Command) {
	if !cmd.Flags().Changed("log-level") && !e.FromEnv["log-level"] && !e.Quiet {
		e.LogLevel = level
	}
}

// Command is a command of this program that can be pasted into any folder: it works with the same store and configuration.
func (e *Env) Command(words ...string) string {
	for _, given := range []struct{ flag, file string }{{"--config", e.ConfigPath}, {"--store", e.StorePath}} {
		if given.file == "" {
			continue
		}
		if path, err := filepath.Abs(given.file); err == nil {
			given.file = path
		}
		words = append(words, given.flag, given.file)
	}
	return "troupe " + shellwords.Join(words)
}

// Note tells the user something that is not the answer.
func (e *Env) Note(format string, args ...any) {
	if !e.Quiet {
		fmt.Fprintf(e.Stderr, "  "+format+"\n", args...)
	}
}

// Settings are the configuration and what follows from it.
type Settings struct {
	*config.Config
	Backends *modelconfig.Set

	resolving sync.Mutex // of [Env.Section]: doctor does several checks at once
}
