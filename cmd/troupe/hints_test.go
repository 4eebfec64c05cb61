package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/internal/cli/env"
)

var (
	flagInText    = regexp.MustCompile(`(?:^|[\s("'\x60\[])--([a-z][a-z0-9-]+)`)
	flagWithValue = regexp.MustCompile(`--([a-z][a-z0-9-]+)(?: |=)(?:all|never|writes|[A-Z]{2,})\b`)
	commandInText = regexp.MustCompile(`troupe((?: [a-z][a-z-]*)+)([^\n.;:,"]*)`)
)

// Flags of other programs that texts name, and words of the code that look like flags.
var otherFlags = map[string]bool{
	"experimental-strip-types": true, // node's
}

// TestHintsNameFlags: what help, hints and errors call a flag is one; and behind the words
// of a command it is one of that command.
func TestHintsNameFlags(t *testing.T) {
	root := command((&env.Env{}))
	all := make(map[string]*pflag.Flag)
	var collect func(cmd *cobra.Command)
	collect = func(cmd *cobra.Command) {
		for name, f := range flagsOf(cmd) {
			all[name] = f
		}
		for _, sub := range cmd.Commands() {
			collect(sub)
		}
	}
	collect(root)
	texts := 0
	for _, folder := range []string{".", "../../internal/cli", "../../internal/config", "../../internal/jobapi", "../../agent", "../../mcpclient", "../../mcpserver", "../../store"} {
		for _, text := range literals(t, folder) {
			for _, m := range flagInText.FindAllStringSubmatch(text, -1) {
				texts++
				if all[m[1]] == nil && !otherFlags[m[1]] && m[1] != "help" {
					t.Errorf("%s: no command has the flag --%s, which is named in %.200q", folder, m[1], text)
				}
			}
			for _, m := range flagWithValue.FindAllStringSubmatch(text, -1) {
				if f := all[m[1]]; f != nil && f.Value.Type() == "bool" {
					t.Errorf("%s: --%s takes no value, as it has in %.200q", folder, m[1], text)
				}
			}
			for _, m := range commandInText.FindAllStringSubmatch(text, -1) {
				checkCommand(t, root, m[1], m[2], text)
			}
		}
	}
	if texts < 100 {
		t.Errorf("found %d flags in texts, want at least 100", texts)
	}
}

// checkCommand looks at the flags behind the words of a command.
func checkCommand(t *testing.T, root *cobra.Command, words, rest, text string) {
	t.Helper()
	cmd, left, err := root.Find(strings.Fields(words))
	if err != nil || cmd == root || len(left) > 0 && cmd.HasSubCommands() {
		return // prose
	}
	rest, _, _ = strings.Cut(rest, " -- ")
	known := flagsOf(cmd)
	for _, m := range flagInText.FindAllStringSubmatch(rest, -1) {
		if known[m[1]] == nil && m[1] != "help" {
			t.Errorf("%s has no flag --%s, which is named in %.200q", cmd.CommandPath(), m[1], text)
		}
	}
}

func flagsOf(cmd *cobra.Command) map[string]*pflag.Flag {
	found := make(map[string]*pflag.Flag)
	take := func(f *pflag.Flag) { found[f.Name] = f }
	cmd.Flags().VisitAll(take)
	cmd.InheritedFlags().VisitAll(take)
	return found
}

// literals are the strings in the code of a folder and below, those that are added up as
// one.
func literals(t *testing.T, folder string) (texts []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sum, ok := n.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
				if text, ok := joined(sum); ok {
					texts = append(texts, text)
					return false
				}
			}
			if text, ok := stringOf(n); ok {
				texts = append(texts, text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func joined(e ast.Expr) (string, bool) {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		a, okA := joined(sum.X)
		b, okB := joined(sum.Y)
		return a + b, okA && okB
	}
	return stringOf(e)
}

func stringOf(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
