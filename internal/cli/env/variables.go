package env

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envPrefix begins the variables of the environment that stand for flags.
const envPrefix = "TROUPE_"

// EnvName is the variable that stands for a flag: TROUPE_MAX_STEPS for --max-steps.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FromEnvironment sets the flags of a command that the command line does not, and that
// have a variable. Of a flag that may be repeated it has a value on each line.
func (e *Env) FromEnvironment(cmd *cobra.Command, _ []string) error {
	e.FromEnv = make(map[string]bool)
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		text, ok := os.LookupEnv(EnvName(f.Name))
		if !ok || text == "" || f.Changed || f.Name == "help" || failed != nil {
			return
		}
		values := []string{text}
		if f.Value.Type() == "stringArray" {
			values = strings.Split(strings.Trim(text, "\n"), "\n")
		}
		for _, value := range values {
			if err := cmd.Flags().Set(f.Name, value); err != nil {
				failed = Usagef("%s=%q: %w\nIt stands for --%s, see %s --help", EnvName(f.Name), text, err, f.Name, cmd.CommandPath())
				return
			}
		}
		e.FromEnv[f.Name] = true
	})
	return failed
}
