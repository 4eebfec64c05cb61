package env

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/internal/nearest"
)

// DidYouMean is what an error about a name that is not known ends with: nothing, or the one
// that was probably meant.
func DidYouMean(name string, known []string) string {
	if near := nearest.Name(name, known); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ""
}

// commandMeant is [didYouMean] for the commands below another one.
func commandMeant(cmd *cobra.Command, name string) string {
	var known []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			known = append(append(known, sub.Name()), sub.Aliases...)
		}
	}
	return DidYouMean(name, known)
}

// unknownFlag finds the name in the words of package pflag.
var unknownFlag = regexp.MustCompile(`^unknown flag: --([^=\s]+)`)

// FlagMeant is [didYouMean] for the flags of a command.
func FlagMeant(cmd *cobra.Command, err error) string {
	m := unknownFlag.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	return DidYouMean("--"+m[1], known)
}
