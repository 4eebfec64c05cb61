// Package configcmd has the commands "troupe config", which show and check the settings.
package configcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/serve"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/cli/worker"
	"github.com/troupe-dev/troupe/internal/config"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "config",
		Short: "The program's own configuration, troupe.yaml: what counts, whether it is right, where it is",
		Long: `What the command line does not say, variables of the environment say (TROUPE_MAX_STEPS is --max-steps), or else
./troupe.yaml, or else your own troupe.yaml, or else the one of the system. A file that --config names stands alone.

A ./troupe.yaml comes with a project that another person may have written: what it says may narrow what you allow, and not widen
it. It chooses only among models that your own configuration names, if that has a default, and its limits count where
they are smaller. Providers, prices, sampling, store, serve, worker and telemetry are yours to say: there it is refused.`,
	}, showCommand(e), checkCommand(e), pathCommand(e))
}

// setting is one value of "config show".
type setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// Origin is a file with a line, a variable of the environment, a flag, or default.
	Origin string `json:"origin"`
}

// known are the values that have a flag, and their defaults.
var known = []struct{ key, flag, otherwise string }{
	{"limits.cost", "max-cost", "no limit"},
	{"limits.depth", "", "8"},
	{"limits.model_calls", "max-model-calls", "no limit"},
	{"limits.on_limit", "on-limit", "stop"},
	{"limits.repeats", "", "3"},
	{"limits.steps", "max-steps", "32"},
	{"limits.tokens", "max-tokens-total", "no limit"},
	{"limits.tool_calls", "max-tool-calls", "256"},
	{"limits.wall", "timeout", "1h"},
	{"mcp.protocol", "protocol", "auto"},
	{"mcp.files", "mcp-config", ""},
	{"models.default", "model", "what is found"},
	{"sampling.default", "", "ask"},
	{"store.path", "store", ""},
}

// providerVariables are those of the environment that configure providers.
var providerVariables = []struct {
	name, key string
	secret    bool
}{
	{"OLLAMA_HOST", "models.providers.ollama.base_url", false},
	{"OLLAMA_API_KEY", "models.providers.ollama.api_key", true},
	{"OPENAI_BASE_URL", "models.providers.openai.base_url", false},
	{"OPENAI_API_KEY", "models.providers.openai.api_key", true},
	{"ANTHROPIC_API_KEY", "models.providers.anthropic.api_key", true},
	{"GEMINI_API_KEY", "models.providers.gemini.api_key", true},
}

func showCommand(e *env.Env) *cobra.Command {
	var asJSON, origin bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the configuration that counts, and where each value comes from",
		Long: `Show the configuration that counts. Secrets are masked; a variable such as ${OPENAI_API_KEY} is shown as it
stands in the file. What does not count of a project's file is said on stderr.`,
		Example: "  troupe config show --origin\n  troupe config show --json | jq -r '.values[] | select(.origin != \"default\")'",
		Args:    env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := e.Config()
			if err != nil {
				return err
			}
			for i := range s.Notes {
				e.Note("%v", &s.Notes[i])
			}
			all := allSettings(e, s)
			if asJSON {
				return e.PrintJSON(map[string]any{"files": append([]string{}, s.Files...), "values": all})
			}
			rows := [][]string{{"KEY", "VALUE", "ORIGIN"}}
			for _, v := range all {
				rows = append(rows, []string{v.Key, env.Shorten(v.Value, 60), v.Origin})
			}
			if !origin {
				for i := range rows {
					rows[i] = rows[i][:2]
				}
			}
			return e.Table(rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: files and values, each with its origin")
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each value comes from: file and line, variable, flag, or default")
	return cmd
}

// allSettings are the values of files, environment and flags, sorted by key.
func allSettings(e *env.Env, s *env.Settings) []setting {
	all := make(map[string]setting)
	for _, k := range known {
		all[k.key] = setting{k.key, cmp.Or(k.otherwise, otherwise(e, k.key)), "default"}
	}
	for _, v := range s.Values() {
		if v.Key != "version" {
			all[v.Key] = setting{v.Key, v.Text, v.Origin()}
		}
	}
	for name, a := range s.Agents {
		if _, ok := s.Value("agents." + name + ".instructions"); !ok && strings.HasSuffix(a.Source, ".md") {
			text := cmp.Or(env.FirstLine(a.Description), env.FirstLine(a.Instructions))
			if a.Err != nil {
				text = "cannot be used: " + env.FirstLine(a.Err.Error())
			}
			all["agents."+name] = setting{"agents." + name, text, a.Source}
		}
	}
	for _, v := range providerVariables {
		if text := os.Getenv(v.name); text != "" && all[v.key].Key == "" {
			if v.secret {
				text = "***"
			}
			all[v.key] = setting{v.key, withoutSecrets(text), v.name}
		}
	}
	for _, k := range known {
		if text := os.Getenv(env.EnvName(k.flag)); k.flag != "" && text != "" {
			all[k.key] = setting{k.key, text, env.EnvName(k.flag)}
		}
	}
	if e.StorePath != "" && !e.FromEnv["store"] {
		all["store.path"] = setting{"store.path", e.StorePath, "--store"}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b setting) int { return strings.Compare(a.Key, b.Key) })
}

// otherwise is a default that depends on where the program runs.
func otherwise(e *env.Env, key string) string {
	if key == "store.path" {
		if dir, err := env.StateDir(); err == nil {
			return filepath.Join(dir, "troupe.db")
		}
		return "none"
	}
	return "[" + strings.Join(slices.DeleteFunc([]string{setup.ProjectFile, setup.UserFile()}, func(s string) bool { return s == "" }), ", ") + "]"
}

// withoutSecrets is an address without what may be secret in it.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		if strings.ContainsAny(address, "@?") {
			return "***"
		}
		return address
	}
	if u.RawQuery != "" {
		u.RawQuery = "***"
	}
	return u.Redacted()
}

func checkCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Say what is wrong in the configuration: file, line, column, and how to mend it",
		Long: `Check the configuration that counts, or one FILE: unknown keys, wrong values, variables that are not set, and all that
"troupe serve" and "troupe worker" refuse when they start, by a start of each that asks no server, listens at no address and
writes nothing. The exit code is 2 if something is wrong.`,
		Example: "  troupe config check\n  troupe config check deploy/troupe.yaml",
		Args:    env.AtMost(1, "a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			named := cmp.Or(e.ConfigPath, os.Getenv("TROUPE_CONFIG"))
			if len(args) == 1 {
				named = args[0]
			}
			cfg, problems := Problems(cmd.Context(), e, named)
			return printProblems(e, cfg, problems, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: ok, files, problems and notes")
	return cmd
}

// Problems returns the configuration of a file, or the one that counts without one, and what is wrong with it: what is
// read, and what the starts of the commands that serve refuse. Config is nil if it cannot be read.
func Problems(ctx context.Context, e *env.Env, file string) (cfg *config.Config, problems []string) {
	dry := func() *env.Env { return e.ForDryRun(file) }
	s, err := dry().Config()
	if err != nil {
		return nil, strings.Split(err.Error(), "\n")
	}
	problems = problemsOf(s.Config)
	for _, start := range []func(context.Context, *env.Env) error{setup.DryRun, serve.DryRun, worker.DryRun} {
		if err := start(ctx, dry()); err != nil {
			problems = append(problems, strings.Split(err.Error(), "\n")...)
		}
	}
	return s.Config, withoutRepeats(problems)
}

// withoutRepeats keeps the first of equal texts, and none that a longer one ends with.
func withoutRepeats(texts []string) (kept []string) {
	for i, text := range texts {
		if !slices.Contains(texts[:i], text) && !slices.ContainsFunc(texts, func(t string) bool { return t != text && strings.HasSuffix(t, ": "+text) }) {
			kept = append(kept, text)
		}
	}
	return kept
}

// problemsOf are those that are known of the values alone.
func problemsOf(cfg *config.Config) (problems []string) {
	_, faults := cfg.Servers(os.Getenv)
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		if _, stated := cfg.Models.Providers[name]; stated { // others are not there, which is no problem
			problems = append(problems, fmt.Sprintf("models.providers.%s: %v", name, faults[name]))
		}
	}
	for _, section := range []string{"store", "serve", "worker", "telemetry"} {
		if err := cfg.Resolve(section, os.Getenv); err != nil {
			problems = append(problems, strings.Split(err.Error(), "\n")...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		if err := cfg.Agents[name].Err; err != nil {
			problems = append(problems, strings.Split(err.Error(), "\n")...)
		}
	}
	return problems
}

func printProblems(e *env.Env, cfg *config.Config, problems []string, asJSON bool) error {
	files, notes := []string{}, []string{}
	if cfg != nil {
		files = append(files, cfg.Files...)
		for i := range cfg.Notes {
			notes = append(notes, cfg.Notes[i].Error())
		}
	}
	if asJSON {
		err := e.PrintJSON(map[string]any{"ok": len(problems) == 0, "files": files, "problems": append([]string{}, problems...), "notes": notes})
		if err != nil {
			return err
		}
	} else {
		for _, line := range slices.Concat(problems, notes) {
			if _, err := fmt.Fprintln(e.Stdout, env.Plain(line)); err != nil {
				return err
			}
		}
	}
	switch {
	case len(problems) == 1:
		return env.Usagef("there is something wrong in the configuration")
	case len(problems) > 1:
		return env.Usagef("%d things are wrong in the configuration", len(problems))
	case asJSON:
		return nil
	case len(files) == 0:
		_, err := fmt.Fprintln(e.Stdout, "there is no configuration file; see troupe config path")
		return err
	}
	_, err := fmt.Fprintf(e.Stdout, "nothing is wrong in %s\n", strings.Join(files, ", "))
	return err
}

// place is where something of the configuration is looked for.
type place struct {
	What   string `json:"what"`
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	Counts bool   `json:"counts"` // it is read where it is there
}

func pathCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "path",
		Short:   "Say where the configuration is looked for, and what is there",
		Long:    "Say where files with configuration, servers and agents are looked for, which of them are there, and which count. Those\nthat count most come first.",
		Example: "  troupe config path\n  troupe config path --json",
		Args:    env.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return env.PrintList(e, asJSON, places(e), "WHAT|PATH|STATE", func(l place) []string {
				state := "there"
				switch {
				case !l.Exists:
					state = "not there"
				case !l.Counts:
					state = "there, and not read"
				}
				return []string{l.What, l.Path, state}
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// places are all files and folders, those that count most first.
func places(e *env.Env) []place {
	here := config.Here()
	named := cmp.Or(e.ConfigPath, os.Getenv("TROUPE_CONFIG"))
	all := []place{
		{What: "configuration, named", Path: named, Counts: true},
		{What: "configuration, of the project", Path: here.ProjectFile(), Counts: named == ""},
		{What: "configuration, yours", Path: here.UserFile(), Counts: named == ""},
		{What: "configuration, of the system", Path: here.SystemFile(), Counts: named == ""},
		{What: "servers, of the project", Path: setup.ProjectFile, Counts: true},
		{What: "servers, yours", Path: setup.UserFile(), Counts: true},
		{What: "agents, of the project", Path: filepath.Join(here.Project, ".agents", "agents"), Counts: here.Project != ""},
		{What: "agents, yours", Path: filepath.Join(here.Home, ".agents", "agents"), Counts: here.Home != ""},
	}
	if file, err := e.StoreFile(); err == nil {
		all = append(all, place{What: "store", Path: file, Counts: !e.NoStore})
	}
	all = slices.DeleteFunc(all, func(l place) bool { return l.Path == "" })
	for i := range all {
		_, err := os.Stat(all[i].Path)
		all[i].Exists = !errors.Is(err, fs.ErrNotExist)
	}
	return all
}
