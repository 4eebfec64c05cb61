package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/internal/cli/env"
)

// leaves are all commands that do something, those for machines left out.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		switch {
		case sub.Hidden || sub.Name() == "help":
		case sub.HasSubCommands():
			all = append(all, leaves(sub)...)
		case sub.Runnable():
			all = append(all, sub)
		}
	}
	return all
}

// reads are the names of commands that list or show something: programs read it, too.
var reads = []string{"ls", "show", "get", "list", "tools", "resources", "prompts", "skills", "test", "tree", "path", "check", "doctor", "version"}

// Every command says what it does and shows how; what it lists or shows it gives as JSON,
// too; each of its flags has a text, and a variable of its own.
func TestEveryCommandIsDocumented(t *testing.T) {
	for _, cmd := range leaves(command((&env.Env{}))) {
		path := cmd.CommandPath()
		if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, path) {
			t.Errorf("%s: has no text (Short, Long), or its example does not show it: %q", path, cmd.Example)
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its short text %q ends with a dot; others do not", path, cmd.Short)
		}
		if slices.Contains(reads, cmd.Name()) && cmd.Flags().Lookup("json") == nil {
			t.Errorf("%s: lists or shows something, and has no --json", path)
		}
		if cmd.PersistentPreRunE != nil || cmd.PersistentPreRun != nil {
			t.Errorf("%s: its PersistentPreRun takes the place of the root's, which reads the environment", path)
		}
		variables := make(map[string]string)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name := env.EnvName(f.Name)
			if f.Usage == "" || variables[name] != "" {
				t.Errorf("%s: --%s has no text, or shares %s with --%s", path, f.Name, name, variables[name])
			}
			variables[name] = f.Name
		})
	}
}

// Every command is run by a script, which has no terminal.
func TestEveryCommandHasAScript(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d scripts and error %v", len(files), err)
	}
	var scripts strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(text)
	}
	for _, cmd := range leaves(command((&env.Env{}))) {
		if cmd.Name() == "exit-codes" {
			continue // a topic of help
		}
		pattern := `(?m)^(exits \d+|exec|! exec) troupe( --?[a-z-]+( [^-\s]\S*)?)* ` + strings.Join(strings.Fields(cmd.CommandPath())[1:], " ") + `(\s|$)`
		if !regexp.MustCompile(pattern).MatchString(scripts.String()) {
			t.Errorf("%s: no script runs it", cmd.CommandPath())
		}
	}
}

// The exit codes that the program has are those that it tells.
func TestExitCodesAreDocumented(t *testing.T) {
	text := exitCodesTopic().Long
	for _, code := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "124", "130", "143"} {
		if !regexp.MustCompile(`(?m)^ +` + code + `  \S`).MatchString(text) {
			t.Errorf("help exit-codes does not say what %s means", code)
		}
	}
}
