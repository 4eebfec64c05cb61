// Command metrics prints the figures of the main module that docs/design.md quotes: how
// much code there is, how the files of a package depend on each other, the types with most
// methods, the mutexes, and how much the packages below actors export.
//
//	make metrics                                # all of it
//	go run ./metrics -order ./mcpserver         # the files of a package, in its best order
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/troupe-dev/troupe/internal/tests"
)

func main() {
	order := flag.String("order", "", "print the files of this package in their best order, and the arrows that run back up")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *order); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, only string) error {
	root, err := tests.Root(ctx)
	if err != nil {
		return err
	}
	pattern := "./..."
	if only != "" {
		pattern = only
	}
	loaded, err := packages.Load(&packages.Config{Context: ctx, Dir: root, Mode: packages.LoadSyntax}, pattern)
	if err != nil {
		return fmt.Errorf("loading the packages: %w", err)
	}
	var all []*pkg
	for _, l := range loaded {
		if len(l.Errors) > 0 {
			return fmt.Errorf("loading %s: %w", l.PkgPath, l.Errors[0])
		}
		p, err := measure(l)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	if only != "" {
		for _, p := range all {
			p.printOrder(w)
		}
		return nil
	}
	printPackages(w, all)
	printTypes(w, all)
	printMutexes(w, all)
	return printDocs(ctx, w, root, all)
}

// short is the path of a package in the main module.
func short(path string) string {
	if path == tests.Main {
		return "."
	}
	return strings.TrimPrefix(path, tests.Main+"/")
}
