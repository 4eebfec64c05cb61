// Package completion has the command "troupe completion" and completes arguments of the
// other commands.
package completion

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/models"
	"github.com/troupe-dev/troupe/internal/cli/runs"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/store"
)

// completionTime bounds what a press of the tab key may take.
const completionTime = 2 * time.Second

// completed is what fits where something is to be completed; a text behind a tab is shown
// beside it.
type completed func(ctx context.Context, e *env.Env) ([]string, error)

// Words of arguments, by the word that a command's usage has for it, and of flags, by
// their names.
var (
	completedArgs = map[string]completed{
		"RUN": completeRuns, "SERVER": completeServers, "AGENT": completeAgents, "MODEL": completeModels, "ASK": completeAsks, "JOB": completeJobs,
	}
	completedFlags = map[string]completed{
		"agent": completeAgents, "model": completeModels, "server": completeServers, "trust": completeServers, "resume": completeRuns,
		"approve": oneOfWords("never", "writes", "tainted", "all"), "thinking": oneOfWords("none", "minimal", "low", "medium", "high", "xhigh", "max"), "on-limit": oneOfWords("stop", "ask", "wrap-up"), "output-format": oneOfWords("text", "json", "stream-json"),
		"log-level": oneOfWords("debug", "info", "warn", "error"), "log-format": oneOfWords("text", "json"), "scope": oneOfWords("project", "user"),
		"protocol": oneOfWords("auto", "legacy", "modern"),
	}
)

func oneOfWords(all ...string) completed {
	return func(context.Context, *env.Env) ([]string, error) { return all, nil }
}

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a script that lets the shell complete commands, flags, runs, servers, agents and models",
		Long: `Write a script that lets the shell complete commands and flags, and the names of runs, servers, agents and models
that there are. For bash it needs the package bash-completion.`,
		Example: `  source <(troupe completion bash)                                     # this shell; put it into ~/.bashrc for all
  troupe completion zsh > "${fpath[1]}/_troupe"
  troupe completion fish > ~/.config/fish/completions/troupe.fish
  troupe completion powershell | Out-String | Invoke-Expression`,
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return env.Usagef("%s needs one of %s\nSee %[1]s --help", cmd.CommandPath(), strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(e.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(e.Stdout)
			case "fish":
				return root.GenFishCompletion(e.Stdout, true)
			}
			return root.GenPowerShellCompletionWithDesc(e.Stdout)
		},
	}
}

// CompleteAll lets all commands complete the arguments that their usage names, and their
// flags.
func CompleteAll(e *env.Env, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		CompleteAll(e, sub)
	}
	if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil && cmd.Runnable() && !cmd.HasSubCommands() {
		kinds := strings.Fields(cmd.Use)[1:]
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			return complete(cmd.Context(), e, argument(kinds, len(args)), args, begin)
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		fits := completedFlags[f.Name]
		if fits == nil || f.Value.Type() == "bool" {
			return
		}
		// It has one already where the flag is an ancestor's, or the command's own author gave one.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
			return complete(cmd.Context(), e, fits, nil, begin)
		})
	})
}

// argument is what fits the n-th argument of a command whose usage names them so; nil
// where nothing is known of it.
func argument(kinds []string, n int) completed {
	if len(kinds) == 0 {
		return nil
	}
	last := kinds[len(kinds)-1]
	if n >= len(kinds) && !strings.Contains(last, "...") {
		return nil
	}
	kind := strings.Trim(kinds[min(n, len(kinds)-1)], "[].")
	return completedArgs[kind]
}

// complete returns what fits and begins as it was typed. What is wrong is not said here:
// the command itself will.
func complete(ctx context.Context, e *env.Env, fits completed, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if fits == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	e.Quiet = true
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	all, err := fits(ctx, e)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, word := range all {
		name, about, _ := strings.Cut(word, "\t")
		if strings.HasPrefix(name, begin) && !slices.Contains(args, name) {
			out = append(out, cobra.CompletionWithDesc(env.Plain(name), env.Plain(about)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// stored opens the store, if it is there: to complete a word makes no file.
func stored(e *env.Env, use func(store.Store) error) (err error) {
	path, err := e.StoreFile()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return e.WithStore(use)
}

func completeRuns(ctx context.Context, e *env.Env) (names []string, err error) {
	names = []string{"last\tthe newest run"}
	err = stored(e, func(s store.Store) error {
		all, err := s.Runs(ctx, store.Query{Limit: 50})
		for _, r := range all {
			names = append(names, fmt.Sprintf("%s\t%s, %s", r.ID, runs.StateOf(r), env.Shorten(r.Title, 40)))
		}
		return err
	})
	return names, err
}

func completeAsks(ctx context.Context, e *env.Env) (names []string, err error) {
	err = stored(e, func(s store.Store) error {
		asks, err := s.Asks(ctx, store.AskQuery{Status: store.AskPending, Limit: 50})
		for _, a := range asks {
			names = append(names, fmt.Sprintf("%s\t%s %s", a.ID, a.Kind, a.Tool))
		}
		return err
	})
	return names, err
}

func completeJobs(ctx context.Context, e *env.Env) (names []string, err error) {
	err = stored(e, func(s store.Store) error {
		jobs, err := s.Jobs(ctx, store.JobQuery{Limit: 50})
		for _, j := range jobs {
			names = append(names, fmt.Sprintf("%s\t%s, %s", j.ID, j.State, env.Shorten(j.Prompt, 40)))
		}
		return err
	})
	return names, err
}

func completeServers(_ context.Context, e *env.Env) ([]string, error) {
	servers, err := setup.ServersOf(e, &setup.ServerFlags{KeepDisabled: true})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(servers))
	for i := range servers {
		names[i] = servers[i].Name + "\t" + env.Shorten(setup.Reach(&servers[i]), 50)
	}
	return names, nil
}

func completeAgents(_ context.Context, e *env.Env) ([]string, error) {
	s, err := e.Config()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Agents)) {
		names = append(names, name+"\t"+env.Shorten(env.FirstLine(s.Agents[name].Description), 50))
	}
	return names, nil
}

func completeModels(ctx context.Context, e *env.Env) ([]string, error) {
	s, err := e.Config()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range models.AllModels(ctx, s).Models {
		names = append(names, m.Name+"\t"+strings.Join(m.Capabilities, " "))
	}
	return names, nil
}
