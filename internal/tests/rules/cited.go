package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// citation also takes in what is no id but was meant as one: a wrong number of
// digits, and the short forms SAMP-20/21 and HDR-20..26.
var citation = regexp.MustCompile(`\b([A-Z]+)-\d+(?:(?:/|\.\.)\d+)*\b`)

// test is where a rule is cited.
type test struct {
	name string // of the function, or of the script
	file string // from the root of the module
	side string // "client", "server", "both", or another word for neither
	n    int    // how often it cites the rule
}

// sides say which side of the protocol the tests of a folder are about. The longest
// prefix counts; what has none is about both.
var sides = map[string]string{
	"mcpclient": "client", "cmd": "client", "internal/cli": "client", "agent": "client", "internal/form": "client", "internal/weburl": "client",
	"internal/sanitize": "client", "internal/browser": "client", "internal/hostconfig": "client", "internal/tests/conformance/client": "client",
	"actors/call": "client", "actors/conn": "client", "actors/elicit": "client", "actors/watch": "client",
	"mcpserver":      "server",
	"internal/oauth": "client", "internal/tests/e2e/auth": "client",
}

func sideOf(file string) string {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if side := sides[dir]; side != "" {
			return side
		}
	}
	return "both"
}

// findCited scans the tests and transcripts below root. It returns the tests that
// cite each id of the list, and a line for each citation that is not in the list.
// Words like UTF-8 are not citations: their prefix is none of the list's.
func findCited(root fs.FS, list []rule) (cited map[string][]test, unknown []string, err error) {
	ids, prefixes := map[string]bool{}, map[string]bool{}
	for _, r := range list {
		ids[r.id], prefixes[r.prefix()] = true, true
	}
	cited = map[string][]test{}
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(name):
			return fs.SkipDir
		case d.IsDir() || !citesRules(name):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			for _, m := range citation.FindAllStringSubmatch(line, -1) {
				switch {
				case ids[m[0]]:
					cited[m[0]] = addTest(cited[m[0]], test{testAt(name, lines, i), name, sideOf(name), 1})
				case prefixes[m[1]]:
					unknown = append(unknown, fmt.Sprintf("%s:%d cites %s, which %s does not have", name, i+1, m[0], listFile))
				}
			}
		}
		return nil
	})
	for _, tests := range cited {
		slices.SortStableFunc(tests, func(a, b test) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.file, b.file)) })
	}
	return cited, unknown, err
}

func addTest(tests []test, t test) []test {
	for i := range tests {
		if tests[i].name == t.name && tests[i].file == t.file {
			tests[i].n++
			return tests
		}
	}
	return append(tests, t)
}

var function = regexp.MustCompile(`^func (?:\([^)]*\) )?(\w+)`)

// testAt names the function that a line is in, or that its comment is about; else
// the file.
func testAt(file string, lines []string, i int) string {
	if strings.HasPrefix(lines[i], "//") { // a comment outside of a function
		for j := i; j < len(lines) && (strings.HasPrefix(lines[j], "//") || strings.HasPrefix(lines[j], "func")); j++ {
			if m := function.FindStringSubmatch(lines[j]); m != nil {
				return m[1]
			}
		}
	}
	for j := i; j >= 0; j-- {
		if lines[j] == "}" && j < i {
			break // it stands between functions
		}
		if m := function.FindStringSubmatch(lines[j]); m != nil {
			return m[1]
		}
	}
	return path.Base(file)
}

// skipped names the folders that hold no tests of ours, and this one, whose test has made-up citations.
func skipped(dir string) bool {
	base := path.Base(dir)
	return dir == "internal/tests/rules" || base == "node_modules" || base != "." && strings.HasPrefix(base, ".")
}

func citesRules(file string) bool {
	return strings.HasSuffix(file, "_test.go") ||
		strings.Contains("/"+file, "/testdata/") && path.Ext(file) == ".txtar"
}
