// Rules holds the list of protocol rules in docs/protocol.md against the tests that
// cite their ids:
//
//	go run ./rules       # what has no test, what is wrong
//	make rules           # and write the tests into the list
//
// It prints for each prefix how many rules with a MUST (M) and how many with only a
// SHOULD (S) some test cites, and the ids of those that none does. A rule that binds
// a side in [required] needs a test of that side, or a written reason: else it is an
// error. A citation proves no coverage, but a rule without one has surely no test that
// says so.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/troupe-dev/troupe/internal/tests"
)

const listFile = "docs/protocol.md"

// required are the sides whose rules must all have a test or a reason.
var required = []string{"client", "server"}

func main() {
	write := flag.Bool("w", false, "write the tests into "+listFile)
	flag.Parse()
	root, err := tests.Root(context.Background())
	if err == nil {
		if err = os.Chdir(root); err == nil {
			err = run(os.DirFS("."), os.Stdout, *write)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

func run(root fs.FS, out io.Writer, write bool) error {
	raw, err := fs.ReadFile(root, listFile)
	if err != nil {
		return fmt.Errorf("reading the list: %w", err)
	}
	text := string(raw)
	list, reasons, err := parseList(text)
	if err != nil {
		return fmt.Errorf("%s: %w", listFile, err)
	}
	cited, unknown, err := findCited(root, list)
	if err != nil {
		return fmt.Errorf("looking for citations: %w", err)
	}
	report(out, list, cited)
	problems := append(unknown, missing(out, list, reasons, cited)...)
	if now := withTests(text, list, cited); now != text {
		if write {
			if err := os.WriteFile(listFile, []byte(now), 0o644); err != nil {
				return fmt.Errorf("writing the list: %w", err)
			}
		} else {
			problems = append(problems, listFile+" does not name the tests as they are: make rules")
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems:\n%s", len(problems), strings.Join(problems, "\n"))
	}
	return nil
}

// missing returns a line for each rule that has neither a test nor a reason where it
// needs one, and for each reason that is needed no more.
func missing(out io.Writer, list []rule, reasons []without, cited map[string][]test) (problems []string) {
	why := map[[2]string]bool{}
	for _, w := range reasons {
		why[[2]string{w.id, w.side}] = true
	}
	for _, side := range required {
		tested, explained := 0, 0
		for _, r := range list {
			if !r.obliges(side) {
				continue
			}
			switch has := testedBy(cited[r.id], side); {
			case has && why[[2]string{r.id, side}]:
				problems = append(problems, fmt.Sprintf("%s has a test of the %s, and a reason why it has none", r.id, side))
			case has:
				tested++
			case why[[2]string{r.id, side}]:
				explained++
			default:
				problems = append(problems, fmt.Sprintf("%s binds the %s and has neither a test nor a reason", r.id, side))
			}
		}
		fmt.Fprintf(out, "rules that bind the %s: %d with a test, %d with a written reason instead\n", side, tested, explained)
	}
	return problems
}

func testedBy(tests []test, side string) bool {
	for _, t := range tests {
		if t.side == side || t.side == "both" {
			return true
		}
	}
	return false
}

// report prints a line for each prefix and weight that has rules, then the sums.
func report(out io.Writer, list []rule, cited map[string][]test) {
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
		if len(cited[r.id]) == 0 {
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
