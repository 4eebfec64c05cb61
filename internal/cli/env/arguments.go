package env

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// OneArg and noArgs turn cobra's complaints about arguments into usage errors.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usagef("%s needs %s, got %d arguments\nSee %s --help", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// Group makes cmd a command that only leads to others.
func Group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.Args = SubcommandOnly
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(below...)
	return cmd
}

// SubcommandOnly is for commands that do nothing but lead to others.
func SubcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s has no command %q%s\nSee %[1]s --help", cmd.CommandPath(), args[0], commandMeant(cmd, args[0]))
	}
	return nil
}

func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, got %q\nSee %s --help", cmd.CommandPath(), args, cmd.CommandPath())
	}
	return nil
}

// SomeArgs turns cobra's complaint about missing arguments into a usage error.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("%s needs %s\nSee %[1]s --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

// AtMost turns cobra's complaint about arguments into a usage error.
func AtMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return Usagef("%s takes %s, got %d arguments\nSee %s --help", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// MaxPrompt bounds what is read from stdin, in bytes.
const MaxPrompt = 1 << 20

// ReadPrompt joins the argument with what is piped to stdin.
func (e *Env) ReadPrompt(args []string) (string, error) {
	prompt := ""
	if len(args) == 1 && args[0] != "-" {
		prompt = args[0]
	}
	if info, err := e.Stdin.Stat(); (len(args) == 1 && args[0] == "-") || (err == nil && info.Mode()&os.ModeCharDevice == 0) {
		data, err := io.ReadAll(io.LimitReader(e.Stdin, MaxPrompt+1))
		if err != nil {
			return "", Usagef("reading stdin: %w", err)
		}
		if len(data) > MaxPrompt {
			return "", Usagef("stdin is larger than %d bytes: give the agent a file and a tool to read it", MaxPrompt)
		}
		prompt = strings.TrimSpace(prompt + "\n\n" + strings.ToValidUTF8(string(data), "\uFFFD"))
	}
	if strings.TrimSpace(prompt) == "" {
		return "", Usagef("there is no prompt: give one as argument or on stdin")
	}
	return prompt, nil
}
