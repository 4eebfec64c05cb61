package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// The bounds that issue and docs/design.md set; what is beyond them has a mark.
const (
	maxFiles   = 40
	maxLines   = 6000
	maxBack    = 15 // % of a package's arrows
	maxMethods = 40
)

// fewArrows is how many arrows a package must have for their share to be marked.
const fewArrows = 20

func over(is bool) string {
	if is {
		return "!"
	}
	return ""
}

// printPackages prints a line for each package, the largest first.
func printPackages(w io.Writer, all []*pkg) {
	lines, arrows, back := 0, 0, 0
	fmt.Fprintf(w, "%-36s %8s %8s %8s %8s %6s\n", "package", "files", "lines", "arrows", "back up", "share")
	for _, p := range slices.SortedFunc(slices.Values(all), func(a, b *pkg) int { return cmp.Compare(b.lines, a.lines) }) {
		n, up := p.arrows.count(), p.arrows.back(p.order)
		lines, arrows, back = lines+p.lines, arrows+n, back+up
		fmt.Fprintf(w, "%-36s %8s %8s %8d %8d %6s\n", p.name,
			over(len(p.files) > maxFiles)+fmt.Sprint(len(p.files)), over(p.lines > maxLines)+fmt.Sprint(p.lines),
			n, up, over(n > fewArrows && up*100 > n*maxBack)+percent(up, n))
	}
	fmt.Fprintf(w, "%-36s %8s %8d %8d %8d %6s\n\n", fmt.Sprintf("all %d packages", len(all)), "", lines, arrows, back, percent(back, arrows))
}

func percent(part, whole int) string {
	if whole == 0 {
		return "–"
	}
	return fmt.Sprintf("%d %%", (part*100+whole/2)/whole)
}

// shownTypes is how many types are listed.
const shownTypes = 15

func printTypes(w io.Writer, all []*pkg) {
	var sizes []typeSize
	for _, p := range all {
		sizes = append(sizes, p.types...)
	}
	slices.SortFunc(sizes, func(a, b typeSize) int { return cmp.Or(cmp.Compare(b.methods, a.methods), cmp.Compare(a.name, b.name)) })
	fmt.Fprintln(w, "types with most methods")
	for _, t := range sizes[:min(shownTypes, len(sizes))] {
		fmt.Fprintf(w, "%8s %s\n", over(t.methods > maxMethods)+fmt.Sprint(t.methods), t.name)
	}
	fmt.Fprintln(w)
}

// locked are the trees whose mutexes are counted.
var locked = []string{"mcpserver", "mcpclient", "agent"}

func within(name, tree string) bool { return name == tree || strings.HasPrefix(name, tree+"/") }

func printMutexes(w io.Writer, all []*pkg) {
	fmt.Fprintln(w, "mutexes, and those without a comment")
	sum := 0
	for _, tree := range locked {
		n := 0
		var bare []string
		for _, p := range all {
			if !within(p.name, tree) {
				continue
			}
			n += len(p.mutexes)
			for _, m := range p.mutexes {
				if !m.explained {
					bare = append(bare, m.at)
				}
			}
		}
		sum += n
		fmt.Fprintf(w, "%8d %s, %d without a comment\n", n, tree, len(bare))
		for _, at := range bare {
			fmt.Fprintf(w, "%8s %s\n", "", at)
		}
	}
	fmt.Fprintf(w, "%8d in all\n\n", sum)
}

// printDocs counts the lines that go doc -short prints for the packages below actors.
func printDocs(ctx context.Context, w io.Writer, root string, all []*pkg) error {
	fmt.Fprintln(w, "lines of go doc -short below actors")
	sum := 0
	for _, p := range all {
		if !strings.HasPrefix(p.name, "actors/") {
			continue
		}
		cmd := exec.CommandContext(ctx, "go", "doc", "-short", "./"+p.name)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("go doc of %s: %w", p.name, err)
		}
		n := bytes.Count(out, []byte("\n"))
		sum += n
		fmt.Fprintf(w, "%8d %s\n", n, p.name)
	}
	fmt.Fprintf(w, "%8d in all\n", sum)
	return nil
}
