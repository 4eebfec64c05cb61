// Rules compares the list of protocol rules in docs/protocol.md with the ids that tests cite. Run it in the root of the module:
//
//	go run ./internal/rules
//
// It prints for each prefix how many rules with a MUST (M) and how many with
// only a SHOULD (S) some test cites, and the ids of those that none does.
// A citation proves no coverage, but a rule without one has surely no test that says so.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

const listFile = "docs/protocol.md"

func main() {
	if err := run(os.DirFS("."), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

func run(root fs.FS, out io.Writer) error {
	text, err := fs.ReadFile(root, listFile)
	if err != nil {
		return fmt.Errorf("reading the list (is this the root of the module?): %w", err)
	}
	list, err := parseList(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", listFile, err)
	}
	cited, unknown, err := findCited(root, list)
	if err != nil {
		return fmt.Errorf("looking for citations: %w", err)
	}
	report(out, list, cited)
	if len(unknown) > 0 {
		return fmt.Errorf("unknown rules:\n%s", strings.Join(unknown, "\n"))
	}
	return nil
}

// report prints a line for each prefix and weight that has rules, then the sums.
func report(out io.Writer, list []rule, cited map[string]bool) {
	type group struct{ prefix, weight string }
	total, uncited := map[group]int{}, map[group][]string{}
	var order []group
	for _, r := range list {
		if r.weight() == "" {
			continue
		}
		g, sum := group{r.prefix(), r.weight()}, group{"all", r.weight()}
		if total[g] == 0 {
			order = append(order, g)
		}
		total[g]++
		total[sum]++
		if !cited[r.id] {
			uncited[g] = append(uncited[g], r.id)
			uncited[sum] = append(uncited[sum], r.id)
		}
	}
	for _, g := range append(order, group{"all", "M"}, group{"all", "S"}) {
		fmt.Fprintf(out, "%-5s %s %d/%d", g.prefix, g.weight, total[g]-len(uncited[g]), total[g])
		if g.prefix != "all" && len(uncited[g]) > 0 {
			fmt.Fprint(out, "  uncited: ", strings.Join(uncited[g], " "))
		}
		fmt.Fprintln(out)
	}
}
